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
  /** How a copy is to be seen that another program left here, and its place in its exchange: nothing it says is believed. */
  judge: (mailbox: AgentName, message: Message) => Promise<Judgement>;
  now: () => number;
  /** Called before each step that a crash could separate from the next one. Tests die here. */
  onStep?: (step: string) => void;
}

/** How often a watcher looks at the inbox by itself. */
const LOOK_MS = 2000;

type Holder = Pick<Claim, 'mailbox' | 'owner'>;

/**
 * The inboxes of a c2c broker directory, shared with the original and with plain scripts, with the ledger as arbiter among us.
 *
 * send   S1 accept in the ledger: the copies have no file yet        ← accepted, once per key
 *        S2 under the lock of each inbox: write it with the new entry at its end (an id that is there is not added)
 *        S3 say `placed`       S4 flush the folder                   ← stored
 * take   T1 claim in the ledger   T2 under the lock: write the entries to held/, then the inbox without them
 *        T3 settle in the ledger, and inside: append to the archive, flush, show        T4 remove them from held/
 * back   R1 under the lock: write the inbox with them, then held/ without them          R2 release in the ledger
 *
 * Killed after S1 or in S2: the ledger knows what has no file, and `heal` does it; what is there already is not added again. Only
 * if another program took it before the ledger heard that it stood there, it comes once more, under the same id. In T1, T2: the
 * ledger knows the dead reader; its copies wait again, and what is in both files is one. In T3 before the commit: it comes again,
 * marked. In T4, or between R1 and R2: `tidy` corrects it. What is gone from an inbox was taken elsewhere and never comes back by us.
 *
 * All entries are in the inbox, the quiet ones too: other programs see everything. Only the ledger knows which are quiet.
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
    // Those of one moment stay in the order in which they arrived.
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

  /** What is in the inbox and nobody holds. What has no row waits too: another program left it. */
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

  /** Calls back when the inbox was changed or replaced. Which file it is may change meanwhile. */
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
    // The folder does not change when another program writes the inbox in place, and its file event may be lost.
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

  /** T1. Mail that another program left gets its row first. */
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
   * T2. A copy that is not there any more was taken by another program. One without a file that no look has found there is still its
   * sender's: it waits until the sender has finished.
   */
  async #takeHeld({ mailbox, owner }: Claim, won: Claimed['won']): Promise<Claim['copies']> {
    const { journal } = this.options;
    const ids = won.map(({ id }) => id);
    const held = this.#reserve.orSpend(() => this.#inboxes.take(mailbox, ids));
    const copies: Claim['copies'] = [];
    for (const { id, attempt, attention, text } of won) {
      const entry = held.get(id)?.entry;
      if (entry) copies.push({ message: messageOf(entry, mailbox, id), attempt, attention });
      else if (text === undefined || this.#inboxes.stood(mailbox, id)) await journal.lost(mailbox, id);
      else await journal.release(mailbox, owner, [id], null, { because: 'it is not here yet' });
    }
    return copies;
  }

  /** After a claim that failed half-way: a live process would keep what it has no use for. */
  async #letGo(claim: Claim, ids: MessageId[]): Promise<void> {
    const because = { because: 'it could not be claimed' };
    // Only the rows: files may refuse to be written now, and `tidy` puts back what is held. If the ledger refuses too, the end of
    // this process frees them.
    await this.options.journal.release(claim.mailbox, claim.owner, ids, null, because).catch(() => {});
  }

  async renew(claim: Holder, lease: Lease): Promise<boolean> {
    return (await this.options.journal.renew(claim.mailbox, claim.owner, this.options.now() + lease.ms)) > 0;
  }

  /** T3 and T4. */
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
      // A disk that refused this may refuse that too; then the end of this process, or of the lease, frees them.
      await this.release(claim, ids, showing.because, undefined, showing.isSeen).catch(() => {});
      throw explained(showing.explained(error, root), root, 'nothing was lost');
    }
    if (!settled) return false;
    this.#inboxes.onStep('T4 sweep');
    this.#reserve.orSpend(() => this.#inboxes.drop(mailbox, settled));
    this.#inboxes.onStep('T4 swept');
    return true;
  }

  /** spec: c2c#archive */
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

  /** One that never stood in the inbox: it was taken before its sender came to that. */
  async #entryFromLedger(mailbox: AgentName, id: MessageId): Promise<BrokerEntry | null> {
    const message = await this.options.journal.message(id);
    return message && (JSON.parse(entryText(message, mailbox)) as BrokerEntry);
  }

  /** R1 and R2. The inbox first: until the ledger says so, none of our readers takes it there. */
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
    // When these were taken, the ledger did not know that they are in the inbox.
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
    // Nothing moves, so watchers see it by the times of the inbox and of its folder.
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

  /** Here every copy is in its inbox before it is stored. */
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
