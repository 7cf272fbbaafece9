import { timesOf } from './relay-deps.ts';
import type { RelayDeps } from './relay-deps.ts';
import type { Workspace, Home } from '../../core/mail/workspace.ts';
import { readAddress, unreachable } from './names.ts';
import { RoomId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import { DEFAULT_ROOM } from './rooms.ts';
import { Quota } from './quota.ts';

/** A room that somebody has asked for. */
export interface Room {
  id: RoomId;
  home: Home;
  workspace: Workspace;
  quota: Quota;
  /** Requests and streams at work in it, and when the last request or stream ended (ms). Nobody closes it while they use it. */
  holds: number;
  usedAt: number;
  /** Set once somebody has come who belongs here: only then are its journal and its spool opened, and looked after. */
  opened: Promise<void> | null;
  /** When it was last looked for what nobody holds any more (ms), and when leases that we gave out end (see `lookAt`). */
  healedAt: number;
  leaseEnds: Set<number>;
  /** When expired mail was last looked for (ms). */
  sweptAt: number;
}

/** Who comes back to a room that is being closed waits for that, but not forever. */
const CLOSING_MS = 10_000;

/** Leases that end within the same half second are looked for together: a day has few of those, whatever readers borrow. */
const TOGETHER_MS = 500;

/** Notes that what nobody holds should be looked for then. */
export function lookAt({ leaseEnds }: Room, at: number): void {
  leaseEnds.add(Math.ceil(at / TOGETHER_MS) * TOGETHER_MS);
}

/**
 * The way into the rooms. A room that is not there is never made by asking for it. [BC-C4]
 *
 * closed → asked for: somebody names it; its records are read, and nothing else → open: somebody shows a token of it → closed,
 * when nobody was at work there for some minutes, or when others need its place: first those that are only asked for, then the
 * one that was left longest ago. What comes while it closes waits, and opens it again.
 */
export class RoomRegistry {
  readonly #rooms = new Map<RoomId, Room>();
  readonly #closing = new Map<RoomId, Promise<void>>();
  /** Rooms that were open, and when expired mail was last looked for there: nobody else would end it. */
  readonly #left = new Map<RoomId, number>();

  constructor(readonly deps: RelayDeps) {}

  /** The rooms that are open. */
  get rooms(): Room[] {
    return [...this.#rooms.values()].filter(({ opened }) => opened !== null);
  }

  /** True until it is closed: anyone who has its home must not use it after that. */
  has(room: Room): boolean {
    return this.#rooms.get(room.id) === room;
  }

  /** Rooms that were open once and in which nobody has looked for expired mail since then (ms). */
  unswept(since: number): RoomId[] {
    return [...this.#left].filter(([, at]) => at < since).map(([id]) => id);
  }

  /** It is not there any more. */
  forget(id: RoomId): void {
    this.#left.delete(id);
  }

  /** The room that a request means. Without a name that could be one, it is the default room. spec: relay#rooms */
  named(request: Request): RoomId {
    const named = request.headers.get('x-backchannel-room');
    if (named === null) return DEFAULT_ROOM;
    const id = RoomId.safeParse(named.trim());
    return id.success ? id.data : DEFAULT_ROOM;
  }

  /** A room, held until the caller leaves it; null if there is none. A stranger may ask: nothing but its records is opened. */
  async enter(id: RoomId): Promise<Room | null> {
    for (;;) {
      const known = this.#rooms.get(id);
      if (known) return this.#held(known);
      const closing = this.#closing.get(id);
      if (closing) await closing;
      else if ((await this.deps.rooms.tokenHash(id)) === undefined) return null;
      else if (!this.#rooms.has(id) && !this.#closing.has(id)) this.#rooms.set(id, this.#furnish(id));
    }
  }

  leave(room: Room): void {
    room.holds -= 1;
    room.usedAt = this.deps.now();
    this.#makePlace();
  }

  /** For what outlives its request. Returns how to end it, which may be called twice. */
  stay(room: Room): () => void {
    let isHere = true;
    this.#held(room);
    return () => {
      if (isHere) this.leave(room);
      isHere = false;
    };
  }

  /** Somebody who belongs here has come. What dead readers held while it was closed waits again before anything is answered. */
  open(room: Room): Promise<void> {
    room.opened ??= this.#wake(room);
    return room.opened;
  }

  /** Closes what nobody has used for some minutes. */
  closeIdle(): void {
    const before = this.deps.now() - timesOf(this.deps.settings).idleMs;
    for (const room of this.#rooms.values()) if (room.holds === 0 && room.usedAt <= before) this.#close(room);
  }

  /** Waits for the rooms that are being closed. */
  async settled(): Promise<void> {
    await Promise.all(this.#closing.values());
  }

  #held(room: Room): Room {
    room.holds += 1;
    return room;
  }

  async #wake(room: Room): Promise<void> {
    room.healedAt = this.deps.now();
    try {
      await room.home.mailboxes.heal();
    } catch (error) {
      // Anyone who asks for something there is told of it by what fails then.
      this.#trouble(room, error);
    }
  }

  #makePlace(): void {
    while (this.#rooms.size > this.deps.settings.mostRooms) {
      const idle = [...this.#rooms.values()].filter(({ holds }) => holds === 0);
      const [first] = idle.sort((a, b) => Number(a.opened !== null) - Number(b.opened !== null) || a.usedAt - b.usedAt);
      if (!first) return;
      this.#close(first);
    }
  }

  #close(room: Room): void {
    this.#rooms.delete(room.id);
    if (room.opened) this.#left.set(room.id, room.sweptAt);
    const closed = this.deps.closeHome(room.id).catch((error: unknown) => this.#trouble(room, error));
    const { promise: tooLong, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, CLOSING_MS);
    const closing = Promise.race([closed, tooLong]).finally(() => {
      clearTimeout(timer);
      this.#closing.delete(room.id);
    });
    this.#closing.set(room.id, closing);
  }

  #trouble({ id }: Room, error: unknown): void {
    this.deps.log('trouble', { room: id, error: error instanceof Error ? error.message : String(error) });
  }

  #furnish(id: RoomId): Room {
    const { settings, now } = this.deps;
    const home = this.deps.home(id);
    const quota = new Quota(settings.quota.waiting, now);
    const workspace: Workspace = {
      homes: [home],
      now,
      newId: () => crypto.randomUUID() as MessageId,
      bodyLimit: settings.bodyLimit,
      readAddress,
      unreachable,
    };
    const times = { usedAt: now(), healedAt: 0, sweptAt: this.#left.get(id) ?? 0 };
    this.#left.delete(id);
    return { id, home, workspace, quota, holds: 0, opened: null, leaseEnds: new Set(), ...times };
  }
}
