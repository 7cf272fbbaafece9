import type { Workspace, Home } from '../../core/mail/workspace.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';

/** How often a full mailbox is counted again: its reader may have taken something. */
const RECOUNT_MS = 1000;
/** Counting held copies and missing files may each take at most 1/n of the time. */
const LOOK_SHARE = 50;

interface Room {
  left: number;
  waiting: number;
  /** How many copies readers held at the last count, and when to count again (ms). */
  held: number;
  lookAt: number;
  /** When to look again for files that other programs have taken (ms). */
  squareAt: number;
  countedAt: number;
  /** Copies that were admitted and may not be stored yet, so no count includes them. */
  underway: number;
  /** The count under way, which several callers share. */
  counting: Promise<void> | null;
}

/** The mailboxes that a send under way was admitted to. */
type Admission = Room[];

/**
 * Limits how many copies wait in each mailbox. A mailbox is counted once, and again only when its room is used up: reading only frees
 * room, so most sends cost no count, and a full mailbox is refused too long by at most `RECOUNT_MS`. spec: relay#quotas
 */
export class Quota {
  readonly #rooms = new Map<AgentName, Room>();

  constructor(
    readonly most: number,
    readonly now: () => number,
  ) {}

  /** Runs `act` with a workspace that admits only recipients with room. After it, the next count includes what it stored. */
  async within<T>(workspace: Workspace, act: (workspace: Workspace) => Promise<T>): Promise<T> {
    const admission: Admission = [];
    try {
      return await act({ ...workspace, admit: (home, recipients) => this.#admit(home, recipients, admission) });
    } finally {
      for (const room of admission) room.underway -= 1;
    }
  }

  /** The recipients with room for one more copy. Refuses a message to one full mailbox; leaves full ones out of a channel message. */
  #admit(home: Home, recipients: AgentRecord[], admission: Admission): AgentRecord[] | Promise<AgentRecord[]> {
    const [first] = recipients;
    // The fast path of nearly every message: no waiting.
    if (first && recipients.length === 1 && this.#takesOne(first.name, admission)) return recipients;
    return this.#admitted(home, recipients, admission);
  }

  async #admitted(home: Home, recipients: AgentRecord[], admission: Admission): Promise<AgentRecord[]> {
    const [first] = recipients;
    const admitted: AgentRecord[] = [];
    for (const one of recipients) if (await this.#hasRoom(home, one.name, admission)) admitted.push(one);
    if (first && admitted.length === 0) throw this.#full(first.name);
    return admitted.length === recipients.length ? recipients : admitted;
  }

  async #hasRoom(home: Home, name: AgentName, admission: Admission): Promise<boolean> {
    if (this.#takesOne(name, admission)) return true;
    const room = this.#rooms.get(name) ?? this.#newRoom(name);
    if (!room.counting && !this.#mayHaveRoom(room)) return false;
    room.counting ??= this.#count(home, name, room);
    await room.counting;
    return this.#takesOne(name, admission);
  }

  #takesOne(name: AgentName, admission: Admission): boolean {
    const room = this.#rooms.get(name);
    if (!room || room.left <= 0) return false;
    room.left -= 1;
    room.underway += 1;
    admission.push(room);
    return true;
  }

  async #count(home: Home, name: AgentName, room: Room): Promise<void> {
    try {
      const { underway } = room;
      const waiting = await this.#waiting(home, name, room);
      // Waiting copies alone fill the mailbox: held ones do not matter.
      if (waiting < this.most && this.most !== Infinity) await this.#lookAtHeld(home, name, room, waiting);
      room.waiting = waiting + room.held;
      room.left = this.most - room.waiting - underway;
      room.countedAt = this.now();
    } finally {
      room.counting = null;
    }
  }

  /** The number of waiting copies. Other programs take files, so this first records what they took. */
  async #waiting(home: Home, name: AgentName, room: Room): Promise<number> {
    const waiting = await home.journal.waitingCount(name);
    if (waiting < this.most || this.now() < room.squareAt) return waiting;
    room.squareAt = this.now() + (await pauseAfter(() => home.mailboxes.adopt(name)));
    return home.journal.waitingCount(name);
  }

  /** Counts held copies too: they use our disk, and a reader that leases everything must not get endless room. */
  async #lookAtHeld(home: Home, name: AgentName, room: Room, waiting: number): Promise<void> {
    if (this.now() < room.lookAt) return;
    const pause = await pauseAfter(async () => {
      room.held = Math.max(0, (await home.journal.open(name)).size - waiting);
    });
    room.lookAt = this.now() + pause;
  }

  #newRoom(name: AgentName): Room {
    const room = { left: 0, waiting: 0, held: 0, lookAt: 0, squareAt: 0, countedAt: 0, underway: 0, counting: null };
    this.#rooms.set(name, room);
    return room;
  }

  /** May a new count find room? A mailbox that was not full may have been read since; a full one is counted again only after `RECOUNT_MS`. */
  #mayHaveRoom({ waiting, countedAt }: Room): boolean {
    return waiting < this.most || this.now() - countedAt >= RECOUNT_MS;
  }

  #full(name: AgentName): Refusal {
    const waiting = Math.max(this.most, this.#rooms.get(name)?.waiting ?? 0);
    return new Refusal('mailbox_full', `mailbox of "${name}" is full (${waiting} waiting) — try later`);
  }
}

/** Runs `look` and returns how long to wait before the next look (ms). */
async function pauseAfter(look: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await look();
  return Math.max(RECOUNT_MS, (performance.now() - began) * LOOK_SHARE);
}
