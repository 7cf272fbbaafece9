import { linkSync, mkdirSync } from 'node:fs';
import type { AgentName, MessageId } from '../../core/names.ts';
import { codeOf, isMissing } from '../../core/disk.ts';
import type { HeldLock } from '../../platform/lock-file.ts';
import { exportLock } from '../journal/log.ts';
import { FIRST } from '../../core/ports/journal.ts';
import type { MailboxJournal, FilePlace, Unexported } from '../../core/ports/journal.ts';
import type { MaildirFiles } from './files.ts';

/** Files per batch. */
const BATCH = 256;
/** How long one command exports copies that a dead process left. */
const PATIENCE_MS = 1000;

/** Takes the export lock of a home; null if another process has it. Only its holder exports mail. The kernel frees it when the holder dies. */
export function homeExportLock(root: string): HeldLock | null {
  mkdirSync(root, { recursive: true, mode: 0o700 });
  return exportLock(`${root}/ledger.db`);
}

/**
 * Writes the files of copies that were accepted without one (see core/ports/journal.ts).
 *
 * F1 write tmp/<id>.late      F2 record `drafted` in the journal: we publish the copies that still wait
 * F3 rename tmp/<id>.late to new/ or quiet/, or delete it if a reader took the copy      F4 record `exported`
 *
 * Nothing is flushed: until a copy ends, the journal has its message, and after a restart of the machine `recount` finds the missing
 * files. A draft has its own ending, because any process may publish a `<id>.json` in tmp/.
 */
export class ExportFiles {
  constructor(
    readonly files: MaildirFiles,
    readonly onStep: (step: string) => void = () => {},
  ) {}

  /** F1 to F4. `handled` includes copies that a reader took meanwhile. */
  async exportBatch(
    journal: MailboxJournal,
    batch: Unexported[],
    onTrouble: (error: unknown) => void,
  ): Promise<{ published: Unexported[]; handled: number }> {
    const drafted = this.#draft(batch, onTrouble);
    if (drafted.length === 0) return { published: [], handled: 0 };
    const ours = await journal.drafted(drafted);
    this.onStep('F2 drafted');
    const published = await this.#publish(journal, drafted, ours, onTrouble);
    return { published, handled: drafted.length };
  }

  /** F3 and F4 for drafts whose writer died before it published them. */
  async finishDrafts(journal: MailboxJournal, onTrouble: (error: unknown) => void): Promise<void> {
    let batch = await journal.unexported(FIRST, BATCH, true);
    for (let last = batch.at(-1); last; last = batch.at(-1)) {
      await this.#publish(
        journal,
        batch,
        batch.map(() => true),
        onTrouble,
      );
      batch = await journal.unexported(last, BATCH, true);
    }
  }

  /** F1. Returns the copies whose draft was written. An error in one mailbox must not stop the others. */
  #draft(copies: Unexported[], onTrouble: (error: unknown) => void): Unexported[] {
    let first: { seq: number; path: string } | undefined;
    return copies.filter((copy) => {
      const path = this.files.draft(copy.mailbox, copy.id);
      try {
        if (first?.seq === copy.seq) this.#link(first.path, path, copy);
        else {
          this.#write(path, copy);
          first = { seq: copy.seq, path };
        }
        this.onStep('F1 drafted one');
        return true;
      } catch (error) {
        onTrouble(error);
        return false;
      }
    });
  }

  /** F3 and F4. `ours` tells for each copy whether it still waited. Returns the copies that were published. */
  async #publish(
    journal: MailboxJournal,
    copies: Unexported[],
    ours: boolean[],
    onTrouble: (error: unknown) => void,
  ): Promise<Unexported[]> {
    const published = copies.filter((copy, at) => {
      try {
        if (ours[at]) this.#publishOne(copy);
        else this.files.delete(this.files.draft(copy.mailbox, copy.id));
        this.onStep('F3 published one');
        return ours[at];
      } catch (error) {
        onTrouble(error);
        return false;
      }
    });
    await journal.exported(published);
    this.onStep('F4 exported');
    for (const copy of published) if (copy.quiet) await this.#raiseIfLoud(journal, copy);
    return published;
  }

  /** Moves a published copy to new/ if it was raised during the export. A raise changes the journal first, so the row shows it. */
  async #raiseIfLoud(journal: MailboxJournal, { mailbox, id }: Unexported): Promise<void> {
    const now = await journal.waitingCopy(mailbox, id);
    if (now && !now.quiet) this.files.move(this.files.path(mailbox, 'quiet', id), this.files.path(mailbox, 'new', id));
  }

  #publishOne({ mailbox, id, quiet }: Unexported): void {
    const draft = this.files.draft(mailbox, id);
    const place = this.files.path(mailbox, quiet ? 'quiet' : 'new', id);
    // Missing: a reader took the draft itself.
    if (this.files.move(draft, place) || !this.files.hasDraft(mailbox, id)) return;
    // The mailbox is incomplete: its maker died, or is a program that has no quiet/.
    this.files.begin(mailbox);
    if (!this.files.move(draft, place) && this.files.hasDraft(mailbox, id)) throw new Error(`no place for ${draft}`);
  }

  /** Where a whole file of this waiting copy is. Puts a file in held/ back. */
  whereIs({ mailbox, id, quiet }: { mailbox: AgentName; id: MessageId; quiet: boolean }): FilePlace {
    if (this.files.isWhole(this.files.draft(mailbox, id), id)) return 'draft';
    for (const place of ['new', 'quiet'] as const) {
      const path = this.files.path(mailbox, place, id);
      if (this.files.isWhole(path, id)) return 'exported';
      // After a power cut a file may have lost its text. The journal has the text.
      this.files.delete(path);
    }
    const held = this.files.path(mailbox, 'held', id);
    if (!this.files.isWhole(held, id)) return 'nowhere';
    return this.files.move(held, this.files.path(mailbox, quiet ? 'quiet' : 'new', id)) ? 'exported' : 'nowhere';
  }

  #write(path: string, { mailbox, text }: Unexported): void {
    try {
      this.files.write(path, text, false);
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.files.begin(mailbox);
      this.files.write(path, text, false);
    }
  }

  #link(from: string, to: string, copy: Unexported): void {
    try {
      linkSync(from, to);
    } catch (error) {
      // The mailbox is missing, a dead writer left a draft, or the file has too many links: then write a separate file.
      if (!isMissing(error) && !['EEXIST', 'EMLINK'].includes(codeOf(error) ?? '')) throw error;
      this.#write(to, copy);
    }
  }
}

/**
 * Exports copies that a dead process accepted without files. Does nothing if a living process exports the mail of this home. A busy relay
 * may leave very many copies: after `PATIENCE_MS` the rest is left to the next command.
 */
export async function exportLeftovers(root: string, files: ExportFiles, journal: MailboxJournal): Promise<void> {
  if ((await journal.unexportedCount(1)) === 0) return;
  const lock = homeExportLock(root);
  if (!lock) return;
  const end = performance.now() + PATIENCE_MS;
  // A mailbox that cannot be written to must not make every command fail.
  const onTrouble = (): void => {};
  try {
    await files.finishDrafts(journal, onTrouble);
    let batch = await journal.unexported(FIRST, BATCH);
    for (let last = batch.at(-1); last && performance.now() < end; last = batch.at(-1)) {
      await files.exportBatch(journal, batch, onTrouble);
      batch = await journal.unexported(last, BATCH);
    }
  } finally {
    lock.release();
  }
}
