import { afterAll, describe, expect, it } from 'bun:test';
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { RelayHttp, isLoopbackUrl, NoRelayAnswer } from './remote-http.ts';
import { relayAddress } from './remote-register.ts';
import type { Fate } from './remote-http.ts';

const SHORT_MS = 300;

const servers: Server[] = [];
afterAll(() => {
  for (const server of servers) server.close();
});

/** A server that does this with every request. */
async function serving(act: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => socket.on('error', () => {}).on('data', () => act(socket)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  servers.push(server);
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
}

/** Patient, unless silence itself is what fails: on a busy machine an answer may be late. */
async function failing(url: string, patienceMs = 20_000): Promise<NoRelayAnswer> {
  const failed = await new RelayHttp({ url, token: 't' }).ask('POST', '/v1/send', { body: {}, patienceMs }).then(
    () => null,
    (error: unknown) => error,
  );
  if (failed instanceof NoRelayAnswer) return failed;
  throw new Error(`it was no failure to answer: ${String(failed)}`);
}

function answer(status: string, type: string, body: string): string {
  return `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

describe('a request to a relay', () => {
  it('never left if nobody listens', async () => {
    const { fate, message } = await failing('http://127.0.0.1:1');
    expect(fate).toBe('never left');
    expect(message).toBe('the relay http://127.0.0.1:1 cannot be reached (nothing listens there)');
  });

  it('never left if the host has no name or does not speak TLS', async () => {
    const plain = (await serving((socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'))).replace(
      'http:',
      'https:',
    );
    expect(await failing('http://nosuch.invalid', SHORT_MS)).toMatchObject({ fate: 'never left' });
    expect(await failing(plain, SHORT_MS)).toMatchObject({ fate: 'never left' });
  });

  it.each<[string, (socket: Socket) => void, Fate]>([
    ['the connection is cut', (socket) => socket.destroy(), 'unknown'],
    ['a proxy has no relay', (socket) => socket.end(answer('502 Bad Gateway', 'text/html', '<p>no</p>')), 'unknown'],
    ['a page is answered', (socket) => socket.end(answer('200 OK', 'text/html', '<p>log in</p>')), 'unknown'],
    ['the relay has trouble', (socket) => socket.end(answer('500 No', 'application/json', '{"error":"x"}')), 'unknown'],
    ['a proxy forbids it', (socket) => socket.end(answer('403 Forbidden', 'text/html', '<p>no</p>')), 'refused'],
  ])('has the right fate if %s', async (_what, act, fate) => {
    expect((await failing(await serving(act))).fate).toBe(fate);
  });

  it.each<[string, (socket: Socket) => void]>([
    ['nothing is answered', () => {}],
    ['the answer stops half-way', (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{')],
  ])('has an unknown fate if %s', async (_what, act) => {
    expect((await failing(await serving(act), SHORT_MS)).fate).toBe('unknown');
  });

  it('is not sent on to another address', async () => {
    let asked = 0;
    const elsewhere = await serving((socket) => {
      asked += 1;
      socket.end(answer('200 OK', 'application/json', '{}'));
    });
    const url = await serving((socket) =>
      socket.end(`HTTP/1.1 307 Moved\r\nlocation: ${elsewhere}/\r\ncontent-length: 0\r\n\r\n`),
    );
    const { fate, message } = await failing(url);
    expect(fate).toBe('refused');
    expect(message).toContain(`redirects to ${elsewhere}/`);
    expect(asked).toBe(0);
  });

  it('may take long as a whole if it never stands still', async () => {
    const url = await serving((socket) => {
      const bytes = '{"ok":true}'.padEnd(40).split('');
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n\r\n`);
      const timer = setInterval(() => {
        socket.write(bytes.shift() ?? '');
        if (bytes.length === 0) clearInterval(timer);
      }, 60);
    });
    const { data } = await new RelayHttp({ url }).ask('GET', '/', { patienceMs: 2000 });
    expect(data).toEqual({ ok: true });
  });
});

describe('an answer without end', () => {
  /** Sends as much as is taken, and tells how much that was. */
  async function endless(status: string, piece: string, everyMs?: number) {
    let sent = 0;
    const url = await serving((socket) => {
      socket.write(`HTTP/1.1 ${status}\r\ntransfer-encoding: chunked\r\n\r\n`);
      const more = (): void => {
        if (socket.destroyed) return;
        sent += piece.length;
        const isTaken = socket.write(`${piece.length.toString(16)}\r\n${piece}\r\n`);
        if (everyMs !== undefined) setTimeout(more, everyMs);
        else if (isTaken) setImmediate(more);
        else socket.once('drain', more);
      };
      more();
    });
    return { url, sent: () => sent };
  }

  it('is aborted after a megabyte if it is an error, also for a stream', async () => {
    const { url, sent } = await endless('403 Forbidden', 'x'.repeat(65_536));
    const http = new RelayHttp({ url });
    await expect(http.ask('GET', '/')).rejects.toThrow(/is too long/);
    await expect(http.stream('/', {}, new AbortController().signal)).rejects.toThrow(/is too long/);
    expect(sent()).toBeLessThan(64 * 1024 * 1024);
  });

  it('is aborted at its limit', async () => {
    const { url } = await endless('200 OK', 'x'.repeat(65_536));
    await expect(new RelayHttp({ url }).ask('GET', '/', { limit: 1_000_000 })).rejects.toThrow(/is too long/);
  });

  it('is aborted after its time limit, however slowly it comes', async () => {
    const { url } = await endless('200 OK', ' ', 20);
    const failed = new RelayHttp({ url }).ask('GET', '/', { patienceMs: 60 });
    await expect(failed).rejects.toMatchObject({ fate: 'unknown' });
  });
});

describe('the address of a relay', () => {
  it.each([
    ['https://relay.test/', 'https://relay.test'],
    ['https://relay.test/mail//', 'https://relay.test/mail'],
    ['http://localhost:7117', 'http://localhost:7117'],
    ['http://127.0.0.1:7117/', 'http://127.0.0.1:7117'],
    ['http://[::1]:7117', 'http://[::1]:7117'],
  ])('%s is kept as %s', (given, kept) => {
    expect(relayAddress(given, false)).toBe(kept);
  });

  it.each([
    ['relay.test', /is not the address/],
    ['ftp://relay.test', /is not the address/],
    ['https://relay.test/?x=1', /is not the address/],
    ['https://ann:secret@relay.test', /leave name and password out/],
    ['http://relay.test', /could read your token/],
    ['http://127.0.0.1.evil.test', /could read your token/],
  ])('%s is refused', (given, why) => {
    expect(() => relayAddress(given, false)).toThrow(why);
  });

  it('may be without TLS if its user says so', () => {
    expect(relayAddress('http://relay.test', true)).toBe('http://relay.test');
  });

  it('counts as this machine only if it cannot be another', () => {
    expect(isLoopbackUrl(new URL('http://localhost.evil.test'))).toBe(false);
    expect(isLoopbackUrl(new URL('http://agent.localhost'))).toBe(true);
  });
});
