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

/** The ids of a mailbox that are open in the ledger. */
type Open = ReadonlyMap<MessageId, unknown>;

/** The most rows in one transaction: a long one would make every other process wait. */
const BATCH = 256;
/** The lease of a copy while we put it back, far longer than that takes. */
const PUT_BACK_MS = 30_000;
/** How often the claims of one process tidy a mailbox. */
const TIDY_MS = 60_000;
const DIED: Evidence = { because: 'the reader died or let its lease run out' };
const NOT_HELD: Evidence = { because: 'it was set apart, and nobody held it' };

/** Finishes the unfinished work of dead processes, and brings the ledger up to date with what other programs did to an inbox. */
export class Reconciler {
  readonly #tidied = new Map<AgentName, number>();

  constructor(
    readonly inboxes: InboxStore,
    readonly sender: Sender,
    readonly options: C2cMailboxOptions,
  ) {}

  /**
   * The entries of the inbox by id. An entry without an id, or with an id that the ledger knows with another text, gets an id from its fingerprint
   * and a number that tells equal entries apart. The number of a settled or held copy is not used again, so an equal entry that is written later
   * is another message.
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

  /** The state of a copy. Reads the ledger only if the copy is not open. */
  async #state(mailbox: AgentName, id: MessageId, open: Open): Promise<CopyState | null> {
    return open.has(id) ? 'stored' : ((await this.options.journal.copy(mailbox, id))?.state ?? null);
  }

  /** Whether another program used the id of another message again. A message whose body was pruned cannot be compared: then false. */
  async #isReused(id: MessageId, { content, from_alias: from }: BrokerEntry): Promise<boolean> {
    const known = await this.options.journal.message(id);
    return known !== null && known.body !== '' && (known.body !== content || known.from !== from);
  }

  /** Repairs everything that dead processes left. One query if there is nothing to repair. */
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

  /** Reconciles one inbox. A refusal (such as an inbox that is not a plain file) must not stop the others: its own reader gets it later. */
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
   * Puts back entries in held/ that no live reader holds. Claims them first, so that of many healing processes only one does it, and no reader
   * takes them meanwhile. If this process dies here, they belong to a dead reader again.
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

  /** Reconciles an inbox with the ledger: adds rows for entries that others left, and records entries that they took. Returns how many were new. */
  async reconcile(mailbox: AgentName): Promise<number> {
    await this.tidy(mailbox);
    if (this.inboxes.look(mailbox).broken !== undefined) this.inboxes.mend(mailbox);
    // Read the ledger before the inbox: a copy that moves in between looks missing, is checked again in `#noteMissing`, and is not lost.
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
    // Settled copies: another program has written them to the inbox again.
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

  /** Tidies for claims, at most once a minute: leftovers of dead readers in held/ are not urgent. */
  async tidyNowAndThen(mailbox: AgentName): Promise<void> {
    const now = this.options.now();
    // The clock may be set back.
    if (Math.abs(now - (this.#tidied.get(mailbox) ?? -Infinity)) < TIDY_MS) return;
    this.#tidied.set(mailbox, now);
    await this.tidy(mailbox);
  }

  /** Reconciles held/ with the ledger. Without held entries it only checks for a file; else it costs one query. */
  async tidy(mailbox: AgentName): Promise<void> {
    const held = [...this.inboxes.held(mailbox).keys()];
    if (held.length === 0) return;
    const open = await this.options.journal.open(mailbox);
    const states = new Map<MessageId, CopyState | undefined>();
    // Only leftovers of a crash are not open.
    for (const id of held) states.set(id, (open.get(id) ?? (await this.options.journal.copy(mailbox, id)))?.state);
    const ended = held.filter((id) => states.get(id) === 'settled');
    const waiting = held.filter((id) => states.get(id) === 'stored');
    // Without a row there is no holder: the ledger was replaced by a new one.
    const rowless = held.filter((id) => !['settled', 'stored', 'held'].includes(states.get(id) ?? ''));
    if (ended.length > 0) this.inboxes.drop(mailbox, ended);
    if (rowless.length > 0) this.inboxes.putBack(mailbox, rowless);
    if (waiting.length > 0) await this.#letWait(mailbox, waiting, NOT_HELD);
  }

  /** Records copies as lost that wait by their row and are in no file: another program took them. Claims them during the check. */
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
