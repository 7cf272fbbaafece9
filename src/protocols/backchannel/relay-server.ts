import type { Certificate } from './certificate.ts';
import { timesOf } from './relay-deps.ts';
import type { RelayDeps } from './relay-deps.ts';
import type { Server } from 'bun';
import { appOf } from './relay-app.ts';
import { Relay } from './relay-state.ts';
import { expire } from '../../core/obligations/tick.ts';
import type { RoomId } from '../../core/names.ts';
import type { Room } from './room-registry.ts';

/** A connection without traffic is closed after this time; a stream is not. */
const IDLE_S = 120;
/** How often to check whether the requests under way are done. */
const LOOK_MS = 10;

export interface ListenAddress {
  hostname: string;
  port: number;
  tls?: Certificate;
}

export interface RelayServer {
  /** With a slash at its end. */
  url: string;
  port: number;
  /** Uses a new certificate without an interruption. */
  renew(tls: Certificate): void;
  /** Takes no new requests, finishes those under way, ends the streams, and returns when every accepted message has its file. */
  stop(): Promise<void>;
}

/** Opens the relay on a port. Throws the system's own error if that fails. */
export function serveRelay(deps: RelayDeps, place: ListenAddress): RelayServer {
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
      // Set explicitly: without `development` Bun would share the port with any other program.
      reusePort: tls !== undefined,
      idleTimeout: IDLE_S,
      // Bun's error pages show sources and paths.
      development: false,
      // Our own limit applies: Bun's answer would not be JSON.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch: (request, server) => (stopped ? stopping() : app.fetch(request, server)),
      error: (error) => {
        deps.log('failed', { route: 'none', error: error.message, stack: error.stack ?? '' });
        return Response.json({ error: "internal error — see the relay's log" }, { status: 500 });
      },
    });

  // A TLS port can be shared, so first make sure that no other program has it.
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
      // Bun cannot change the certificate of an open port: a second server takes over, and the first finishes its requests.
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
  for (const { home } of relay.registry.rooms) await home.mailboxes.flush();
  await relay.registry.settled();
  for (const socket of sockets) void socket.stop(true);
}

/** The answer to requests on connections that are still open. */
function stopping(): Response {
  return Response.json(
    { error: 'the relay is stopping — try again in a moment' },
    { status: 503, headers: { 'retry-after': '2', connection: 'close' } },
  );
}

const TICK_MS = 500;
/** Lets requests run between two mailboxes. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The relay's regular work: it releases copies of dead readers, and expires old mail. */
export class Upkeep {
  #clock: ReturnType<typeof setInterval> | undefined;
  #round: Promise<void> = Promise.resolve();
  #isBusy = false;
  #isStopped = false;

  constructor(readonly relay: Relay) {}

  start(): void {
    this.#clock = setInterval(() => {
      if (this.#isBusy) return;
      this.#isBusy = true;
      this.#round = this.round().finally(() => {
        this.#isBusy = false;
      });
    }, TICK_MS);
  }

  /** Stops after the round under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#clock);
    await this.#round;
  }

  /** Does the work of every room that is due. An error in one room does not stop the others. */
  async round(): Promise<void> {
    const { deps, registry } = this.relay;
    const { healMs, sweepMs } = timesOf(deps.settings);
    for (const room of registry.rooms) {
      if (this.#isStopped) return;
      // The room may have been closed meanwhile to make room for others.
      if (!registry.has(room)) continue;
      await this.#within(room, async () => {
        if (isDue(room, deps.now(), healMs)) await room.home.mailboxes.heal();
        if (deps.now() - room.sweptAt >= sweepMs) await this.#sweep(room);
      });
    }
    const [left] = registry.unswept(deps.now() - sweepMs);
    if (left !== undefined) await this.#visit(left).catch((error: unknown) => this.#failed(left, error));
    registry.closeIdle();
  }

  #failed(room: RoomId, error: unknown): void {
    const why = error instanceof Error ? error.message : String(error);
    this.relay.deps.log('upkeep_failed', { room, error: why });
  }

  /** Holds the room during `work`, but does not count as a use of it. */
  async #within(room: Room, work: () => Promise<void>): Promise<void> {
    room.holds += 1;
    try {
      await work();
    } catch (error) {
      this.#failed(room.id, error);
    } finally {
      room.holds -= 1;
    }
  }

  /** Expires mail in a closed room. One room is visited at a time, so that thousands cost little. */
  async #visit(id: RoomId): Promise<void> {
    const { deps, registry } = this.relay;
    if (deps.settings.keepWaitingMs === null || this.#isStopped) return;
    const room = await registry.enter(id);
    if (!room) return registry.forget(id);
    await this.#within(room, async () => {
      await registry.open(room);
      await this.#sweep(room);
    });
    registry.leave(room);
    // Nobody used it: close it first.
    room.usedAt = 0;
  }

  /** Expires mail of agents with a token. Mail of agents without one is local to this machine and never expires. spec: relay#expiry */
  async #sweep(room: Room): Promise<void> {
    const { deps, figures } = this.relay;
    const { keepWaitingMs } = deps.settings;
    room.sweptAt = deps.now();
    if (keepWaitingMs === null) return;
    for (const { name, tokenHash } of await room.home.directory.list()) {
      if (this.#isStopped) return;
      if (!tokenHash) continue;
      const before = deps.now() - keepWaitingMs;
      const ended = await room.quota.within(room.workspace, (workspace) =>
        expire(workspace, { name, home: room.home }, before),
      );
      figures.expired += ended;
      if (ended > 0) deps.log('expired', { room: room.id, agent: name, copies: ended });
      await nextTurn();
    }
  }
}

function isDue(room: Room, now: number, healMs: number): boolean {
  const over = [...room.leaseEnds].filter((at) => at <= now);
  for (const at of over) room.leaseEnds.delete(at);
  if (over.length === 0 && now - room.healedAt < healMs) return false;
  room.healedAt = now;
  return true;
}
