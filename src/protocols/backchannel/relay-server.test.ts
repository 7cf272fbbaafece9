import type { RelaySettings } from './relay-deps.ts';
import { afterEach, describe, expect, it } from 'bun:test';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { TestRelay } from '../../../test/support/relay-app.ts';
import { within } from '../../../test/support/within.ts';
import { serveRelay } from './relay-server.ts';
import type { RelayServer } from './relay-server.ts';

/** A connection on which a test writes by hand. */
class Wire {
  text = '';
  isClosed = false;
  readonly socket: Socket;

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('data', (data) => (this.text += data.toString('latin1')));
    this.socket.on('close', () => (this.isClosed = true));
    this.socket.on('error', () => (this.isClosed = true));
    wires.push(this);
  }

  write(text: string): this {
    this.socket.write(text);
    return this;
  }

  async until(pattern: RegExp): Promise<string> {
    await within(20_000, async () => pattern.test(this.text));
    return this.text;
  }

  async closed(): Promise<string> {
    await within(20_000, async () => this.isClosed);
    return this.text;
  }
}

let wires: Wire[] = [];
let servers: RelayServer[] = [];
afterEach(async () => {
  for (const { socket } of wires) socket.destroy();
  await Promise.all(servers.map((server) => server.stop()));
  [wires, servers] = [[], []];
});

async function aServer(settings: Partial<RelaySettings> = {}) {
  const relay = new TestRelay(settings);
  const server = serveRelay(relay.deps, { hostname: '127.0.0.1', port: 0 });
  servers.push(server);
  const [alice = '', bob = ''] = await relay.agents('alice', 'bob');
  const wire = (): Wire => new Wire(server.port);
  const head = (method: string, path: string, token: string, more = ''): string =>
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n${more}\r\n`;
  const send = (body: string, to = '@bob'): Promise<Response> =>
    fetch(`${server.url}v1/send`, {
      method: 'POST',
      headers: { authorization: `Bearer ${alice}` },
      body: JSON.stringify({ to, body }),
    });
  return { relay, server, alice, bob, wire, head, send };
}

describe('the relay on a socket', () => {
  it('answers a doubled slash, which an address with a slash at its end makes of every path [BC-B5.23]', async () => {
    const { server, wire, head, alice } = await aServer();
    expect(server.url).toBe(`http://127.0.0.1:${server.port}/`);
    expect(
      await wire()
        .write(head('GET', '//v1/channels', alice))
        .until(/[\]}]$/),
    ).toStartWith('HTTP/1.1 200 ');
  });

  it('refuses two Authorization headers: they could mean two agents', async () => {
    const { wire, head, alice, bob } = await aServer();
    const text = await wire()
      .write(head('GET', '/v1/agents', alice, `Authorization: Bearer ${bob}\r\n`))
      .until(/\}$/);
    expect(text).toStartWith('HTTP/1.1 400 ');
    expect(text).toContain('{"error":"send one Authorization header, with one token"}');
  });

  it.each<[what: string, request: (token: string) => string]>([
    ['no host and an old version', (token) => `GET /v1/channels HTTP/1.0\r\nAuthorization: Bearer ${token}\r\n\r\n`],
    ['a host that is none', (token) => `GET /v1/channels HTTP/1.1\r\nHost: a b\r\nAuthorization: ${token}\r\n\r\n`],
    [
      'a whole address',
      (token) => `GET http://other/v1/channels HTTP/1.1\r\nHost: x\r\nAuthorization: ${token}\r\n\r\n`,
    ],
  ])('answers a request with %s', async (_what, request) => {
    const { wire, alice } = await aServer();
    const text = await wire().write(request(alice)).until(/\]$/);
    expect(text).toStartWith('HTTP/1.1 200 ');
  });

  it('answers a monitor that asks for its health with HEAD', async () => {
    const { server } = await aServer();
    const answer = await fetch(`${server.url}v1/health`, { method: 'HEAD' });
    expect([answer.status, await answer.text()]).toEqual([200, '']);
  });

  it('opens no stream for a HEAD, which nobody would read', async () => {
    const { relay, server, bob } = await aServer();
    const headers = { authorization: `Bearer ${bob}` };
    const answer = await fetch(`${server.url}v1/events/bob`, { method: 'HEAD', headers });
    expect(answer.status).toBe(404);
    expect(relay.logged.map(({ event }) => event)).not.toContain('listener_open');
  });

  it.each<[what: string, more: string, body: string]>([
    ['stops in the middle', 'Content-Length: 100\r\n', '{"to":'],
    ['never begins', 'Content-Length: 100\r\n', ''],
    ['stops between two chunks', 'Transfer-Encoding: chunked\r\n', '6\r\n{"to":\r\n'],
    ['is long and stops', 'Content-Length: 200000\r\n', 'x'.repeat(100_000)],
  ])('gives up on a body that %s, and says so in JSON [BC-C13]', async (_what, more, body) => {
    const { relay, wire, head, alice, send } = await aServer({ times: { bodyMs: 200 } });
    const since = performance.now();
    const text = await wire()
      .write(head('POST', '/v1/send', alice, more))
      .write(body)
      .closed();
    expect(text).toStartWith('HTTP/1.1 408 ');
    expect(text).toEndWith('{"error":"the request came too slowly"}');
    expect(performance.now() - since).toBeGreaterThan(190);
    expect((await send('others go on')).status).toBe(200);
    expect(relay.logged.some(({ facts }) => facts['status'] === 408)).toBe(true);
  });

  it('gives up on a body that drips, too: single bytes are no progress [BC-C13]', async () => {
    const { wire, head, alice } = await aServer({ times: { bodyMs: 300 } });
    const slow = wire().write(head('POST', '/v1/send', alice, 'Content-Length: 100\r\n'));
    const drip = setInterval(() => slow.isClosed || slow.write('x'), 20);
    expect(await slow.closed()).toStartWith('HTTP/1.1 408 ');
    clearInterval(drip);
  });

  it.each<[what: string, more: string]>([
    ['that says so', 'Content-Length: 135266304\r\n'],
    ['that says nothing', 'Transfer-Encoding: chunked\r\n'],
  ])('refuses a body above its limit %s, in JSON, and keeps none of it [BC-B5.19]', async (_what, more) => {
    const { wire, head, alice } = await aServer();
    const asking = wire().write(head('POST', '/v1/send', alice, more));
    const before = process.memoryUsage.rss();
    const piece = 'x'.repeat(0x10000);
    const chunk = more.startsWith('Transfer') ? `10000\r\n${piece}\r\n` : piece;
    for (let n = 0; n < 129 * 16 && !asking.text.endsWith('}'); n += 1) {
      if (!asking.socket.write(chunk)) await new Promise((resolve) => asking.socket.once('drain', resolve));
    }
    const text = await asking.until(/\}$/);
    expect(text).toStartWith('HTTP/1.1 413 ');
    expect(text).toContain('{"error":"the request has more than 1638400 bytes');
    expect(process.memoryUsage.rss() - before).toBeLessThan(100e6);
  });

  it('carries a message of 10 MB, if it may be as large', async () => {
    // Bun sometimes counts so long an answer as pending until its connection is closed.
    const { server, bob, send } = await aServer({ bodyLimit: 16 * 1024 * 1024, times: { stopMs: 200 } });
    const body = `${'0123456789'.repeat(1_048_576)}ä"\n`;
    expect((await send(body)).status).toBe(200);
    const inbox = await fetch(`${server.url}v1/inbox/bob`, { headers: { authorization: `Bearer ${bob}` } });
    const [message] = (await inbox.json()) as { id: string; body: string }[];
    // Not toBe: to compare such texts for a report takes seconds.
    expect(message?.body === body).toBe(true);
    const taken = await fetch(`${server.url}v1/take`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bob}` },
      body: JSON.stringify({ id: message?.id }),
    });
    expect(((await taken.json()) as { message: { body: string } }).message.body === body).toBe(true);
  });
});

describe('a stream on a socket', () => {
  it('has its headers at once, is chunked, and lives on [BC-B6.3, BC-B6.4]', async () => {
    const { wire, head, bob } = await aServer();
    const text = await wire()
      .write(head('GET', '/v1/events/bob', bob))
      .until(/\r\n\r\n/);
    const headers = text.slice(0, text.indexOf('\r\n\r\n')).toLowerCase().split('\r\n');
    expect(headers[0]).toBe('http/1.1 200 ok');
    expect(headers).toContain('content-type: text/event-stream');
    expect(headers).toContain('cache-control: no-cache');
    expect(headers).toContain('connection: keep-alive');
    expect(headers).toContain('transfer-encoding: chunked');
  });

  it('pushes what arrives at once [BC-16]', async () => {
    const { wire, head, bob, send } = await aServer();
    const stream = wire().write(head('GET', '/v1/events/bob', bob));
    await stream.until(/: listening\n\n/);
    const { id } = (await (await send('now')).json()) as { id: string };
    expect(await stream.until(/data: .*\n\n/)).toContain(`"id":"${id}"`);
  });

  it('ends for the relay when its reader goes away', async () => {
    const { relay, wire, head, bob } = await aServer();
    const stream = wire().write(head('GET', '/v1/events/bob', bob));
    await stream.until(/: listening\n\n/);
    stream.socket.destroy();
    await within(20_000, async () => relay.logged.some(({ event }) => event === 'listener_closed'));
  });

  it('to a reader that takes nothing is cut after a while, without growing; the reader comes back and loses nothing [BC-C13, BC-C15]', async () => {
    const { relay, wire, head, bob, send } = await aServer({ times: { keepaliveMs: 200 } });
    const stream = wire().write(head('GET', '/v1/events/bob', bob));
    await stream.until(/: listening\n\n/);
    stream.socket.pause();
    const body = 'x'.repeat(200_000);
    const count = 100;
    for (let n = 0; n < count; n += 1) await send(body);
    await within(20_000, async () => relay.logged.some(({ event }) => event === 'listener_closed'));
    const again = wire().write(head('GET', '/v1/events/bob', bob));
    await within(20_000, async () => again.text.length > count * body.length);
    expect(again.text.match(/^data: /gm)).toHaveLength(count);
  });
});

describe('a relay that stops', () => {
  it('finishes the open requests, ends the streams, takes nothing new, and flushes', async () => {
    const { relay, server, wire, head, alice, bob, send } = await aServer();
    const { mailboxes } = relay.home();
    let flushed = false;
    mailboxes.flush = async () => {
      flushed = true;
    };
    const put = mailboxes.put.bind(mailboxes);
    const held = Promise.withResolvers<void>();
    let isHeld = false;
    mailboxes.put = async (entry) => {
      isHeld = true;
      await held.promise;
      return put(entry);
    };
    const stream = wire().write(head('GET', '/v1/events/bob', bob));
    await stream.until(/: listening\n\n/);
    const idle = wire().write(head('GET', '/v1/channels', alice));
    await idle.until(/\]$/);
    const inHand = send('in hand');
    await within(20_000, async () => isHeld);
    const stopped = server.stop();
    expect(server.stop()).toBe(stopped);
    await stream.until(/\r\n0\r\n\r\n$/);
    expect(flushed).toBe(false);
    await fetch(`${server.url}v1/health`, { headers: { connection: 'close' } }).then(
      (answer) => expect(answer.status).toBe(503),
      () => {},
    );
    held.resolve();
    expect((await inHand).status).toBe(200);
    await stopped;
    expect(flushed).toBe(true);
    await idle.closed();
  });

  it('does not wait for ever for a request that does not end', async () => {
    const { relay, server, send } = await aServer({ times: { stopMs: 200 } });
    let isHeld = false;
    relay.home().mailboxes.put = () => {
      isHeld = true;
      return new Promise(() => {});
    };
    const inHand = send('never').catch(() => null);
    await within(20_000, async () => isHeld);
    await server.stop();
    await inHand;
  });

  it('reports the system’s own error for its port', async () => {
    const { relay, server } = await aServer();
    const second = (): RelayServer => serveRelay(relay.deps, { hostname: '127.0.0.1', port: server.port });
    expect(second).toThrow(/in use/);
  });
});

describe('the upkeep', () => {
  it('ends a lease by time, and its message is sent to listeners again', async () => {
    const { relay, server, bob, wire, head, send } = await aServer();
    const { id } = (await (await send('lent')).json()) as { id: string };
    const leased = await fetch(`${server.url}v1/lease`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bob}` },
      body: JSON.stringify({ ids: [id], ms: 1000 }),
    });
    expect(((await leased.json()) as { messages: unknown[] }).messages).toHaveLength(1);
    const inbox = async (): Promise<unknown[]> =>
      (await fetch(`${server.url}v1/inbox/bob`, { headers: { authorization: `Bearer ${bob}` } })).json() as Promise<
        unknown[]
      >;
    expect(await inbox()).toEqual([]);
    // Ends are looked for by the half second.
    relay.aheadMs = 2000;
    await within(20_000, async () => (await inbox()).length === 1);
    const stream = wire().write(head('GET', '/v1/events/bob', bob));
    expect(await stream.until(/data: .*\n\n/)).toContain(id);
  });
});
