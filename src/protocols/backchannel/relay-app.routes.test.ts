import { describe, expect, it } from 'bun:test';
import { TestRelay } from '../../../test/support/relay-app.ts';
import type { Asking } from '../../../test/support/relay-app.ts';
import { AgentName } from '../../core/names.ts';
import { hashOf } from '../../wire/tokens.ts';

const bobName = AgentName.parse('bob');
const UNAUTHORIZED = 'unauthorized — agent token required (get one via /v1/register)';
const error = (text: string): unknown => ({ error: text });

interface Sent {
  id: string;
}

/** Every route of the original but health, rooms and register. */
const GUARDED: ['GET' | 'POST', string][] = [
  ['GET', '/v1/agents'],
  ['GET', '/v1/channels'],
  ['POST', '/v1/subscribe'],
  ['POST', '/v1/unsubscribe'],
  ['POST', '/v1/send'],
  ['GET', '/v1/inbox/alice'],
  ['POST', '/v1/take'],
  ['GET', '/v1/events/alice'],
  ['POST', '/v1/lease'],
  ['POST', '/v1/settle'],
  ['GET', '/v1/trace/1'],
];

describe('the relay before it knows who asks', () => {
  it('tells its health to everybody [BC-12, BC-B5.1, BC-B5.22, BC-B5.29]', async () => {
    const { status, value } = await new TestRelay().ask('GET', '/v1/health');
    expect([status, value]).toEqual([200, { ok: true, service: 'backchannel-relay' }]);
  });

  it('makes a room with an id of 6 and a token of 24 bytes, in which agents see nothing of other rooms [BC-B5.2, BC-B5.27, BC-B5.29]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    const { status, value } = await relay.ask('POST', '/v1/rooms');
    const { roomId, roomToken } = value as { roomId: string; roomToken: string };
    expect(status).toBe(200);
    expect(Object.keys(value as object)).toEqual(['roomId', 'roomToken']);
    expect([Buffer.from(roomId, 'base64url').length, Buffer.from(roomToken, 'base64url').length]).toEqual([6, 24]);
    expect(roomToken).not.toMatch(/^[0-9a-f]+$/);
    const another = (await relay.ask('POST', '/v1/rooms')).value as { roomId: string; roomToken: string };
    expect(another.roomId).not.toBe(roomId);
    expect(another.roomToken).not.toBe(roomToken);
    const headers = { 'x-backchannel-room': ` ${roomId} ` };
    const carol = await relay.ask('POST', '/v1/register', { token: roomToken, headers, body: { name: 'carol' } });
    const { token } = carol.value as { token: string };
    const there = await relay.ask('GET', '/v1/agents', { token, headers });
    expect((there.value as { name: string }[]).map(({ name }) => name)).toEqual(['carol']);
    expect((await relay.ask('GET', '/v1/agents', { token: alice, headers })).status).toBe(401);
    // A name that can be no room's means the default room.
    for (const room of ['not/a room', '..', 'x'.repeat(65), '']) {
      const here = await relay.ask('GET', '/v1/agents', { token: alice, headers: { 'x-backchannel-room': room } });
      expect((here.value as { name: string }[]).map(({ name }) => name)).toEqual(['alice']);
    }
  });

  it('makes rooms only for its admin, if it has one [BC-B5.2]', async () => {
    const relay = new TestRelay({ adminTokenHash: hashOf('the admin') });
    const without = await relay.ask('POST', '/v1/rooms');
    expect([without.status, without.value]).toEqual([401, error('room creation is restricted on this relay')]);
    expect((await relay.ask('POST', '/v1/rooms', { token: 'another' })).status).toBe(401);
    expect((await relay.ask('POST', '/v1/rooms', { token: 'the admin' })).status).toBe(200);
  });

  it('registers a new agent with the room token and shows its token once, never its hash [BC-13, BC-14, BC-B5.3, BC-B5.21]', async () => {
    const relay = new TestRelay();
    const { status, value } = await relay.ask('POST', '/v1/register', { token: 'room secret', body: { name: 'bob' } });
    const record = value as Record<string, string>;
    expect(status).toBe(200);
    expect(Object.keys(record)).toEqual(['name', 'subscriptions', 'createdAt', 'lastSeen', 'token']);
    expect(record['token']).toMatch(/^[0-9a-f]{64}$/);
    const kept = await relay.home().directory.get(bobName);
    expect(kept?.tokenHash).toBe(new Bun.CryptoHasher('sha256').update(record['token'] ?? '').digest('hex'));
    expect(JSON.stringify(kept)).not.toContain(record['token'] ?? '?');
  });

  it.each<[what: string, asking: Asking, status: number, text: string]>([
    [
      'a wrong room token [BC-13, BC-B5.4]',
      { token: 'wrong', body: { name: 'new' } },
      401,
      'unauthorized — registration requires the room token',
    ],
    [
      'no room token [BC-13, BC-B5.4]',
      { body: { name: 'new' } },
      401,
      'unauthorized — registration requires the room token',
    ],
    [
      'an unknown room [BC-B5.5]',
      { token: 'room secret', body: { name: 'new' }, headers: { 'x-backchannel-room': 'nowhere' } },
      404,
      'unknown room "nowhere" — create one with `bch room new`',
    ],
    [
      'a taken name with the room token [BC-14, BC-B5.6, BC-B8.5]',
      { token: 'room secret', body: { name: 'alice' } },
      409,
      'agent name "alice" is registered — present its token to re-register',
    ],
    [
      'a taken name with a wrong token [BC-B5.6]',
      { token: 'wrong', body: { name: 'alice' } },
      409,
      'agent name "alice" is registered — present its token to re-register',
    ],
    [
      'an illegal name [BC-B5.8, BC-B2.2]',
      { token: 'room secret', body: { name: '../x' } },
      400,
      'invalid agent name "../x" (use letters, digits, . _ -)',
    ],
    [
      'a name that is too long [BC-B2.1]',
      { token: 'room secret', body: { name: 'x'.repeat(129) } },
      400,
      `invalid agent name "${'x'.repeat(129)}" (use at most 128 characters)`,
    ],
    [
      'a name that differs from another only by case [BC-B2.1]',
      { token: 'room secret', body: { name: 'Alice' } },
      409,
      '"Alice" differs from "alice" only by case; pick another name',
    ],
    [
      'no name [BC-C3]',
      { token: 'room secret', body: {} },
      400,
      'invalid agent name "undefined" (use letters, digits, . _ -)',
    ],
    [
      'a name that is none [BC-C3]',
      { token: 'room secret', body: { name: 7 } },
      400,
      'invalid agent name "7" (use letters, digits, . _ -)',
    ],
    [
      'the name of the relay itself',
      { token: 'room secret', body: { name: 'parley-relay' } },
      409,
      'agent name "parley-relay" is registered — present its token to re-register',
    ],
    ['no JSON [BC-B5.18]', { token: 'room secret', body: '{"name":' }, 400, 'JSON Parse error: Unexpected EOF'],
  ])('refuses to register %s, and everybody else still gets in', async (_what, asking, status, text) => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    const answer = await relay.ask('POST', '/v1/register', asking);
    expect([answer.status, answer.value]).toEqual([status, error(text)]);
    const agents = await relay.ask('GET', '/v1/agents', { token: alice });
    expect((agents.value as { name: string }[]).map(({ name }) => name)).toEqual(['alice']);
  });

  it('admits as many as come with the room token, however late [BC-B8.3]', async () => {
    const relay = new TestRelay();
    for (const name of ['alice', 'bob', 'carol']) {
      const { status } = await relay.ask('POST', '/v1/register', { token: 'room secret', body: { name } });
      expect(status).toBe(200);
      relay.aheadMs += 365 * 24 * 3_600_000;
    }
  });

  it('lets an agent register again with its own token: no new token, a newer lastSeen [BC-14, BC-B5.7]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    const before = await relay.home().directory.get(AgentName.parse('alice'));
    relay.aheadMs = 120_000;
    const { status, value } = await relay.ask('POST', '/v1/register', { token: alice, body: { name: 'alice' } });
    expect(status).toBe(200);
    expect(Object.keys(value as object)).toEqual(['name', 'subscriptions', 'createdAt', 'lastSeen']);
    expect((value as { lastSeen: string }).lastSeen > (before?.lastSeen ?? '')).toBe(true);
    expect((await relay.ask('GET', '/v1/agents', { token: alice })).status).toBe(200);
  });

  it('gives a name that many ask for at once to one of them', async () => {
    const relay = new TestRelay();
    const asking = { token: 'room secret', body: { name: 'bob' } };
    const answers = await Promise.all(Array.from({ length: 20 }, () => relay.ask('POST', '/v1/register', asking)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
    const [winner] = answers.filter(({ status }) => status === 200);
    const { token } = (winner?.value ?? {}) as { token: string };
    expect((await relay.ask('GET', '/v1/agents', { token })).status).toBe(200);
  });

  it('does not let the room token claim a record that was made on the host, until it gets a token there [BC-C16, BC-B3.6]', async () => {
    const relay = new TestRelay();
    const { directory } = relay.home();
    await directory.register(bobName, 'foreign');
    const claim = await relay.ask('POST', '/v1/register', { token: 'room secret', body: { name: 'bob' } });
    expect([claim.status, claim.value]).toEqual([
      409,
      error('agent name "bob" is registered — present its token to re-register'),
    ]);
    await directory.giveToken(bobName, hashOf('issued on the host'));
    const again = { token: 'issued on the host', body: { name: 'bob' } };
    expect((await relay.ask('POST', '/v1/register', again)).status).toBe(200);
    expect((await relay.ask('GET', '/v1/agents', { token: 'issued on the host' })).status).toBe(200);
  });

  it('lets anybody register where the room has no token [BC-B5.20]', async () => {
    const relay = new TestRelay({}, null);
    expect((await relay.ask('POST', '/v1/register', { body: { name: 'anna' } })).status).toBe(200);
  });

  it('opens no home for a room that is not there [BC-C4]', async () => {
    const relay = new TestRelay();
    const headers = { 'x-backchannel-room': 'made-up' };
    await relay.ask('POST', '/v1/register', { token: 'room secret', headers, body: { name: 'x' } });
    await relay.ask('GET', '/v1/agents', { token: 'whatever', headers });
    await relay.ask('POST', '/v1/send', { token: 'whatever', headers, body: { to: '@x', body: 'y' } });
    expect(relay.homes.size).toBe(0);
  });

  it.each(GUARDED)('wants an agent token: %s %s [BC-12, BC-13, BC-B5.9]', async (method, path) => {
    const relay = new TestRelay();
    await relay.agents('alice');
    const body = method === 'POST' ? {} : undefined;
    for (const token of [undefined, 'room secret', 'made up', '0'.repeat(64)]) {
      const { status, value } = await relay.ask(method, path, { token, body });
      expect([status, value]).toEqual([401, error(UNAUTHORIZED)]);
    }
  });

  it.each<['GET' | 'POST', string]>([
    ['GET', '/v1/nothing'],
    ['GET', '/'],
    ['GET', '/v1/health/'],
    ['POST', '/v1/health'],
    ['GET', '/v1/register'],
    ['GET', '/v1/send'],
    ['POST', '/v1/agents'],
    ['POST', '/v1/inbox/alice'],
    ['GET', '/v1/inbox/alice/more'],
  ])('knows no %s %s: 401 to a stranger, 404 to an agent [BC-B5.17, BC-B5.29, BC-B5.30]', async (method, path) => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    const stranger = await relay.ask(method, path);
    expect([stranger.status, stranger.value]).toEqual([401, error(UNAUTHORIZED)]);
    const agent = await relay.ask(method, path, { token: alice });
    expect([agent.status, agent.value]).toEqual([404, error('not found')]);
  });

  it('complains of a bad token before bad JSON [BC-B5.31]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    expect((await relay.ask('POST', '/v1/send', { token: 'bad', body: '{' })).status).toBe(401);
    expect((await relay.ask('POST', '/v1/send', { token: alice, body: '{' })).status).toBe(400);
  });

  it.each(['Bearer TOKEN', 'bearer TOKEN', 'BEARER   TOKEN', 'TOKEN', '  TOKEN  '])(
    'takes a token written as "%s" [BC-B5.28]',
    async (form) => {
      const relay = new TestRelay();
      const [alice = ''] = await relay.agents('alice');
      const headers = { authorization: form.replace('TOKEN', alice) };
      expect((await relay.ask('GET', '/v1/agents', { headers })).status).toBe(200);
    },
  );

  it('takes a path with the doubled slash that an address with a slash at its end makes [BC-B5.23]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    expect((await relay.ask('GET', '//v1/health')).status).toBe(200);
    expect((await relay.ask('GET', '//v1/inbox/alice', { token: alice })).value).toEqual([]);
  });
});

describe('an agent at the relay', () => {
  it('sees the others by name, without their hashes [BC-B5.10]', async () => {
    const relay = new TestRelay();
    const [zoe] = await relay.agents('zoe', 'alice', 'Bob');
    const { value } = await relay.ask('GET', '/v1/agents', { token: zoe });
    expect((value as { name: string }[]).map(({ name }) => name)).toEqual(['alice', 'Bob', 'zoe']);
    expect(JSON.stringify(value)).not.toContain('tokenHash');
  });

  it('joins and leaves channels by any name, for itself only [BC-11, BC-B5.11, BC-B5.12, BC-B5.22, BC-B2.3]', async () => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'bob');
    for (const channel of ['dev', '#Zoo', '', 'ä b/c', '#dev']) {
      const { status, value } = await relay.ask('POST', '/v1/subscribe', {
        token: alice,
        body: { agent: 'bob', channel },
      });
      expect([status, value]).toEqual([200, { ok: true }]);
    }
    await relay.ask('POST', '/v1/subscribe', { token: bob, body: { channel: '#Zoo' } });
    const channels = await relay.ask('GET', '/v1/channels', { token: bob });
    expect(channels.value).toEqual(['#', '#Zoo', '#dev', '#ä b/c']);
    expect((await relay.home().directory.get(bobName))?.subscriptions).toEqual(['#Zoo']);
    for (const channel of ['dev', '#Zoo', '#unknown']) {
      const { status, value } = await relay.ask('POST', '/v1/unsubscribe', {
        token: alice,
        body: { agent: 'bob', channel },
      });
      expect([status, value]).toEqual([200, { ok: true }]);
    }
    expect((await relay.ask('GET', '/v1/channels', { token: bob })).value).toEqual(['#', '#Zoo', '#ä b/c']);
  });

  it('keeps all of 20 subscriptions that come at once [BC-C6]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    const names = Array.from({ length: 20 }, (_, n) => `#c${n}`);
    await Promise.all(names.map((channel) => relay.ask('POST', '/v1/subscribe', { token: alice, body: { channel } })));
    expect((await relay.home().directory.get(AgentName.parse('alice')))?.subscriptions.toSorted()).toEqual(
      names.toSorted(),
    );
  });

  it('sends under its own name, whatever it claims, and gets the message back [BC-14, BC-17, BC-B1.9, BC-B1.10, BC-B5.13, BC-B5.22]', async () => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'bob');
    const forged = { id: 'mine', from: 'bob', ts: '1999-01-01T00:00:00.000Z', more: { deep: true } };
    const body = { ...forged, to: 'bob', body: 'hello', scope: 'git@x:y', thread: 'any thread', refs: ['a b', '../c'] };
    const { status, value } = await relay.ask('POST', '/v1/send', { token: alice, body });
    const message = value as Record<string, string>;
    expect(status).toBe(200);
    expect(Object.keys(message)).toEqual(['id', 'from', 'to', 'body', 'priority', 'scope', 'thread', 'refs', 'ts']);
    expect(message).toMatchObject({
      from: 'alice',
      to: 'bob',
      priority: 'normal',
      scope: 'git@x:y',
      thread: 'any thread',
      refs: ['a b', '../c'],
    });
    expect(message['id']).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(Date.parse(message['ts'] ?? '')).toBeGreaterThan(Date.parse('2020-01-01'));
    expect((await relay.ask('GET', '/v1/inbox/bob', { token: bob })).value).toEqual([message]);
  });

  it.each<[what: string, body: unknown, status: number, text: string | null]>([
    [
      'an unknown agent [BC-15, BC-B5.13]',
      { to: '@nobody', body: 'x' },
      400,
      'unknown agent "nobody" — they must `bch init nobody` first',
    ],
    [
      'a channel without others [BC-B5.13, BC-11]',
      { to: '#alone', body: 'x' },
      400,
      'channel #alone has no other subscribers — nothing to deliver',
    ],
    [
      'a target that leaves the spool [BC-C5]',
      { to: '@../x', body: 'x' },
      400,
      'unknown agent "../x" — they must `bch init ../x` first',
    ],
    ['no target [BC-B5.18]', { body: 'x' }, 400, '"to" must be a string'],
    ['a target that is none [BC-B5.18]', { to: 5, body: 'x' }, 400, '"to" must be a string'],
    ['no body [BC-B1.11]', { to: '@bob' }, 400, '"body" must be a string'],
    ['a body that is none', { to: '@bob', body: null }, 400, '"body" must be a string'],
    ['an empty body [BC-B1.11]', { to: '@bob', body: '' }, 200, null],
    ['a priority of null [BC-B1.5]', { to: '@bob', body: 'x', priority: null }, 200, null],
    ['a priority that is none', { to: '@bob', body: 'x', priority: {} }, 400, '"priority" must be a string'],
    ['refs that are none [BC-B5.18]', { to: '@bob', body: 'x', refs: [1] }, 400, '"refs" must be an array of strings'],
    ['an array [BC-B5.18]', [], 400, 'send a JSON object'],
    ['nothing at all [BC-B5.18]', '', 400, 'JSON Parse error: Unexpected EOF'],
    ['null', 'null', 400, 'send a JSON object'],
  ])('sends %s', async (_what, body, status, text) => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'bob');
    await relay.ask('POST', '/v1/subscribe', { token: alice, body: { channel: '#alone' } });
    const answer = await relay.ask('POST', '/v1/send', { token: alice, body });
    expect(answer.status).toBe(status);
    if (text !== null) expect(answer.value).toEqual(error(text));
    const inbox = await relay.ask('GET', '/v1/inbox/bob', { token: bob });
    expect(inbox.value).toHaveLength(status === 200 ? 1 : 0);
    if (status === 200) expect(answer.value).toMatchObject({ priority: 'normal' });
  });

  it('leaves out an empty scope, thread and list of refs [BC-B1.7]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    const body = { to: '@alice', body: 'x', scope: '', thread: '', refs: [] };
    const { value } = await relay.ask('POST', '/v1/send', { token: alice, body });
    expect(Object.keys(value as object)).toEqual(['id', 'from', 'to', 'body', 'priority', 'ts']);
  });

  it('sends a priority word of its own: it is stored and passed on [BC-B1.6]', async () => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'bob');
    await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'x', priority: 'whenever' } });
    const inbox = await relay.ask('GET', '/v1/inbox/bob', { token: bob });
    expect(inbox.value).toMatchObject([{ priority: 'whenever' }]);
  });

  it('reaches every other subscriber of a channel with a copy of its own [BC-2, BC-B2.4]', async () => {
    const relay = new TestRelay();
    const [alice, bob, carol] = await relay.agents('alice', 'bob', 'carol');
    for (const token of [alice, bob, carol])
      await relay.ask('POST', '/v1/subscribe', { token, body: { channel: 'dev' } });
    const { value } = await relay.ask('POST', '/v1/send', { token: alice, body: { to: '#dev', body: 'all' } });
    expect((await relay.ask('GET', '/v1/inbox/alice', { token: alice })).value).toEqual([]);
    const { id } = value as Sent;
    for (const token of [bob, carol]) {
      expect((await relay.ask('POST', '/v1/take', { token, body: { id } })).value).toEqual({ message: value });
    }
  });

  it('reads its own inbox only, by a name that may be escaped, and takes nothing by it [BC-14, BC-B5.14, BC-6]', async () => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'b.o_b');
    const other = await relay.ask('GET', '/v1/inbox/alice', { token: bob });
    expect([other.status, other.value]).toEqual([403, error('token is for "b.o_b", not "alice"')]);
    await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@b.o_b', body: 'hi' } });
    for (const path of ['/v1/inbox/b.o_b', '/v1/inbox/b%2Eo%5fb', '/v1/inbox/b%2Eo%5fb']) {
      const { status, value } = await relay.ask('GET', path, { token: bob });
      expect(status).toBe(200);
      expect(value).toHaveLength(1);
    }
    expect((await relay.ask('GET', '/v1/inbox/%zz', { token: bob })).status).toBe(400);
  });

  it('lists what waits in the order in which it came', async () => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'bob');
    for (let n = 0; n < 30; n += 1)
      await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: String(n) } });
    const { value } = await relay.ask('GET', '/v1/inbox/bob', { token: bob });
    expect((value as { body: string }[]).map(({ body }) => Number(body))).toEqual(
      Array.from({ length: 30 }, (_, n) => n),
    );
  });

  it('takes a message once, however many try at once [BC-6, BC-14, BC-B5.15, BC-B5.22, BC-B3.4]', async () => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'bob');
    const { value } = await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'once' } });
    const { id } = value as Sent;
    const stolen = await relay.ask('POST', '/v1/take', { token: alice, body: { agent: 'bob', id } });
    expect(stolen.value).toEqual({ message: null });
    const takes = await Promise.all(
      Array.from({ length: 20 }, () => relay.ask('POST', '/v1/take', { token: bob, body: { agent: 'bob', id } })),
    );
    expect(takes.every(({ status }) => status === 200)).toBe(true);
    expect(takes.filter(({ value: got }) => (got as { message: unknown }).message !== null)).toHaveLength(1);
    expect(takes.find(({ value: got }) => (got as { message: unknown }).message !== null)?.value).toEqual({
      message: value,
    });
    expect((await relay.ask('GET', '/v1/inbox/bob', { token: bob })).value).toEqual([]);
  });

  it.each<[what: string, body: unknown]>([
    ['an unknown id [BC-B5.15]', { id: '00000000-0000-4000-8000-000000000000' }],
    ['no id [BC-B5.15]', {}],
    ['an id of null', { id: null }],
    ['an id that is a number', { id: 5 }],
    ['an id that is a list', { id: ['x'] }],
    ['an id that is a path [BC-C1]', { id: '../../agents/bob' }],
    ['an id that is a far path [BC-C1]', { id: '../../../../etc/passwd' }],
  ])('gets null for %s', async (_what, body) => {
    const relay = new TestRelay();
    const [bob] = await relay.agents('bob');
    const { status, value } = await relay.ask('POST', '/v1/take', { token: bob, body });
    expect([status, value]).toEqual([200, { message: null }]);
  });

  it('gets null for an id that can be no file of its mailbox, and nothing is looked for [BC-C1]', async () => {
    const relay = new TestRelay();
    const [bob] = await relay.agents('bob');
    const { mailboxes } = relay.home();
    mailboxes.claim = (_mailbox, ids) => Promise.reject(new Error(`looked for ${ids.join()}`));
    for (const id of ['../../agents/bob', '/etc/passwd', 'a/b', 'a\0b']) {
      const { value } = await relay.ask('POST', '/v1/take', { token: bob, body: { id } });
      expect(value).toEqual({ message: null });
    }
  });

  it.each<[what: string, path: string, body: object, text: string]>([
    ['a flag that is none', '/v1/take', { id: 'x', keep: 'yes' }, '"keep" must be true or false'],
    ['a number that is none', '/v1/lease', { max: '5' }, '"max" must be a whole number from 1 to 256'],
    ['a channel that is none', '/v1/subscribe', { channel: ['#dev'] }, '"channel" must be a string'],
  ])('is told what is wrong with %s [BC-B5.18]', async (_what, path, body, text) => {
    const relay = new TestRelay();
    const [bob] = await relay.agents('bob');
    const { status, value } = await relay.ask('POST', path, { token: bob, body });
    expect([status, value]).toEqual([400, error(text)]);
  });

  it.each([true, false])('keeps what it takes, if it says so: %p [BC-9, BC-B3.4]', async (keep) => {
    const relay = new TestRelay();
    const [alice, bob] = await relay.agents('alice', 'bob');
    const { value } = await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'keep me' } });
    const { id } = value as Sent;
    await relay.ask('POST', '/v1/take', { token: bob, body: { id, ...(keep && { keep }) } });
    const copy = await relay
      .home()
      .journal.copy(bobName, id as Parameters<ReturnType<typeof relay.home>['journal']['copy']>[1]);
    expect(copy).toMatchObject({ state: 'settled', keep, disposition: 'acknowledged' });
  });
});

describe('the relay', () => {
  it.each<['GET' | 'POST', string, object?]>([
    ['GET', '/v1/health'],
    ['POST', '/v1/rooms'],
    ['POST', '/v1/register', { name: 'alice' }],
    ['GET', '/v1/agents'],
    ['GET', '/v1/channels'],
    ['POST', '/v1/subscribe', { channel: 'dev' }],
    ['POST', '/v1/unsubscribe', { channel: 'dev' }],
    ['POST', '/v1/send', { to: '@alice', body: 'hello' }],
    ['GET', '/v1/inbox/alice'],
    ['POST', '/v1/take', { id: 'x' }],
  ])('has the route %s %s [BC-15]', async (method, path, body) => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    expect((await relay.ask(method, path, { token: alice, body })).status).toBe(200);
  });
});

describe('every answer', () => {
  it('is JSON, a refusal one error text in it, and nothing leads elsewhere [BC-15, BC-B5.22, BC-B5.24, BC-B5.25]', async () => {
    const relay = new TestRelay({ rate: { perMinute: 300 } });
    const [alice] = await relay.agents('alice');
    const paths = [
      '/',
      '/v1',
      '/v1/health',
      '/v1/agents',
      '/v1/inbox/bob',
      '/v1/inbox/%',
      '/v1/trace/x',
      '/metrics',
      '/v1/version',
    ];
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'] as const) {
      for (const path of paths) {
        for (const token of [undefined, alice]) {
          const { status, value, headers } = await relay.ask(method as 'GET', path, { token });
          expect(headers.get('content-type')).toStartWith('application/json');
          if (status === 200) continue;
          expect(status >= 400 && status < 500).toBe(true);
          expect(Object.keys(value as object)).toEqual(['error']);
          expect(typeof (value as { error: unknown }).error).toBe('string');
        }
      }
    }
  });

  it('hides our own faults: 500 without a stack, and the log has it [BC-B5.25]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    relay.home().directory.list = () => Promise.reject(new Error('the disk is gone'));
    const { status, value } = await relay.ask('GET', '/v1/agents', { token: alice });
    expect([status, value]).toEqual([500, error("internal error — see the relay's log")]);
    const failed = relay.logged.find(({ event }) => event === 'failed');
    expect(failed?.facts).toMatchObject({ route: '/v1/agents', error: 'the disk is gone' });
    expect(failed?.facts['stack']).toContain('routes.test.ts');
  });
});
