import type { Database } from 'bun:sqlite';
import { afterEach, describe, expect, it, spyOn } from 'bun:test';
import { anOpenCodeFile, closeOpenCodeFiles } from '../../../test/support/opencode-file.ts';
import { MessageId } from '../../core/names.ts';
import { openCodeProof } from './proof.ts';
import { endingOf } from './record.ts';

afterEach(closeOpenCodeFiles);

const ID = MessageId.parse('0193f6d2-0000-7000-8000-000000000001');
const STOP = { finish: 'stop' };
const ENDED = { how: 'done', text: 'the answer' } as const;

/** The id of the n-th message of a conversation. */
const nth = (n: number, ending = 'other'): string => `msg_${n}${ending}`;
const OURS = nth(5, endingOf(ID));

function aConversation() {
  const file = anOpenCodeFile();
  return { ...file, proof: () => openCodeProof(file.record, 's', ID) };
}

describe("what OpenCode's record proves about a message", () => {
  it('is nothing if the record does not have the message', () => {
    const { said, proof } = aConversation();
    said(nth(1), 'hello');
    expect(proof()).toBeNull();
  });

  it('is `accepted` until an answer to it has output of a model', () => {
    const { said, answers, parts, proof, record } = aConversation();
    said(OURS, 'mail');
    const evidence = { record: record.path, id: ID, message: OURS };
    expect(proof()).toEqual({ step: 'accepted', evidence, hasFailed: false });
    answers(nth(6), OURS, { time: { created: 1 } });
    expect(proof()).toEqual({ step: 'accepted', evidence, hasFailed: false });
    parts(nth(6), { type: 'step-start' });
    const shown = { ...evidence, answer: nth(6), parent: OURS };
    expect(proof()).toEqual({ step: 'shown', evidence: shown, turn: { id: OURS } });
    answers(nth(6), OURS, STOP, 'the answer');
    expect(proof()).toEqual({ step: 'shown', evidence: shown, turn: { id: OURS, end: ENDED } });
  });

  it('is `shown` without reading the output of tools at each look, because that can be megabytes', () => {
    const { said, answers, parts, proof, record } = aConversation();
    said(OURS, 'mail');
    answers(nth(6), OURS, { finish: 'tool-calls' });
    parts(nth(6), { type: 'tool', state: { output: 'x'.repeat(2_000_000) } });
    const reads = spyOn(record, 'rows');
    expect(proof()).toMatchObject({ step: 'shown' });
    const read = reads.mock.results.map(({ value }) => JSON.stringify(value).length);
    expect(Math.max(...read)).toBeLessThan(10_000);
  });

  it('is not `shown` by a request that failed, nor by an answer to an earlier message', () => {
    const { said, answers, proof } = aConversation();
    said(nth(1), 'hello');
    answers(nth(2), nth(1), { finish: 'tool-calls' }, 'let me see');
    said(OURS, 'mail');
    answers(nth(6), nth(1), STOP, 'still to the first');
    expect(proof()).toMatchObject({ step: 'accepted', hasFailed: false });
    answers(nth(7), OURS, { error: { name: 'APIError', data: { message: 'out of quota' } } });
    expect(proof()).toMatchObject({ step: 'accepted', hasFailed: true });
  });

  it('is `shown` by an answer to a later message, and then has no answer of its own', () => {
    const { said, answers, proof } = aConversation();
    said(OURS, 'mail');
    said(nth(6), 'more');
    answers(nth(7), nth(6), STOP, 'to both');
    expect(proof()).toEqual({ step: 'shown', evidence: expect.objectContaining({ answer: nth(7), parent: nth(6) }) });
  });

  it.each([
    ['it joined a turn', 'joins'],
    ['another message joined its turn', 'is joined'],
    ['an earlier message had no answer', 'follows'],
  ])('has no turn of its own if %s', (_title, how) => {
    const { said, answers, proof } = aConversation();
    if (how !== 'is joined') said(nth(1), 'before');
    if (how === 'joins') answers(nth(2), nth(1), { finish: 'tool-calls' }, 'working');
    said(OURS, 'mail');
    answers(nth(6), OURS, { finish: 'tool-calls' }, 'working');
    if (how === 'is joined') said(nth(7), 'also this');
    answers(nth(8), how === 'is joined' ? nth(7) : OURS, STOP, 'the answer');
    expect(proof()).toEqual({ step: 'shown', evidence: expect.anything() });
  });

  it('takes the last text of several steps for the answer', () => {
    const { said, answers, proof } = aConversation();
    said(nth(1), 'before');
    answers(nth(2), nth(1), STOP, 'done before');
    said(OURS, 'mail');
    answers(nth(6), OURS, { finish: 'tool-calls' }, 'working');
    answers(nth(7), OURS, STOP, 'the answer');
    expect(proof()).toMatchObject({ step: 'shown', turn: { id: OURS, end: ENDED } });
  });

  it('says that the user stopped the turn', () => {
    const { said, answers, proof } = aConversation();
    said(OURS, 'mail');
    answers(nth(6), OURS, { error: { name: 'MessageAbortedError' } }, 'half a');
    expect(proof()).toMatchObject({ step: 'shown', turn: { end: { how: 'interrupted' } } });
  });

  it.each([
    ['its tables are others', (db: Database) => db.run('DROP TABLE message')],
    ['a message is no JSON', (db: Database) => db.run("UPDATE message SET data = '{'")],
    ['a part is no JSON', (db: Database) => db.run("UPDATE part SET data = '{'")],
  ])('is `unreadable`, and not nothing, if %s', (_title, breaks) => {
    const { said, answers, proof, db } = aConversation();
    said(OURS, 'mail');
    answers(nth(6), OURS, STOP, 'the answer');
    breaks(db);
    expect(proof()).toEqual({ step: 'unreadable' });
  });

  it.each([
    ['is not done yet', {}, { time: { created: 1 } }],
    ['failed', {}, { error: { name: 'APIError' } }],
    ['left it in its place', { tail_start_id: OURS }, STOP],
    ['said it again, because the conversation was too long', { overflow: true }, STOP],
  ])('is `accepted` behind a compaction that %s', (_title, part, summary) => {
    const { said, answers, message, parts, proof } = aConversation();
    said(OURS, 'mail');
    message(nth(6), { role: 'user', time: {} });
    parts(nth(6), { type: 'compaction', auto: true, ...part });
    answers(nth(7), nth(6), { summary: true, ...summary }, 'what was said so far');
    expect(proof()).toMatchObject({ step: 'accepted' });
    answers(nth(8), nth(6), STOP, 'going on');
    expect(proof()).toMatchObject({ step: 'shown' });
  });

  it('is `replaced` after a summary replaced the message, and certain again when it was given once more', () => {
    const { said, answers, message, parts, proof } = aConversation();
    said(OURS, 'mail');
    message(nth(6), { role: 'user', time: {} });
    parts(nth(6), { type: 'compaction', auto: true });
    answers(nth(7), nth(6), { ...STOP, summary: true }, 'what was said so far');
    answers(nth(8), nth(6), STOP, 'going on');
    expect(proof()).toEqual({ step: 'replaced', message: OURS });
    said(nth(9, endingOf(ID)), 'mail');
    expect(proof()).toMatchObject({ step: 'accepted' });
  });
});
