import type { Workspace, Home } from '../../core/mail/workspace.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';

/** A full mailbox is counted again this often: its reader may have taken something. */
const RECOUNT_MS = 1000;
/** What readers hold is counted copy by copy, and what is gone file by file: each may take one part in this many of the time. */
const LOOK_SHARE = 50;

interface Room {
  left: number;
  waiting: number;
  /** How many of them were held by readers at the last look, and when to look again (ms). */
  held: number;
  lookAt: number;
  /** When to look again for what other programs have taken (ms). */
  squareAt: number;
  countedAt: number;
  /** Admitted, and perhaps not stored yet: no count has seen them. */
  underway: number;
  /** Many may ask at once; one counts for all of them. */
  counting: Promise<void> | null;
}

/** The mailboxes that a send under way was admitted to. */
type Admission = Room[];

/**
 * How many more copies each mailbox may get. What waits is counted once and then only when the room for more is used up: readers
 * only ever make more of it, so nothing is refused too early for long and a send costs no count. spec: relay#quotas
 */
export class Quota {
  readonly #rooms = new Map<AgentName, Room>();

  constructor(
    readonly most: number,
    readonly now: () => number,
  ) {}

  /** Sends by a workspace that admits only as many as have room. When it has ended, what it stored is seen by the next count. */
  async within<T>(workspace: Workspace, act: (workspace: Workspace) => Promise<T>): Promise<T> {
    const admission: Admission = [];
    try {
      return await act({ ...workspace, admit: (home, recipients) => this.#admit(home, recipients, admission) });
    } finally {
      for (const room of admission) room.underway -= 1;
    }
  }

  /** Those that have room for one more. A message to one full mailbox is refused; in a channel the full ones are left out. */
  #admit(home: Home, recipients: AgentRecord[], admission: Admission): AgentRecord[] | Promise<AgentRecord[]> {
    const [first] = recipients;
    // Nearly every message: nothing is to be waited for.
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
      // Who has enough waiting is full, whatever else is held.
      if (waiting < this.most && this.most !== Infinity) await this.#lookAtHeld(home, name, room, waiting);
      room.waiting = waiting + room.held;
      room.left = this.most - room.waiting - underway;
      room.countedAt = this.now();
    } finally {
      room.counting = null;
    }
  }

  /** Other programs take mail from the files. Before it counts against anybody, what they took is noted. */
  async #waiting(home: Home, name: AgentName, room: Room): Promise<number> {
    const waiting = await home.journal.waitingCount(name);
    if (waiting < this.most || this.now() < room.squareAt) return waiting;
    room.squareAt = this.now() + (await pauseAfter(() => home.mailboxes.adopt(name)));
    return home.journal.waitingCount(name);
  }

  /** What a reader has borrowed is on our disk as well: without it, who borrows everything has room without end. */
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

  /** What was not full when it was counted may have been emptied since; what was full is given some time. */
  #mayHaveRoom({ waiting, countedAt }: Room): boolean {
    return waiting < this.most || this.now() - countedAt >= RECOUNT_MS;
  }

  #full(name: AgentName): Refusal {
    const waiting = Math.max(this.most, this.#rooms.get(name)?.waiting ?? 0);
    return new Refusal('mailbox_full', `mailbox of "${name}" is full (${waiting} waiting) — try later`);
  }
}

/** Looks, and says how long nobody should look again (ms). */
async function pauseAfter(look: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await look();
  return Math.max(RECOUNT_MS, (performance.now() - began) * LOOK_SHARE);
}
