import type { Connections } from './relay-deps.ts';
import { describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { answered, request, TestRelay } from '../../../test/support/relay-app.ts';
import { AgentName } from '../../core/names.ts';
import { hashOf } from '../../wire/tokens.ts';

const error = (text: string): unknown => ({ error: text });

/** Connections of which every one comes from this address. */
function from(address: string): Connections {
  return { requestIP: () => ({ address }), timeout: () => {} };
}

describe('a request that is too much', () => {
  it('is refused by what it says of its length, before it is read', async () => {
    const relay = new TestRelay({ bodyLimit: 1000 });
    const [alice] = await relay.agents('alice');
    const headers = { 'content-length': '1000000' };
    const { status, value } = await relay.ask('POST', '/v1/send', {
      token: alice,
      headers,
      body: 'x'.repeat(1_000_000),
    });
    expect(status).toBe(413);
    expect((value as { error: string }).error).toStartWith('the request has more than 71536 bytes');
  });

  it('is refused while it is read, if it says nothing of its length', async () => {
    const relay = new TestRelay({ bodyLimit: 1000 });
    const [alice] = await relay.agents('alice');
    let given = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        given += 1;
        controller.enqueue(new Uint8Array(16 * 1024).fill(32));
      },
    });
    const asked = new Request('http://relay.test/v1/send', {
      method: 'POST',
      headers: { authorization: `Bearer ${alice}` },
      body: endless,
    });
    expect((await answered(await relay.app.fetch(asked))).status).toBe(413);
    expect(given).toBeLessThan(20);
  });

  it('may be six times as long as its body, because JSON can make six bytes of one', async () => {
    const relay = new TestRelay({ bodyLimit: 20_000 });
    const [alice, bob] = await relay.agents('alice', 'bob');
    const body = '\u0001'.repeat(20_000);
    expect((await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body } })).status).toBe(200);
    const inbox = await relay.ask('GET', '/v1/inbox/bob', { token: bob });
    expect((inbox.value as { body: string }[])[0]?.body).toBe(body);
    const more = { to: '@bob', body: 'x'.repeat(20_001) };
    expect((await relay.ask('POST', '/v1/send', { token: alice, body: more })).status).toBe(413);
  });

  it('is refused for anything but a message above 64 KiB', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    const name = 'x'.repeat(70_000);
    const big = { token: 'room secret', body: { name } };
    expect((await relay.ask('POST', '/v1/register', big)).status).toBe(413);
    expect((await relay.ask('POST', '/v1/subscribe', { token: alice, body: { channel: name } })).status).toBe(413);
    expect((await relay.ask('POST', '/v1/take', { token: alice, body: { id: name } })).status).toBe(413);
  });

  it('is read completely however deep its JSON is nested, and unknown fields are dropped', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice', 'bob');
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    const asking = (body: string) => relay.ask('POST', '/v1/send', { token: alice, body });
    expect((await asking(deep)).status).toBe(400);
    expect((await asking(`{"to":"@bob","body":${deep}}`)).status).toBe(400);
    expect((await asking('{"a":'.repeat(100_000))).status).toBe(400);
    expect((await asking(`{"to":"@bob","body":"x","__proto__":{"from":"eve"},"more":${deep}}`)).status).toBe(200);
    expect((await relay.ask('GET', '/v1/agents', { token: alice })).status).toBe(200);
  });
});

describe('a token', () => {
  it('in the address is refused and named as lost', async () => {
    const relay = new TestRelay();
    const [alice = ''] = await relay.agents('alice');
    for (const query of [`token=${alice}`, `access_token=x`, `x=${alice}`, `limit=1&Authorization=Bearer%20${alice}`]) {
      const { status, value } = await relay.ask('GET', `/v1/inbox/alice?${query}`, { token: alice });
      expect(status).toBe(400);
      expect((value as { error: string }).error).toStartWith('put the token into the Authorization header');
    }
    expect((await relay.ask('GET', '/v1/inbox/alice?limit=5', { token: alice })).status).toBe(200);
  });

  it('that is revoked stops working at once', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    expect((await relay.ask('GET', '/v1/agents', { token: alice })).status).toBe(200);
    await relay.home().directory.giveToken(AgentName.parse('alice'), null);
    expect((await relay.ask('GET', '/v1/agents', { token: alice })).status).toBe(401);
  });

  it('that is lost is replaced by removing the record and registering again [BC-17]', async () => {
    const relay = new TestRelay();
    const [lost] = await relay.agents('alice');
    await relay.home().directory.remove(AgentName.parse('alice'));
    const [found] = await relay.agents('alice');
    expect((await relay.ask('GET', '/v1/agents', { token: lost })).status).toBe(401);
    expect((await relay.ask('GET', '/v1/agents', { token: found })).status).toBe(200);
  });

  it('is looked up by its hash: nothing is listed for it, however many agents there are [BC-C14]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice', 'bob');
    const { directory } = relay.home();
    let listed = 0;
    const list = directory.list.bind(directory);
    directory.list = () => {
      listed += 1;
      return list();
    };
    await relay.ask('GET', '/v1/inbox/alice', { token: alice });
    await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'x' } });
    await relay.ask('GET', '/v1/inbox/alice', { token: 'nobody' });
    expect(listed).toBe(0);
  });

  it('of everybody else is good, however broken one record is [BC-C7]', async () => {
    const relay = new TestRelay();
    const [alice] = await relay.agents('alice');
    writeFileSync(`${relay.home().root}/agents/broken.json`, '{"name":');
    expect((await relay.ask('GET', '/v1/agents', { token: alice })).value).toHaveLength(1);
    const [bob] = await relay.agents('bob');
    expect((await relay.ask('POST', '/v1/send', { token: bob, body: { to: '@alice', body: 'x' } })).status).toBe(200);
    const again = await relay.ask('POST', '/v1/register', { token: 'room secret', body: { name: 'broken' } });
    expect(again.status).toBeGreaterThanOrEqual(400);
  });

  it('and a body stand in no log [BC-C17]', async () => {
    const relay = new TestRelay({ rate: { perMinute: 1000 } });
    const [alice = ''] = await relay.agents('alice', 'bob');
    const body = { to: '@bob', body: 'a very private word' };
    await relay.ask('POST', '/v1/send', { token: alice, body });
    await relay.ask('POST', '/v1/send', { token: alice, body: '{"body": a very private word' });
    await relay.ask('GET', `/v1/inbox/${alice}?token=${alice}`, { token: alice });
    await relay.ask('GET', '/v1/agents', { token: 'another-secret' });
    const written = JSON.stringify(relay.logged);
    for (const secret of [alice, 'private', 'room secret', 'another-secret']) expect(written).not.toContain(secret);
    expect(relay.logged.map(({ event }) => event)).toContain('answered');
    expect(relay.logged.filter(({ event }) => event === 'refused')).toHaveLength(3);
    const ids = relay.logged.filter(({ event }) => event !== 'registered').map(({ facts }) => facts['id']);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('comes with an id that the answer and the log share', async () => {
    const relay = new TestRelay();
    const { headers } = await relay.ask('GET', '/v1/nothing');
    const id = headers.get('x-request-id') ?? '';
    expect(id).not.toBe('');
    expect(relay.logged.find(({ facts }) => facts['id'] === id)?.facts).toMatchObject({ status: 401, route: 'none' });
  });
});

describe('a relay that serves its own machine only', () => {
  const loopback = { port: () => 7117 };
  it.each<[what: string, headers: Record<string, string>, status: number]>([
    ['by number', { host: '127.0.0.1:7117' }, 200],
    ['by name', { host: 'localhost:7117' }, 200],
    ['by number of the new kind', { host: '[::1]:7117' }, 200],
    ['by a name of the caller’s own', { host: 'evil.example:7117' }, 403],
    ['by a name that begins like ours', { host: 'localhost.evil.example:7117' }, 403],
    ['by another port', { host: '127.0.0.1:80' }, 403],
    ['by two names', { host: 'localhost:7117, evil.example' }, 403],
    ['from a page of its own', { host: 'localhost:7117', origin: 'http://localhost:7117' }, 200],
    ['from a page elsewhere', { host: 'localhost:7117', origin: 'https://evil.example' }, 403],
    ['from a page without an origin', { host: 'localhost:7117', origin: 'null' }, 403],
  ])('is called %s', async (_what, headers, status) => {
    const relay = new TestRelay({ loopback });
    expect((await relay.ask('GET', '/v1/health', { headers })).status).toBe(status);
  });

  it('answers to every name where it serves others', async () => {
    const relay = new TestRelay();
    expect((await relay.ask('GET', '/v1/health', { headers: { host: 'relay.example.org' } })).status).toBe(200);
  });
});

describe('a rate', () => {
  it('is kept per token: too many requests are 429 with a time to wait, and others are not held up [BC-C17]', async () => {
    const relay = new TestRelay({ rate: { perMinute: 5 } });
    const [alice, bob] = await relay.agents('alice', 'bob');
    const statuses: number[] = [];
    for (let n = 0; n < 7; n += 1) statuses.push((await relay.ask('GET', '/v1/channels', { token: alice })).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429]);
    const last = await relay.ask('GET', '/v1/channels', { token: alice });
    expect(last.value).toEqual(error('too many requests — try again in 12 s'));
    expect(last.headers.get('retry-after')).toBe('12');
    expect((await relay.ask('GET', '/v1/channels', { token: bob })).status).toBe(200);
    relay.aheadMs = 12_100;
    expect((await relay.ask('GET', '/v1/channels', { token: alice })).status).toBe(200);
  });

  it('is kept per address for those who fail to say who they are, and never for those who do', async () => {
    const relay = new TestRelay({ rate: { perMinute: 200 } });
    const [alice] = await relay.agents('alice');
    const ask = async (token: string | undefined, address: string): Promise<number> =>
      (await relay.app.fetch(request('http://x/v1/agents', 'GET', { token }), from(address))).status;
    expect([await ask('a', '10.0.0.1'), await ask('b', '10.0.0.1'), await ask('c', '10.0.0.1')]).toEqual([
      401, 401, 429,
    ]);
    expect(await ask('d', '10.0.0.2')).toBe(401);
    expect(await ask(alice, '10.0.0.1')).toBe(200);
  });

  it('tells callers behind a proxy apart by what the proxy has added last', async () => {
    const relay = new TestRelay({ rate: { perMinute: 100 }, proxied: true });
    const ask = async (forwarded: string): Promise<number> =>
      (
        await relay.app.fetch(
          request('http://x/v1/agents', 'GET', { headers: { 'x-forwarded-for': forwarded } }),
          from('127.0.0.1'),
        )
      ).status;
    expect([await ask('made-up-1, 9.9.9.9'), await ask('made-up-2, 9.9.9.9'), await ask('8.8.8.8')]).toEqual([
      401, 429, 401,
    ]);
  });

  it.each<[caller: string, mayBeTheProxy: boolean]>([
    ['127.0.0.1', true],
    ['127.8.9.10', true],
    ['::1', true],
    ['::ffff:127.0.0.1', true],
    ['172.17.0.1', true],
    ['::ffff:172.31.0.1', true],
    ['10.1.2.3', true],
    ['192.168.65.1', true],
    ['fd00:dead::1', true],
    ['9.9.9.9', false],
    ['::ffff:9.9.9.9', false],
    ['172.32.0.1', false],
    ['100.1.2.3', false],
    ['192.16.8.1', false],
    ['2001:db8::127', false],
    ['1270::1', false],
  ])(
    'lets nobody from afar choose its own address: whom %s asks for is believed: %p',
    async (caller, mayBeTheProxy) => {
      const relay = new TestRelay({ rate: { perMinute: 100 }, proxied: true });
      const ask = async (forwarded: string): Promise<number> =>
        (
          await relay.app.fetch(
            request('http://x/v1/agents', 'GET', { headers: { 'x-forwarded-for': forwarded } }),
            from(caller),
          )
        ).status;
      expect([await ask('8.8.4.4'), await ask('8.8.8.8')]).toEqual([401, mayBeTheProxy ? 401 : 429]);
    },
  );
});

describe('a full mailbox', () => {
  it('refuses more with 429 until something is taken [BC-C17]', async () => {
    const relay = new TestRelay({ quota: { waiting: 3 } });
    const [alice, bob] = await relay.agents('alice', 'bob');
    const send = () => relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'x' } });
    const sent = [await send(), await send(), await send()];
    expect(sent.map(({ status }) => status)).toEqual([200, 200, 200]);
    const full = await send();
    expect([full.status, full.value]).toEqual([429, error('mailbox of "bob" is full (3 waiting) — try later')]);
    const { id } = (sent[0]?.value ?? {}) as { id: string };
    await relay.ask('POST', '/v1/take', { token: bob, body: { id } });
    relay.aheadMs = 1000;
    expect((await send()).status).toBe(200);
    expect((await send()).status).toBe(429);
  });

  it('has room again as soon as mail was taken, so a busy one is not full', async () => {
    const relay = new TestRelay({ quota: { waiting: 3 } });
    const [alice, bob] = await relay.agents('alice', 'bob');
    for (let n = 0; n < 20; n += 1) {
      const sent = await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'x' } });
      expect(sent.status).toBe(200);
      await relay.ask('POST', '/v1/take', { token: bob, body: { id: (sent.value as { id: string }).id } });
    }
  });

  it('is left out of a channel, and named to the sender', async () => {
    const relay = new TestRelay({ quota: { waiting: 1 } });
    const [alice, bob, carol] = await relay.agents('alice', 'bob', 'carol');
    for (const token of [bob, carol]) await relay.ask('POST', '/v1/subscribe', { token, body: { channel: '#dev' } });
    await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'fills it' } });
    const { status, headers } = await relay.ask('POST', '/v1/send', {
      token: alice,
      body: { to: '#dev', body: 'all' },
    });
    expect([status, headers.get('x-parley-full')]).toEqual([200, 'bob']);
    expect((await relay.ask('GET', '/v1/inbox/carol', { token: carol })).value).toHaveLength(1);
    const none = await relay.ask('POST', '/v1/send', { token: alice, body: { to: '#dev', body: 'again' } });
    expect(none.status).toBe(429);
  });
});

describe('figures', () => {
  it('are for this machine and for the admin, in the form of Prometheus [BC-C17]', async () => {
    const relay = new TestRelay({ adminTokenHash: hashOf('the admin') });
    const [alice] = await relay.agents('alice', 'bob');
    await relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body: 'x' } });
    const ask = (address: string, token?: string, headers = {}): Response | Promise<Response> =>
      relay.app.fetch(request('http://x/metrics', 'GET', { token, headers }), from(address));
    expect((await ask('10.0.0.1')).status).toBe(403);
    expect((await ask('10.0.0.1', alice)).status).toBe(403);
    expect((await ask('127.0.0.1', undefined, { 'x-forwarded-for': '10.0.0.1' })).status).toBe(403);
    expect((await ask('10.0.0.1', 'the admin')).status).toBe(200);
    const text = await (await ask('127.0.0.1')).text();
    expect(text).toContain('parley_relay_messages_accepted_total 1\n');
    expect(text).toContain('parley_relay_answers_total{route="/v1/send",status="200"} 1\n');
    expect(text).toContain('parley_relay_listeners 0\n');
  });

  it('and the version can be asked for: our own clients see what this relay can do', async () => {
    const { value } = await new TestRelay().ask('GET', '/v1/version');
    expect(value).toEqual({ service: 'parley-relay', version: '0.0.0-test', protocol: 1, keys: true, leases: true });
  });
});
