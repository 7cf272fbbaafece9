import { afterEach, describe, expect } from 'bun:test';
import { claudeRuns } from '../../src/clients/claude/state.ts';
import { TranscriptWay } from '../../src/clients/claude/transcript.ts';
import { aParcel, NEVER } from '../../src/delivery/way.contract.ts';
import { aModel } from './model/model.ts';
import { bash, say } from './model/steps.ts';
import { aClaude, type Claude } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');

afterEach(closeAll);

describe(`mail in the transcript of Claude Code${claude.why}`, () => {
  claude.it('is shown to the model when the session is resumed, after what was said before [C2C-33]', async () => {
    const { model, code, session } = await aPastSession();
    const [one, two] = [aParcel('first\nof two'), aParcel('second')];
    expect(await aWay(code, session).attempt([one, two], NEVER)).toMatchObject({
      outcome: 'offered',
      evidence: { entries: 2, running: false },
    });
    model.script(say('seen'));
    await code.headless('GO ON', ['--resume', session]);
    const asked = await model.saw('GO ON');
    expect([one, two].map((parcel) => asked.count(parcel.text))).toEqual([1, 1]);
    expect(asked.where(one.text)).toMatchObject([{ role: 'user' }]);
    const places = ['BEGIN', 'the tool ran', one.text, two.text, 'GO ON'].map((text) => asked.text.indexOf(text));
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  });

  claude.it('is shown in a terminal, too, and the session goes on from it', async () => {
    const { model, code, session } = await aPastSession();
    const parcel = aParcel('for the terminal');
    await aWay(code, session).attempt([parcel], NEVER);
    model.script(say('seen'), say('again'));
    const resumed = await code.interactive(['--resume', session]);
    await resumed.terminal.shows('for the terminal');
    await resumed.terminal.submit('GO ON');
    expect((await model.saw('GO ON')).count(parcel.text)).toBe(1);
  });

  claude.it('is not written while the session runs [C2C-33]', async () => {
    const { code, session } = await aPastSession();
    const resumed = await code.interactive(['--resume', session]);
    const running = resumed.registered()?.sessionId ?? '';
    expect(await aWay(code, running).attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
  });
});

/** A session that said something, used a tool, and ended. */
async function aPastSession() {
  const model = opens(aModel([bash('echo the tool ran'), say('done')]));
  const code = aClaude({ place: await aPlace(), model });
  await code.headless('BEGIN');
  const [transcript] = code.transcripts();
  const session = transcript?.path.split('/').at(-1)?.replace('.jsonl', '') ?? '';
  return { model, code, session };
}

function aWay(code: Claude, session: string): TranscriptWay {
  return new TranscriptWay({
    folders: [code.folder, `${code.options.place.home}/.claude-shared`],
    session,
    asked: true,
    isRunning: () => claudeRuns(code.folder, session),
    now: () => new Date(),
  });
}
