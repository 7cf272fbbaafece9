import type { Home } from '../../flow/desk.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { AgentRecord } from '../../storage/directory/directory.ts';

/** A full mailbox is counted again this often: its reader may have taken something. */
const RECOUNT_MS = 1000;

/**
 * How many more copies each mailbox may get. What waits is counted once and then only when the room for more is used up: readers
 * only ever make more of it, so nothing is refused too early for long and a send costs no count. spec: relay#quotas
 */
export class Quota {
  readonly #rooms = new Map<AgentName, { left: number; waiting: number; countedAt: number }>();

  constructor(
    readonly most: number,
    readonly now: () => number,
  ) {}

  /** Those that have room for one more. A message to one full mailbox is refused; in a channel the full ones are left out. */
  async admit(home: Home, recipients: AgentRecord[]): Promise<AgentRecord[]> {
    const [first, ...others] = recipients;
    if (first && others.length === 0) {
      if (await this.#hasRoom(home, first.name)) return recipients;
      throw this.#full(first.name);
    }
    const admitted: AgentRecord[] = [];
    for (const one of recipients) if (await this.#hasRoom(home, one.name)) admitted.push(one);
    if (first && admitted.length === 0) throw this.#full(first.name);
    return admitted.length === recipients.length ? recipients : admitted;
  }

  async #hasRoom(home: Home, name: AgentName): Promise<boolean> {
    let room = this.#rooms.get(name);
    if (!room || (room.left <= 0 && this.#mayHaveRoom(room))) {
      const waiting = await home.ledger.waitingCount(name);
      room = { left: this.most - waiting, waiting, countedAt: this.now() };
      this.#rooms.set(name, room);
    }
    if (room.left <= 0) return false;
    room.left -= 1;
    return true;
  }

  /** What was not full when it was counted may have been emptied since; what was full is given some time. */
  #mayHaveRoom({ waiting, countedAt }: { waiting: number; countedAt: number }): boolean {
    return waiting < this.most || this.now() - countedAt >= RECOUNT_MS;
  }

  #full(name: AgentName): Refusal {
    const waiting = Math.max(this.most, this.#rooms.get(name)?.waiting ?? 0);
    return new Refusal('mailbox_full', `mailbox of "${name}" is full (${waiting} waiting) — try later`);
  }
}
