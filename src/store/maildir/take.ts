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

/** Claims go through the journal in batches: one long transaction would make every other process wait. */
const BATCH = 256;
/** Where copies wait. */
const WAITING = ['new', 'quiet'] as const;

/** Claims for a reader: T1, T2 and the way back. send.ts lists the steps. */
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
      await this.#letGo(claim, ids);
      throw explained(error, this.options.root, 'nothing was lost');
    }
    return claim;
  }

  /** After a claim that failed half-way: a live process would keep what it has no use for. */
  async #letGo(claim: Claim, ids: MessageId[]): Promise<void> {
    this.healer.tidySoon(claim.mailbox);
    try {
      // Only the rows: files may refuse to move now, and `tidy` puts back what is in held/.
      await this.options.journal.release(claim.mailbox, claim.owner, ids, null, {
        because: 'it could not be claimed',
      });
    } catch {
      // The journal refuses too; then the end of this process frees them.
    }
  }

  /** T1 and T2 for one batch. True if the disk is full: what waits besides is taken when these are settled. */
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
    // A file whose copy was settled long ago: another program wrote that id once more.
    for (const id of spent) {
      for (const folder of WAITING) this.files.setAside(mailbox, folder, id, this.options.now());
    }
    if (unknown.length === 0 || again) return isScarce;
    await this.healer.adoptThese(mailbox, unknown);
    return this.#claimBatch(claim, unknown, read, true);
  }

  /** T2. Null if another program was faster. The file of an abandoned claim is in held/ already. */
  async #moveToHeld({ mailbox, owner }: Claim, id: MessageId, quiet: boolean, read?: Message): Promise<Message | null> {
    const held = this.files.path(mailbox, 'held', id);
    const take = (folder: Folder): boolean => this.files.move(this.files.path(mailbox, folder, id), held);
    // Where its row says that it waits: to look in vain costs more than the rename.
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
      // Somebody tidied it away meanwhile: it waits again, so it is not lost.
      await this.options.journal.release(mailbox, owner, [id], null, { because: 'it was put back meanwhile' });
      return null;
    }
    const junk = message === 'unreadable';
    if (junk) this.files.setAside(mailbox, 'held', id, this.options.now());
    await this.options.journal.lost(mailbox, id, junk ? 'set_aside' : 'taken_elsewhere');
    return null;
  }

  #takeFromElsewhere(mailbox: AgentName, take: (folder: Folder) => boolean, takeDraft: () => boolean): boolean {
    // A mailbox of another program has no held/: a rename into nothing would look like a copy that somebody else took.
    this.files.make(mailbox);
    // Its sender may not have come to publish it yet: then it is still a draft, or has just been one.
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

/** Runs what shows mail to a reader, and knows whether the reader has seen any of it. */
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

  /** Why it waits again. */
  get because(): Evidence {
    return { because: this.#seen ? 'it was shown and could not be settled' : 'it could not be shown' };
  }

  /** The error of a settle that failed, with what became of the mail. */
  explained(error: unknown, place: string): unknown {
    return this.#seen && !(error instanceof PartlyShown) ? shownNotSettled(error, place) : error;
  }
}
