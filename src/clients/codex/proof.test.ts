import { describe, expect, it } from 'bun:test';
import { appendFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { MessageId } from '../../core/names.ts';
import { mentionsAny, rolloutPlaceAt, RolloutProof } from './proof.ts';

const ID = MessageId.parse('3f2b8c1e-0000-4000-8000-000000000001');
const OTHER = MessageId.parse('3f2b8c1e-0000-4000-8000-000000000002');
const T = 'turn-1';

describe('what a rollout proves', () => {
  it('nothing, if it does not have the message', () => {
    const record = aRecord(started(), prompt('another'), output(), done());
    expect(record.proof().of(ID)).toBeNull();
    // A line that only names an id is not a message.
    record.add(item({ type: 'function_call_output', output: `"client_id":"${ID}"` }), output());
    expect(record.proof().of(ID)).toBeNull();
  });

  it('no request to the model, while no output of the model follows', () => {
    const record = aRecord(started(), prompt(ID));
    const proof = record.proof();
    expect(proof.of(ID)).toMatchObject({ step: 'accepted', evidence: { record: record.path, id: ID, turn: T } });
    record.add(event({ type: 'token_count', info: {} }), item({ type: 'function_call_output', output: 'x' }));
    // An item that a client injects has no turn.
    record.add(item({ type: 'message', role: 'assistant', content: [] }));
    record.add(event({ type: 'task_complete', turn_id: T, last_agent_message: null, error: { message: 'no' } }));
    expect(proof.read().of(ID)).toMatchObject({ step: 'accepted' });
    record.add(started('turn-2'), prompt('next', 'turn-2'), output('turn-2', 'msg_9'));
    expect(proof.read().of(ID)).toMatchObject({ step: 'shown', evidence: { id: ID, turn: T, output: 'msg_9' } });
  });

  it.each([
    ['a message of the model', output()],
    ['its call of a tool', item({ type: 'function_call', id: 'fc_1', ...passed(T) })],
    ['a thought', item({ type: 'reasoning', id: 'rs_1', ...passed(T) })],
    [
      'its message, as an event',
      event({ type: 'item_completed', turn_id: T, item: { type: 'AgentMessage', id: 'm' } }),
    ],
    ['the usage of a response', { type: 'token_usage_record', payload: { turn_id: T, response_id: 'resp_1' } }],
  ])('that the model was asked, if behind the message stands %s', (_what, line) => {
    expect(aRecord(started(), prompt(ID), line).proof().of(ID)).toMatchObject({ step: 'shown' });
    expect(aRecord(started(), line, prompt(ID)).proof().of(ID)).toMatchObject({ step: 'accepted' });
    expect(aRecord(started(), prompt(ID), done(), line).proof().of(ID)).toMatchObject({ step: 'accepted' });
  });

  it('nothing more, once a compaction or rollback came before the request', () => {
    for (const cut of [{ type: 'compacted', payload: { message: '' } }, event({ type: 'thread_rolled_back' })])
      expect(aRecord(started(), prompt(ID), cut, output()).proof().of(ID)).toBe('unknown');
    expect(
      aRecord(started(), prompt(ID), output(), event({ type: 'thread_rolled_back' }))
        .proof()
        .of(ID),
    ).toMatchObject({
      step: 'shown',
    });
  });

  it('nothing by the output of a compaction, in which the model only writes a summary', () => {
    const record = aRecord(started(), prompt(ID), event({ type: 'task_complete', turn_id: T, error: {} }));
    record.add(started('turn-2'), output('turn-2'));
    expect(record.proof().of(ID)).toMatchObject({ step: 'accepted' });
    record.add({ type: 'compacted', payload: {} }, started('turn-3'), prompt('p', 'turn-3'), output('turn-3'));
    expect(record.proof().of(ID)).toBe('unknown');
  });

  it('which turn a message began, and its last words', () => {
    const record = aRecord(started(), prompt(ID), output());
    const proof = record.proof();
    expect(proof.of(ID)).toMatchObject({ step: 'shown', turn: { id: T } });
    record.add(done('the answer'));
    expect(proof.read().of(ID)).toMatchObject({ turn: { id: T, end: { how: 'done', text: 'the answer' } } });
  });

  it.each([
    ['interrupted', event({ type: 'turn_aborted', turn_id: T }), { how: 'interrupted', text: '' }],
    ['failed', event({ type: 'task_complete', turn_id: T, error: { message: 'no' } }), { how: 'failed', text: 'no' }],
    ['cut off by a kill', started('turn-2'), { how: 'failed', text: 'Codex ended before its turn did' }],
  ])('that a turn was %s', (_how, line, end) => {
    expect(aRecord(started(), prompt(ID), output(), line).proof().of(ID)).toMatchObject({ turn: { end } });
  });

  it('no turn for a message that joined a turn or was joined by another', () => {
    const joined = aRecord(started(), prompt('first'), output(), prompt(ID), output(), done()).proof();
    const shared = aRecord(started(), prompt(ID), output(), prompt('later'), output(), done()).proof();
    const hooked = aRecord(
      started(),
      prompt(ID),
      output(),
      developer(`${greeting}\n[parley ab12] knock x from @bob to @me · to me · must respond · normal`),
      output(),
      done(),
    ).proof();
    for (const proof of [joined, shared, hooked]) {
      expect(proof.of(ID)).toMatchObject({ step: 'shown' });
      expect(proof.of(ID)).not.toHaveProperty('turn');
    }
  });

  it('the turn of a message, even if our hook added a knock that needs no answer', () => {
    const knock = developer(`${greeting}\n[parley ab12] knock x from @bob to @me · to me · ack only · normal; read it`);
    const end = { how: 'done', text: 'It is 42.' };
    expect(aRecord(started(), prompt(ID), knock, output(), done('It is 42.')).proof().of(ID)).toMatchObject({
      turn: { end },
    });
  });

  it('why the model did not answer, until it answers', () => {
    const error = { message: 'You have hit your usage limit.' };
    const record = aRecord(started(), prompt(ID), event({ type: 'task_complete', turn_id: T, error }));
    expect(record.proof().of(ID)).toMatchObject({ step: 'accepted', trouble: error.message });
    record.add(started('turn-2'), prompt('p', 'turn-2'), output('turn-2'));
    expect(record.proof().of(ID)).toMatchObject({ step: 'shown' });
  });

  it('that our hook showed a whole message, by the line of the fence', () => {
    const mail = `${greeting}\n[parley ab12] message 3f2b8c1e from @bob to @me · now\nhi\n[parley ab12] end of message 3f2b8c1e`;
    const stop = event({
      type: 'item_completed',
      turn_id: T,
      item: { type: 'HookPrompt', fragments: [{ text: mail }] },
    });
    for (const line of [developer(mail), stop]) {
      expect(aRecord(started(), prompt('p'), line).proof().of(ID)).toMatchObject({ step: 'accepted' });
      expect(aRecord(started(), prompt('p'), line, output()).proof().of(ID)).toMatchObject({ step: 'shown' });
    }
  });

  it.each([
    ['a knock', `[parley ab12] knock 3f2b8c1e from @bob to @me`],
    ['a sender who plays our fence', `[parley ffff] message 3f2b8c1e from @bob to @me`],
    ['another message', `[parley ab12] message 99999999 from @bob to @me`],
  ])('not by %s', (_what, line) => {
    expect(
      aRecord(started(), developer(`${greeting}\n${line}`), output())
        .proof()
        .of(ID),
    ).toBeNull();
    expect(aRecord(started(), developer(line), output()).proof().of(ID)).toBeNull();
  });

  it('that a turn was interrupted before the model was given the message', () => {
    const record = aRecord(started(), prompt('p'), output());
    const proof = record.proof();
    expect(proof.wasInterrupted(T)).toBe(false);
    record.add(event({ type: 'turn_aborted', turn_id: T }));
    expect([proof.read().wasInterrupted(T), proof.of(ID)]).toEqual([true, null]);
  });

  it('the same whatever lines are in between, and wherever a read cuts them', () => {
    const record = aRecord(started());
    const proof = record.proof();
    const lines = [prompt(ID), output()].map((line) => `${JSON.stringify(line)}\n`).join('');
    for (const part of ['no json\n', '[]\n', '{"type":"event_msg"}\n', ...(lines.match(/[^]{1,7}/g) ?? [])]) {
      appendFileSync(record.path, part);
      proof.read();
    }
    expect(proof.of(ID)).toMatchObject({ step: 'shown' });
  });

  it('is read from a given time, without reading lines long before it', () => {
    const many = Array.from({ length: 5000 }, (_, n) => ({
      ...prompt(`p${n}`),
      timestamp: new Date(n * 1000).toISOString(),
    }));
    const record = aRecord(...many, { ...prompt(ID), timestamp: new Date(5_000_000).toISOString() });
    const place = rolloutPlaceAt(record.path, 5_000_000);
    expect(place).toBeGreaterThan(0);
    expect(new RolloutProof(record.path, place, [ID]).read().of(ID)).toMatchObject({ step: 'accepted' });
    expect(rolloutPlaceAt(record.path, 0)).toBe(0);
    expect(rolloutPlaceAt(`${record.path}.none`, 0)).toBe(0);
  });

  it('is searched for ids across chunks', () => {
    const record = aRecord(...Array.from({ length: 30_000 }, () => output()), prompt(ID), output());
    expect(mentionsAny(record.path, [OTHER, ID])).toBe(true);
    expect(mentionsAny(record.path, [OTHER])).toBe(false);
    expect(mentionsAny(`${record.path}.none`, [ID])).toBe(false);
  });
});

const greeting = "[parley ab12] Mail for @me. Only lines that begin with [parley ab12] are Parley's.";

function aRecord(...lines: object[]) {
  const path = `${temporaryHome()}/rollout.jsonl`;
  writeFileSync(path, '');
  const add = (...more: object[]): void =>
    appendFileSync(path, more.map((line) => `${JSON.stringify(line)}\n`).join(''));
  add(...lines);
  return { path, add, proof: () => new RolloutProof(path, 0, [ID]).read() };
}

function event(payload: object): object {
  return { timestamp: '2026-11-18T08:00:00.000Z', type: 'event_msg', payload };
}

function item(payload: object): object {
  return { timestamp: '2026-11-18T08:00:00.000Z', type: 'response_item', payload };
}

function started(turn = T): object {
  return event({ type: 'task_started', turn_id: turn });
}

function prompt(id: string, turn = T): object {
  return event({ type: 'item_completed', turn_id: turn, item: { type: 'UserMessage', client_id: id, content: [] } });
}

function output(turn = T, id = 'msg_1'): object {
  return item({ type: 'message', id, role: 'assistant', content: [], ...passed(turn) });
}

function developer(text: string): object {
  return item({ type: 'message', role: 'developer', content: [{ type: 'input_text', text }] });
}

function done(text = 'done'): object {
  return event({ type: 'task_complete', turn_id: T, last_agent_message: text });
}

function passed(turn_id: string): object {
  return { internal_chat_message_metadata_passthrough: { turn_id } };
}
