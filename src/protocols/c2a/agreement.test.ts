import { describe, expect, it } from 'bun:test';
import { anInitialize, EVERYTHING, Talk } from '../../../test/support/host-server.ts';
import type { SurfaceShow } from './context.ts';
import { SIGNALS } from '../../core/signal.ts';

const BIND = { sessionId: 'one', identities: ['bob'] };

describe('a connection', () => {
  it.each(['ping', 'tools/list', 'session/bind', 'chat.list_events', 'surface/post', 'notifications/turn'])(
    'begins with initialize: %s before it is refused, and nothing was done [C2A-24]',
    async (method) => {
      const talk = new Talk();
      const { error } = await talk.ask(method, BIND);
      expect(error).toMatchObject({ code: -32600, message: expect.stringContaining('initialize') });
      expect(talk.engine.asked).toEqual([]);
      expect((await talk.ask('initialize', anInitialize())).error).toBeUndefined();
      expect(talk.told.filter((one) => one.method === 'chat/deliver')).toEqual([]);
    },
  );

  it.each([
    ['protocolVersion', { protocolVersion: undefined }],
    ['clientInfo', { clientInfo: undefined }],
    ['clientInfo.name', { clientInfo: { version: '1' } }],
    ['clientInfo.version', { clientInfo: { name: 'x' } }],
    ['capabilities', { capabilities: undefined }],
    ['capabilities.delivery.ack', { capabilities: { delivery: { ack: 'yes' } } }],
    ['role', { role: 'king' }],
  ])('is not initialized without %s, and the answer names it [C2A-25]', async (field, fields) => {
    const talk = new Talk();
    const { error } = await talk.ask('initialize', anInitialize(fields));
    expect(error).toMatchObject({ code: -32602, data: { field } });
    expect(error?.message).toStartWith(`${field}: `);
    expect((await talk.ask('ping')).error?.code).toBe(-32600);
  });

  it('agrees on what both sides can do, and on nothing that was not named [C2A-26] [C2A-27] [C2A-28] [C2A-29] [C2A-30]', async () => {
    const theirs = {
      delivery: { ack: true, redelivery: false, telepathy: true },
      injection: { buffered: true },
      juggling: { knives: true },
    };
    const { result } = await new Talk().ask('initialize', anInitialize({ capabilities: theirs }));
    expect(result?.['capabilities']).toEqual({
      delivery: { ack: true, redelivery: false, idempotency: false },
      injection: {
        immediate: false,
        buffered: true,
        notify: false,
        tool_mailbox: false,
        digest: false,
        interrupt: false,
      },
      chatTools: Object.fromEntries(Object.keys(EVERYTHING.chatTools).map((name) => [name, false])),
      utilities: { progress: false, cancellation: false, logging: false },
    });
    const all = await new Talk().ask('initialize', anInitialize());
    expect(all.result?.['capabilities']).toEqual(EVERYTHING);
  });

  it.each([
    ['2026-06-02', '2026-06-02'],
    ['2026-06-24', '2026-06-24'],
    ['2026-08-11', '2026-08-11'],
    ['1999-01-01', '2026-08-11'],
    ['tomorrow', '2026-08-11'],
  ])('that asks for version %s gets %s [C2A-30]', async (protocolVersion, agreed) => {
    const { result } = await new Talk().ask('initialize', anInitialize({ protocolVersion }));
    expect(result).toMatchObject({ protocolVersion: agreed, serverInfo: { name: 'parley', version: '0.0.0' } });
  });

  it('is initialized once', async () => {
    const talk = await new Talk().initialized({ role: 'surface' });
    expect((await talk.ask('initialize', anInitialize())).error?.code).toBe(-32600);
    expect((await talk.ask('session/bind', BIND)).error?.code).toBe(-32001);
  });

  it.each([
    ['harness', 'surface/bind', { platform: 'slack', workspaceId: 'T1' }],
    ['harness', 'surface/post', {}],
    ['harness', 'surface/edit', {}],
    ['harness', 'surface/delete', {}],
    ['harness', 'surface/react', {}],
    ['harness', 'surface/typing', {}],
    ['surface', 'session/bind', BIND],
    ['surface', 'tools/list', {}],
    ['surface', 'tools/call', { name: 'chat.list_events', arguments: {} }],
    ['surface', 'chat.send_message', {}],
    ['surface', 'notifications/turn', { sessionId: 'one', state: 'started' }],
    ['surface', 'notifications/context_reset', { sessionId: 'one' }],
  ])('of a %s cannot call %s: neither speaks as the other', async (role, method, params) => {
    const talk = await new Talk().initialized({ role });
    expect((await talk.ask(method, params)).error).toMatchObject({ code: -32001, data: { refusal: 'not_yours' } });
    await talk.notify(method, params);
    expect(talk.engine.asked).toEqual([]);
  });
});

describe('signs', () => {
  const surface = (glyphs: Record<string, string>) => ({ role: 'surface', capabilities: { ...EVERYTHING, glyphs } });
  const reaction = { messageId: 'm1', reactionId: 'r1', author: 'will' };
  const shown: SurfaceShow = {
    what: 'reaction',
    id: 'r9',
    idempotencyKey: 'r9',
    conversation: { id: 'C1', kind: 'channel' },
    author: { id: 'bob', kind: 'agent', displayName: 'bob' },
    visibility: 'channel',
    mentions: [],
    target: 'm1',
  };

  it('are a workspace’s own: what it remaps is shown so, and understood so [C2A-110] [C2A-112]', async () => {
    const talk = new Talk();
    const { result } = await talk.ask('initialize', anInitialize(surface({ done: '☑️' })));
    expect(result).toMatchObject({ capabilities: { glyphs: { done: '☑️', agree: '👍' } } });
    const wire = await talk.wire();
    const showing = wire.show({ ...shown, signal: 'done' });
    const asked = talk.told.at(-1);
    expect(asked).toMatchObject({ method: 'surface/show', params: { signal: 'done', glyph: '☑️' } });
    await talk.say({ jsonrpc: '2.0', id: asked?.id, result: {} });
    await showing;
    await talk.ask('surface/react', { ...reaction, glyph: '☑️' });
    expect(talk.engine.asked.at(-1)).toEqual({
      what: 'surface.react',
      with: { ...reaction, glyph: '☑️', signal: 'done' },
    });
    // The emoji that it replaced has no meaning now.
    await talk.ask('surface/react', { ...reaction, glyph: '✅' });
    expect(talk.engine.asked.at(-1)?.with).toEqual({ ...reaction, glyph: '✅' });
  });

  it.each(Object.entries(SIGNALS))(
    '%s is understood by its usual sign, in any colour of skin',
    async (signal, { glyph }) => {
      const talk = await new Talk().initialized({ role: 'surface' });
      await talk.ask('surface/react', { ...reaction, glyph });
      await talk.ask('surface/react', { ...reaction, glyph: `${glyph}\u{1f3fd}` });
      expect(talk.engine.asked.map((one) => one.with)).toMatchObject([{ signal }, { signal }]);
    },
  );

  it('without a meaning are passed on unchanged, and not guessed', async () => {
    const talk = await new Talk().initialized({ role: 'surface' });
    await talk.ask('surface/react', { ...reaction, glyph: '🦄' });
    expect(talk.engine.asked.at(-1)?.with).toEqual({ ...reaction, glyph: '🦄' });
    expect((await talk.ask('surface/react', reaction)).error).toMatchObject({ code: -32602, data: { field: 'glyph' } });
    expect((await talk.ask('surface/react', { ...reaction, signal: '👍' })).error?.code).toBe(-32602);
  });

  it.each([
    [{ done: '👍' }, 'done'],
    [{ done: '☑️', agree: '☑' }, 'done'],
    [{ dance: '💃' }, 'dance'],
    [{ done: '' }, 'done'],
    [{ done: 'a b' }, 'done'],
  ])('%j are refused by name', async (glyphs, signal) => {
    const { error } = await new Talk().ask('initialize', anInitialize(surface(glyphs)));
    expect(error).toMatchObject({ code: -32602, data: { field: `capabilities.glyphs.${signal}` } });
  });
});
