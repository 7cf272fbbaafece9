import type { BrokerEntry } from '../../protocol/c2c.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence } from '../../protocol/receipt.ts';
import { appendArchive } from '../c2c/archive.ts';
import type { ArchiveLine } from '../c2c/archive.ts';
import { entryText, messageOf } from '../c2c/entry.ts';
import { explained } from '../disk.ts';
import { newHolder } from '../holder.ts';
import type { Claimed, Settlement } from '../ledger/ledger.ts';
import { Reserve } from '../reserve.ts';
import type { BrokerBox } from './c2c-broker-box.ts';
import type { BrokerHealer } from './c2c-broker-heal.ts';
import type { C2cSpoolOptions } from './c2c-broker.ts';
import { Showing } from './showing.ts';
import type { Claim, Lease, Show } from './spool.ts';

/** Claims go through the ledger in bites: one long transaction would make every other process wait. */
const BITE = 256;

/** The reader's half: T1 to T4, and the way back. The steps stand in c2c-broker.ts. */
export class BrokerTaker {
  readonly #reserve: Reserve;

  constructor(
    readonly box: BrokerBox,
    readonly healer: BrokerHealer,
    readonly options: C2cSpoolOptions,
  ) {
    this.#reserve = new Reserve(`${options.root}/ledger.db.reserve`);
  }

  async claim(mailbox: AgentName, ids: MessageId[], lease: Lease): Promise<Claim> {
    const owner = newHolder(lease.bearer ?? false, lease.process);
    const until = this.options.now() + lease.ms;
    const claim: Claim = { mailbox, owner, until, copies: [] };
    try {
      await this.healer.tidyNowAndThen(mailbox);
      const won = await this.#win(claim, ids);
      if (won.length > 0) claim.copies = await this.#takeInHand(claim, won);
    } catch (error) {
      await this.#letGo(claim, ids);
      throw explained(error, this.options.root, 'nothing was lost');
    }
    return claim;
  }

  /** T1. What another program left gets its row first. */
  async #win(claim: Claim, ids: MessageId[], again = false): Promise<Claimed['won']> {
    const won: Claimed['won'] = [];
    const unknown: MessageId[] = [];
    for (let at = 0; at < ids.length; at += BITE) {
      this.#step('T1 claim');
      const bite = ids.slice(at, at + BITE);
      const claimed = await this.options.ledger.claim(claim.mailbox, bite, claim.owner, claim.until);
      won.push(...claimed.won);
      unknown.push(...claimed.unknown);
      // An entry whose copy was settled long ago: another program wrote it there once more.
      if (claimed.spent.length > 0) this.box.remove(claim.mailbox, claimed.spent, true);
      if (claimed.isScarce) break;
    }
    this.#step('T1 claimed');
    if (unknown.length === 0 || again) return won;
    await this.healer.adoptThese(claim.mailbox, unknown);
    return [...won, ...(await this.#win(claim, unknown, true))];
  }

  /**
   * T2. What is not there any more was taken by another program. One that nobody has seen there, us included, is its sender's still:
   * it waits until that is done.
   */
  async #takeInHand({ mailbox, owner }: Claim, won: Claimed['won']): Promise<Claim['copies']> {
    const ids = won.map(({ id }) => id);
    const held = this.#reserve.orSpend(() => this.box.take(mailbox, ids));
    const copies: Claim['copies'] = [];
    for (const { id, attempt, attention, text } of won) {
      const entry = held.get(id)?.entry;
      if (entry) copies.push({ message: messageOf(entry, mailbox, id), attempt, attention });
      else if (text === undefined || this.box.stood(mailbox, id)) await this.options.ledger.lost(mailbox, id);
      else await this.options.ledger.release(mailbox, owner, [id], null, { because: 'it is not here yet' });
    }
    return copies;
  }

  /** After a claim that failed half-way: a live process would keep what it has no use for. */
  async #letGo(claim: Claim, ids: MessageId[]): Promise<void> {
    try {
      // Only the rows: files may refuse to be written now, and `tidy` puts back what is in hand.
      await this.options.ledger.release(claim.mailbox, claim.owner, ids, null, {
        because: 'it could not be taken in hand',
      });
    } catch {
      // The ledger refuses too; then the end of this process frees them.
    }
  }

  async settle(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    settlement: Settlement,
    show?: Show,
  ): Promise<boolean> {
    const { mailbox, owner } = claim;
    const showing = new Showing(show);
    const session = this.box.session(mailbox);
    const lines = await this.#archiveLines(mailbox, ids, settlement);
    this.#step('T3 settle');
    let settled: MessageId[] | null;
    try {
      settled = await this.options.ledger.settle(mailbox, owner, ids, settlement, () => {
        this.#reserve.orSpend(() => appendArchive(this.options.root, session, lines));
        this.#step('T3 archived');
        showing.run();
        this.#step('T3 shown');
      });
    } catch (error) {
      // A disk that refused this may refuse that too; then the end of this process, or of the lease, frees them.
      await this.release(claim, ids, showing.because, undefined, showing.isSeen).catch(() => {});
      throw explained(showing.explained(error, this.options.root), this.options.root, 'nothing was lost');
    }
    if (!settled) return false;
    this.#step('T4 sweep');
    this.#reserve.orSpend(() => this.box.drop(mailbox, settled));
    this.#step('T4 swept');
    return true;
  }

  /** spec: c2c#archive */
  async #archiveLines(mailbox: AgentName, ids: MessageId[], { by }: Settlement): Promise<ArchiveLine[]> {
    const now = this.options.now() / 1000;
    const way = by['drained_by'];
    const session = this.box.session(mailbox);
    const held = this.box.held(mailbox);
    const lines: ArchiveLine[] = [];
    for (const id of ids) {
      const entry = held.get(id)?.entry ?? (await this.#entryFromLedger(mailbox, id));
      if (!entry || entry['ephemeral'] === true) continue;
      lines.push({
        drained_at: now,
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
    const message: Message | null = await this.options.ledger.message(id);
    return message && (JSON.parse(entryText(message, mailbox)) as BrokerEntry);
  }

  /** The inbox first: until the ledger says so, none of our readers takes it there, and after that it is there. */
  async release(
    { mailbox, owner }: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun = false,
  ): Promise<MessageId[]> {
    const { ledger, now } = this.options;
    const until = delayMs ? now() + delayMs : null;
    const own = new Map((await ledger.heldBy(mailbox, owner)).map((copy) => [copy.id, copy]));
    if (until === null) {
      this.#step('R put back');
      const back = ids.filter((id) => own.has(id));
      this.#reserve.orSpend(() => this.box.putBack(mailbox, back));
    }
    this.#step('R release');
    const released = await ledger.release(mailbox, owner, ids, until, because, undefined, begun);
    this.#step('R released');
    // The ledger must hear that those stand there of which it did not know it when they were taken.
    if (until === null && released.some((id) => own.get(id)?.fileless)) await this.healer.sender.fileLeftovers();
    return released;
  }

  #step(name: string): void {
    this.options.onStep?.(name);
  }
}
