import { expire } from '../../flow/expire.ts';
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
  #sweepAt: number;

  constructor(readonly relay: Relay) {
    this.#sweepAt = relay.deps.now() + TICK_MS;
  }

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
    const isSweep = deps.now() >= this.#sweepAt;
    if (isSweep) this.#sweepAt = deps.now() + sweepMs;
    for (const room of lobby.rooms) {
      if (this.#isStopped) return;
      try {
        if (isDue(room, deps.now(), healMs)) await room.home.spool.heal();
        if (isSweep) await this.#sweep(room);
      } catch (error) {
        deps.log('upkeep_failed', { room: room.id, error: error instanceof Error ? error.message : String(error) });
      }
    }
  }

  /** Mail of agents that have no token was not entrusted to a relay: it waits as long as it likes. spec: relay#expiry */
  async #sweep(room: Room): Promise<void> {
    const { deps, figures } = this.relay;
    const { keepWaitingMs } = deps.settings;
    if (keepWaitingMs === null) return;
    for (const { name, tokenHash } of await room.home.directory.list()) {
      if (this.#isStopped) return;
      if (!tokenHash) continue;
      const before = deps.now() - keepWaitingMs;
      const ended = await room.quota.within(room.desk, (desk) => expire(desk, { name, home: room.home }, before));
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
