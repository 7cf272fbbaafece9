import fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { anEvent, Talk } from '../../../test/support/host-server.ts';
import { MessageId } from '../../core/names.ts';
import { REFUSALS, Refusal } from '../../core/refusal.ts';
import type { RefusalCode } from '../../core/refusal.ts';
import { readFrame } from '../../wire/jsonrpc.ts';

describe('a frame', () => {
  it.each([
    ['no JSON', '{"jsonrpc":"2.0",', -32700],
    ['nothing', '', -32700],
    ['no object', '"hello"', -32600],
    ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600],
    ['another version', '{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600],
    ['no version', '{"id":1,"method":"ping"}', -32600],
    ['a method that is no text', '{"jsonrpc":"2.0","id":1,"method":7}', -32600],
    ['params that are no object', '{"jsonrpc":"2.0","id":1,"method":"ping","params":7}', -32600],
    ['params by position', '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602],
    ['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600],
    ['an id that cannot be echoed', '{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}', -32600],
    ['neither request nor response', '{"jsonrpc":"2.0","id":1}', -32600],
    ['an unknown method', '{"jsonrpc":"2.0","id":1,"method":"chat.shout"}', -32601],
    ['a method of the language', '{"jsonrpc":"2.0","id":1,"method":"constructor"}', -32601],
    ['params that do not fit', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat.claim"}}', -32602],
  ])('that is %s is answered with the error of JSON-RPC for it [C2A-13]', async (_what, frame, code) => {
    const talk = await new Talk().initialized();
    const told = await talk.say(frame);
    expect(told).toMatchObject([{ jsonrpc: '2.0', error: { code } }]);
    expect(talk.engine.asked).toEqual([]);
  });

  it('of ours is JSON-RPC 2.0 too: an answer, a request and a notification [C2A-13]', async () => {
    const talk = await new Talk().initialized();
    await talk.ask('ping');
    const wire = await talk.wire();
    void wire.deliver(anEvent());
    wire.cancel(MessageId.parse('evt_123'), 'edited');
    expect(talk.told.length).toBeGreaterThan(3);
    for (const frame of talk.told) expect(frame).toMatchObject({ jsonrpc: '2.0' });
  });

  it('of bytes that are not UTF-8 is refused as no JSON', async () => {
    const talk = await new Talk().initialized();
    talk.peer.receive(new Uint8Array([0x22, 0xff, 0x22]));
    expect(talk.told.at(-1)).toMatchObject({ id: null, error: { code: -32700 } });
  });

  it.each(['a', '', '0', 0, -1, 2 ** 52, 'ünï', '\u2028'])(
    'with the id %j is answered under exactly that id',
    async (id) => {
      const talk = await new Talk().initialized();
      expect((await talk.ask('ping', {}, id)).id).toBe(id);
    },
  );

  it('that is a notification is never answered, whatever is wrong with it [C2A-15]', async () => {
    const { utilities: _, ...capabilities } = { utilities: {}, delivery: { ack: true } };
    const talk = await new Talk().initialized({ capabilities });
    for (const notification of [
      { method: 'notifications/progress', params: { progressToken: 'p', progress: 2, total: 5 } },
      { method: 'notifications/progress', params: { progress: 'much' } },
      { method: 'notifications/progress', params: [1] },
      { method: 'notifications/nothing' },
      { method: 'chat.list_events' },
      { method: 'surface/post', params: {} },
    ]) {
      expect(await talk.say({ jsonrpc: '2.0', ...notification })).toEqual([]);
    }
    expect(talk.engine.asked).toEqual([{ what: 'progress', with: { progressToken: 'p', progress: 2, total: 5 } }]);
  });

  it.each(Object.entries(REFUSALS))('%s has its own number in an answer', async (code, { rpc }) => {
    const talk = await new Talk().initialized();
    talk.engine.answer = () => {
      throw new Refusal(code as RefusalCode, 'do this instead');
    };
    const { error } = await talk.ask('chat.claim', { eventId: 'e' });
    expect(error).toEqual({ code: rpc, message: 'do this instead', data: { refusal: code } });
  });

  it('on which our own code fails is answered, and only the log names the error', async () => {
    const talk = await new Talk().initialized();
    talk.engine.answer = () => {
      throw new Error('/home/secret is gone');
    };
    const { error } = await talk.ask('chat.claim', { eventId: 'e' });
    expect(error).toEqual({ code: -32603, message: "internal error; see the host's log" });
    expect(talk.log).toContainEqual({
      event: 'host_failed',
      facts: expect.objectContaining({ error: '/home/secret is gone' }),
    });
  });
});

const anyFrame = fc.oneof(
  fc.string(),
  fc.json(),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc
    .record(
      {
        jsonrpc: fc.oneof(fc.constant('2.0'), fc.jsonValue()),
        id: fc.oneof(fc.string(), fc.integer(), fc.jsonValue()),
        method: fc.oneof(
          fc.constantFrom(
            'initialize',
            'ping',
            'tools/call',
            'tools/list',
            'session/bind',
            'surface/post',
            'chat.react',
          ),
          fc.constantFrom('notifications/cancelled', 'notifications/turn', 'notifications/progress', '__proto__'),
          fc.jsonValue(),
        ),
        params: fc.oneof(fc.jsonValue(), fc.dictionary(fc.string(), fc.jsonValue())),
        result: fc.jsonValue(),
        error: fc.jsonValue(),
      },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value)),
);

describe('whatever comes', () => {
  it('never ends the connection, and is answered with JSON-RPC or not at all', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyFrame, { maxLength: 20 }), fc.boolean(), async (frames, isInitialized) => {
        const talk = new Talk();
        if (isInitialized) await talk.initialized();
        for (const frame of frames) {
          const read = readFrame(frame);
          const told = await talk.say(frame);
          const answers = told.filter(({ method }) => method === undefined);
          const isAnswered = read.kind === 'request' || (read.kind === 'broken' && read.id !== undefined);
          expect(answers).toHaveLength(isAnswered ? 1 : 0);
          for (const { jsonrpc, id, error, result } of answers) {
            expect(jsonrpc).toBe('2.0');
            expect(id).toBe('id' in read ? (read.id ?? null) : null);
            expect((error === undefined) !== (result === undefined)).toBe(true);
            if (error) expect(Number.isInteger(error.code)).toBe(true);
          }
        }
        expect(talk.ends).toEqual([]);
        expect(talk.log.filter(({ event }) => event === 'host_failed')).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it('is answered if it was too long', async () => {
    const talk = await new Talk().initialized();
    talk.peer.tooLong();
    expect(talk.told.at(-1)).toMatchObject({ id: null, error: { code: -32010 } });
    expect((await talk.ask('ping')).result).toEqual({});
  });
});
