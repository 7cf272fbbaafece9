import { describe, expect, it } from 'bun:test';
import { appendFileSync, closeSync, mkdirSync, openSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { lockFile } from '../../sessions/pty.ts';
import { TranscriptWay, type TranscriptOptions } from './transcript.ts';
import { aParcel, NEVER, wayContract } from '../../delivery/way.contract.ts';

const SESSION = '8dfdf2f7-0000-4000-8000-000000000001';
const FIRST = {
  parentUuid: null,
  isSidechain: false,
  type: 'user',
  message: { role: 'user', content: 'hi' },
  uuid: 'u-1',
  cwd: '/p',
  version: '2.1.325',
  gitBranch: 'main',
  entrypoint: 'cli',
  sessionId: SESSION,
};
const LAST = {
  ...FIRST,
  parentUuid: 'u-1',
  type: 'assistant',
  message: { role: 'assistant', content: [{ type: 'text', text: 'hello' }] },
  uuid: 'a-1',
};

wayContract(
  'transcript',
  async () => {
    let running = false;
    const { file, way } = aTranscript({ isRunning: async () => running });
    return {
      way,
      seen: async () =>
        entries(file)
          .filter(({ type }) => type === 'user')
          .map(({ message }) => message.content)
          .join('\n'),
      typed: async () => '',
      leave: async () => void (running = true),
      comeBack: async () => void (running = false),
      close: async () => undefined,
    };
  },
  { proves: 'only when the session is resumed does its model see it' },
);

describe('an entry in the transcript', () => {
  it('follows the last entry of the conversation, in the format of Claude Code [C2C-33]', async () => {
    const { file, way } = aTranscript();
    appendFileSync(
      file,
      `${JSON.stringify({ ...LAST, uuid: 'side', isSidechain: true })}\n{"type":"last-prompt","leafUuid":"x"}\n`,
    );
    const [one, two] = [aParcel('one'), aParcel('two')];
    expect(await way.attempt([one, two], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { entries: 2, transcript: file },
    });
    const [first, second] = entries(file).slice(-2);
    expect(first as unknown).toEqual({
      parentUuid: 'a-1',
      isSidechain: false,
      promptId: expect.any(String),
      type: 'user',
      message: { role: 'user', content: one.text },
      uuid: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/),
      timestamp: '2026-11-16T07:00:00.000Z',
      userType: 'external',
      entrypoint: 'cli',
      cwd: '/p',
      sessionId: SESSION,
      version: '2.1.325',
      gitBranch: 'main',
    });
    expect(second).toMatchObject({ parentUuid: first?.uuid ?? '', message: { content: two.text } });
  });

  it('is written only if this way is turned on [C2C-33]', async () => {
    const { file, way } = aTranscript({ asked: false });
    const before = readFileSync(file, 'utf8');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      retry: false,
      because: expect.stringContaining('experimental'),
    });
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  it('is not written into a session that runs [C2C-33]', async () => {
    const { file, way } = aTranscript({ isRunning: async () => true });
    const before = readFileSync(file, 'utf8');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'left',
      retry: true,
      because: expect.stringContaining('runs'),
    });
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  it('is not written while another program writes [C2C-33]', async () => {
    const { file, way } = aTranscript();
    const fd = openSync(file, 'r');
    lockFile(fd);
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    closeSync(fd);
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'offered' });
  });

  it('is there once, however often the message is offered', async () => {
    const { file, way } = aTranscript();
    const parcel = aParcel();
    await way.attempt([parcel], NEVER);
    expect(await way.attempt([parcel], NEVER)).toMatchObject({ outcome: 'offered', evidence: { entries: 0 } });
    expect(readFileSync(file, 'utf8').split(parcel.id)).toHaveLength(3);
  });

  it('reports that the session started during the write', async () => {
    const answers = [false, true];
    const { way } = aTranscript({ isRunning: async () => answers.shift() ?? true });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'offered', evidence: { running: true } });
  });

  it('has its own line after a line that was cut off', async () => {
    const { file, way } = aTranscript();
    appendFileSync(file, '{"type":"user","uu');
    await way.attempt([aParcel('after')], NEVER);
    expect(readFileSync(file, 'utf8').split('\n').at(-3)).toBe('{"type":"user","uu');
    expect(JSON.parse(readFileSync(file, 'utf8').split('\n').at(-2) ?? '')).toMatchObject({ parentUuid: 'a-1' });
  });

  it('finds its place after megabytes that are not part of the conversation', async () => {
    const { file, way } = aTranscript();
    appendFileSync(file, `${JSON.stringify({ type: 'file-history', text: 'ä'.repeat(2_000_000) })}\n`);
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'offered' });
    expect(entries(file).at(-1)).toMatchObject({ parentUuid: 'a-1' });
  });

  it('goes into the shared folder if only that has the transcript [C2C-33]', async () => {
    const { file, way } = aTranscript({}, '.claude-shared');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'offered', evidence: { transcript: file } });
  });

  it('is written once if both folders lead to one transcript [C2C-33]', async () => {
    const { home, way } = aTranscript({}, '.claude-shared');
    symlinkSync(`${home}/.claude-shared`, `${home}/.claude`);
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { entries: 1, transcript: expect.stringContaining('.claude-shared') },
    });
  });

  it.each(['../../etc/passwd', 'no-such-session', 'a/b', ''])('is not written for the session %j', async (session) => {
    const { way } = aTranscript({ session });
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: false });
  });

  it('is not written into a transcript without a conversation', async () => {
    const { file, way } = aTranscript();
    writeFileSync(file, '{"type":"mode"}\n');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: false });
  });
});

function aTranscript(more: Partial<TranscriptOptions> = {}, folder = '.claude') {
  const home = temporaryHome();
  const project = `${home}/${folder}/projects/-p`;
  mkdirSync(project, { recursive: true });
  const file = `${project}/${SESSION}.jsonl`;
  writeFileSync(file, `${JSON.stringify(FIRST)}\n${JSON.stringify(LAST)}\n`);
  const way = new TranscriptWay({
    folders: [`${home}/.claude`, `${home}/.claude-shared`],
    session: SESSION,
    asked: true,
    isRunning: async () => false,
    now: () => new Date('2026-11-16T07:00:00Z'),
    ...more,
  });
  return { home, file, way };
}

interface Line {
  type: string;
  uuid: string;
  parentUuid: string;
  message: { content: string };
}

function entries(file: string): Line[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);
}
