import type { MailboxJournal } from '../../core/ports/journal.ts';
import { describe, expect, it } from 'bun:test';
import { aMessage, LOUD } from '../../../test/support/mail.ts';
import { answered, request, TestRelay } from '../../../test/support/relay-app.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { appOf } from './relay-app.ts';
import { Relay } from './relay-state.ts';
import { Upkeep } from './relay-server.ts';

const BOB = AgentName.parse('bob');

async function aRoom(settings: ConstructorParameters<typeof TestRelay>[0] = {}) {
  const relay = new TestRelay(settings);
  const [alice = '', bob = ''] = await relay.agents('alice', 'bob');
  const send = async (fields: Record<string, unknown> = {}): Promise<string> => {
    const body = { to: '@bob', body: 'hello', ...fields };
    return ((await relay.ask('POST', '/v1/send', { token: alice, body })).value as { id: string }).id;
  };
  return { relay, alice, bob, send };
}

describe('one agent', () => {
  it('can have a hundred streams open, and one more when one has ended', async () => {
    const { relay, bob } = await aRoom();
    const listen = (): Response | Promise<Response> =>
      relay.app.fetch(request('http://x/v1/events/bob', 'GET', { token: bob }));
    const streams: Response[] = [];
    for (let n = 0; n < 100; n += 1) streams.push(await listen());
    const refused = await listen();
    expect([refused.status, await refused.json()]).toEqual([
      429,
      { error: 'too many streams are open with this token — close one' },
    ]);
    expect(refused.headers.get('retry-after')).not.toBeNull();
    await streams.pop()?.body?.cancel();
    streams.push(await listen());
    expect(streams.map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 200));
    for (const stream of streams) await stream.body?.cancel();
  });

  it('has no more than a hundred streams, also if it asks for all of them at once', async () => {
    const { relay, bob } = await aRoom();
    const shared = new Relay(relay.deps);
    const app = appOf(shared);
    const unbound: Request[] = [];
    const connections = {
      requestIP: () => null,
      timeout: (one: Request, seconds: number) => void (seconds === 0 && unbound.push(one)),
    };
    const asked = Array.from({ length: 400 }, () => request('http://x/v1/events/bob', 'GET', { token: bob }));
    const answers = await Promise.all(asked.map((one) => app.fetch(one, connections)));
    const streams = answers.filter(({ status }) => status === 200);
    expect([streams.length, answers.length - streams.length]).toEqual([100, 300]);
    expect([shared.listeners.size, unbound.length, shared.registry.rooms[0]?.holds]).toEqual([100, 100, 100]);
    for (const stream of streams) await stream.body?.cancel();
    expect([shared.listeners.size, shared.registry.rooms[0]?.holds]).toEqual([0, 0]);
  });

  it('gets no more by one lease than an answer can carry, and the rest by the next', async () => {
    const { relay, bob, send } = await aRoom({ bodyLimit: 2_000_000 });
    const ids: string[] = [];
    for (let n = 0; n < 15; n += 1) ids.push(await send({ body: 'b'.repeat(1_500_000) }));
    const leased = async (): Promise<number> => {
      const { value } = await relay.ask('POST', '/v1/lease', { token: bob, body: { ids } });
      return (value as { messages: unknown[] }).messages.length;
    };
    const first = await leased();
    expect(first * 1_500_000).toBeLessThan(16 * 1024 * 1024);
    expect(first).toBeGreaterThan(8);
    // What the first holds is not offered again, and takes no room from the others.
    expect(await leased()).toBe(15 - first);
    relay.aheadMs = 60_000;
    // Abandoned by both, but not looked for yet.
    expect(await leased()).toBe(first);
  });

  it('cannot fill the relay’s memory by leasing and releasing again and again', async () => {
    const { relay, bob, send } = await aRoom();
    const shared = new Relay(relay.deps);
    const app = appOf(shared);
    const ids = [await send()];
    const ask = async (path: string, body: unknown) =>
      answered(await app.fetch(request(`http://x${path}`, 'POST', { token: bob, body })));
    for (let n = 0; n < 100; n += 1) {
      relay.aheadMs = n;
      const { lease } = (await ask('/v1/lease', { ids, ms: 3_600_000 })).value as { lease: string };
      expect((await ask('/v1/settle', { lease, ids, outcome: 'release', delayMs: 86_400_000 })).status).toBe(200);
    }
    // Each round notes two moments; of a tenth of a second they fall together, or into two half seconds.
    expect(shared.registry.rooms[0]?.leaseEnds.size).toBeLessThan(5);
  });

  it.each(['parley-relay', 'Parley-Relay', 'PARLEY-RELAY'])('cannot pass for the relay as %s', async (name) => {
    const { relay } = await aRoom();
    const { status } = await relay.ask('POST', '/v1/register', { token: 'room secret', body: { name } });
    expect(status).toBe(409);
  });
});

describe('a mailbox', () => {
  it('takes no more than its quota from senders that come all at once, and as many again when it is emptied [BC-C17]', async () => {
    const { relay, alice, bob, send } = await aRoom({ quota: { waiting: 10 } });
    const { journal } = relay.home();
    const count = journal.waitingCount.bind(journal);
    // Counting takes a while, and meanwhile others ask.
    journal.waitingCount = async (mailbox) => {
      const waiting = await count(mailbox);
      await new Promise((resolve) => setImmediate(resolve));
      return waiting;
    };
    const storm = async (): Promise<number> => {
      const body = { to: '@bob', body: 'hello' };
      const all = Array.from({ length: 60 }, () => relay.ask('POST', '/v1/send', { token: alice, body }));
      return (await Promise.all(all)).filter(({ status }) => status === 200).length;
    };
    expect(await storm()).toBe(10);
    expect(await count(BOB)).toBe(10);
    const waiting = (await relay.ask('GET', '/v1/inbox/bob', { token: bob })).value as { id: string }[];
    for (const { id } of waiting) await relay.ask('POST', '/v1/take', { token: bob, body: { id } });
    relay.aheadMs = 1000;
    expect(await storm()).toBe(10);
    expect(await send()).toBeUndefined();
  });

  it('counts messages that its reader has leased: they use our disk too', async () => {
    const { relay, bob, send } = await aRoom({ quota: { waiting: 3 } });
    const ids = [await send(), await send(), await send()];
    const { value } = await relay.ask('POST', '/v1/lease', { token: bob, body: { ms: 3_600_000 } });
    relay.aheadMs = 600_000;
    expect(await send()).toBeUndefined();
    const { lease } = value as { lease: string };
    await relay.ask('POST', '/v1/settle', { token: bob, body: { lease, ids, outcome: 'done' } });
    relay.aheadMs = 1_200_000;
    expect(await send()).toBeString();
  });
});

describe('a message', () => {
  it('has at most 64 KiB beside its body', async () => {
    const { relay, alice, send } = await aRoom();
    expect(await send({ refs: ['r'.repeat(60_000)], body: 'b'.repeat(200_000) })).toBeString();
    for (const fields of [
      { refs: ['r'.repeat(70_000)] },
      { thread: 't'.repeat(70_000) },
      { scope: 's'.repeat(70_000) },
    ]) {
      const body = { to: '@bob', body: 'x', ...fields };
      const { status, value } = await relay.ask('POST', '/v1/send', { token: alice, body });
      expect(status).toBe(413);
      expect((value as { error: string }).error).toMatch(
        /^the message has 7\d{4} bytes beside its body, the limit is 65536 — /,
      );
    }
  });

  it('is counted as taken once, however often its end is repeated', async () => {
    const { relay, bob, send } = await aRoom();
    const shared = new Relay(relay.deps);
    const app = appOf(shared);
    const ask = async (path: string, body: unknown) =>
      answered(await app.fetch(request(`http://x${path}`, 'POST', { token: bob, body })));
    const ids = [await send(), await send()];
    const { lease } = (await ask('/v1/lease', { ids })).value as { lease: string };
    const [first] = ids;
    expect((await ask('/v1/settle', { lease, ids: [first], outcome: 'done' })).status).toBe(200);
    expect(shared.figures.taken).toBe(1);
    for (let n = 0; n < 2; n += 1) expect((await ask('/v1/settle', { lease, ids, outcome: 'done' })).status).toBe(200);
    expect(shared.figures.taken).toBe(2);
  });
});

describe('trouble of the host', () => {
  it('is in its log; a caller learns the outcome of its message, but no path', async () => {
    const { relay, alice } = await aRoom();
    relay.home().mailboxes.put = async () => {
      throw new Refusal('storage_failed', 'no space left for /home/secret/place; nothing was stored: free some space');
    };
    const answer = await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'x' } });
    expect([answer.status, answer.value]).toEqual([
      507,
      { error: 'the relay is in trouble with its disk; nothing was stored — try later' },
    ]);
    const [logged] = relay.logged.filter(({ event }) => event === 'trouble');
    expect(logged?.facts).toMatchObject({ route: '/v1/send', error: expect.stringContaining('/home/secret/place') });
  });
});

describe('a guard of the address', () => {
  it.each([
    ['http://localhost', 7117, 403],
    ['https://127.0.0.1', 7117, 403],
    ['http://localhost:7117', 7117, 200],
    ['http://localhost', 80, 200],
    ['ftp://localhost:7117', 7117, 403],
  ])('meets a page of %s at port %d with %d', async (origin, port, status) => {
    const { relay } = await aRoom({ loopback: { port: () => port } });
    const headers = { origin, host: `localhost:${port}` };
    expect((await relay.ask('GET', '/v1/health', { headers })).status).toBe(status);
  });

  it.each(['%s', 'Bearer%20%s', 'x%%20%s.'])('finds a token in a parameter: %s', async (form) => {
    const { relay, bob } = await aRoom();
    const value = form.replace('%s', bob);
    expect((await relay.ask('GET', `/v1/inbox/bob?x=${value}`, { token: bob })).status).toBe(400);
  });
});

describe('mail that another program has dated', () => {
  it('in the future does not stop later mail from expiring', async () => {
    const keepWaitingMs = 1000;
    const { relay, bob, send } = await aRoom({ keepWaitingMs });
    const shared = new Relay(relay.deps);
    await appOf(shared).fetch(request('http://x/v1/agents', 'GET', { token: bob }));
    const { journal } = relay.home();
    const future = aMessage({ ts: '2999-01-01T00:00:00.000Z' });
    await (journal as MailboxJournal).adopt(
      [{ message: future, copies: [{ mailbox: BOB, attention: LOUD }] }],
      'stored',
    );
    const id = MessageId.parse(await send());
    relay.aheadMs = 3_600_000;
    await new Upkeep(shared).round();
    expect((await journal.copy(BOB, id))?.disposition).toBe('failed');
  });
});

describe('mail that is taken while it expires', () => {
  it('belongs to its reader: no sender is told that it was never read', async () => {
    const keepWaitingMs = 1000;
    const { relay, alice, bob, send } = await aRoom({ keepWaitingMs });
    const shared = new Relay(relay.deps);
    await appOf(shared).fetch(request('http://x/v1/agents', 'GET', { token: bob }));
    const id = await send();
    const upkeep = new Upkeep(shared);
    relay.aheadMs = 3_600_000;
    const { journal } = relay.home();
    const trace = journal.trace.bind(journal);
    // Bob takes it between the look and the end.
    journal.trace = async (one) => {
      const found = await trace(one);
      await relay.ask('POST', '/v1/take', { token: bob, body: { id } });
      return found;
    };
    await upkeep.round();
    expect((await journal.copy(BOB, MessageId.parse(id)))?.disposition).toBe('acknowledged');
    expect((await relay.ask('GET', '/v1/inbox/alice', { token: alice })).value).toEqual([]);
  });
});
