import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { startOf } from '../../platform/process.ts';
import { ClaudeStateReader } from './state.ts';

describe('the registry entry of a session of Claude Code', () => {
  it.each([
    [{ status: 'idle' }, 'idle', 'idle'],
    [{ status: 'busy' }, 'busy', 'busy'],
    [{ status: 'waiting', waitingFor: 'permission prompt' }, 'dialog', 'waiting: permission prompt'],
    [{ status: 'waiting', waitingFor: 'input needed' }, 'dialog', 'waiting: input needed'],
    [{ status: 'dreaming' }, 'unknown', 'dreaming'],
    [{}, 'starting', undefined],
  ])('%j is %s', async (said, state, detail) => {
    const sign = await registered({ ...said, statusUpdatedAt: 1234 }).latest();
    expect(sign).toEqual({ state, at: 1234, source: 'registry', pid: process.pid, ...(detail && { detail }) } as never);
  });

  it.each([
    ['its process has ended', { pid: 2 ** 22 - 3 }],
    ['its number belongs to another process now', { procStart: '1' }],
    ['it is another session', { sessionId: 'other' }],
    ['it has no terminal', { kind: 'bg' }],
  ])('is nothing when %s', async (_why, more) => {
    expect(await registered({ status: 'idle', ...more }).latest()).toBeNull();
  });

  it('is nothing if the registry is missing or half written', async () => {
    const folder = temporaryHome();
    expect(await new ClaudeStateReader(folder, 's').latest()).toBeNull();
    mkdirSync(`${folder}/sessions`);
    writeFileSync(`${folder}/sessions/${process.pid}.json`, '{"pid":');
    writeFileSync(`${folder}/sessions/notes.json`, '{}');
    expect(await new ClaudeStateReader(folder, 's').latest()).toBeNull();
  });
});

describe('the record of a prompt in a transcript of Claude Code', () => {
  const said = (content: unknown, type = 'user'): string =>
    JSON.stringify({ type, message: { role: 'user', content } });

  it.each([
    ['as a text', said('two\nlines')],
    ['in parts', said([{ type: 'text', text: 'two\nlines' }])],
    ['with a blank behind it', said('two\nlines ')],
  ])('is a sign that Claude Code took exactly this prompt, %s [C2C-32]', async (_how, line) => {
    const { states, write } = written('');
    const heard = await states.listen();
    expect(await heard('two\nlines')).toBeNull();
    write(`${line}\n`);
    expect(await heard('two\nlines')).toMatchObject({ state: 'busy', source: 'transcript' });
  });

  it('is found in the transcript of the current session of its process, even if that transcript begins later', async () => {
    const states = new ClaudeStateReader(
      registered({ status: 'idle', sessionId: 'cleared' }).folder,
      'ours',
      process.pid,
    );
    const heard = await states.listen();
    mkdirSync(`${states.folder}/projects/-work`, { recursive: true });
    writeFileSync(`${states.folder}/projects/-work/cleared.jsonl`, `${said('hello')}\n`);
    expect(await heard('hello')).toMatchObject({ source: 'transcript' });
  });

  it.each([
    ['it was said before', said('hello'), ''],
    ['it says more, or something else', '', said('hello you')],
    ['it only waits in a queue', '', said('hello', 'queue-operation')],
    ['its model said it', '', said('hello', 'assistant')],
    ['a tool gave it', '', said([{ type: 'tool_result', content: 'hello' }])],
    ['the line is only half there', '', said('hello').slice(0, -2)],
  ])('is no sign when %s', async (_why, before, after) => {
    const { states, write } = written(before && `${before}\n`);
    const heard = await states.listen();
    write(after);
    expect(await heard('hello')).toBeNull();
  });

  function written(before: string): { states: ClaudeStateReader; write: (text: string) => void } {
    const states = registered({ status: 'idle' });
    mkdirSync(`${states.folder}/projects/-work`, { recursive: true });
    const path = `${states.folder}/projects/-work/s.jsonl`;
    writeFileSync(path, before);
    return { states, write: (text) => appendFileSync(path, text) };
  }
});

function registered(more: Record<string, unknown>): ClaudeStateReader {
  const folder = temporaryHome();
  mkdirSync(`${folder}/sessions`);
  const entry = {
    pid: process.pid,
    sessionId: 's',
    cwd: '/',
    kind: 'interactive',
    procStart: startOf(process.pid) ?? undefined,
    ...more,
  };
  writeFileSync(`${folder}/sessions/${process.pid}.json`, JSON.stringify(entry));
  return new ClaudeStateReader(folder, 's');
}
