import { lutimesSync, mkdirSync } from 'node:fs';
import { isQuiet } from '../../core/attention/attention.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { explained, ifThere } from '../../core/disk.ts';
import { stampOf } from '../../platform/files.ts';
import { newHolder } from '../../platform/holder.ts';
import type { Acceptance, Claimed, CopyRecord, Entry, MailboxJournal, Settlement } from '../../core/ports/journal.ts';
import { isWaiting } from '../../store/journal/rules.ts';
import { Reserve } from '../../store/journal/reserve.ts';
import type { Judgement } from '../../store/maildir/send.ts';
import { watchFolder } from '../../store/maildir/maildir.ts';
import { TakeShow } from '../../store/maildir/take.ts';
import type { Claim, Lease, Show, Mailboxes, WaitingMessage, Watch } from '../../core/ports/mailboxes.ts';
import { appendArchive } from './archive.ts';
import type { ArchiveLine } from './archive.ts';
import { entryText, messageOf } from './entry.ts';
import type { BrokerEntry } from './entry.ts';
import { InboxStore } from './inbox-store.ts';
import type { BrokerNames } from './inbox-store.ts';
import { batches, Reconciler } from './reconcile.ts';
import { Sender } from './send.ts';

export interface C2cMailboxOptions {
  /** The broker directory. */
  root: string;
  journal: MailboxJournal;
  names: BrokerNames;
  /** Decides the attention and lineage of a copy that another program left here. What the copy says of them is not believed. */
  judge: (mailbox: AgentName, message: Message) => Promise<Judgement>;
  now: () => number;
  /** Called before each step that a crash could separate from the next one. Crash tests end the process here. */
  onStep?: (step: string) => void;
}

/** How often a watch checks the inbox without a file event. */
const LOOK_MS = 2000;

type Holder = Pick<Claim, 'mailbox' | 'owner'>;

/**
 * The inboxes of a c2c broker directory, shared with the original and with plain scripts. Among Parley's own processes the ledger decides who
 * takes a message.
 *
 * send   S1 accept in the ledger: the copies have no file yet        ← accepted, once per key
 *        S2 under the lock of each inbox: write it with the new entry at its end (an id that is there is not added again)
 *        S3 record `placed` in the ledger       S4 flush the folder  ← stored
 * take   T1 claim in the ledger   T2 under the lock: write the entries to held/, then the inbox without them
 *        T3 settle in the ledger, and inside: append to the archive, flush, show        T4 remove them from held/
 * back   R1 under the lock: write the inbox with them, then held/ without them          R2 release in the ledger
 *
 * After a crash
 * - after S1 or in S2: the ledger knows which copies have no file, and `heal` writes them; an entry that is there is not added again. If another
 *   program took the entry before S3, `heal` writes it once more, under the same id.
 * - in T1 or T2: the ledger knows that the reader is dead, and its copies wait again. An entry in both files counts once.
 * - in T3 before the commit: the message comes again, marked `redelivered`.
 * - in T4, or between R1 and R2: `tidy` repairs the files.
 * Otherwise an entry that is gone from an inbox was taken by another program, and Parley never puts it back.
 *
 * The inbox has all entries, even quiet ones, because other programs must see everything. Only the ledger knows which are quiet.
 */
export class C2cMailboxes implements Mailboxes {
  readonly #inboxes: InboxStore;
  readonly #sender: Sender;
  readonly #reconciler: Reconciler;
  readonly #reserve: Reserve;

  constructor(readonly options: C2cMailboxOptions) {
    this.#inboxes = new InboxStore(options.root, options.names, options.onStep);
    this.#sender = new Sender(this.#inboxes, options);
    this.#reconciler = new Reconciler(this.#inboxes, this.#sender, options);
    this.#reserve = new Reserve(`${options.root}/ledger.db.reserve`);
  }

  async put(entry: Entry): Promise<Acceptance> {
    return this.#sender.put(entry);
  }

  async peek(mailbox: AgentName): Promise<WaitingMessage[]> {
    const waiting = await this.#waiting(mailbox);
    const all = [...waiting].map(([id, { entry, quiet }]) => ({ message: messageOf(entry, mailbox, id), quiet }));
    // The sort is stable: messages with the same time keep the order of their arrival.
    return all.sort((a, b) => (a.message.ts < b.message.ts ? -1 : a.message.ts > b.message.ts ? 1 : 0));
  }

  async ids(mailbox: AgentName, loudOnly = false): Promise<MessageId[]> {
    const waiting = await this.#waiting(mailbox);
    return [...waiting].flatMap(([id, { quiet }]) => (loudOnly && quiet ? [] : [id]));
  }

  async read(mailbox: AgentName, id: MessageId): Promise<WaitingMessage | null> {
    const found = (await this.#waiting(mailbox)).get(id);
    return found ? { message: messageOf(found.entry, mailbox, id), quiet: found.quiet } : null;
  }

  /** The entries of the inbox that no reader holds. An entry without a row in the ledger waits, too: another program left it. */
  async #waiting(mailbox: AgentName): Promise<Map<MessageId, { entry: BrokerEntry; quiet: boolean }>> {
    const { journal } = this.options;
    const open = await journal.open(mailbox);
    const waiting = new Map<MessageId, { entry: BrokerEntry; quiet: boolean }>();
    for (const [id, { entry }] of await this.#reconciler.found(mailbox, open)) {
      const copy = open.get(id) ?? (await journal.copy(mailbox, id));
      if (copy?.state === 'held' || copy?.state === 'settled') continue;
      waiting.set(id, { entry, quiet: copy ? isQuiet(copy.attention) : false });
    }
    return waiting;
  }

  /** Calls back when the inbox was changed or replaced. The mailbox may change to the inbox of another session meanwhile. */
  watch(mailbox: AgentName, onArrival: () => void): Watch {
    const { root } = this.options;
    mkdirSync(root, { recursive: true, mode: 0o700 });
    let seen = stampOf(this.#inboxes.path(mailbox));
    const look = (): void => {
      const now = stampOf(this.#inboxes.path(mailbox));
      if (now === seen) return;
      seen = now;
      onArrival();
    };
    const watcher = watchFolder(root, look);
    // A program that writes the inbox in place does not change the folder, and a file event may be lost.
    const timer = setInterval(look, LOOK_MS);
    return {
      close() {
        clearInterval(timer);
        watcher.close();
      },
    };
  }

  async claim(mailbox: AgentName, ids: MessageId[], lease: Lease): Promise<Claim> {
    const owner = newHolder(lease.bearer ?? false, lease.process);
    const until = this.options.now() + lease.ms;
    const claim: Claim = { mailbox, owner, until, copies: [] };
    try {
      await this.#reconciler.tidyNowAndThen(mailbox);
      const won = await this.#win(claim, ids);
      if (won.length > 0) claim.copies = await this.#takeHeld(claim, won);
    } catch (error) {
      await this.#letGo(claim, ids);
      throw explained(error, this.options.root, 'nothing was lost');
    }
    return claim;
  }

  /** T1. Claims in the ledger. Mail that another program left first gets a row. */
  async #win(claim: Claim, ids: MessageId[], again = false): Promise<Claimed['won']> {
    const won: Claimed['won'] = [];
    const unknown: MessageId[] = [];
    for (const batch of batches(ids)) {
      this.#inboxes.onStep('T1 claim');
      const claimed = await this.options.journal.claim(claim.mailbox, batch, claim.owner, claim.until);
      won.push(...claimed.won);
      unknown.push(...claimed.unknown);
      if (claimed.isScarce) break;
    }
    this.#inboxes.onStep('T1 claimed');
    if (unknown.length === 0 || again) return won;
    await this.#reconciler.reconcile(claim.mailbox);
    return [...won, ...(await this.#win(claim, unknown, true))];
  }

  /**
   * T2. Moves the claimed entries to held/. A copy whose entry is gone was taken by another program. But a copy that the ledger calls fileless,
   * and that no look has found in the inbox, is still being sent: it is released, and waits until its sender has finished.
   */
  async #takeHeld({ mailbox, owner }: Claim, won: Claimed['won']): Promise<Claim['copies']> {
    const { journal } = this.options;
    const ids = won.map(({ id }) => id);
    const held = this.#reserve.orSpend(() => this.#inboxes.take(mailbox, ids));
    const copies: Claim['copies'] = [];
    for (const { id, attempt, attention, text } of won) {
      const entry = held.get(id)?.entry;
      if (entry) copies.push({ message: messageOf(entry, mailbox, id), attempt, attention });
      else if (text === undefined || this.#inboxes.wasFound(mailbox, id)) await journal.lost(mailbox, id);
      else await journal.release(mailbox, owner, [id], null, { because: 'it is not here yet' });
    }
    return copies;
  }

  /** Releases the rows of a claim that failed half-way, because this process lives and would keep them. */
  async #letGo(claim: Claim, ids: MessageId[]): Promise<void> {
    const because = { because: 'it could not be claimed' };
    // Only the rows: writing files may fail now, and `tidy` puts held entries back. If the ledger fails, too, the rows are free when this
    // process ends.
    await this.options.journal.release(claim.mailbox, claim.owner, ids, null, because).catch(() => {});
  }

  async renew(claim: Holder, lease: Lease): Promise<boolean> {
    return (await this.options.journal.renew(claim.mailbox, claim.owner, this.options.now() + lease.ms)) > 0;
  }

  /** T3 and T4: settles in the ledger, archives and shows in the same transaction, then removes the entries from held/. */
  async settle(claim: Holder, ids: MessageId[], settlement: Settlement, show?: Show): Promise<boolean> {
    const { mailbox, owner } = claim;
    const { root, journal } = this.options;
    const showing = new TakeShow(show);
    const session = this.#inboxes.session(mailbox);
    const lines = await this.#archiveLines(mailbox, session, ids, settlement);
    this.#inboxes.onStep('T3 settle');
    let settled: MessageId[] | null;
    try {
      settled = await journal.settle(mailbox, owner, ids, settlement, () => {
        this.#reserve.orSpend(() => appendArchive(root, session, lines));
        this.#inboxes.onStep('T3 archived');
        showing.run();
        this.#inboxes.onStep('T3 shown');
      });
    } catch (error) {
      // The disk may refuse this, too. Then the copies are free when this process or the lease ends.
      await this.release(claim, ids, showing.because, undefined, showing.isSeen).catch(() => {});
      throw explained(showing.explained(error, root), root, 'nothing was lost');
    }
    if (!settled) return false;
    this.#inboxes.onStep('T4 sweep');
    this.#reserve.orSpend(() => this.#inboxes.drop(mailbox, settled));
    this.#inboxes.onStep('T4 swept');
    return true;
  }

  /** The lines for the archive. Ephemeral messages get none. spec: c2c#archive */
  async #archiveLines(
    mailbox: AgentName,
    session: string,
    ids: MessageId[],
    { by }: Settlement,
  ): Promise<ArchiveLine[]> {
    const way = by['drained_by'];
    const held = this.#inboxes.held(mailbox);
    const lines: ArchiveLine[] = [];
    for (const id of ids) {
      const entry = held.get(id)?.entry ?? (await this.#entryFromLedger(mailbox, id));
      if (!entry || entry['ephemeral'] === true) continue;
      lines.push({
        drained_at: this.options.now() / 1000,
        drained_by: typeof way === 'string' ? way : 'unknown',
        session_id: session,
        from_alias: entry.from_alias,
        to_alias: entry.to_alias,
        content: entry.content,
        ...(entry['deferrable'] === true && { deferrable: true }),
        message_id: id,
        ts: entry.ts ?? 0,
      });
    }
    return lines;
  }

  /** The entry of a message that was taken before its sender wrote it to the inbox. */
  async #entryFromLedger(mailbox: AgentName, id: MessageId): Promise<BrokerEntry | null> {
    const message = await this.options.journal.message(id);
    return message && (JSON.parse(entryText(message, mailbox)) as BrokerEntry);
  }

  /** R1 and R2. The inbox first: none of our readers takes the entries until the ledger releases them. */
  async release(
    { mailbox, owner }: Holder,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun = false,
  ): Promise<MessageId[]> {
    const { journal, now } = this.options;
    const until = delayMs ? now() + delayMs : null;
    const own = new Map((await journal.heldBy(mailbox, owner)).map((copy) => [copy.id, copy]));
    if (until === null) {
      this.#inboxes.onStep('R put back');
      const back = ids.filter((id) => own.has(id));
      this.#reserve.orSpend(() => this.#inboxes.putBack(mailbox, back));
    }
    this.#inboxes.onStep('R release');
    const released = await journal.release(mailbox, owner, ids, until, because, undefined, begun);
    this.#inboxes.onStep('R released');
    // These were taken before the ledger knew that they are in the inbox.
    if (until === null && released.some((id) => own.get(id)?.fileless)) await this.#sender.fileLeftovers();
    return released;
  }

  async heal(): Promise<void> {
    await this.#explaining(async () => this.#reconciler.heal());
  }

  async adopt(mailbox: AgentName): Promise<number> {
    return this.#explaining(async () => this.#reconciler.reconcile(mailbox));
  }

  async lower(mailbox: AgentName, id: MessageId): Promise<void> {
    const copy = await this.options.journal.copy(mailbox, id);
    if (copy?.state !== 'stored' || isQuiet(copy.attention)) return;
    await this.options.journal.reconsider(mailbox, id, { ...copy.attention, injection: 'tool_mailbox' });
  }

  async raise(mailbox: AgentName, id: MessageId): Promise<boolean> {
    const { journal, root } = this.options;
    const copy = await journal.copy(mailbox, id);
    if (!copy || copy.settledAt !== null || !isQuiet(copy.attention)) return false;
    await journal.reconsider(mailbox, id, { ...copy.attention, injection: 'notify' });
    if (copy.state !== 'stored') return false;
    // No file changes, so set the times of the inbox and its folder: watchers notice that.
    const now = new Date();
    for (const path of [this.#inboxes.path(mailbox), root]) ifThere(() => lutimesSync(path, now, now));
    return true;
  }

  async withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]> {
    const before = await this.options.journal.withdraw(id, by);
    this.#inboxes.onStep('W withdrawn');
    const after: CopyRecord[] = [];
    for (const copy of before) {
      const isGone = isWaiting(copy) && this.#inboxes.remove(copy.mailbox, [id]).length === 0 && !copy.fileless;
      if (isGone) await this.options.journal.lost(copy.mailbox, id);
      after.push(isGone ? { ...copy, state: 'gone' } : copy);
    }
    return after;
  }

  /** Nothing to do: every copy is in its inbox before `put` returns. */
  async flush(): Promise<void> {}

  async asides(): Promise<string[]> {
    return this.#inboxes.asides();
  }

  async remove(mailbox: AgentName): Promise<void> {
    this.#inboxes.empty(mailbox);
  }

  async close(): Promise<void> {}

  async #explaining<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      throw explained(error, this.options.root, 'nothing was lost');
    }
  }
}
