import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import { newHolder } from '../../platform/holder.ts';
import type { CopyState, Entry } from '../../core/ports/journal.ts';
import { withLineage } from '../../store/maildir/files.ts';
import { derivedId, entryFingerprint, messageOf } from './entry.ts';
import type { BrokerEntry } from './entry.ts';
import type { InboxEntry } from './inbox.ts';
import type { InboxStore } from './inbox-store.ts';
import type { C2cMailboxOptions } from './mailbox.ts';
import type { Sender } from './send.ts';

/** Which ids of a mailbox are open in the ledger. */
type Open = ReadonlyMap<MessageId, unknown>;

/** Rows are changed in batches: one long transaction would make every other process wait. */
const BATCH = 256;
/** The lease of a copy while we put it back: far more than it takes. */
const PUT_BACK_MS = 30_000;
/** How often the claims of one process tidy a mailbox. */
const TIDY_MS = 60_000;
const DIED: Evidence = { because: 'the reader died or let its lease run out' };
const NOT_HELD: Evidence = { because: 'it was set apart, and nobody held it' };

/** Finishes what dead processes left half done, and reconciles an inbox with what other programs did in it. */
export class Reconciler {
  readonly #tidied = new Map<AgentName, number>();

  constructor(
    readonly inboxes: InboxStore,
    readonly sender: Sender,
    readonly options: C2cMailboxOptions,
  ) {}

  /**
   * What is in the inbox, each under its id. An entry without one, or with one under which other words are known, is known by its
   * words, and equal ones by their number. The number of a settled or held copy is not given again, so the same words said later are
   * another message.
   */
  async found(mailbox: AgentName, open: Open): Promise<Map<MessageId, InboxEntry>> {
    const { entries } = this.inboxes.look(mailbox);
    const held = this.inboxes.held(mailbox);
    const carried = new Set(entries.map(({ id }) => id));
    const isTaken = async (id: MessageId): Promise<boolean> =>
      carried.has(id) || held.has(id) || (await this.#state(mailbox, id, open)) === 'settled';
    const found = new Map<MessageId, InboxEntry>();
    const next = new Map<string, number>();
    for (const one of entries) {
      let id = one.id;
      if (!id || (!open.has(id) && (await this.#isReused(id, one.entry)))) {
        const print = one.print ?? entryFingerprint(one.entry);
        let n = next.get(print) ?? 0;
        while (await isTaken(derivedId(print, n))) n += 1;
        next.set(print, n + 1);
        id = derivedId(print, n);
      }
      found.set(id, one);
    }
    return found;
  }

  /** The ledger is asked only for what is not open. */
  async #state(mailbox: AgentName, id: MessageId, open: Open): Promise<CopyState | null> {
    return open.has(id) ? 'stored' : ((await this.options.journal.copy(mailbox, id))?.state ?? null);
  }

  /** Another program may use an id again that other words have. Of words that are pruned nobody can tell. */
  async #isReused(id: MessageId, { content, from_alias: from }: BrokerEntry): Promise<boolean> {
    const known = await this.options.journal.message(id);
    return known !== null && known.body !== '' && (known.body !== content || known.from !== from);
  }

  /** Cheap when nothing is wrong: one question to the ledger. */
  async heal(): Promise<void> {
    this.inboxes.makeFolder();
    const { held, fresh, unexported } = await this.options.journal.troubles();
    if (held) await this.#freeAbandoned();
    if (fresh) {
      for (const mailbox of this.inboxes.mailboxes()) await this.#reconcileIfPlain(mailbox);
      this.inboxes.onStep('H complete');
      await this.options.journal.complete();
    }
    if (held || fresh || unexported) await this.sender.fileLeftovers();
  }

  /** Something odd in the place of one inbox must not stop everybody: its own reader is told. */
  async #reconcileIfPlain(mailbox: AgentName): Promise<void> {
    try {
      await this.reconcile(mailbox);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }

  async #freeAbandoned(): Promise<void> {
    const abandoned = await this.options.journal.abandoned();
    for (const [mailbox, copies] of Map.groupBy(abandoned, (copy) => copy.mailbox)) {
      const ids = copies.map(({ id }) => id);
      await this.#letWait(mailbox, ids, DIED);
    }
  }

  /**
   * Puts back what no reader holds. We claim it ourselves first: of many processes that heal one does it, and meanwhile no reader takes
   * it. If we die over it, it is a dead reader's again.
   */
  async #letWait(mailbox: AgentName, ids: MessageId[], because: Evidence): Promise<void> {
    const { journal, now } = this.options;
    const owner = newHolder(false);
    const mine: MessageId[] = [];
    for (const batch of batches(ids)) {
      const { won } = await journal.claim(mailbox, batch, owner, now() + PUT_BACK_MS);
      mine.push(...won.map(({ id }) => id));
    }
    this.inboxes.onStep('H claimed');
    this.inboxes.putBack(mailbox, mine);
    this.inboxes.onStep('H put back');
    await journal.release(mailbox, owner, mine, null, because);
    this.inboxes.onStep('H released');
  }

  /** Reconciles an inbox with the ledger: what others left gets its row, what they took is noted. Returns how many were new. */
  async reconcile(mailbox: AgentName): Promise<number> {
    await this.tidy(mailbox);
    if (this.inboxes.look(mailbox).broken !== undefined) this.inboxes.mend(mailbox);
    // The ledger is read before the inbox: a copy that moves meanwhile is looked at once more, and not lost.
    const open = await this.options.journal.openIds(mailbox);
    const held = this.inboxes.held(mailbox);
    const found = await this.found(mailbox, open);
    const missing = [...open].filter(([id, hasFile]) => hasFile && !found.has(id) && !held.has(id)).map(([id]) => id);
    if (missing.length > 0) await this.#noteMissing(mailbox, missing);
    const strangers = new Map<MessageId, InboxEntry>();
    const spent: MessageId[] = [];
    for (const [id, one] of found) {
      const state = await this.#state(mailbox, id, open);
      if (state === null) strangers.set(id, one);
      if (state === 'settled') spent.push(id);
    }
    // Settled long ago: another program wrote them there once more.
    if (spent.length > 0) this.inboxes.remove(mailbox, spent, true);
    await this.#adopt(mailbox, strangers);
    return strangers.size;
  }

  /** Makes rows for entries of other programs. */
  async #adopt(mailbox: AgentName, strangers: ReadonlyMap<MessageId, InboxEntry>): Promise<void> {
    const entries: Entry[] = [];
    for (const [id, { entry }] of strangers) {
      const message = messageOf(entry, mailbox, id);
      const { attention, lineage } = await this.options.judge(mailbox, message);
      const copies = [{ mailbox, attention }];
      entries.push({ message: withLineage(message, lineage), key: message.parley?.key, copies });
    }
    for (const batch of batches(entries)) {
      this.inboxes.onStep('H adopt');
      await this.options.journal.adopt(batch, 'stored');
    }
  }

  /** For claims: nobody waits for what a dead reader left in held/, so once a minute is enough. */
  async tidyNowAndThen(mailbox: AgentName): Promise<void> {
    const now = this.options.now();
    // The clock may be set back.
    if (Math.abs(now - (this.#tidied.get(mailbox) ?? -Infinity)) < TIDY_MS) return;
    this.#tidied.set(mailbox, now);
    await this.tidy(mailbox);
  }

  /** Reconciles what is held with the ledger. Costs a look for a file when nothing is held, and else one query. */
  async tidy(mailbox: AgentName): Promise<void> {
    const held = [...this.inboxes.held(mailbox).keys()];
    if (held.length === 0) return;
    const open = await this.options.journal.open(mailbox);
    const states = new Map<MessageId, CopyState | undefined>();
    // Only what a crash left behind is not open.
    for (const id of held) states.set(id, (open.get(id) ?? (await this.options.journal.copy(mailbox, id)))?.state);
    const ended = held.filter((id) => states.get(id) === 'settled');
    const waiting = held.filter((id) => states.get(id) === 'stored');
    // Nobody can hold what has no row: the ledger is a new one.
    const rowless = held.filter((id) => !['settled', 'stored', 'held'].includes(states.get(id) ?? ''));
    if (ended.length > 0) this.inboxes.drop(mailbox, ended);
    if (rowless.length > 0) this.inboxes.putBack(mailbox, rowless);
    if (waiting.length > 0) await this.#letWait(mailbox, waiting, NOT_HELD);
  }

  /** What waits by its row and is nowhere was taken by another program. While we look we hold it. */
  async #noteMissing(mailbox: AgentName, missing: MessageId[]): Promise<void> {
    const { journal, now } = this.options;
    const owner = newHolder(false);
    for (const batch of batches(missing)) {
      const { won } = await journal.claim(mailbox, batch, owner, now() + PUT_BACK_MS);
      this.inboxes.onStep('H claimed');
      const found = await this.found(mailbox, new Map(missing.map((id) => [id, true])));
      const held = this.inboxes.held(mailbox);
      for (const { id, text } of won) {
        const isHere = text !== undefined || found.has(id) || held.has(id);
        if (isHere) await journal.release(mailbox, owner, [id], null, NOT_HELD);
        else await journal.lost(mailbox, id);
      }
    }
  }
}

export function* batches<T>(all: readonly T[]): Generator<T[]> {
  for (let at = 0; at < all.length; at += BATCH) yield all.slice(at, at + BATCH);
}
