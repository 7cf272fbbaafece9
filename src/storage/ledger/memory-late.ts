import { isQuiet } from '../../protocol/attention.ts';
import type { Attention } from '../../protocol/attention.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { CopyNumber, FilePlace, OpenCopy, Shelved, Standing, Unexported } from './export-queue.ts';
import type { CopyRecord } from './ledger.ts';
import { MemoryRecords } from './memory-records.ts';
import type { Row } from './memory-records.ts';

/** Late copies of the memory ledger. A copy is `fileless` while it has no file, waiting or in a hand. */
export class MemoryLate extends MemoryRecords {
  /** Those that somebody should write a file for, and those that are just being published. */
  readonly #unfiled = new Set<CopyRecord>();
  readonly #drafted = new Set<CopyRecord>();

  async flush(): Promise<void> {}

  tuneForServer(): void {}

  async newest(): Promise<number> {
    return this.rows.at(-1)?.seq ?? 0;
  }

  async standing(mailbox: AgentName, id: MessageId): Promise<Standing | null> {
    const row = this.row(id);
    const copy = row?.copies.get(mailbox);
    return row && copy?.state === 'stored' ? standingIn(row, copy) : null;
  }

  async shelf(mailbox: AgentName, after: number, limit: number, only?: Shelved): Promise<Standing[]> {
    const shelf: Standing[] = [];
    for (const row of this.rows) {
      const copy = row.copies.get(mailbox);
      if (row.seq <= after || copy?.state !== 'stored' || shelf.length >= limit) continue;
      if (only === undefined || isShelved(copy.attention, only)) shelf.push(standingIn(row, copy));
    }
    return shelf;
  }

  async openCopies(mailbox: AgentName, after: number, limit: number): Promise<OpenCopy[]> {
    const open: OpenCopy[] = [];
    for (const { seq, copies } of this.rows) {
      const copy = copies.get(mailbox);
      if (seq <= after || !copy || copy.settledAt !== null || open.length >= limit) continue;
      const waits = copy.state === 'stored';
      open.push({ seq, id: copy.id, waits, hasFile: waits && !copy.fileless });
    }
    return open;
  }

  async mailboxesWithMail(prefix: string): Promise<AgentName[]> {
    const open = this.copies().filter(({ mailbox, settledAt }) => settledAt === null && mailbox.startsWith(prefix));
    return [...new Set(open.map(({ mailbox }) => mailbox))].sort();
  }

  async unexported(after: CopyNumber, limit: number, drafted = false): Promise<Unexported[]> {
    const found: Unexported[] = [];
    for (const copy of drafted ? this.#drafted : this.#unfiled) {
      const row = this.row(copy.id);
      if (row) found.push({ ...standingIn(row, copy), mailbox: copy.mailbox });
    }
    return found
      .filter((one) => one.seq > after.seq || (one.seq === after.seq && one.mailbox > after.mailbox))
      .sort((a, b) => a.seq - b.seq || (a.mailbox < b.mailbox ? -1 : 1))
      .slice(0, limit);
  }

  async unexportedCount(limit: number): Promise<number> {
    return Math.min(limit, this.#unfiled.size + this.#drafted.size);
  }

  async drafted(copies: CopyNumber[]): Promise<boolean[]> {
    return copies.map((number) => {
      const copy = this.#copyAt(number);
      if (!copy || !this.#unfiled.delete(copy)) return false;
      delete copy.fileless;
      this.#drafted.add(copy);
      return true;
    });
  }

  async exported(copies: CopyNumber[]): Promise<void> {
    for (const number of copies) {
      const copy = this.#copyAt(number);
      if (copy) this.#drafted.delete(copy);
    }
  }

  async placed(copies: CopyNumber[]): Promise<boolean[]> {
    const mine = await this.drafted(copies);
    await this.exported(copies.filter((_, at) => mine[at]));
    return mine;
  }

  /** Nothing here outlives the process, so nothing can be found otherwise after a restart. */
  async recount(_look: (copy: { mailbox: AgentName; id: MessageId; quiet: boolean }) => FilePlace): Promise<void> {}

  /** Returns the number of the message. */
  protected unfileAll(id: MessageId): number | undefined {
    const row = this.row(id);
    for (const copy of row?.copies.values() ?? []) {
      copy.fileless = true;
      this.#unfiled.add(copy);
    }
    return row?.seq;
  }

  /** False if it has a file. */
  protected queueExport(copy: CopyRecord): boolean {
    if (copy.fileless) this.#unfiled.add(copy);
    return copy.fileless ?? false;
  }

  /** The message of a copy that has no file, and from now on gets none. */
  protected handOut(copy: CopyRecord): string | undefined {
    this.#unfiled.delete(copy);
    return copy.fileless ? JSON.stringify(this.row(copy.id)?.message) : undefined;
  }

  #copyAt({ seq, mailbox }: CopyNumber): CopyRecord | undefined {
    return this.rows.find((row) => row.seq === seq)?.copies.get(mailbox);
  }
}

function isShelved(attention: Attention, only: Shelved): boolean {
  if (only === 'loud') return !isQuiet(attention);
  return attention.injection === 'digest' && (only === 'digest' || attention.reason === 'loop');
}

function standingIn({ seq, message }: Row, { id, attention }: CopyRecord): Standing {
  return { seq, id, text: JSON.stringify(message), attention, quiet: isQuiet(attention) };
}
