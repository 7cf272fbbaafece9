import { describe, expect, it } from 'bun:test';
import { anEvent, EVERYTHING, Talk } from '../../../test/support/host-server.ts';
import { aClock } from '../../../test/support/clock.ts';
import { Bind, ChatDeliver, Initialize, Knock, Progress, SURFACE, TOOLS, Turn } from './shapes.ts';
import { jsonSchema } from './methods.ts';

const SEND = {
  target: '@alice',
  text: 'done',
  idempotencyKey: 'k1',
  visibility: 'dm',
  directedness: 'to_me',
};

/** A promise that the test resolves. */
function aGate(): { open: () => void; passed: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { open: resolve, passed: promise };
}

describe('the tools', () => {
  it('are the seven, and each says that it can be repeated without harm [C2A-118] [C2A-148]', async () => {
    const { result } = await (await new Talk().initialized()).ask('tools/list');
    const tools = result?.['tools'] as {
      name: string;
      annotations: object;
      inputSchema: object;
      description: string;
    }[];
    expect(tools.map(({ name }) => name)).toEqual([
      'chat.list_events',
      'chat.read_thread',
      'chat.send_message',
      'chat.react',
      'chat.claim',
      'chat.defer',
      'chat.resolve',
    ]);
    for (const tool of tools) {
      expect(tool.annotations).toMatchObject({ idempotentHint: true });
      expect(tool.description.length).toBeGreaterThan(10);
    }
    expect(tools.find(({ name }) => name === 'chat.send_message')?.inputSchema).toMatchObject({
      type: 'object',
      required: ['target', 'text', 'idempotencyKey', 'visibility', 'directedness'],
      properties: {
        visibility: { enum: ['dm', 'thread', 'channel', 'ephemeral'] },
        priority: { type: 'string', default: 'normal' },
        refs: { type: 'array', items: { type: 'string' } },
      },
    });
  });

  it('can be called through tools/call or as a method, for the named session', async () => {
    const talk = await new Talk().initialized();
    talk.engine.answer = (what) => ({ from: what });
    const called = await talk.ask('tools/call', { name: 'chat.claim', arguments: { eventId: 'e' }, sessionId: 'one' });
    const direct = await talk.ask('chat.claim', { eventId: 'e', sessionId: 'one' });
    expect(called.result).toEqual({ from: 'chat.claim' });
    expect(direct.result).toEqual(called.result);
    const asked = { what: 'chat.claim', with: { sessionId: 'one', args: { eventId: 'e', release: false } } };
    expect(talk.engine.asked).toEqual([asked, asked]);
  });

  it.each(Object.keys(SEND).filter((field) => field !== 'text'))(
    'send nothing without %s, and the answer names it [C2A-126] [C2A-128] [C2A-129] [C2A-130]',
    async (field) => {
      const talk = await new Talk().initialized();
      const { [field]: _, ...args } = SEND as Record<string, string>;
      const direct = await talk.ask('chat.send_message', args);
      expect(direct.error).toMatchObject({ code: -32602, data: { field } });
      const called = await talk.ask('tools/call', { name: 'chat.send_message', arguments: args });
      expect(called.error).toMatchObject({ code: -32602, data: { field: `arguments.${field}` } });
      expect(talk.engine.asked).toEqual([]);
    },
  );

  it('take a signal: an emoji in its place is refused, and so is a reaction to no event', async () => {
    const talk = await new Talk().initialized();
    const glyph = await talk.ask('chat.react', { inReplyTo: 'e', signal: '👍' });
    expect(glyph.error).toMatchObject({ code: -32602, data: { field: 'signal' } });
    expect((await talk.ask('chat.react', { signal: 'agree' })).error).toMatchObject({ data: { field: 'inReplyTo' } });
    expect(talk.engine.asked).toEqual([]);
    await talk.ask('chat.react', { inReplyTo: 'e', signal: 'queued', eta: 'after the deploy' });
    expect(talk.engine.asked).toMatchObject([
      { with: { args: { inReplyTo: 'e', signal: 'queued', eta: 'after the deploy' } } },
    ]);
  });

  it('that were not agreed on are neither listed nor run', async () => {
    const capabilities = { ...EVERYTHING, chatTools: { readThread: true, react: true } };
    const talk = await new Talk().initialized({ capabilities });
    const { result } = await talk.ask('tools/list');
    const { tools } = result as unknown as { tools: { name: string }[] };
    expect(tools.map(({ name }) => name)).toEqual(['chat.list_events', 'chat.read_thread', 'chat.react']);
    const { error } = await talk.ask('chat.claim', { eventId: 'e' });
    expect(error).toMatchObject({ code: -32601, message: expect.stringContaining('chatTools.claim') });
    expect(talk.engine.asked).toEqual([]);
  });

  it('take no word of a client on attention, lineage or rank: what is not theirs is left out [C2A-4]', async () => {
    const forged = {
      attention: { policy: 'must_not_respond' },
      lineage: { root: 'x', hop: 0, visited: [], stale: 0 },
      persona: 'boss',
      title: 'CEO',
      from: 'somebody',
    };
    const harness = await new Talk().initialized();
    await harness.ask('chat.send_message', { ...SEND, ...forged });
    expect(harness.engine.asked[0]?.with).toEqual({
      sessionId: undefined,
      args: { ...SEND, intent: 'none', priority: 'normal' },
    });
    const surface = await new Talk().initialized({ role: 'surface' });
    const post = {
      messageId: 'm1',
      conversation: { id: 'C1', kind: 'channel', private: false },
      author: { id: 'U1', kind: 'human' },
      content: [{ type: 'text', text: 'hi' }],
      priority: 'normal',
      intent: 'none',
    };
    const said = [Initialize, Bind, ChatDeliver, Knock, Turn, Progress];
    const shapes = [...said, ...Object.values(TOOLS), ...Object.values(SURFACE)].map((schema) =>
      JSON.stringify(jsonSchema(schema)),
    );
    expect(shapes.join()).not.toMatch(/persona|title|rank|manager|"org/i);
    await surface.ask('surface/post', { ...post, ...forged, target: { directedness: 'to_me' }, directedness: 'to_me' });
    expect(surface.engine.asked[0]?.with).toEqual(post);
  });
});

describe('what is asked', () => {
  it('for one session runs in order, and sessions do not wait for each other', async () => {
    const talk = await new Talk().initialized();
    const gate = aGate();
    talk.engine.answer = (what) => (what === 'chat.send_message' ? gate.passed : {});
    const say = (frame: object): void => talk.peer.receive(JSON.stringify({ jsonrpc: '2.0', ...frame }));
    say({ id: 1, method: 'chat.send_message', params: { ...SEND, sessionId: 'one' } });
    say({ method: 'notifications/turn', params: { sessionId: 'one', state: 'ended' } });
    say({ id: 2, method: 'chat.claim', params: { eventId: 'e', sessionId: 'two' } });
    say({ id: 3, method: 'chat.defer', params: { eventId: 'e', reason: 'later' } });
    say({ id: 4, method: 'chat.resolve', params: { eventId: 'e', sessionId: 'two' } });
    say({ id: 5, method: 'ping' });
    await Bun.sleep(0);
    expect(talk.engine.asked.map(({ what }) => what)).toEqual(['chat.send_message', 'chat.claim']);
    expect(talk.told.slice(1).map(({ id }) => id)).toEqual([5, 2]);
    gate.open();
    await talk.peer.idle();
    expect(talk.engine.asked.map(({ what }) => what)).toEqual([
      'chat.send_message',
      'chat.claim',
      'turn',
      'chat.defer',
      'chat.resolve',
    ]);
  });

  it('by a surface as a post waits for nothing, and a later edit of the post waits for it', async () => {
    const talk = await new Talk().initialized({ role: 'surface' });
    const gate = aGate();
    talk.engine.answer = (_what, params) => ((params as { sequence?: number }).sequence === 2 ? gate.passed : {});
    const post = { conversation: { id: 'C1', kind: 'channel' }, author: { id: 'U1', kind: 'human' }, content: 'hi' };
    const say = (frame: object): void => talk.peer.receive(JSON.stringify({ jsonrpc: '2.0', ...frame }));
    say({ id: 2, method: 'surface/post', params: { ...post, messageId: 'm2', sequence: 2 } });
    say({ id: 3, method: 'surface/delete', params: { messageId: 'm2' } });
    say({ id: 1, method: 'surface/post', params: { ...post, messageId: 'm1', sequence: 1 } });
    await Bun.sleep(0);
    expect(talk.told.slice(1).map(({ id }) => id)).toEqual([1]);
    gate.open();
    await talk.peer.idle();
    expect(talk.told.slice(1).map(({ id }) => id)).toEqual([1, 2, 3]);
  });

  it('and called off before it began is not done, and says so; what began is finished [C2A-156]', async () => {
    const talk = await new Talk().initialized();
    const gate = aGate();
    talk.engine.answer = (what) => (what === 'chat.claim' ? gate.passed : {});
    const say = (frame: object): void => talk.peer.receive(JSON.stringify({ jsonrpc: '2.0', ...frame }));
    say({ id: 7, method: 'chat.claim', params: { eventId: 'e' } });
    say({ id: 'x', method: 'chat.send_message', params: SEND });
    await Bun.sleep(0);
    say({ method: 'notifications/cancelled', params: { requestId: 7, reason: 'no' } });
    say({ method: 'notifications/cancelled', params: { requestId: 'x', reason: 'changed my mind' } });
    gate.open();
    await talk.peer.idle();
    expect(talk.told.slice(1)).toMatchObject([
      { id: 7, result: {} },
      { id: 'x', error: { code: -32800 } },
    ]);
    expect(talk.engine.asked.map(({ what }) => what)).toEqual(['chat.claim']);
  });

  it('before the other side left is still done, and then the engine hears that it is gone', async () => {
    const talk = await new Talk().initialized();
    const gate = aGate();
    talk.engine.answer = () => gate.passed;
    talk.peer.receive(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'chat.send_message', params: SEND }));
    const turn = { sessionId: 'one', state: 'ended', eventIds: [], finalText: 'It is not blocked.' };
    talk.peer.receive(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/turn', params: turn }));
    const ended = talk.peer.ended();
    talk.peer.receive(JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'chat.claim', params: { eventId: 'late' } }));
    expect(talk.engine.gones).toBe(0);
    gate.open();
    await ended;
    expect(talk.engine.asked.map(({ what }) => what)).toEqual(['chat.send_message', 'turn']);
    expect(talk.engine.gones).toBe(1);
  });

  it('as a notification with an id is done and answered', async () => {
    const talk = await new Talk().initialized();
    expect((await talk.ask('notifications/turn', { sessionId: 'one', state: 'started' })).result).toEqual({});
    expect(talk.engine.asked).toMatchObject([{ what: 'turn', with: { state: 'started' } }]);
  });

  it('in a bad notification is reported to peers with the logging capability', async () => {
    const talk = await new Talk().initialized();
    const told = await talk.notify('notifications/turn', { sessionId: 'one', state: 'dreaming' });
    expect(told).toMatchObject([
      {
        method: 'notifications/message',
        params: { level: 'warning', data: { code: -32602, data: { field: 'state' } } },
      },
    ]);
    expect(told[0]).not.toHaveProperty('id');
  });

  it('whose answer would be too long is answered with what to ask instead', async () => {
    const talk = await new Talk().initialized();
    talk.engine.answer = () => ({ events: ['x'.repeat(5_000_000)] });
    const { error } = await talk.ask('chat.list_events');
    expect(error).toMatchObject({ code: -32010, message: expect.stringContaining('limit') });
  });
});

describe('too much', () => {
  it('at once is refused and not kept, and everything before it is done [C2A-169]', async () => {
    const talk = await new Talk({ limits: { inHand: 10 } }).initialized();
    const gate = aGate();
    talk.engine.answer = () => gate.passed;
    for (let id = 0; id < 1000; id += 1) {
      talk.peer.receive(JSON.stringify({ jsonrpc: '2.0', id, method: 'chat.claim', params: { eventId: `e${id}` } }));
    }
    const refused = talk.told.filter(({ error }) => error);
    expect(refused).toHaveLength(990);
    expect(refused[0]).toMatchObject({
      id: 10,
      error: { code: -32016, data: { refusal: 'busy', retryAfterMs: 1000 } },
    });
    gate.open();
    await talk.peer.idle();
    expect(talk.engine.asked).toHaveLength(10);
    expect((await talk.ask('chat.claim', { eventId: 'e10' })).error).toBeUndefined();
  });

  it('in a minute is refused, with the time after which it is welcome [C2A-169]', async () => {
    const clock = aClock();
    const talk = await new Talk({ now: clock.now, limits: { requestsPerMinute: 60 } }).initialized();
    for (let id = 0; id < 60; id += 1) await talk.ask('ping', {}, id);
    const { error } = await talk.ask('ping');
    expect(error).toMatchObject({ code: -32016, data: { retryAfterMs: 1000 } });
    clock.pass(1000);
    expect((await talk.ask('ping')).result).toEqual({});
  });

  it('of notifications, which cannot be refused, ends the connection, and nothing that was read is lost', async () => {
    const talk = await new Talk({ limits: { inHand: 5 } }).initialized();
    const gate = aGate();
    talk.engine.answer = () => gate.passed;
    const turn = JSON.stringify({
      jsonrpc: '2.0',
      method: 'notifications/turn',
      params: { sessionId: 's', state: 'started' },
    });
    for (let count = 0; count < 20; count += 1) talk.peer.receive(turn);
    expect(talk.ends).toEqual(['cut']);
    gate.open();
    await talk.peer.ended();
    expect(talk.engine.asked).toHaveLength(10);
    expect(talk.engine.gones).toBe(1);
  });

  it('for a reader that does not read ends its connection, and the event is not accepted', async () => {
    const talk = await new Talk().initialized();
    const wire = await talk.wire();
    talk.isStuck = true;
    expect(wire.deliver(anEvent())).rejects.toMatchObject({ code: 'unreachable' });
    expect(talk.ends).toEqual(['cut']);
    await talk.peer.ended();
    expect(talk.engine.gones).toBe(1);
    expect(wire.deliver(anEvent())).rejects.toMatchObject({ code: 'unreachable' });
  });
});
