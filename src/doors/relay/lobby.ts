import type { Desk, Home } from '../../flow/desk.ts';
import { readAddress, unreachable } from '../../protocol/backchannel.ts';
import { RoomId } from '../../protocol/names.ts';
import type { MessageId } from '../../protocol/names.ts';
import { DEFAULT_ROOM } from '../../storage/rooms/rooms.ts';
import type { RelayDeps } from './deps.ts';
import { Quota } from './quota.ts';

/** A room that somebody has entered. */
export interface Room {
  id: RoomId;
  home: Home;
  desk: Desk;
  quota: Quota;
  /** When it was last looked for what nobody holds any more (ms), and when leases that we gave out end (see `lookAt`). */
  healedAt: number;
  leaseEnds: Set<number>;
}

/** Leases that end within the same half second are looked for together: a day has few of those, whatever readers borrow. */
const TOGETHER_MS = 500;

/** Notes that what nobody holds should be looked for then. */
export function lookAt({ leaseEnds }: Room, at: number): void {
  leaseEnds.add(Math.ceil(at / TOGETHER_MS) * TOGETHER_MS);
}

/** The way into the rooms. A room that is not there is never made by asking for it. [BC-C4] */
export class Lobby {
  readonly #open = new Map<RoomId, Room>();

  constructor(readonly deps: RelayDeps) {}

  get rooms(): Room[] {
    return [...this.#open.values()];
  }

  /** The room that a request means. Without a name that could be one, it is the default room. spec: relay#rooms */
  named(request: Request): RoomId {
    const named = request.headers.get('x-backchannel-room');
    if (named === null) return DEFAULT_ROOM;
    const id = RoomId.safeParse(named.trim());
    return id.success ? id.data : DEFAULT_ROOM;
  }

  /** A room that is open already: no file is asked. */
  open(id: RoomId): Room | undefined {
    return this.#open.get(id);
  }

  /** Opens a room; null if there is none. */
  async enter(id: RoomId): Promise<Room | null> {
    if (!this.#open.has(id) && (await this.deps.rooms.tokenHash(id)) === undefined) return null;
    const open = this.#open.get(id) ?? this.#furnish(id);
    this.#open.set(id, open);
    return open;
  }

  #furnish(id: RoomId): Room {
    const { settings, now } = this.deps;
    const home = this.deps.home(id);
    const quota = new Quota(settings.quota.waiting, now);
    const desk: Desk = {
      homes: [home],
      now,
      newId: () => crypto.randomUUID() as MessageId,
      bodyLimit: settings.bodyLimit,
      readAddress,
      unreachable,
    };
    return { id, home, desk, quota, healedAt: 0, leaseEnds: new Set() };
  }
}
