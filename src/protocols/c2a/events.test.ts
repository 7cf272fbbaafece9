import { describe, expect, it } from 'bun:test';
import { anEvent, EVERYTHING, Talk } from '../../../test/support/host-server.ts';
import type { SurfaceShow } from './context.ts';
import { MessageId } from '../../core/names.ts';

const ID = MessageId.parse('evt_123');

describe('an event', () => {
  it('is a request, and its answer closes it [C2A-14] [C2A-35] [C2A-138]', async () => {
    const talk = await new Talk().initialized();
    const wire = await talk.wire();
    let isAccepted = false;
    const accepted = wire.deliver(anEvent()).then(() => (isAccepted = true));
    const frame = talk.told.at(-1);
    expect(frame).toEqual({
      jsonrpc: '2.0',
      id: expect.any(String),
      method: 'chat/deliver',
      params: { ...anEvent() },
    });
    await Bun.sleep(0);
    expect(isAccepted).toBe(false);
    // Any answer accepts the event, whatever its content, and does not end it.
    expect(await talk.say({ jsonrpc: '2.0', id: frame?.id, result: { disposition: 'responded' } })).toEqual([]);
    await accepted;
    expect(talk.engine.asked.map(({ what }) => what)).toEqual(['bind']);
  });

  it('that is sent again has a new request id, and a late answer to the first request still counts', async () => {
    const talk = await new Talk().initialized();
    const wire = await talk.wire();
    const first = wire.deliver(anEvent());
    const { id } = talk.told.at(-1) ?? {};
    const second = wire.deliver(anEvent({ reliability: { attempt: 2, idempotencyKey: 'evt_123:bob' } }));
    expect(talk.told.at(-1)?.id).not.toBe(id);
    await talk.say({ jsonrpc: '2.0', id, result: {} });
    await Promise.all([first, second]);
    // A second answer is ignored.
    expect(await talk.say({ jsonrpc: '2.0', id: talk.told.at(-1)?.id, result: {} })).toEqual([]);
  });

  it('that the other side refuses is not accepted', async () => {
    const talk = await new Talk().initialized();
    const wire = await talk.wire();
    const refused = wire.deliver(anEvent());
    const error = { code: -32603, message: 'disk full', data: { retryAfterMs: 500 } };
    await talk.say({ jsonrpc: '2.0', id: talk.told.at(-1)?.id, error });
    expect(refused).rejects.toMatchObject({ code: -32603, retryAfterMs: 500 });
  });

  it('waits for no answer of a peer that never gives one [C2A-15] [C2A-26]', async () => {
    const capabilities = { ...EVERYTHING, delivery: { ack: false } };
    const talk = await new Talk().initialized({ capabilities });
    const wire = await talk.wire();
    await wire.deliver(anEvent());
    expect(talk.told.at(-1)).not.toHaveProperty('id');
    expect(talk.told.at(-1)).toMatchObject({ method: 'chat/deliver', params: { eventId: 'evt_123' } });
  });

  it('is refused while a thousand others have no answer, and is sent once they have', async () => {
    const talk = await new Talk().initialized();
    const wire = await talk.wire();
    const under = Array.from({ length: 1000 }, (_, at) => wire.deliver(anEvent({ eventId: `e${at}` })));
    expect(wire.deliver(anEvent())).rejects.toMatchObject({ code: 'busy' });
    const [one] = talk.told.filter(({ params }) => params?.['eventId'] === 'e0');
    await talk.say({ jsonrpc: '2.0', id: one?.id, result: {} });
    await under[0];
    const accepted = wire.deliver(anEvent());
    await talk.say({ jsonrpc: '2.0', id: talk.told.at(-1)?.id, result: {} });
    await accepted;
  });

  it('can be called off by the id under which it came, before and after it was accepted [C2A-156]', async () => {
    const talk = await new Talk().initialized();
    const wire = await talk.wire();
    const accepted = wire.deliver(anEvent());
    const requestId = talk.told.at(-1)?.id;
    wire.cancel(ID, 'Message was edited before response');
    const cancelled = {
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId, eventId: ID, reason: 'Message was edited before response' },
    };
    expect(talk.told.at(-1)).toEqual(cancelled);
    await talk.say({ jsonrpc: '2.0', id: requestId, result: {} });
    await accepted;
    wire.cancel(ID, 'Message was edited before response');
    expect(talk.told.at(-1)).toEqual(cancelled);
  });

  it('of progress goes only to a surface that shows progress [C2A-29]', async () => {
    const progress: SurfaceShow = {
      what: 'progress',
      id: 'p',
      idempotencyKey: 'p.1',
      conversation: { id: 'C1', kind: 'channel' },
      author: { id: 'bob', kind: 'agent', displayName: 'bob' },
      visibility: 'channel',
      mentions: [],
      text: '1/5',
    };
    const told: (string | undefined)[] = [];
    for (const shows of [false, true]) {
      const capabilities = { ...EVERYTHING, utilities: { progress: shows } };
      const talk = await new Talk().initialized({ role: 'surface', capabilities });
      void (await talk.wire()).show(progress);
      told.push(talk.told.at(-1)?.method);
    }
    expect(told).toEqual([undefined, 'surface/show']);
  });

  it('is not called off where the other side does not want to hear it [C2A-29]', async () => {
    const talk = await new Talk().initialized({ capabilities: { ...EVERYTHING, utilities: { cancellation: false } } });
    const wire = await talk.wire();
    const before = talk.told.length;
    wire.cancel(ID, 'edited');
    // A peer without the logging capability gets no notification of errors either.
    await talk.notify('notifications/turn', { sessionId: 'one', state: 'dreaming' });
    expect(talk.told).toHaveLength(before);
  });
});

describe('for a peer of the draft of 2026-06-24', () => {
  const flat = { protocolVersion: '2026-06-24' };

  it('an event is flat: addressedToMe, policy, and content as one text [C2A-N1]', async () => {
    const talk = await new Talk().initialized(flat);
    const wire = await talk.wire();
    void wire.deliver(
      anEvent({
        conversation: { id: 'S', kind: 'system' },
        content: [
          { type: 'text', text: 'Look' },
          { type: 'ref', ref: 'src/a.ts:1', label: 'here' },
        ],
      }),
    );
    expect(talk.told.at(-1)?.params).toMatchObject({
      eventId: 'evt_123',
      addressedToMe: true,
      policy: 'must_respond',
      content: 'Look\nhere (src/a.ts:1)',
      conversation: { id: 'S', kind: 'dm' },
      // The fields of the other drafts are there too.
      target: { directedness: 'to_me' },
      attention: { policy: 'must_respond' },
      reliability: { attempt: 1 },
    });
    void wire.deliver(anEvent({ eventId: 'e2', target: { mentions: [], recipient: '#x', directedness: 'ambient' } }));
    expect(talk.told.at(-1)?.params).toMatchObject({ addressedToMe: false });
  });

  it('a knock stays a knock: no content', async () => {
    const talk = await new Talk().initialized(flat);
    const wire = await talk.wire();
    void wire.deliver(anEvent({ content: undefined }));
    expect(talk.told.at(-1)?.params).not.toHaveProperty('content');
  });

  it('ack_only is must_not_respond, in events and in what tools answer [C2A-N2]', async () => {
    const talk = await new Talk().initialized(flat);
    const wire = await talk.wire();
    const attention = { policy: 'ack_only', reason: 'thanks', priority: 'normal' };
    void wire.deliver(anEvent({ attention, prompt: 'C2A EVENT\nresponse_policy: ack_only\n\nMESSAGE\n> thanks' }));
    expect(talk.told.at(-1)?.params).toMatchObject({
      prompt: 'C2A EVENT\nresponse_policy: must_not_respond\n\nMESSAGE\n> thanks',
      policy: 'must_not_respond',
      attention: { policy: 'must_not_respond', reason: 'thanks' },
    });
    talk.engine.answer = () => ({ events: [{ body: 'ack_only', attention }], cursor: null });
    const { result } = await talk.ask('chat.list_events');
    expect(result).toEqual({
      events: [{ body: 'ack_only', attention: { ...attention, policy: 'must_not_respond' } }],
      cursor: null,
    });
    const newer = await new Talk().initialized();
    void (await newer.wire()).deliver(anEvent({ attention }));
    expect(newer.told.at(-1)?.params).toMatchObject({ attention: { policy: 'ack_only' } });
    newer.engine.answer = () => ({ events: [{ attention }] });
    expect((await newer.ask('chat.list_events')).result).toEqual({ events: [{ attention }] });
  });

  it('both shapes are understood from a surface [C2A-N1]', async () => {
    const talk = await new Talk().initialized({ ...flat, role: 'surface' });
    const post = { conversation: { id: 'C1', kind: 'dm' }, author: { id: 'U1', kind: 'human' }, recipient: 'bob' };
    await talk.ask('surface/post', {
      ...post,
      eventId: 'm1',
      content: 'hello',
      addressedToMe: true,
      policy: 'must_respond',
    });
    await talk.ask('surface/post', { ...post, messageId: 'm1', content: [{ type: 'text', text: 'hello' }] });
    const [first, second] = talk.engine.asked;
    expect(first?.with).toEqual(second?.with);
    expect(first?.with).toMatchObject({ messageId: 'm1', content: [{ type: 'text', text: 'hello' }] });
    expect(first?.with).not.toHaveProperty('policy');
    await talk.ask('surface/edit', { messageId: 'm1', content: 'hello!' });
    expect(talk.engine.asked.at(-1)?.with).toEqual({ messageId: 'm1', content: [{ type: 'text', text: 'hello!' }] });
  });
});
