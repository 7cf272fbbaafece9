import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence } from '../../protocol/receipt.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { messageOf } from '../c2c/entry.ts';
import type { Slip } from '../c2c/inbox-file.ts';
import { newHolder } from '../holder.ts';
import type { Entry } from '../ledger/ledger.ts';
import type { BrokerBox } from './c2c-broker-box.ts';
import { identified, reusedIn, stateIn } from './c2c-broker-found.ts';
import type { Found } from './c2c-broker-found.ts';
import type { C2cSpoolOptions } from './c2c-broker.ts';
import type { BrokerSender } from './c2c-broker-send.ts';
import { withLineage } from './maildir-found.ts';

/** Rows are changed in bites: one long transaction would make every other process wait. */
const BITE = 256;
/** So long a copy is ours that we put back: far more than it takes. */
const PUT_BACK_MS = 30_000;
/** How often one process squares what others hold of a mailbox. */
const TIDY_MS = 60_000;
const DIED: Evidence = { because: 'the reader died or let its lease run out' };
const NOBODYS: Evidence = { because: 'it stood in a hand that nobody had' };

/** Finishes what others left half done, and squares an inbox with what other programs did in it. */
export class BrokerHealer {
  readonly #tidied = new Map<AgentName, number>();

  constructor(
    readonly box: BrokerBox,
    readonly sender: BrokerSender,
    readonly options: C2cSpoolOptions,
  ) {}

  /** Cheap when nothing is wrong: one question to the ledger. */
  async heal(): Promise<void> {
    const { held, fresh, unexported } = await this.options.ledger.troubles();
    if (held) await this.#freeAbandoned();
    if (fresh) {
      for (const mailbox of this.box.mailboxes()) await this.#adoptIfPlain(mailbox);
      this.#step('H complete');
      await this.options.ledger.complete();
    }
    if (held || fresh || unexported) await this.sender.fileLeftovers();
  }

  /** Something odd in the place of one inbox must not stop everybody: whoever reads that one is told. */
  async #adoptIfPlain(mailbox: AgentName): Promise<void> {
    try {
      await this.adopt(mailbox);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }

  async #freeAbandoned(): Promise<void> {
    const abandoned = await this.options.ledger.abandoned();
    for (const [mailbox, copies] of Map.groupBy(abandoned, (copy) => copy.mailbox)) {
      await this.#letWait(
        mailbox,
        copies.map(({ id }) => id),
        DIED,
      );
    }
  }

  /**
   * Puts back what nobody has in hand. We claim it ourselves first: of many who heal one does it, and meanwhile no reader takes it. If
   * we die over it, it is a dead reader's again.
   */
  async #letWait(mailbox: AgentName, ids: MessageId[], because: Evidence): Promise<void> {
    const { ledger, now } = this.options;
    const owner = newHolder(false);
    const mine: MessageId[] = [];
    for (let at = 0; at < ids.length; at += BITE) {
      const { won } = await ledger.claim(mailbox, ids.slice(at, at + BITE), owner, now() + PUT_BACK_MS);
      mine.push(...won.map(({ id }) => id));
    }
    this.#step('H in our hand');
    this.box.putBack(mailbox, mine);
    this.#step('H put back');
    await ledger.release(mailbox, owner, mine, null, because);
    this.#step('H released');
  }

  /** Returns how many were new. */
  async adopt(mailbox: AgentName): Promise<number> {
    await this.tidy(mailbox);
    if (this.box.look(mailbox).broken !== undefined) this.box.mend(mailbox);
    // The ledger is read before the inbox: a copy that moves meanwhile is looked at once more, and not lost.
    const open = await this.options.ledger.openIds(mailbox);
    const state = stateIn(this.options.ledger, mailbox, open);
    const held = this.box.held(mailbox);
    const found = await this.found(mailbox, open);
    const missing = [...open].filter(([id, hasFile]) => hasFile && !found.has(id) && !held.has(id)).map(([id]) => id);
    if (missing.length > 0) await this.#noteMissing(mailbox, missing);
    const strangers = new Map<MessageId, Slip>();
    const spent: MessageId[] = [];
    for (const [id, slip] of found) {
      const known = open.has(id) ? 'stored' : await state(id);
      if (known === null) strangers.set(id, slip);
      if (known === 'settled') spent.push(id);
    }
    if (spent.length > 0) this.box.remove(mailbox, spent, true);
    await this.#record(mailbox, strangers);
    return strangers.size;
  }

  /** Makes rows for entries of other programs that somebody asks for by name. */
  async adoptThese(mailbox: AgentName, ids: MessageId[]): Promise<void> {
    const found = await this.found(mailbox, await this.options.ledger.openIds(mailbox));
    await this.#record(mailbox, new Map(ids.flatMap((id) => (found.has(id) ? [[id, found.get(id) as Slip]] : []))));
  }

  /** What stands in the inbox, each under its id. */
  async found(mailbox: AgentName, open: ReadonlyMap<MessageId, unknown>): Promise<Found> {
    const state = stateIn(this.options.ledger, mailbox, open);
    const { slips } = this.box.look(mailbox);
    const held = this.box.held(mailbox);
    return identified(slips, state, (id) => held.has(id), reusedIn(this.options.ledger, open));
  }

  async #record(mailbox: AgentName, strangers: ReadonlyMap<MessageId, Slip>): Promise<void> {
    const entries: Entry[] = [];
    for (const [id, { entry }] of strangers) entries.push(await this.#entry(mailbox, messageOf(entry, mailbox, id)));
    for (let at = 0; at < entries.length; at += BITE) {
      this.#step('H adopt');
      await this.options.ledger.adopt(entries.slice(at, at + BITE), 'stored');
    }
  }

  async #entry(mailbox: AgentName, message: Message): Promise<Entry> {
    const { attention, lineage } = await this.options.judge(mailbox, message);
    return { message: withLineage(message, lineage), key: message.parley?.key, copies: [{ mailbox, attention }] };
  }

  /** What a dead reader ended and left in its hand. Nobody waits for that: now and then is enough. */
  async tidyNowAndThen(mailbox: AgentName): Promise<void> {
    const now = this.options.now();
    if (Math.abs(now - (this.#tidied.get(mailbox) ?? -Infinity)) < TIDY_MS) return;
    this.#tidied.set(mailbox, now);
    await this.tidy(mailbox);
  }

  /** Squares what stands in hands with the ledger. Costs a look for a file when nothing is held. */
  async tidy(mailbox: AgentName): Promise<void> {
    const held = this.box.held(mailbox);
    if (held.size === 0) return;
    const ended: MessageId[] = [];
    const nobodys: MessageId[] = [];
    const rowless: MessageId[] = [];
    const open = await this.options.ledger.open(mailbox);
    for (const id of held.keys()) {
      const state = (open.get(id) ?? (await this.options.ledger.copy(mailbox, id)))?.state;
      if (state === 'settled') ended.push(id);
      else if (state === 'stored') nobodys.push(id);
      else if (state !== 'held') rowless.push(id);
    }
    if (ended.length > 0) this.box.drop(mailbox, ended);
    // Nobody can hold what has no row: the ledger is a new one.
    if (rowless.length > 0) this.box.putBack(mailbox, rowless);
    if (nobodys.length > 0) await this.#letWait(mailbox, nobodys, NOBODYS);
  }

  /** What waits by its row and is nowhere was taken by another program. As long as we look it is in our hand. */
  async #noteMissing(mailbox: AgentName, missing: MessageId[]): Promise<void> {
    const { ledger, now } = this.options;
    const owner = newHolder(false);
    for (let at = 0; at < missing.length; at += BITE) {
      const { won } = await ledger.claim(mailbox, missing.slice(at, at + BITE), owner, now() + PUT_BACK_MS);
      this.#step('H in our hand');
      const found = await this.found(mailbox, new Map(missing.map((id) => [id, true])));
      const held = this.box.held(mailbox);
      for (const { id, text } of won) {
        if (text !== undefined || found.has(id) || held.has(id))
          await ledger.release(mailbox, owner, [id], null, NOBODYS);
        else await ledger.lost(mailbox, id);
      }
    }
  }

  #step(name: string): void {
    this.options.onStep?.(name);
  }
}
