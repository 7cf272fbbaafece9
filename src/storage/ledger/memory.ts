import type { Attention } from '../../protocol/attention.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence, Receipt } from '../../protocol/receipt.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Acceptance, Claimed, CopyRecord, Entry, Ledger, Settlement, Troubles } from './ledger.ts';
import { MemoryDuties } from './memory-duties.ts';
import type { Row } from './memory-records.ts';
import { isBearer } from '../holder.ts';
import { isAbandoned, isWaiting, sameOrConflict } from './rules.ts';

/** The ledger of one process, gone with it: for tests and trials. Nothing here awaits, so every method is one act. */
export class MemoryLedger extends MemoryDuties implements Ledger {
  #fresh = true;

  constructor(readonly now: () => number = Date.now) {
    super();
  }

  async accept(entry: Entry): Promise<Acceptance> {
    const { message, key } = entry;
    const earlier = key && this.keyed(message.from, key);
    if (earlier) return sameOrConflict(earlier, entry);
    const known = this.row(message.id);
    if (known) return this.acceptance(known);
    this.#insert(entry, 'stored', key);
    return { message, copies: entry.copies, first: true };
  }

  async acceptTogether(entries: Entry[]): Promise<(Acceptance | Refusal)[]> {
    const outcomes: (Acceptance | Refusal)[] = [];
    for (const entry of entries) {
      try {
        const accepted = await this.accept(entry);
        const seq = accepted.first ? this.unfileAll(entry.message.id) : undefined;
        outcomes.push({ ...accepted, ...(seq && { seq }) });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        outcomes.push(error);
      }
    }
    return outcomes;
  }

  async adopt(entries: Entry[], as: 'stored' | 'kept'): Promise<void> {
    for (const entry of entries) {
      const { message, key } = entry;
      this.#insert(entry, as, key && this.keyed(message.from, key) ? undefined : key, true);
    }
  }

  async claim(mailbox: AgentName, ids: MessageId[], owner: string, until: number): Promise<Claimed> {
    const result: Claimed = { won: [], unknown: [], spent: [], busy: [] };
    for (const id of ids) {
      const copy = this.row(id)?.copies.get(mailbox);
      if (!copy) result.unknown.push(id);
      else if (copy.state === 'settled') result.spent.push(id);
      else if (copy.owner !== null && !isAbandoned(copy, this.now())) result.busy.push(id);
      else {
        if (copy.owner !== null || copy.state === 'gone') copy.attempt += 1;
        Object.assign(copy, { state: 'held', owner, bearer: isBearer(owner), until, settledAt: null });
        const text = this.handOut(copy);
        result.won.push({ id, attempt: copy.attempt, attention: copy.attention, ...(text && { text }) });
      }
    }
    return result;
  }

  async renew(mailbox: AgentName, owner: string, until: number): Promise<number> {
    const held = this.copies().filter((copy) => copy.mailbox === mailbox && copy.owner === owner);
    for (const copy of held) copy.until = until;
    return held.length;
  }

  async settle(
    mailbox: AgentName,
    owner: string,
    ids: MessageId[],
    { disposition, by, keep = false }: Settlement,
    show?: () => void,
  ): Promise<MessageId[] | null> {
    const held = this.#heldBy(mailbox, owner, ids);
    if (held.length < ids.length) return null;
    show?.();
    for (const copy of held) this.#end(copy, { state: 'settled', disposition, settledBy: by, keep });
    return ids;
  }

  async release(
    mailbox: AgentName,
    owner: string,
    ids: MessageId[],
    until: number | null,
    because: Evidence,
    putBack?: (id: MessageId, attention: Attention) => void,
    begun = false,
  ): Promise<MessageId[]> {
    const held = this.#heldBy(mailbox, owner, ids);
    if (begun) for (const copy of held) copy.attempt += 1;
    if (until === null) for (const copy of held) if (!this.queueExport(copy)) putBack?.(copy.id, copy.attention);
    for (const copy of held) {
      Object.assign(copy, { state: until === null ? 'stored' : 'held', owner: null, bearer: false, until });
      this.#note(copy, 'released', because);
    }
    return held.map((copy) => copy.id);
  }

  async abandoned(): Promise<CopyRecord[]> {
    const held = this.copies().filter((copy) => copy.state === 'held' && isAbandoned(copy, this.now()));
    return structuredClone(held);
  }

  async restore({ mailbox, id, owner }: CopyRecord, putBack: () => void): Promise<boolean> {
    const copy = this.row(id)?.copies.get(mailbox);
    if (copy?.state !== 'held' || copy.owner !== owner || !isAbandoned(copy, this.now())) return false;
    if (!this.queueExport(copy)) putBack();
    if (owner !== null) this.#note(copy, 'released', { because: 'the reader died or let its lease run out' });
    const attempt = copy.attempt + (owner === null ? 0 : 1);
    Object.assign(copy, { state: 'stored', owner: null, bearer: false, until: null, attempt });
    return true;
  }

  async troubles(): Promise<Troubles> {
    const held = this.rows.some(({ copies }) => [...copies.values()].some(({ state }) => state === 'held'));
    return { fresh: this.#fresh, held, unexported: (await this.unexportedCount(1)) > 0 };
  }

  async complete(): Promise<void> {
    this.#fresh = false;
  }

  async withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]> {
    const copies = this.copiesOf(id);
    const before = structuredClone(copies);
    for (const copy of copies.filter(isWaiting)) {
      this.#end(copy, { state: 'settled', disposition: 'superseded', settledBy: by });
    }
    return before;
  }

  async lost(
    mailbox: AgentName,
    id: MessageId,
    how: 'taken_elsewhere' | 'set_aside' = 'taken_elsewhere',
  ): Promise<void> {
    const copy = this.row(id)?.copies.get(mailbox);
    if (!copy || copy.state === 'gone' || (copy.state === 'settled' && copy.disposition !== 'superseded')) return;
    this.#end(copy, { state: 'gone' });
    this.#note(copy, how, { seen: 'the file was gone when we came to take it' });
  }

  async reconsider(mailbox: AgentName, id: MessageId, attention: Attention): Promise<void> {
    const copy = this.row(id)?.copies.get(mailbox);
    if (copy) copy.attention = attention;
  }

  async record(mailbox: AgentName, id: MessageId, receipt: Receipt): Promise<void> {
    this.row(id)?.receipts.push({ ...receipt, mailbox });
  }

  async prune(cut: { bodies: number | null; facts: number | null }): Promise<{ bodies: number; messages: number }> {
    const old = (ms: number | null): Row[] =>
      ms === null ? [] : this.rows.filter((row) => endOf(row) < ms && !this.isOwedSince(row, ms));
    const bodies = old(cut.bodies).filter((row) => !row.pruned);
    for (const row of bodies) Object.assign(row, { pruned: true, message: { ...row.message, body: '' } });
    const messages = this.drop(old(cut.facts));
    if (cut.facts !== null) this.dropSpent(cut.facts, this.now());
    return { bodies: bodies.length, messages };
  }

  async forget(agent: AgentName): Promise<{ copies: number; messages: number }> {
    for (const copy of this.copies()) if (copy.mailbox === agent) this.handOut(copy);
    const copies = this.rows.filter((row) => row.copies.delete(agent)).length;
    this.forgetDuties(agent, this.now());
    const alone = this.rows.filter((row) => row.message.from === agent && row.copies.size === 0);
    return { copies, messages: this.drop(alone) };
  }

  async close(): Promise<void> {}

  #insert({ message, copies }: Entry, as: 'stored' | 'kept', key: string | undefined, found = false): void {
    const known = this.row(message.id);
    const row = known ?? this.add(message, key);
    for (const { mailbox, attention } of copies) {
      if (row.copies.has(mailbox)) continue;
      if (known && attention.policy === 'must_respond') this.enterAgain(known.seq);
      const copy: CopyRecord = {
        id: message.id,
        mailbox,
        attention,
        state: 'stored',
        attempt: 0,
        owner: null,
        bearer: false,
        until: null,
        disposition: null,
        settledAt: null,
        settledBy: null,
        keep: false,
      };
      const by = { seen: 'kept in cur/ when the ledger was rebuilt' };
      if (as === 'kept') this.#end(copy, { state: 'settled', disposition: 'acknowledged', settledBy: by, keep: true });
      row.copies.set(mailbox, copy);
      if (found) this.#note(copy, 'stored', { found: 'in the mailbox, without a row of ours' });
    }
  }

  #heldBy(mailbox: AgentName, owner: string, ids: MessageId[]): CopyRecord[] {
    const copies = ids.map((id) => this.row(id)?.copies.get(mailbox));
    return copies.filter((copy) => copy !== undefined).filter((copy) => copy.state === 'held' && copy.owner === owner);
  }

  #end(copy: CopyRecord, fields: Partial<CopyRecord>): void {
    if (copy.fileless) this.handOut(copy);
    Object.assign(copy, {
      owner: null,
      bearer: false,
      until: null,
      settledAt: new Date(this.now()).toISOString(),
      ...fields,
    });
  }

  #note(copy: CopyRecord, step: Receipt['step'], evidence: Evidence): void {
    const at = new Date(this.now()).toISOString();
    this.row(copy.id)?.receipts.push({ step, at, evidence, mailbox: copy.mailbox });
  }
}

/** When the last copy of a message ended; never, while one is open. */
function endOf({ message, copies }: Row): number {
  if (copies.size === 0) return Date.parse(message.ts);
  return Math.max(...[...copies.values()].map((copy) => (copy.settledAt ? Date.parse(copy.settledAt) : Infinity)));
}
