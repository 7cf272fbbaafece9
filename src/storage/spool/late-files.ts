import { closeSync, linkSync, mkdirSync, openSync, writeSync } from 'node:fs';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { codeOf, isMissing } from '../disk.ts';
import type { HeldLock } from '../lock-file.ts';
import { exportLock } from '../ledger/log.ts';
import { FIRST } from '../ledger/late.ts';
import type { Filed, LateCopies, Unfiled } from '../ledger/late.ts';
import type { MaildirFiles } from './maildir-files.ts';

/** How many files are written between two words with the ledger. */
const BITE = 256;
/** How long one command works on what others left. */
const PATIENCE_MS = 1000;

/** Who holds this lock writes the files of late copies, and nobody else does. It ends with its process. */
export function filerLock(root: string): HeldLock | null {
  mkdirSync(root, { recursive: true, mode: 0o700 });
  return exportLock(`${root}/ledger.db`);
}

/**
 * Writes the files of copies that were accepted without one (see ledger/late.ts).
 *
 * F1 write tmp/<id>.late      F2 say `drafted` in the ledger: those that still wait are ours to publish
 * F3 rename tmp/<id>.late to new/ or quiet/, or delete it if it was taken meanwhile      F4 say `filed`
 *
 * Nothing is flushed: until a copy ends, the ledger has its message, and after a restart of the machine `recount` finds what is
 * missing. A draft has an ending of its own, because `<id>.json` in tmp/ may be published by anybody.
 */
export class LateFiles {
  constructor(
    readonly files: MaildirFiles,
    readonly onStep: (step: string) => void = () => {},
  ) {}

  /** F1. Returns those that could be written; a mailbox that cannot be written to must not hold up the others. */
  draft(copies: Unfiled[], onTrouble: (error: unknown) => void): Unfiled[] {
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

  /** F3. `mine` says of each copy whether it still waited. Returns those that are published now. */
  publish(copies: Unfiled[], mine: boolean[], onTrouble: (error: unknown) => void): Unfiled[] {
    return copies.filter((copy, at) => {
      try {
        if (mine[at]) this.#publishOne(copy);
        else this.files.delete(this.files.draft(copy.mailbox, copy.id));
        this.onStep('F3 published one');
        return mine[at];
      } catch (error) {
        onTrouble(error);
        return false;
      }
    });
  }

  #publishOne({ mailbox, id, quiet }: Unfiled): void {
    const draft = this.files.draft(mailbox, id);
    const place = this.files.path(mailbox, quiet ? 'quiet' : 'new', id);
    // Missing: a reader took the draft itself in hand.
    if (this.files.move(draft, place) || !this.files.hasDraft(mailbox, id)) return;
    // Whoever made this mailbox died over it, or is a program that knows no quiet/.
    this.files.begin(mailbox);
    if (!this.files.move(draft, place) && this.files.hasDraft(mailbox, id)) throw new Error(`no place for ${draft}`);
  }

  /** Where a whole file of this copy is. One that stands in a hand, though the ledger says that it waits, is put back. */
  whereIs({ mailbox, id, quiet }: { mailbox: AgentName; id: MessageId; quiet: boolean }): Filed {
    if (this.files.isWhole(this.files.draft(mailbox, id), id)) return 'draft';
    for (const place of ['new', 'quiet'] as const) {
      const path = this.files.path(mailbox, place, id);
      if (this.files.isWhole(path, id)) return 'filed';
      // After a power cut a file can be there without its text. The ledger has the text.
      this.files.delete(path);
    }
    const held = this.files.path(mailbox, 'held', id);
    if (!this.files.isWhole(held, id)) return 'nowhere';
    return this.files.move(held, this.files.path(mailbox, quiet ? 'quiet' : 'new', id)) ? 'filed' : 'nowhere';
  }

  #write(path: string, { mailbox, text }: Unfiled): void {
    try {
      writeWhole(path, text);
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.files.begin(mailbox);
      writeWhole(path, text);
    }
  }

  #link(from: string, to: string, copy: Unfiled): void {
    try {
      linkSync(from, to);
    } catch (error) {
      // No mailbox yet, a draft of a dead writer, or too many links: then it gets a file of its own.
      if (!isMissing(error) && !['EEXIST', 'EMLINK'].includes(codeOf(error) ?? '')) throw error;
      if (codeOf(error) === 'EEXIST') this.files.delete(to);
      this.#write(to, copy);
    }
  }
}

/** Three calls to the system; `writeFileSync` makes four. */
function writeWhole(path: string, text: string): void {
  const fd = openSync(path, 'w', 0o600);
  try {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
  } finally {
    closeSync(fd);
  }
}

/**
 * Finishes what a process left that accepted copies without files and died. Whoever lives and does that work is left to it. A
 * busy relay may leave very many: whoever comes next goes on.
 */
export async function fileLeftovers(root: string, late: LateFiles, ledger: LateCopies): Promise<void> {
  if ((await ledger.unfiledCount(1)) === 0) return;
  const lock = filerLock(root);
  if (!lock) return;
  const end = performance.now() + PATIENCE_MS;
  try {
    await publishDrafted(late, ledger);
    let bite = await ledger.unfiled(FIRST, BITE);
    for (let last = bite.at(-1); last && performance.now() < end; last = bite.at(-1)) {
      // A mailbox that cannot be written to must not make everybody's commands fail.
      const drafted = late.draft(bite, () => {});
      const mine = await ledger.drafted(drafted);
      late.onStep('F2 drafted');
      await ledger.filed(late.publish(drafted, mine, () => {}));
      late.onStep('F4 filed');
      bite = await ledger.unfiled(last, BITE);
    }
  } finally {
    lock.release();
  }
}

/** What was drafted by somebody who did not come to publish it. */
export async function publishDrafted(
  late: LateFiles,
  ledger: LateCopies,
  onTrouble: (error: unknown) => void = () => {},
): Promise<void> {
  let bite = await ledger.unfiled(FIRST, BITE, true);
  for (let last = bite.at(-1); last; last = bite.at(-1)) {
    const all = bite.map(() => true);
    await ledger.filed(late.publish(bite, all, onTrouble));
    late.onStep('F4 filed');
    bite = await ledger.unfiled(last, BITE, true);
  }
}
