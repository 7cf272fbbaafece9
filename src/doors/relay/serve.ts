import type { Server } from 'bun';
import { appOf } from './app.ts';
import { timesOf } from './deps.ts';
import type { RelayDeps } from './deps.ts';
import { Relay } from './relay.ts';
import { Upkeep } from './upkeep.ts';

/** A connection on which nothing moves is closed after this time; a stream is not. */
const IDLE_S = 120;
/** How often it is looked whether the requests in hand are done. */
const LOOK_MS = 10;

export interface Certificate {
  cert: string;
  key: string;
}

export interface Place {
  hostname: string;
  port: number;
  tls?: Certificate;
}

export interface RelayServer {
  /** With a slash at its end. */
  url: string;
  port: number;
  /** Takes a new certificate without an interruption. */
  renew(tls: Certificate): void;
  /** Takes no more requests, finishes those in hand, ends the streams, and leaves nothing accepted without its file. */
  stop(): Promise<void>;
}

/** Opens the relay on a port. What the system says against it is thrown as it is. */
export function serveRelay(deps: RelayDeps, place: Place): RelayServer {
  const relay = new Relay(deps);
  const app = appOf(relay);
  const upkeep = new Upkeep(relay);
  const sockets: Server<undefined>[] = [];
  let stopped: Promise<void> | undefined;

  const listen = (port: number, tls: Certificate | undefined): Server<undefined> =>
    Bun.serve({
      hostname: place.hostname,
      port,
      ...(tls && { tls }),
      // Said in any case: without `development` Bun would share the port with every other program that wants it.
      reusePort: tls !== undefined,
      idleTimeout: IDLE_S,
      // Pages with sources and paths are for developers.
      development: false,
      // We count ourselves: Bun's own answer would not be JSON.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch: (request, server) => (stopped ? stopping() : app.fetch(request, server)),
      error: (error) => {
        deps.log('failed', { route: 'none', error: error.message, stack: error.stack ?? '' });
        return Response.json({ error: "internal error — see the relay's log" }, { status: 500 });
      },
    });

  // Two servers may share a port that is shared on purpose: make sure that nobody has it.
  if (place.tls && place.port !== 0) {
    Bun.listen({ hostname: place.hostname, port: place.port, socket: { data() {} } }).stop(true);
  }
  const first = listen(place.port, place.tls);
  const port = first.port ?? place.port;
  sockets.push(first);
  upkeep.start();
  const host = place.hostname.includes(':') ? `[${place.hostname}]` : place.hostname;

  return {
    url: `${place.tls ? 'https' : 'http'}://${host}:${port}/`,
    port,
    renew(tls) {
      if (stopped) return;
      // Bun cannot change the certificate of an open port: a second one takes over, the first finishes what it has.
      const next = listen(port, tls);
      for (const socket of sockets) void socket.stop(false);
      sockets.push(next);
    },
    stop() {
      stopped ??= stopAll(relay, upkeep, sockets);
      return stopped;
    },
  };
}

async function stopAll(relay: Relay, upkeep: Upkeep, sockets: Server<undefined>[]): Promise<void> {
  const { stopMs } = timesOf(relay.deps.settings);
  const until = performance.now() + stopMs;
  for (const socket of sockets) void socket.stop(false);
  relay.listeners.close();
  while (sockets.some(({ pendingRequests }) => pendingRequests > 0) && performance.now() < until)
    await Bun.sleep(LOOK_MS);
  await upkeep.stop();
  for (const { home } of relay.lobby.rooms) await home.spool.flush();
  await relay.lobby.settled();
  for (const socket of sockets) void socket.stop(true);
}

/** For those who ask on a connection that is still open. */
function stopping(): Response {
  return Response.json(
    { error: 'the relay is stopping — try again in a moment' },
    { status: 503, headers: { 'retry-after': '2', connection: 'close' } },
  );
}
