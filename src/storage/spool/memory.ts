import { isQuiet } from '../../protocol/attention.ts';
import type { Attention } from '../../protocol/attention.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence } from '../../protocol/receipt.ts';
import { newHolder } from '../holder.ts';
import type { Acceptance, CopyRecord, Entry, Ledger, Settlement } from '../ledger/ledger.ts';
import { isWaiting } from '../ledger/rules.ts';
import { Showing } from './showing.ts';
import type { Claim, Lease, Show, Spool, Waiting, Watch } from './spool.ts';

/** A copy on its shelf. */
interface Shelved extends Waiting {
  held: boolean;
}

/** The spool of one process, gone with it: for tests and trials. No other program can leave anything here. */
export class MemorySpool implements Spool {
  readonly #shelves = new Map<AgentName, Map<MessageId, Shelved>>();
  readonly #published = new Set<string>();
  readonly #watchers = new Map<AgentName, Set<{ onArrival: () => void }>>();

  constructor(readonly options: { ledger: Ledger; now: () => number }) {}

  async put(entry: Entry): Promise<Acceptance> {
    const accepted = await this.options.ledger.accept(entry);
    const { message, copies } = accepted;
    for (const { mailbox, attention } of copies) this.#publish(mailbox, message, attention);
    return accepted;
  }

  async peek(mailbox: AgentName): Promise<Waiting[]> {
    const waiting = this.#waiting(mailbox).map(({ message, quiet }) => structuredClone({ message, quiet }));
    return waiting.sort((a, b) => (a.message.ts < b.message.ts ? -1 : 1));
  }

  async ids(mailbox: AgentName, loudOnly = false): Promise<MessageId[]> {
    return this.#waiting(mailbox).flatMap(({ message, quiet }) => (loudOnly && quiet ? [] : [message.id]));
  }

  async read(mailbox: AgentName, id: MessageId): Promise<Waiting | null> {
    return (await this.peek(mailbox)).find(({ message }) => message.id === id) ?? null;
  }

  async adopt(mailbox: AgentName): Promise<number> {
    for (const [id, { held }] of this.#shelf(mailbox)) {
      if (held && (await this.options.ledger.copy(mailbox, id))?.state === 'stored') this.#putBack(mailbox, id);
    }
    return 0;
  }

  async claim(mailbox: AgentName, ids: MessageId[], lease: Lease): Promise<Claim> {
    const owner = newHolder(lease.bearer ?? false, lease.process);
    const until = this.options.now() + lease.ms;
    const claim: Claim = { mailbox, owner, until, copies: [] };
    const { won } = await this.options.ledger.claim(mailbox, ids, owner, until);
    for (const { id, attempt, attention } of won) {
      const shelved = this.#shelf(mailbox).get(id);
      if (shelved) {
        shelved.held = true;
        claim.copies.push({ message: structuredClone(shelved.message), attempt, attention });
      } else {
        // Its sender has not come to publish it yet.
        await this.options.ledger.release(mailbox, owner, [id], null, { because: 'it is not here yet' });
      }
    }
    return claim;
  }

  async renew({ mailbox, owner }: Pick<Claim, 'mailbox' | 'owner'>, lease: Lease): Promise<boolean> {
    return (await this.options.ledger.renew(mailbox, owner, this.options.now() + lease.ms)) > 0;
  }

  async settle(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    settlement: Settlement,
    show?: Show,
  ): Promise<boolean> {
    const { mailbox, owner } = claim;
    const showing = new Showing(show);
    try {
      const settled = await this.options.ledger.settle(mailbox, owner, ids, settlement, () => showing.run());
      for (const id of settled ?? []) this.#shelf(mailbox).delete(id);
      return settled !== null;
    } catch (error) {
      await this.release(claim, ids, showing.because, undefined, showing.isSeen);
      throw showing.explained(error, 'memory');
    }
  }

  async release(
    { mailbox, owner }: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]> {
    const until = delayMs ? this.options.now() + delayMs : null;
    const putBack = (id: MessageId): void => this.#putBack(mailbox, id);
    return this.options.ledger.release(mailbox, owner, ids, until, because, putBack, begun);
  }

  watch(mailbox: AgentName, onArrival: () => void): Watch {
    const watchers = this.#watchers.get(mailbox) ?? new Set();
    const watcher = { onArrival };
    this.#watchers.set(mailbox, watchers.add(watcher));
    return {
      close() {
        watchers.delete(watcher);
        watcher.onArrival = () => {};
      },
    };
  }

  async lower(mailbox: AgentName, id: MessageId): Promise<void> {
    const shelved = this.#shelf(mailbox).get(id);
    if (shelved) shelved.quiet = true;
  }

  async raise(mailbox: AgentName, id: MessageId): Promise<boolean> {
    const copy = await this.options.ledger.copy(mailbox, id);
    if (!copy || copy.settledAt !== null) return false;
    if (isQuiet(copy.attention)) {
      await this.options.ledger.reconsider(mailbox, id, { ...copy.attention, injection: 'notify' });
    }
    const shelved = this.#shelf(mailbox).get(id);
    if (!shelved?.quiet) return false;
    shelved.quiet = false;
    if (!shelved.held) this.#tell(mailbox);
    return !shelved.held;
  }

  async withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]> {
    const before = await this.options.ledger.withdraw(id, by);
    for (const copy of before) if (isWaiting(copy)) this.#shelf(copy.mailbox).delete(id);
    return before;
  }

  async heal(): Promise<void> {
    for (const copy of await this.options.ledger.abandoned()) {
      await this.options.ledger.restore(copy, () => this.#putBack(copy.mailbox, copy.id));
    }
    await this.options.ledger.complete();
  }

  /** Here every copy has its place before it is accepted. */
  async flush(): Promise<void> {}

  async asides(): Promise<string[]> {
    return [];
  }

  async remove(mailbox: AgentName): Promise<void> {
    this.#shelves.delete(mailbox);
  }

  async close(): Promise<void> {}

  /** Once per copy, whoever comes first: as a rename has one winner. */
  #publish(mailbox: AgentName, message: Message, attention: Attention): void {
    const copy = `${mailbox}/${message.id}`;
    if (this.#published.has(copy)) return;
    this.#published.add(copy);
    this.#shelf(mailbox).set(message.id, { message: structuredClone(message), quiet: isQuiet(attention), held: false });
    if (!isQuiet(attention)) this.#tell(mailbox);
  }

  #putBack(mailbox: AgentName, id: MessageId): void {
    const shelved = this.#shelf(mailbox).get(id);
    if (shelved) shelved.held = false;
    this.#tell(mailbox);
  }

  #tell(mailbox: AgentName): void {
    for (const watcher of this.#watchers.get(mailbox) ?? []) queueMicrotask(() => watcher.onArrival());
  }

  #shelf(mailbox: AgentName): Map<MessageId, Shelved> {
    const shelf = this.#shelves.get(mailbox) ?? new Map<MessageId, Shelved>();
    this.#shelves.set(mailbox, shelf);
    return shelf;
  }

  #waiting(mailbox: AgentName): Shelved[] {
    return [...this.#shelf(mailbox).values()].filter((shelved) => !shelved.held);
  }
}
