import { timesOf } from './relay-deps.ts';
import type { RelayDeps } from './relay-deps.ts';
import type { Workspace, Home } from '../../core/mail/workspace.ts';
import { readAddress, unreachable } from './names.ts';
import { RoomId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import { DEFAULT_ROOM } from './rooms.ts';
import { Quota } from './quota.ts';

/** A room that a request has named. */
export interface Room {
  id: RoomId;
  home: Home;
  workspace: Workspace;
  quota: Quota;
  /** The number of requests and streams that use the room, which keep it open, and when the last one ended (ms). */
  holds: number;
  usedAt: number;
  /** Set once a member has come: only then are the room's journal and spool opened and healed. */
  opened: Promise<void> | null;
  /** When abandoned copies were last released (ms), and when our leases end (see `lookAt`). */
  healedAt: number;
  leaseEnds: Set<number>;
  /** When expired mail was last removed (ms). */
  sweptAt: number;
}

/** How long a request waits for a room that is being closed. */
const CLOSING_MS = 10_000;

/** Leases that end within the same half second are checked together, which limits the number of checks. */
const LEASE_STEP_MS = 500;

/** Schedules a check for abandoned copies. */
export function lookAt({ leaseEnds }: Room, at: number): void {
  leaseEnds.add(Math.ceil(at / LEASE_STEP_MS) * LEASE_STEP_MS);
}

/**
 * The open rooms of a relay. A request never makes a room. [BC-C4]
 *
 * A room is closed → known when a request names it; only its records are read → open when a caller has a token of it → closed when nobody
 * used it for some minutes, or when other rooms need its place: first rooms that are only known, then the one that was used longest ago. A
 * request that arrives while a room closes waits, and opens it again.
 */
export class RoomRegistry {
  readonly #rooms = new Map<RoomId, Room>();
  readonly #closing = new Map<RoomId, Promise<void>>();
  /** Rooms that were open once, and when expired mail was last removed there: no request does that in a closed room. */
  readonly #left = new Map<RoomId, number>();

  constructor(readonly deps: RelayDeps) {}

  /** The rooms that are open. */
  get rooms(): Room[] {
    return [...this.#rooms.values()].filter(({ opened }) => opened !== null);
  }

  /** True until the room is closed. After that its home must not be used. */
  has(room: Room): boolean {
    return this.#rooms.get(room.id) === room;
  }

  /** Rooms that were open once and in which expired mail was not removed since then (ms). */
  unswept(since: number): RoomId[] {
    return [...this.#left].filter(([, at]) => at < since).map(([id]) => id);
  }

  /** Forgets a room that no longer exists. */
  forget(id: RoomId): void {
    this.#left.delete(id);
  }

  /** The room that a request names; without a well-formed name, the default room. spec: relay#rooms */
  named(request: Request): RoomId {
    const named = request.headers.get('x-backchannel-room');
    if (named === null) return DEFAULT_ROOM;
    const id = RoomId.safeParse(named.trim());
    return id.success ? id.data : DEFAULT_ROOM;
  }

  /** Holds a room until the caller leaves it; null if there is none. The caller may be a stranger, so this opens only its records. */
  async enter(id: RoomId): Promise<Room | null> {
    for (;;) {
      const known = this.#rooms.get(id);
      if (known) return this.#held(known);
      const closing = this.#closing.get(id);
      if (closing) await closing;
      else if ((await this.deps.rooms.tokenHash(id)) === undefined) return null;
      else if (!this.#rooms.has(id) && !this.#closing.has(id)) this.#rooms.set(id, this.#newRoom(id));
    }
  }

  leave(room: Room): void {
    room.holds -= 1;
    room.usedAt = this.deps.now();
    this.#makePlace();
  }

  /** Holds a room for longer than a request. Returns a function that ends that; it can be called twice. */
  stay(room: Room): () => void {
    let isHere = true;
    this.#held(room);
    return () => {
      if (isHere) this.leave(room);
      isHere = false;
    };
  }

  /** Opens a room for a member. Copies of readers that died meanwhile are released before the first answer. */
  open(room: Room): Promise<void> {
    room.opened ??= this.#wake(room);
    return room.opened;
  }

  /** Closes rooms that nobody used for some minutes. */
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
      // A request that needs this room fails with its own error.
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

  #newRoom(id: RoomId): Room {
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
