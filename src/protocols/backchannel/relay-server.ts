import type { Certificate } from './certificate.ts';
import { timesOf } from './relay-deps.ts';
import type { RelayDeps } from './relay-deps.ts';
import type { Server } from 'bun';
import { appOf } from './relay-app.ts';
import { Relay } from './relay-state.ts';
import { expire } from '../../core/obligations/tick.ts';
import type { RoomId } from '../../core/names.ts';
import type { Room } from './room-registry.ts';

/** A connection on which nothing moves is closed after this time; a stream is not. */
const IDLE_S = 120;
/** How often it is looked whether the requests under way are done. */
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
  /** Takes a new certificate without an interruption. */
  renew(tls: Certificate): void;
  /** Takes no more requests, finishes those under way, ends the streams, and leaves nothing accepted without its file. */
  stop(): Promise<void>;
}

/** Opens the relay on a port. What the system says against it is thrown as it is. */
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
  for (const { home } of relay.registry.rooms) await home.mailboxes.flush();
  await relay.registry.settled();
  for (const socket of sockets) void socket.stop(true);
}

/** For those who ask on a connection that is still open. */
function stopping(): Response {
  return Response.json(
    { error: 'the relay is stopping — try again in a moment' },
    { status: 503, headers: { 'retry-after': '2', connection: 'close' } },
  );
}

const TICK_MS = 500;
/** Between two mailboxes others get their turn. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** What nobody asks for and must be done all the same: what dead readers held waits again, and what is too old ends. */
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

  /** Ends after the round under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#clock);
    await this.#round;
  }

  /** One look at every room that is due. A room in trouble does not keep the others from theirs. */
  async round(): Promise<void> {
    const { deps, registry } = this.relay;
    const { healMs, sweepMs } = timesOf(deps.settings);
    for (const room of registry.rooms) {
      if (this.#isStopped) return;
      // It may have made place for others meanwhile.
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

  /** Holds the room meanwhile, and leaves it as idle as it was: we are nobody who uses it. */
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

  /** Mail expires also where nobody comes any more: one closed room at a time, so that all of them cost little. */
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
    // Nobody came: it is the first to be closed again.
    room.usedAt = 0;
  }

  /** Mail of agents that have no token was not entrusted to a relay: it waits as long as it likes. spec: relay#expiry */
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
