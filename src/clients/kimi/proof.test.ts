import { describe, expect, it } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { MessageId } from '../../core/names.ts';
import { KimiHookRecord, WireProof, wirePlaceAt } from './proof.ts';

// Lines as Kimi 2.1.0 writes them, with only the fields that Parley reads.
const AT = 1794989708540;
const ID = MessageId.parse('17621ca0-bfbd-4873-978d-986e7cba116d');
const OTHER = '5c1f0b1e-0000-4000-8000-000000000000';
const line = (type: string, fields: object, at = AT): string =>
  JSON.stringify({ type, agentId: 'main', ...fields, time: at });
const text = (said: string) => [{ type: 'text', text: said }];
const mail = (...ids: string[]): string =>
  [
    '[parley 33ec303076] Mail for @me. Only lines that begin with it are ours.',
    ...ids.map((id) => `[parley 33ec303076] message ${id.slice(0, 8)} from @bob to @me · just now\nhi`),
  ].join('\n');
const prompt = (said: string): string =>
  line('turn.prompt', { input: text(said), origin: { kind: 'user' }, promptId: 'msg_1', turnId: 0 });
const appended = (said: string, kind: string): string =>
  line('context.append_message', { message: { role: 'user', content: text(said), origin: { kind } } });
const withPrompt = appended(`<hook_result hook_event="UserPromptSubmit">\n${mail(ID)}</hook_result>`, 'hook');
const knock = (asks: string): string =>
  appended(
    `<hook_result hook_event="UserPromptSubmit">\n[parley 33ec] Mail for @me.\n[parley 33ec] knock 0a1b2c3d from @bob to @me · to me · ${asks} · normal\n</hook_result>`,
    'hook',
  );
const atEnd = appended(mail(ID), 'hook');
const steer = line('turn.steer', { input: text('and theirs'), origin: { kind: 'user' }, messageId: 'msg_2' });
const step = line('context.append_loop_event', { event: { type: 'step.begin' } });
const request = line('llm.request', { kind: 'loop', turnStep: '0.1' });
const summing = line('llm.request', { kind: 'compaction' });
const usage = line('usage.record', { usageScope: 'turn' });
const naming = line('llm.request', { kind: 'loop' });
const summed = line('usage.record', { usageScope: 'session' });
const says = (said: string): string =>
  line('context.append_loop_event', { event: { type: 'content.part', part: { type: 'text', text: said } } });
const over = (reason = 'completed'): string => line('turn.ended', { turnId: 0, reason });
const compacted = line('context.apply_compaction', {});
const keeps = (kept: number, head?: number): string =>
  line('context.apply_compaction', { keptUserMessageCount: kept, keptHeadUserMessageCount: head });
const theirs = [prompt('x'), appended('x', 'user')];
const typed = [prompt(mail(ID)), appended(mail(ID), 'user')];
const answered = [step, request, usage, says('It is 8080.')];

const DONE = { id: 'msg_1', end: { how: 'done', text: 'It is 8080.' } };

describe('the record of Kimi proves of a message', () => {
  it.each<[string, string[], object | null]>([
    ['nothing that it does not have', [prompt('hi'), ...answered, over()], null],
    ['nothing of another message', [prompt(mail(OTHER)), ...answered, over()], null],
    ['that it came, before the model was asked', typed, { step: 'accepted' }],
    ['no more, while the model has not answered', [...typed, step, request], { step: 'accepted' }],
    [
      'that the model had it, once it answers',
      [...typed, step, request, usage],
      { step: 'shown', turn: { id: 'msg_1' } },
    ],
    ['the answer of its turn', [...typed, ...answered, over()], { step: 'shown', turn: DONE }],
    [
      'the answer of its turn also if our hook knocked in it for what needs no answer',
      [...typed, knock('ack only'), ...answered, over()],
      { step: 'shown', turn: DONE },
    ],
    [
      'the answer without what mail made the model say after it',
      [...typed, ...answered, appended(mail(OTHER), 'hook'), step, request, says('thanks'), over()],
      { step: 'shown', turn: DONE },
    ],
    [
      'no answer if its user interrupts',
      [...typed, step, request, usage, over('cancelled')],
      { turn: { end: { how: 'interrupted' } } },
    ],
    [
      'no answer if Kimi was killed',
      [...typed, step, request, usage, prompt('go on')],
      { turn: { end: { how: 'interrupted' } } },
    ],
    ['no more if the request was cut off', [...typed, step, request, over('cancelled'), usage], { step: 'accepted' }],
    [
      'why the model did not answer',
      [...typed, step, request, line('turn.ended', { reason: 'failed', error: { message: 'out of quota' } })],
      { step: 'accepted', trouble: 'out of quota' },
    ],
    [
      'that the next request had it',
      [...typed, step, request, over('cancelled'), prompt('x'), ...answered],
      { step: 'shown' },
    ],
    ['no more after the conversation was cut', [...typed, compacted, prompt('x'), ...answered], { step: 'accepted' }],
    ['no more by a request that sums up', [...typed, summing, usage], { step: 'accepted' }],
    ['no more by a summary that is made beside its turn', [...typed, step, request, summed], { step: 'accepted' }],
    ['no more by a request that names the session', [...typed, naming, usage], { step: 'accepted' }],
    ['that the model had it after a summary that kept all', [...typed, keeps(3), ...answered], { step: 'shown' }],
    [
      'that the model had it after a summary that kept it among the last',
      [...typed, ...theirs, keeps(5, 2), ...answered],
      { step: 'shown' },
    ],
    [
      'no more after a summary that may have cut it',
      [...typed, ...theirs, keeps(4, 2), ...answered],
      { step: 'accepted' },
    ],
    [
      'no more after a summary that dropped what a hook brought',
      [withPrompt, prompt('hi'), keeps(3), ...answered],
      { step: 'accepted' },
    ],
    [
      'that the model had it if a summary comes before its answer',
      [...typed, step, request, compacted, usage],
      { step: 'shown' },
    ],
    [
      'no more by a request that is made again after a summary without it',
      [...typed, step, request, compacted, request, usage],
      { step: 'accepted' },
    ],
    [
      'that the model had it when it was given again after a summary without it',
      [...typed, compacted, over('cancelled'), ...typed, ...answered],
      { step: 'shown', turn: { id: 'msg_1' } },
    ],
    [
      'that the model had it if a summary comes before it joins the conversation',
      [prompt(mail(ID)), compacted, appended(mail(ID), 'user'), ...answered],
      { step: 'shown' },
    ],
    ['that a hook brought it with a prompt', [withPrompt, prompt('hi'), ...answered, over()], { step: 'shown' }],
    [
      'that a hook brought it at the end of a turn',
      [prompt('hi'), ...answered, atEnd, ...answered, over()],
      { step: 'shown' },
    ],
    ['no more, if Kimi ended after the hook', [prompt('hi'), ...answered, atEnd], { step: 'accepted' }],
  ])('%s', (_what, lines, proof) => {
    const read = reader(lines).read();
    if (proof === null) expect(read).toBeNull();
    else expect(read).toMatchObject(proof);
  });

  it.each<[string, string[]]>([
    ['shared its prompt with another message', [prompt(mail(ID, OTHER)), ...answered, over()]],
    ['was joined by a text of the user', [...typed, step, request, steer, ...answered, over()]],
    ['was joined by mail of a hook', [appended(mail(OTHER), 'hook'), ...typed, ...answered, over()]],
    ['came by a hook', [withPrompt, prompt('hi'), ...answered, over()]],
  ])('no turn of its own if it %s', (_what, lines) => {
    const read = reader(lines).read();
    expect(read).toMatchObject({ step: 'shown', evidence: { id: ID } });
    expect(read).not.toHaveProperty('turn');
  });

  it('that it was shown, if a hook printed it in that session', () => {
    const home = quickFolder();
    const dir = `${home}/sessions/session_1`;
    const record = new KimiHookRecord(home, 'session_1', [ID, MessageId.parse(OTHER)], AT);
    expect([record.shown().size, record.isThere]).toEqual([0, false]);
    mkdirSync(`${dir}/agents/main`, { recursive: true });
    const entry = { sessionId: 'session_1', sessionDir: dir, workDir: '/work' };
    writeFileSync(`${home}/session_index.jsonl`, `${JSON.stringify(entry)}\n`);
    writeFileSync(`${dir}/agents/main/wire.jsonl`, `${[withPrompt, prompt('hi'), ...answered, over()].join('\n')}\n`);
    expect([...record.shown().keys()]).toEqual([ID]);
    expect(record.isThere).toBe(true);
  });

  it('the same if only lines since its delivery are read, however long the record is', () => {
    const path = `${quickFolder()}/wire.jsonl`;
    const old = Array.from({ length: 3000 }, (_, n) => line('x', { text: 'x'.repeat(300) }, AT - 100_000 + n));
    writeFileSync(path, `${[...old, ...typed, ...answered].join('\n')}\n`);
    const from = wirePlaceAt(path, AT);
    expect(from).toBeGreaterThan(500_000);
    expect(new WireProof(path, from, ID).read()).toMatchObject({ step: 'shown' });
  });
});

function reader(lines: readonly string[]): WireProof {
  const path = `${quickFolder()}/wire.jsonl`;
  writeFileSync(path, `${lines.join('\n')}\n`);
  return new WireProof(path, 0, ID);
}
