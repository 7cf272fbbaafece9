import { isQuiet } from '../../core/attention/attention.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { explained, PartlyShown, shownNotSettled } from '../../core/disk.ts';
import { newHolder } from '../../platform/holder.ts';
import { messageFrom } from '../journal/rows.ts';
import type { MaildirFiles, Folder } from './files.ts';
import type { MaildirHealer } from './heal.ts';
import type { MaildirOptions } from './send.ts';
import type { Claim, Lease, Show } from '../../core/ports/mailboxes.ts';

/** Copies per claim transaction: one long transaction would make every other process wait. */
const BATCH = 256;
/** The folders in which copies wait. */
const WAITING = ['new', 'quiet'] as const;

/** Claims and releases copies for a reader: steps T1 and T2 of send.ts, and their reversal. */
export class MaildirTaker {
  constructor(
    readonly files: MaildirFiles,
    readonly healer: MaildirHealer,
    readonly options: MaildirOptions,
  ) {}

  async claim(
    mailbox: AgentName,
    ids: MessageId[],
    lease: Lease,
    read: ReadonlyMap<MessageId, Message> = new Map(),
  ): Promise<Claim> {
    const owner = newHolder(lease.bearer ?? false, lease.process);
    const until = this.options.now() + lease.ms;
    const claim: Claim = { mailbox, owner, until, copies: [] };
    try {
      await this.healer.tidyNowAndThen(mailbox);
      for (let at = 0; at < ids.length; at += BATCH) {
        if (await this.#claimBatch(claim, ids.slice(at, at + BATCH), read)) break;
      }
    } catch (error) {
      await this.#releaseFailed(claim, ids);
      throw explained(error, this.options.root, 'nothing was lost');
    }
    return claim;
  }

  /** Releases a claim that failed half-way: while this process lives, nothing else would free its copies. */
  async #releaseFailed(claim: Claim, ids: MessageId[]): Promise<void> {
    this.healer.tidySoon(claim.mailbox);
    try {
      // Only the rows: the disk may refuse to move files now. `tidy` moves them out of held/ later.
      await this.options.journal.release(claim.mailbox, claim.owner, ids, null, {
        because: 'it could not be claimed',
      });
    } catch {
      // The journal failed too: the end of this process frees the copies.
    }
  }

  /** T1 and T2 for one batch. True if the disk is full: then the caller claims no further batch until these copies are settled. */
  async #claimBatch(
    claim: Claim,
    ids: MessageId[],
    read: ReadonlyMap<MessageId, Message>,
    again = false,
  ): Promise<boolean> {
    const { mailbox, owner, until } = claim;
    this.#step('T1 claim');
    const { won, unknown, spent, isScarce = false } = await this.options.journal.claim(mailbox, ids, owner, until);
    this.#step('T1 claimed');
    for (const { id, attempt, attention, text } of won) {
      const message =
        text === undefined
          ? await this.#moveToHeld(claim, id, isQuiet(attention), read.get(id))
          : (read.get(id) ?? messageFrom(text));
      this.#step('T2 held');
      if (message) claim.copies.push({ message, attempt, attention });
    }
    // These copies are settled, but have a waiting file: another program wrote the id again.
    for (const id of spent) {
      for (const folder of WAITING) this.files.setAside(mailbox, folder, id, this.options.now());
    }
    if (unknown.length === 0 || again) return isScarce;
    await this.healer.adoptThese(mailbox, unknown);
    return this.#claimBatch(claim, unknown, read, true);
  }

  /** T2. Null if another program took the file first. After an abandoned claim the file is in held/ already. */
  async #moveToHeld({ mailbox, owner }: Claim, id: MessageId, quiet: boolean, read?: Message): Promise<Message | null> {
    const held = this.files.path(mailbox, 'held', id);
    const take = (folder: Folder): boolean => this.files.move(this.files.path(mailbox, folder, id), held);
    // First the folder that the row names: checking the others first would cost more than the rename.
    const takeDraft = (): boolean => this.files.move(this.files.draft(mailbox, id), held);
    const moved = take(quiet ? 'quiet' : 'new') || this.#takeFromElsewhere(mailbox, take, takeDraft);
    if (read && moved) return read;
    const message = this.files.read(mailbox, 'held', id);
    if (message === 'shut') {
      await this.release({ mailbox, owner }, [id], { because: 'its file could not be read' });
      return null;
    }
    if (message && message !== 'unreadable') return message;
    if (message === null && moved) {
      // Another process put the file back into its folder meanwhile: the copy waits again.
      await this.options.journal.release(mailbox, owner, [id], null, { because: 'it was put back meanwhile' });
      return null;
    }
    const junk = message === 'unreadable';
    if (junk) this.files.setAside(mailbox, 'held', id, this.options.now());
    await this.options.journal.lost(mailbox, id, junk ? 'set_aside' : 'taken_elsewhere');
    return null;
  }

  #takeFromElsewhere(mailbox: AgentName, take: (folder: Folder) => boolean, takeDraft: () => boolean): boolean {
    // A mailbox made by another program has no held/: the rename would fail as if another reader had taken the file.
    this.files.make(mailbox);
    // Its sender may not have published it yet: then it is a draft, or is published while we look.
    return WAITING.some(take) || take('tmp') || takeDraft() || WAITING.some(take);
  }

  async release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun = false,
  ): Promise<MessageId[]> {
    const until = delayMs ? this.options.now() + delayMs : null;
    const released = await this.options.journal.release(
      claim.mailbox,
      claim.owner,
      ids,
      until,
      because,
      (id, attention) => {
        this.healer.putBack(claim.mailbox, id, attention);
        this.#step('R put back');
      },
      begun,
    );
    await this.healer.exportLeftovers();
    return released;
  }

  #step(name: string): void {
    this.options.onStep?.(name);
  }
}

/** Runs the `show` of a settle and remembers whether the reader has seen any of the mail. */
export class TakeShow {
  #seen: boolean;

  constructor(readonly show: Show | undefined) {
    this.#seen = show === 'shown';
  }

  run(): void {
    if (typeof this.show !== 'function') return;
    try {
      this.show();
    } catch (error) {
      this.#seen = error instanceof PartlyShown;
      throw error;
    }
    this.#seen = true;
  }

  get isSeen(): boolean {
    return this.#seen;
  }

  /** Evidence of why the copies wait again after a failed settle. */
  get because(): Evidence {
    return { because: this.#seen ? 'it was shown and could not be settled' : 'it could not be shown' };
  }

  /** The error of a failed settle. If the mail was shown, the error says so. */
  explained(error: unknown, place: string): unknown {
    return this.#seen && !(error instanceof PartlyShown) ? shownNotSettled(error, place) : error;
  }
}
