import { afterEach, describe, expect, it } from 'bun:test';
import { anInitialize, FakeEngine } from '../../../test/support/host-server.ts';
import type { Told } from '../../../test/support/host-server.ts';
import { within } from '../../../test/support/within.ts';
import { hashOf } from '../../wire/tokens.ts';
import { serveWebSocket } from '../../wire/websocket.ts';
import { HostServer } from './server.ts';

const TOKEN = 'f'.repeat(64);
let close: (() => unknown)[] = [];
afterEach(async () => {
  for (const one of close.splice(0)) await one();
});

function aHost(): { engine: FakeEngine; port: number; log: string[] } {
  const engine = new FakeEngine();
  const log: string[] = [];
  const { accept, deps } = new HostServer({ engine, version: '0', now: Date.now, log: (event) => log.push(event) });
  const tokenHash = hashOf(TOKEN);
  const listening = serveWebSocket(accept, { port: 0, tokenHash, protocol: 'c2a', name: 'host', log: deps.log });
  close.push(() => listening.close());
  return { engine, port: Number(new URL(listening.address).port), log };
}

/** The answer to the opening handshake, as a browser or any other program would send it. */
async function handshake(port: number, headers: Record<string, string>): Promise<{ status: number; text: string }> {
  const all = {
    host: `127.0.0.1:${port}`,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': btoa('0123456789abcdef'),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: { data: (_socket, bytes) => resolve(bytes.toString()), close: () => resolve('') },
  });
  socket.write(`GET / HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  const text = await promise;
  socket.end();
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}

const GOOD = { authorization: `Bearer ${TOKEN}` };

describe('a WebSocket', () => {
  it.each([
    ['the token in its header', GOOD, 101],
    ['the token among its protocols', { 'sec-websocket-protocol': `c2a, bearer.${TOKEN}` }, 101],
    ['the token as its only protocol', { 'sec-websocket-protocol': `bearer.${TOKEN}` }, 401],
    ['no token', {}, 401],
    ['another token', { authorization: `Bearer ${'e'.repeat(64)}` }, 401],
    ['an empty token', { authorization: 'Bearer ' }, 401],
    ['the token in its address only', { 'x-address': TOKEN }, 401],
    ['a wrong token among its protocols', { 'sec-websocket-protocol': 'c2a, bearer.' }, 401],
    ['another name for this machine', { ...GOOD, host: 'evil.example:80' }, 403],
    ['no port in its name', { ...GOOD, host: '127.0.0.1' }, 403],
    ['another port in its name', { ...GOOD, host: '127.0.0.1:1' }, 403],
    ['a page of another origin', { ...GOOD, origin: 'https://evil.example' }, 403],
    ['a page of another server of this machine', { ...GOOD, origin: 'http://127.0.0.1:3000' }, 403],
    ['a page that hides its origin', { ...GOOD, origin: 'null' }, 403],
    ['a page of an extension', { ...GOOD, origin: 'chrome-extension://abc' }, 403],
  ])('with %s', async (_what, headers, status) => {
    const { port, log } = aHost();
    const answer = await handshake(port, headers);
    expect(answer.status).toBe(status);
    expect(answer.text).not.toContain(TOKEN);
    expect(log.includes('host_refused')).toBe(status !== 101);
  });

  it('is told apart from a plain request', async () => {
    const { port } = aHost();
    expect((await fetch(`http://127.0.0.1:${port}/`, { headers: GOOD })).status).toBe(426);
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(401);
  });

  it('carries one frame per message, and the engine hears when it ends', async () => {
    const { port, engine } = aHost();
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`, ['c2a', `bearer.${TOKEN}`]);
    const told: Told[] = [];
    socket.addEventListener('message', ({ data }) => told.push(JSON.parse(String(data)) as Told));
    await new Promise((resolve) => socket.addEventListener('open', resolve));
    expect(socket.protocol).toBe('c2a');
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: anInitialize() }));
    socket.send('{oops');
    socket.send(new TextEncoder().encode('{"jsonrpc":"2.0","id":2,"method":"ping"}'));
    await within(20_000, async () => told.length === 3);
    expect(told).toMatchObject([
      { id: 1, result: {} },
      { id: null, error: { code: -32700 } },
      { id: 2, result: {} },
    ]);
    socket.close();
    await within(20_000, async () => engine.gones === 1);
  });
});
