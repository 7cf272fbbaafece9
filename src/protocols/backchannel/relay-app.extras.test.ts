import { describe, expect, it } from 'bun:test';
import { TestRelay, request, answered } from '../../../test/support/relay-app.ts';
import type { Answer } from '../../../test/support/relay-app.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import { Relay } from './relay-state.ts';
import { appOf } from './relay-app.ts';
import { Upkeep } from './relay-server.ts';

interface Leased {
  lease: string;
  until: string;
  messages: { message: { id: string; body: string; scope?: string }; attempt: number }[];
}

const bobName = AgentName.parse('bob');

async function aRoom(settings = {}) {
  const relay = new TestRelay(settings);
  const [alice, bob] = await relay.agents('alice', 'bob');
  const send = async (fields: Record<string, unknown> = {}, headers = {}): Promise<Answer> =>
    relay.ask('POST', '/v1/send', { token: alice, headers, body: { to: '@bob', body: 'hello', ...fields } });
  const lease = async (body: unknown = {}): Promise<Leased> =>
    (await relay.ask('POST', '/v1/lease', { token: bob, body })).value as Leased;
  const settle = (body: unknown): Promise<Answer> => relay.ask('POST', '/v1/settle', { token: bob, body });
  const inbox = async (): Promise<string[]> =>
    ((await relay.ask('GET', '/v1/inbox/bob', { token: bob })).value as { body: string }[]).map((one) => one.body);
  return { relay, alice, bob, send, lease, settle, inbox };
}

describe('a send with a key', () => {
  it('is one message, however often it is repeated, also after it was taken [BC-10]', async () => {
    const { relay, bob, send, inbox } = await aRoom();
    const first = await send({}, { 'idempotency-key': 'k1' });
    const again = await send({}, { 'idempotency-key': 'k1' });
    expect(again).toMatchObject({ status: 200, value: first.value });
    await relay.ask('POST', '/v1/take', { token: bob, body: { id: (first.value as { id: string }).id } });
    const late = await Promise.all(Array.from({ length: 10 }, () => send({}, { 'idempotency-key': 'k1' })));
    expect(late.every(({ value }) => (value as { id: string }).id === (first.value as { id: string }).id)).toBe(true);
    expect(await inbox()).toEqual([]);
  });

  it('is refused with 409 for another text, and with 400 for a key that is none', async () => {
    const { send, inbox } = await aRoom();
    await send({}, { 'idempotency-key': 'k1' });
    const other = await send({ body: 'something else' }, { 'idempotency-key': 'k1' });
    expect(other.status).toBe(409);
    expect((other.value as { error: string }).error).toStartWith('key "k1" already names another message');
    expect((await send({}, { 'idempotency-key': 'x'.repeat(201) })).status).toBe(400);
    expect(await inbox()).toEqual(['hello']);
  });

  it.each([
    ['refs', ['a.ts']],
    ['priority', 'urgent'],
    ['intent', 'question'],
    ['deadline', '2100-01-01T00:00:00.000Z'],
    ['thread', 'some-thread'],
    ['scope', 'org/repo'],
  ])('is refused with 409 if its %s is added, changed or left out', async (field, value) => {
    const { send } = await aRoom();
    const keyed = { 'idempotency-key': 'k1' };
    const first = await send({ [field]: value }, keyed);
    expect(await send({ [field]: value }, keyed)).toMatchObject({ status: 200, value: first.value });
    expect((await send({}, keyed)).status).toBe(409);
    const plain = { 'idempotency-key': 'k2' };
    await send({}, plain);
    expect((await send({ [field]: value }, plain)).status).toBe(409);
  });

  it('carries the fields that our clients add, and drops bad values', async () => {
    const { send } = await aRoom();
    expect((await send({ intent: 'question' })).value).toMatchObject({ parley: { v: 1, intent: 'question' } });
    expect((await send({ intent: 'nonsense' })).value).not.toHaveProperty('parley');
  });
});

describe('pages of an inbox', () => {
  it('have as many messages as asked for, and say where the next begins [BC-C17]', async () => {
    const { relay, bob, send } = await aRoom();
    for (let n = 0; n < 25; n += 1) await send({ body: String(n) });
    const seen: number[] = [];
    let after: string | null = '0';
    while (after !== null) {
      const { value, headers } = await relay.ask('GET', `/v1/inbox/bob?limit=10&after=${after}`, { token: bob });
      expect((value as unknown[]).length).toBeLessThanOrEqual(10);
      seen.push(...(value as { body: string }[]).map(({ body }) => Number(body)));
      after = headers.get('x-parley-next');
    }
    expect(seen).toEqual(Array.from({ length: 25 }, (_, n) => n));
  });

  it.each(['limit=0', 'limit=x', 'limit=1001', 'after=-1', 'limit='])('refuses %s', async (query) => {
    const { relay, bob } = await aRoom();
    expect((await relay.ask('GET', `/v1/inbox/bob?${query}`, { token: bob })).status).toBe(400);
  });

  it('are read one after the other where an inbox is long: it never stands in memory as a whole', async () => {
    const { relay, bob, send } = await aRoom();
    const body = 'x'.repeat(100_000);
    for (let n = 0; n < 40; n += 1) await send({ body });
    const { journal } = relay.home();
    const asked: number[] = [];
    const waiting = journal.waitingCopies.bind(journal);
    journal.waitingCopies = async (mailbox, after, limit) => {
      const page = await waiting(mailbox, after, limit);
      asked.push(page.reduce((sum, { text }) => sum + text.length, 0));
      return page;
    };
    const { value } = await relay.ask('GET', '/v1/inbox/bob', { token: bob });
    expect(value).toHaveLength(40);
    expect(Math.max(...asked)).toBeLessThan(1024 * 1024);
  });
});

describe('a lease', () => {
  it('holds messages for one reader until they are settled, and answers a repeat the same', async () => {
    const { relay, alice, send, lease, settle, inbox } = await aRoom();
    const { id } = (await send()).value as { id: string };
    const held = await lease();
    expect(held.messages).toMatchObject([{ message: { id, body: 'hello' }, attempt: 0 }]);
    expect(Date.parse(held.until)).toBeGreaterThan(Date.now() + 20_000);
    expect(await inbox()).toEqual([]);
    expect((await lease()).messages).toEqual([]);
    const ending = { lease: held.lease, ids: [id], outcome: 'done', by: { fetched: 'to a test' } };
    for (let n = 0; n < 2; n += 1)
      expect(await settle(ending)).toMatchObject({ status: 200, value: { settled: [id] } });
    expect((await settle({ ...ending, lease: 'bearer.another' })).status).toBe(409);
    const trace = await relay.ask('GET', `/v1/trace/${id}`, { token: alice });
    expect(trace.value).toMatchObject({
      copies: [{ mailbox: 'bob', state: 'settled', disposition: 'acknowledged', settledBy: { fetched: 'to a test' } }],
    });
  });

  it('gives back what is released, marked as begun before if its time was over, and 409 to anyone who comes late', async () => {
    const { relay, send, lease, settle, inbox } = await aRoom();
    const { id } = (await send()).value as { id: string };
    const first = await lease({ ms: 1000 });
    const back = { lease: first.lease, ids: [id], outcome: 'release', by: { because: 'no time' } };
    for (let n = 0; n < 2; n += 1) expect((await settle(back)).status).toBe(200);
    expect(await inbox()).toEqual(['hello']);
    const second = await lease({ ids: [id], ms: 1000 });
    expect(second.messages).toHaveLength(1);
    relay.aheadMs = 1001;
    await relay.home().mailboxes.heal();
    expect((await settle({ ...back, lease: second.lease, outcome: 'done' })).status).toBe(409);
    expect((await lease()).messages).toMatchObject([{ attempt: 1 }]);
  });

  it('leaves a message alone for a while, if it is released so', async () => {
    const { relay, send, lease, settle, inbox } = await aRoom();
    const { id } = (await send()).value as { id: string };
    const held = await lease();
    await settle({ lease: held.lease, ids: [id], outcome: 'release', delayMs: 5000 });
    await relay.home().mailboxes.heal();
    expect(await inbox()).toEqual([]);
    relay.aheadMs = 5001;
    await relay.home().mailboxes.heal();
    expect(await inbox()).toEqual(['hello']);
  });

  it('takes the oldest that fit its context, as many as asked for', async () => {
    const { send, lease } = await aRoom();
    for (const scope of ['github.com/a/b', undefined, 'github.com/c/d', undefined]) {
      await send({ body: scope ?? 'for all', scope });
    }
    const some = await lease({ match: 'git@github.com:a/b.git', max: 2 });
    expect(some.messages.map(({ message }) => message.body)).toEqual(['github.com/a/b', 'for all']);
    expect((await lease()).messages.map(({ message }) => message.body)).toEqual(['for all']);
    expect((await lease({ match: 'https://github.com/c/d' })).messages).toHaveLength(1);
  });

  it.each<[what: string, path: string, body: unknown]>([
    ['ids that are none', '/v1/lease', { ids: 'x' }],
    ['too many ids', '/v1/lease', { ids: Array.from({ length: 257 }, String) }],
    ['a time that is none', '/v1/lease', { ms: -1 }],
    ['no lease', '/v1/settle', { ids: [], outcome: 'done' }],
    ['no outcome', '/v1/settle', { lease: 'bearer.x', ids: ['a'] }],
    ['an end that is none', '/v1/settle', { lease: 'bearer.x', ids: ['a'], outcome: 'done', disposition: 'claimed' }],
    [
      'evidence as long as a body',
      '/v1/settle',
      { lease: 'bearer.x', ids: ['a'], outcome: 'done', by: { a: 'x'.repeat(3000) } },
    ],
  ])('refuses %s', async (_what, path, body) => {
    const { relay, bob } = await aRoom();
    expect((await relay.ask('POST', path, { token: bob, body })).status).toBe(400);
  });

  it('of one agent cannot be ended by another', async () => {
    const { relay, alice, send, lease } = await aRoom();
    const { id } = (await send()).value as { id: string };
    const held = await lease();
    const stolen = { lease: held.lease, ids: [id], outcome: 'done' };
    expect((await relay.ask('POST', '/v1/settle', { token: alice, body: stolen })).status).toBe(409);
    expect(await relay.home().journal.copy(bobName, MessageId.parse(id))).toMatchObject({ state: 'held' });
  });
});

describe('a trace', () => {
  it('shows a sender every copy, a recipient its own, and others nothing', async () => {
    const { relay, alice, bob } = await aRoom();
    const [carol, dave] = await relay.agents('carol', 'dave');
    for (const token of [bob, carol]) await relay.ask('POST', '/v1/subscribe', { token, body: { channel: '#dev' } });
    const sent = await relay.ask('POST', '/v1/send', { token: alice, body: { to: '#dev', body: 'x' } });
    const { id } = sent.value as { id: string };
    await relay.ask('POST', '/v1/take', { token: bob, body: { id } });
    const seen = async (token: string | undefined): Promise<unknown> => {
      const { value } = await relay.ask('GET', `/v1/trace/${id}`, { token });
      return (value as { copies?: { mailbox: string; state: string }[] }).copies?.map((one) => [
        one.mailbox,
        one.state,
      ]);
    };
    expect(await seen(alice)).toEqual([
      ['bob', 'settled'],
      ['carol', 'stored'],
    ]);
    expect(await seen(carol)).toEqual([['carol', 'stored']]);
    expect((await relay.ask('GET', `/v1/trace/${id}`, { token: dave })).status).toBe(404);
    expect((await relay.ask('GET', '/v1/trace/..%2Fx', { token: alice })).status).toBe(404);
    expect(JSON.stringify(await relay.ask('GET', `/v1/trace/${id}`, { token: alice }))).not.toContain('owner');
  });
});

describe('mail that waits too long', () => {
  const keepWaitingMs = 30 * 24 * 3600 * 1000;

  it('expires as failed, and its sender is told once [BC-C17]', async () => {
    const { relay, alice, bob, send } = await aRoom({ keepWaitingMs });
    const shared = new Relay(relay.deps);
    const app = appOf(shared);
    const upkeep = new Upkeep(shared);
    const sent = await send();
    const { id, ts } = sent.value as { id: string; ts: string };
    expect(sent.headers.get('x-parley-expires')).toBe(new Date(Date.parse(ts) + keepWaitingMs).toISOString());
    await send({ body: 'a second' });
    await answered(await app.fetch(request('http://x/v1/agents', 'GET', { token: bob })));
    relay.aheadMs = keepWaitingMs - 60_000;
    await upkeep.round();
    expect(((await relay.ask('GET', '/v1/inbox/bob', { token: bob })).value as unknown[]).length).toBe(2);
    await send({ body: 'young' });
    relay.aheadMs = keepWaitingMs + 3_600_000;
    await upkeep.round();
    const left = (await relay.ask('GET', '/v1/inbox/bob', { token: bob })).value as { body: string }[];
    expect(left.map(({ body }) => body)).toEqual(['young']);
    const copy = await relay.home().journal.copy(bobName, MessageId.parse(id));
    expect(copy).toMatchObject({ state: 'settled', disposition: 'failed', settledBy: { expired: true } });
    const notices = (await relay.ask('GET', '/v1/inbox/alice', { token: alice })).value as {
      from: string;
      body: string;
    }[];
    expect(notices).toHaveLength(1);
    expect(notices[0]).toMatchObject({ from: 'parley-relay' });
    expect(notices[0]?.body).toContain(`2 messages of yours to @bob expired unread`);
    expect(notices[0]?.body).toContain(id.slice(0, 8));
    expect(shared.figures.expired).toBe(2);
  });

  it('never expires for agents without a token: it is local mail', async () => {
    const { relay, bob, alice } = await aRoom({ keepWaitingMs });
    const shared = new Relay(relay.deps);
    const upkeep = new Upkeep(shared);
    await relay.home().directory.register(AgentName.parse('local'), 'foreign');
    await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@local', body: 'x' } });
    await appOf(shared).fetch(request('http://x/v1/agents', 'GET', { token: bob }));
    relay.aheadMs = keepWaitingMs * 2;
    await upkeep.round();
    expect(await relay.home().journal.waitingCount(AgentName.parse('local'))).toBe(1);
  });
});
