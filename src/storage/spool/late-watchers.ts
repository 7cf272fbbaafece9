import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { CopyNumber, LateCopies } from '../ledger/late.ts';
import type { Mail } from '../ledger/ledger.ts';
import type { BackRoom } from './late-back-room.ts';
import type { Watch } from './spool.ts';

/** Those who wait for mail. Each is told with the mail itself, so that nobody has to look. */
export class LateWatchers {
  readonly #watchers = new Map<AgentName, Set<(mail: Mail) => void>>();
  /** The numbers of unfiled messages of which this process tells by itself. Others in this home may accept some too. */
  readonly #ours = new Set<number>();

  constructor(
    readonly ledger: LateCopies,
    readonly room: BackRoom,
    readonly onTrouble: (error: unknown) => void,
  ) {}

  has(mailbox: AgentName): boolean {
    // Where nobody listens at all, the name need not be looked at: among a thousand it lies in no cache.
    return this.#watchers.size > 0 && this.#watchers.has(mailbox);
  }

  watch(mailbox: AgentName, onArrival: (mail: Mail) => void): Watch {
    const watchers = this.#watchers.get(mailbox) ?? new Set();
    const watcher = (mail: Mail): void => onArrival(mail);
    if (watchers.size === 0) this.#begin(mailbox);
    this.#watchers.set(mailbox, watchers.add(watcher));
    return {
      close: () => {
        if (!watchers.delete(watcher) || watchers.size > 0) return;
        this.#watchers.delete(mailbox);
        this.room.unwatch(mailbox);
      },
    };
  }

  tell(mailbox: AgentName, mail: Mail): void {
    for (const watcher of this.#watchers.get(mailbox) ?? []) watcher(mail);
  }

  /** These wait (again): whoever watches is told, if they are loud. */
  async tellOf(mailbox: AgentName, ids: MessageId[]): Promise<void> {
    if (!this.#watchers.has(mailbox) || ids.length === 0) return;
    this.room.putBack(mailbox, ids);
    for (const id of ids) {
      const one = await this.ledger.standing(mailbox, id);
      if (!one || one.quiet) continue;
      this.#ours.add(one.seq);
      this.tell(mailbox, { seq: one.seq, text: one.text });
    }
  }

  tellOurselves(seq: number): void {
    this.#ours.add(seq);
  }

  /** The back room has published these: what another process accepted is news here. */
  async filed(copies: CopyNumber[]): Promise<void> {
    for (const { seq, mailbox } of copies) {
      if (this.#ours.has(seq) || !this.#watchers.has(mailbox)) continue;
      const [one] = await this.ledger.shelf(mailbox, seq - 1, 1);
      if (one?.seq === seq && !one.quiet) this.tell(mailbox, { seq, text: one.text });
    }
    // They are filed in order, so older ones are done with. One message may have copies on both sides of a bite.
    const upTo = copies.at(-1)?.seq ?? 0;
    for (const seq of this.#ours) {
      if (seq >= upTo) break;
      this.#ours.delete(seq);
    }
  }

  allFiled(): void {
    this.#ours.clear();
  }

  #begin(mailbox: AgentName): void {
    // Asked now, though answered later: what comes from now on is news.
    this.ledger
      .newest()
      .then((seq) => this.#watchers.has(mailbox) && this.room.watch(mailbox, seq))
      .catch(this.onTrouble);
  }
}
