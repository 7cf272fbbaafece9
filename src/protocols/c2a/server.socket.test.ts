import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { HostClient } from '../../../test/support/host-client.ts';
import { anInitialize, FakeEngine } from '../../../test/support/host-server.ts';
import { within } from '../../../test/support/within.ts';
import type { Listening } from '../../wire/connection.ts';
import { FRAME_LIMIT } from '../../wire/jsonrpc.ts';
import { serveUnixSocket } from '../../wire/unix-socket.ts';
import type { SocketOptions } from '../../wire/unix-socket.ts';
import { HostServer } from './server.ts';

const USER = process.getuid?.() ?? 0;

let path = '';
let open: { close(): unknown }[] = [];
beforeEach(() => {
  path = `${temporaryHome()}/host/socket`;
});
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

/** A host with a fake engine behind a real socket. */
async function aHost(
  options: Partial<SocketOptions> = {},
): Promise<{ engine: FakeEngine; listening: Listening; server: HostServer; log: string[] }> {
  const engine = new FakeEngine();
  const log: string[] = [];
  const deps = { log: (event: string) => log.push(event) };
  const server = new HostServer({ engine, version: '0', now: Date.now, ...deps });
  const listening = await serveUnixSocket(server.accept, {
    path,
    name: 'host',
    otherwise: 'leave --socket out',
    user: USER,
    userOf: () => USER,
    lineLimit: FRAME_LIMIT,
    ...deps,
    ...options,
  });
  open.push(server, listening);
  return { engine, listening, server, log };
}

async function aClient(): Promise<HostClient> {
  const client = await HostClient.onSocket(path);
  open.push(client);
  return client;
}

describe('the socket', () => {
  it('is its user’s alone, from file to folder', async () => {
    await aHost();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(path.replace(/\/socket$/, '')).mode & 0o777).toBe(0o700);
  });

  it('carries one frame per line, both ways', async () => {
    await aHost();
    const client = await aClient();
    client.write('{"jsonrpc":"2.0","id":1,"met');
    client.write('hod":"ping"}\n\n{oops\n');
    expect(await client.next()).toMatchObject({ id: 1, error: { code: -32600 } });
    expect(await client.next()).toMatchObject({ id: null, error: { code: -32700 } });
  });

  it('refuses a caller that the kernel names as another user', async () => {
    const { engine, log } = await aHost({ userOf: () => USER + 1 });
    const client = await aClient();
    await within(20_000, async () => client.isClosed);
    expect(log).toContain('host_stranger');
    expect(engine.gones).toBe(0);
  });

  it('of a dead process is replaced', async () => {
    mkdirSync(path.replace(/\/socket$/, ''), { recursive: true, mode: 0o700 });
    const dies = `Bun.listen({ unix: ${JSON.stringify(path)}, socket: { data() {} } }); process.kill(process.pid, 'SIGKILL')`;
    await Bun.spawn([process.execPath, '-e', dies]).exited;
    expect(existsSync(path)).toBe(true);
    await aHost();
    const client = await aClient();
    expect(await client.ask('initialize', anInitialize())).toMatchObject({ result: { role: 'harness' } });
  });

  it('of a running one is left alone, and the refusal names it', async () => {
    await aHost();
    expect(aHost()).rejects.toThrow(`a host listens on ${path} already`);
    expect(await (await aClient()).ask('initialize', anInitialize())).toHaveProperty('result');
  });

  it('replaces no file that is not a socket', async () => {
    mkdirSync(path.replace(/\/socket$/, ''), { recursive: true, mode: 0o700 });
    writeFileSync(path, 'mine');
    expect(aHost()).rejects.toThrow(`${path} exists and is not a socket`);
  });

  it('is not made in a folder that other users can write to', async () => {
    const folder = path.replace(/\/socket$/, '');
    mkdirSync(folder);
    chmodSync(folder, 0o777);
    expect(aHost()).rejects.toThrow(`other users can write to ${folder}`);
    expect(existsSync(path)).toBe(false);
  });

  it('has a path that the system can hold', () => {
    path = `${temporaryHome()}/${'x'.repeat(120)}`;
    expect(aHost()).rejects.toThrow('too long for a socket');
  });

  it('is removed when the host stops, after its peers got their answers', async () => {
    const { engine, server, listening } = await aHost();
    const client = await aClient();
    await client.ask('initialize', anInitialize());
    const { promise, resolve } = Promise.withResolvers<void>();
    engine.answer = () => promise;
    const answer = client.ask('chat.claim', { eventId: 'e' });
    await within(20_000, async () => engine.asked.length === 1);
    const closed = server.close();
    expect(await client.ask('chat.claim', { eventId: 'late' })).toMatchObject({ error: { code: -32016 } });
    resolve();
    expect(await answer).toMatchObject({ result: {} });
    await closed;
    listening.close();
    expect(engine.gones).toBe(1);
    expect(existsSync(path)).toBe(false);
  });

  it('is cut for a reader that does not read, and the next one gets its answers', async () => {
    const { engine, log } = await aHost();
    const stuck = await aClient();
    await stuck.ask('initialize', anInitialize());
    engine.answer = () => ({ text: 'x'.repeat(1_000_000) });
    stuck.pause();
    for (let count = 0; count < 40; count += 1) stuck.send({ id: `q${count}`, method: 'chat.list_events', params: {} });
    await within(20_000, async () => log.includes('host_peer_cut') && engine.gones === 1);
    engine.answer = () => ({});
    const next = await aClient();
    await next.ask('initialize', anInitialize());
    expect(await next.ask('chat.list_events', {})).toMatchObject({ result: {} });
  });
});
