import { expire } from '../../flow/expire.ts';
import type { RoomId } from '../../protocol/names.ts';
import { timesOf } from './deps.ts';
import type { Room } from './lobby.ts';
import type { Relay } from './relay.ts';

const TICK_MS = 500;
/** Between two mailboxes others get their turn. */
const breath = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

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

  /** Ends after the round in hand. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#clock);
    await this.#round;
  }

  /** One look at every room that is due. A room in trouble does not keep the others from theirs. */
  async round(): Promise<void> {
    const { deps, lobby } = this.relay;
    const { healMs, sweepMs } = timesOf(deps.settings);
    for (const room of lobby.rooms) {
      if (this.#isStopped) return;
      // It may have made place for others meanwhile.
      if (!lobby.has(room)) continue;
      await this.#within(room, async () => {
        if (isDue(room, deps.now(), healMs)) await room.home.spool.heal();
        if (deps.now() - room.sweptAt >= sweepMs) await this.#sweep(room);
      });
    }
    const [left] = lobby.unswept(deps.now() - sweepMs);
    if (left !== undefined) await this.#visit(left).catch((error: unknown) => this.#failed(left, error));
    lobby.closeIdle();
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
    const { deps, lobby } = this.relay;
    if (deps.settings.keepWaitingMs === null || this.#isStopped) return;
    const room = await lobby.enter(id);
    if (!room) return lobby.forget(id);
    await this.#within(room, async () => {
      await lobby.open(room);
      await this.#sweep(room);
    });
    lobby.leave(room);
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
      await breath();
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
