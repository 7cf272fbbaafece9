import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { MessageId } from '../../core/names.ts';
import { ChatProof } from './proof.ts';
import { FollowedChat, GeminiIndex, hasSubagent } from './record.ts';
import { geminiComposer } from './state.ts';

const ID = MessageId.parse('17621ca0-bfbd-4873-978d-986e7cba116d');
const MAIL = '[parley ab12] Mail for @me.\n[parley ab12] message 17621ca0 from @bob to @me\nhi';
const user = (id: string, ...parts: object[]) => ({
  id,
  timestamp: '2026-11-18T17:00:00.000Z',
  type: 'user',
  content: parts,
});
const answer = (id: string, content: string, more: object = { model: 'one' }) => ({
  id,
  type: 'gemini',
  content,
  ...more,
});
const hook = (text: string) => ({ text: `<hook_context>${text}</hook_context>` });
const result = (output: string) => ({ functionResponse: { id: 'c', name: 'x', response: { output } } });

/** What a record with these lines proves. */
function proof(lines: object[], isAtRest = true) {
  const path = `${temporaryHome()}/chat.jsonl`;
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const reader = new ChatProof(path, ID);
  return { reader, path, said: reader.read(isAtRest) };
}

describe('the record of Gemini CLI', () => {
  it.each([
    ['a prompt', user('1', { text: MAIL })],
    ['what a hook added to a prompt', user('1', { text: 'hello' }, hook(MAIL))],
    ['what a hook added to the result of a tool', user('1', result(`ok\n\n<hook_context>${MAIL}</hook_context>`))],
  ])('proves %s by the answer behind it, and not before', (_what, said) => {
    expect(proof([said]).said?.step).toBe('accepted');
    expect(proof([said, answer('2', 'yes')]).said?.step).toBe('shown');
  });

  it.each([
    ['that Gemini CLI made up', answer('2', 'received', {})],
    ['whose tools have run', answer('2', '', { model: 'one', toolCalls: [{ id: 'c' }] })],
  ])('does not count as an answer an entry %s', (_what, entry) => {
    expect(proof([user('1', { text: MAIL }), entry]).said?.step).toBe('accepted');
  });

  it('says that a request that failed or was cancelled was taken back', () => {
    const { reader, said } = proof([user('1', { text: MAIL }), { $set: { messages: [user('0', { text: 'x' })] } }]);
    expect([said?.step, reader.isLost, reader.isKept]).toEqual(['accepted', true, false]);
    expect(proof([user('1', { text: MAIL }), { $rewindTo: '1' }, answer('2', 'x')]).said?.step).toBe('accepted');
  });

  it('gives the answer of the turn that a message began alone, once it is at rest', () => {
    const lines = [user('1', { text: MAIL }), answer('2', ''), user('3', result('ok')), answer('4', 'It is 8080.')];
    expect(proof(lines, false).said).not.toHaveProperty('turn.end');
    expect(proof(lines).said).toHaveProperty('turn.end', { how: 'done', text: 'It is 8080.' });
    expect(proof([...lines, user('5', { text: 'next' })], false).said).toHaveProperty('turn.end.text', 'It is 8080.');
    expect(proof([user('1', { text: 'hello' }, hook(MAIL)), answer('2', 'yes')]).said).not.toHaveProperty('turn');
  });

  it('is not misled by a text that only quotes mail', () => {
    expect(proof([user('1', { text: `look: ${MAIL}` }), answer('2', 'yes')]).said).toBeNull();
  });

  it('says when the client certainly works', () => {
    const { path } = proof([user('1', { text: 'x' })]);
    const chat = new FollowedChat(path);
    const isOpen = (...lines: object[]): boolean => {
      for (const line of lines) appendFileSync(path, `${JSON.stringify(line)}\n`);
      return chat.look().turnSince !== null;
    };
    expect([isOpen(), isOpen(answer('2', 'done')), isOpen(user('3', { text: 'y' }))]).toEqual([true, false, true]);
    expect(isOpen({ $set: { messages: [] } })).toBe(false);
  });

  it('is found by the id of its session and by its folder', () => {
    const home = temporaryHome();
    mkdirSync(`${home}/tmp/api/chats`, { recursive: true });
    writeFileSync(`${home}/tmp/api/.project_root`, '/src/api');
    const path = `${home}/tmp/api/chats/session-2026-11-18T17-00-17621ca0.jsonl`;
    writeFileSync(path, `${JSON.stringify({ sessionId: ID, startTime: '2026-11-18T17:00:00.000Z' })}\n`);
    const index = new GeminiIndex(home);
    const file = { id: ID, folder: '/src/api', path };
    expect([index.find(ID), index.inFolder('/src/api'), index.inFolder('/src')]).toEqual([file, [file], []]);
    expect(hasSubagent(path, ID)).toBe(false);
    mkdirSync(`${home}/tmp/api/chats/${ID}`);
    writeFileSync(`${home}/tmp/api/chats/${ID}/sub.jsonl`, '');
    utimesSync(path, 1, 1);
    expect(hasSubagent(path, ID)).toBe(true);
  });
});

describe('the screen of Gemini CLI', () => {
  const EMPTY = ' >   Type your message or @path/to/file';
  const screen = (lines: string[], cursor: { row: number; column: number }) => ({ lines, bright: lines, cursor });
  it.each([
    ['empty', ['▄▄▄', EMPTY, '▀▀▀'], { row: 1, column: 3 }],
    ['empty', ['', EMPTY.replace('>', '*'), ''], { row: 1, column: 3 }],
    ['draft', ['▄▄▄', ' > half a thought', '▀▀▀'], { row: 1, column: 17 }],
    ['draft', ['▄▄▄', ' > one', '', '   two', '▀▀▀'], { row: 3, column: 6 }],
    ['busy', [' ⠇ Thinking... (esc to cancel, 2s)', '▄▄▄', EMPTY, '▀▀▀'], { row: 2, column: 3 }],
    ['busy', [' ! Shell awaits input (esc to cancel, 1m 2s)', '▄▄▄', EMPTY, '▀▀▀'], { row: 2, column: 3 }],
    ['busy', ['⠇ Connecting', '▄▄▄', EMPTY, '▀▀▀'], { row: 2, column: 3 }],
    ['empty', ['✦ It says (esc to cancel, 2s)', '▄▄▄', EMPTY, '▀▀▀'], { row: 2, column: 3 }],
    ['empty', ['   ⠇ Thinking... (esc to cancel, 2s)', '▄▄▄', EMPTY, '▀▀▀'], { row: 2, column: 3 }],
    ['empty', [' > see (esc to cancel, 2s)', '▀▀▀', '▄▄▄', EMPTY, '▀▀▀'], { row: 3, column: 3 }],
    ['dialog', ['▄▄▄', ' > do it', '▀▀▀', '│ Allow execution of [Shell]?', '│ ● 1. Allow once'], { row: 5, column: 0 }],
    ['dialog', ['│ Do you trust the files in this folder?', '│ ● 1. Trust folder (api)'], { row: 2, column: 0 }],
    ['unknown', ['▄▄▄', " >   Press 'i' for INSERT mode.", 'x'], { row: 1, column: 3 }],
    ['unknown', ['$ '], { row: 0, column: 2 }],
  ] as const)('is %s', (seen, lines, cursor) => {
    expect(geminiComposer(screen([...lines], cursor))).toBe(seen);
  });
});
