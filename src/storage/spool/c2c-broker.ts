import { lutimesSync } from 'node:fs';
import { isQuiet } from '../../protocol/attention.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence } from '../../protocol/receipt.ts';
import { messageOf } from '../c2c/entry.ts';
import type { Slip } from '../c2c/inbox-file.ts';
import { explained, ifThere } from '../disk.ts';
import type { Acceptance, CopyRecord, Entry, Ledger, Settlement } from '../ledger/ledger.ts';
import { isWaiting } from '../ledger/rules.ts';
import { BrokerBox } from './c2c-broker-box.ts';
import type { BrokerNames } from './c2c-broker-box.ts';
import { BrokerHealer } from './c2c-broker-heal.ts';
import { BrokerSender } from './c2c-broker-send.ts';
import { BrokerTaker } from './c2c-broker-take.ts';
import { watchFile } from './c2c-broker-watch.ts';
import type { Judgement } from './maildir-send.ts';
import type { Claim, Lease, Show, Spool, Waiting, Watch } from './spool.ts';

export interface C2cSpoolOptions {
  /** The broker directory. */
  root: string;
  ledger: Ledger;
  names: BrokerNames;
  /** How a copy is to be seen that another program left here, and where it stands in its exchange: nothing it says is believed. */
  judge: (mailbox: AgentName, message: Message) => Promise<Judgement>;
  now: () => number;
  /** Told before each step that a crash could separate from the next one. Tests die here. */
  onStep?: (step: string) => void;
}

/**
 * The inboxes of a c2c broker directory, shared with the original and with plain scripts, with the ledger as arbiter among us.
 *
 * send   S1 accept in the ledger: the copies have no file yet        ← accepted, once per key
 *        S2 under the lock of each inbox: copy it with the new entry at its end, flush, rename (an id that is there is not added)
 *        S3 say `placed`       S4 flush the folder                   ← stored
 * take   T1 claim in the ledger   T2 under the lock: write the entries to held/, then the inbox without them
 *        T3 settle in the ledger, and inside: append to the archive, flush, show        T4 take them out of held/
 * back   R1 under the lock: write the inbox with them, then held/ without them          R2 release in the ledger
 *
 * Killed after S1 or in S2: the ledger knows what has no file, and `heal` does it; what stands there already is not added again. Only
 * if another program took it before the ledger heard that it stood there, it comes once more, under the same id. In T1, T2: the
 * ledger knows the dead reader; its copies wait again, and what is in both places is one. In T3 before the commit: it comes again,
 * marked. In T4, or between R1 and R2: `tidy` squares it. What is gone from an inbox was taken elsewhere and never comes back by us.
 *
 * All entries stand in the inbox, the quiet ones too: other programs see everything. That one is quiet is known to the ledger alone.
 */
export class C2cSpool implements Spool {
  readonly #box: BrokerBox;
  readonly #sender: BrokerSender;
  readonly #healer: BrokerHealer;
  readonly #taker: BrokerTaker;

  constructor(readonly options: C2cSpoolOptions) {
    this.#box = new BrokerBox(options.root, options.names, options.onStep);
    this.#sender = new BrokerSender(this.#box, options);
    this.#healer = new BrokerHealer(this.#box, this.#sender, options);
    this.#taker = new BrokerTaker(this.#box, this.#healer, options);
  }

  async put(entry: Entry): Promise<Acceptance> {
    return this.#sender.put(entry);
  }

  async peek(mailbox: AgentName): Promise<Waiting[]> {
    const waiting = await this.#waiting(mailbox);
    const all = [...waiting].map(([id, { slip, quiet }]) => ({ message: messageOf(slip.entry, mailbox, id), quiet }));
    // Those of one moment stay in the order in which they arrived.
    return all.sort((a, b) => (a.message.ts < b.message.ts ? -1 : a.message.ts > b.message.ts ? 1 : 0));
  }

  async ids(mailbox: AgentName, loudOnly = false): Promise<MessageId[]> {
    const waiting = await this.#waiting(mailbox);
    return [...waiting].flatMap(([id, { quiet }]) => (loudOnly && quiet ? [] : [id]));
  }

  async read(mailbox: AgentName, id: MessageId): Promise<Waiting | null> {
    const found = (await this.#waiting(mailbox)).get(id);
    return found ? { message: messageOf(found.slip.entry, mailbox, id), quiet: found.quiet } : null;
  }

  async claim(mailbox: AgentName, ids: MessageId[], lease: Lease): Promise<Claim> {
    return this.#taker.claim(mailbox, ids, lease);
  }

  async renew(claim: Pick<Claim, 'mailbox' | 'owner'>, lease: Lease): Promise<boolean> {
    return (await this.options.ledger.renew(claim.mailbox, claim.owner, this.options.now() + lease.ms)) > 0;
  }

  async settle(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    settlement: Settlement,
    show?: Show,
  ): Promise<boolean> {
    return this.#taker.settle(claim, ids, settlement, show);
  }

  async release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]> {
    return this.#taker.release(claim, ids, because, delayMs, begun);
  }

  async adopt(mailbox: AgentName): Promise<number> {
    return this.#doing(async () => this.#healer.adopt(mailbox));
  }

  async lower(mailbox: AgentName, id: MessageId): Promise<void> {
    const copy = await this.options.ledger.copy(mailbox, id);
    if (copy?.state !== 'stored' || isQuiet(copy.attention)) return;
    await this.options.ledger.reconsider(mailbox, id, { ...copy.attention, injection: 'tool_mailbox' });
  }

  async raise(mailbox: AgentName, id: MessageId): Promise<boolean> {
    const copy = await this.options.ledger.copy(mailbox, id);
    if (!copy || copy.settledAt !== null || !isQuiet(copy.attention)) return false;
    await this.options.ledger.reconsider(mailbox, id, { ...copy.attention, injection: 'notify' });
    if (copy.state !== 'stored') return false;
    // Nothing moves, so whoever watches must be told: the inbox is as new as this.
    const now = new Date();
    ifThere(() => lutimesSync(this.#box.path(mailbox), now, now));
    return true;
  }

  async withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]> {
    const before = await this.options.ledger.withdraw(id, by);
    this.options.onStep?.('W withdrawn');
    const after: CopyRecord[] = [];
    for (const copy of before) {
      const wasThere = isWaiting(copy) && (this.#box.remove(copy.mailbox, [id]).length > 0 || copy.fileless);
      if (isWaiting(copy) && !wasThere) await this.options.ledger.lost(copy.mailbox, id);
      after.push(isWaiting(copy) && !wasThere ? { ...copy, state: 'gone' } : copy);
    }
    return after;
  }

  watch(mailbox: AgentName, onArrival: () => void): Watch {
    return watchFile(this.options.root, () => this.#box.path(mailbox), onArrival);
  }

  async heal(): Promise<void> {
    await this.#doing(async () => {
      this.#box.make();
      await this.#healer.heal();
    });
  }

  /** Here every copy has its place before it is stored. */
  async flush(): Promise<void> {}

  async asides(): Promise<string[]> {
    return this.#box.asides();
  }

  async remove(mailbox: AgentName): Promise<void> {
    this.#box.empty(mailbox);
  }

  async close(): Promise<void> {}

  /** What stands in the inbox and is in nobody's hand. What has no row waits too: another program left it. */
  async #waiting(mailbox: AgentName): Promise<Map<MessageId, { slip: Slip; quiet: boolean }>> {
    const { ledger } = this.options;
    const open = await ledger.open(mailbox);
    const waiting = new Map<MessageId, { slip: Slip; quiet: boolean }>();
    for (const [id, slip] of await this.#healer.found(mailbox, open)) {
      const copy = open.get(id) ?? (await ledger.copy(mailbox, id));
      if (copy?.state === 'held' || copy?.state === 'settled') continue;
      waiting.set(id, { slip, quiet: copy ? isQuiet(copy.attention) : false });
    }
    return waiting;
  }

  async #doing<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      throw explained(error, this.options.root, 'nothing was lost');
    }
  }
}
