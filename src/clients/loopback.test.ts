import { afterEach, describe, expect, it } from 'bun:test';
import { callLoopback, NoServer } from './loopback.ts';

const opened: { stop(): unknown }[] = [];
const { HTTP_PROXY, http_proxy, NO_PROXY, no_proxy } = process.env;
afterEach(() => {
  for (const one of opened.splice(0)) void one.stop();
  for (const [name, value] of Object.entries({ HTTP_PROXY, http_proxy, NO_PROXY, no_proxy }))
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
});

describe('a call to a server on loopback', () => {
  it('ignores proxy settings of the environment, because the proxy would get the secret', async () => {
    const [proxied, direct] = [aServer(), aServer()];
    for (const name of ['HTTP_PROXY', 'http_proxy']) process.env[name] = `http://127.0.0.1:${proxied.port}`;
    for (const name of ['NO_PROXY', 'no_proxy']) process.env[name] = '';
    await call(direct.port);
    expect([proxied.seen, direct.seen]).toEqual([[], ['Bearer secret']]);
  });

  it('follows no redirect', async () => {
    const elsewhere = aServer();
    const redirecting = aServer(`http://127.0.0.1:${elsewhere.port}/`);
    expect((await call(redirecting.port)).status).toBe(307);
    expect(elsewhere.seen).toEqual([]);
  });

  it.skipIf(process.platform !== 'linux')('is not made where nobody listens, or another user', async () => {
    const { port, seen } = aServer();
    await expect(call(port, 4_000_000)).rejects.toThrow(new NoServer('another user listens there'));
    opened.pop()?.stop();
    await expect(call(port)).rejects.toThrow(new NoServer('It does not listen there'));
    expect(seen).toEqual([]);
  });
});

function call(port: number, uid = process.getuid?.()): Promise<Response> {
  return callLoopback({
    program: 'It',
    port,
    path: '/',
    method: 'GET',
    authorization: 'Bearer secret',
    ms: 5000,
    uid,
  });
}

function aServer(redirect?: string): { port: number; seen: (string | null)[] } {
  const seen: (string | null)[] = [];
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      seen.push(request.headers.get('authorization'));
      return redirect === undefined ? new Response('') : Response.redirect(redirect, 307);
    },
  });
  opened.push({ stop: () => server.stop(true) });
  return { port: server.port ?? 0, seen };
}
