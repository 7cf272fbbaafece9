import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId, SendKey } from '../../protocol/names.ts';
import type { Receipt } from '../../protocol/receipt.ts';
import { LAST_MESSAGES } from './ledger.ts';
import type { Acceptance, CopyRecord, HistoryRow, Mail, Page, Records, Trace } from './ledger.ts';
import { termsIn } from './rules.ts';

/** One message with everything known of it. */
export interface Row {
  seq: number;
  message: Message;
  key: string | undefined;
  pruned: boolean;
  copies: Map<AgentName, CopyRecord>;
  receipts: (Receipt & { mailbox: AgentName })[];
}

/** The read half of the memory ledger. What it gives out is a copy: nobody can change the past by accident. */
export class MemoryRecords implements Records {
  /** In order of arrival. */
  protected rows: Row[] = [];
  #seq = 0;

  async message(id: MessageId): Promise<Message | null> {
    return structuredClone(this.row(id)?.message ?? null);
  }

  async addressed(id: MessageId): Promise<Pick<HistoryRow, 'message' | 'recipients'> | null> {
    const row = this.row(id);
    return row ? structuredClone({ message: row.message, recipients: [...row.copies.keys()].sort() }) : null;
  }

  async underKey(sender: AgentName, key: SendKey): Promise<Acceptance | null> {
    return this.keyed(sender, key);
  }

  async idsLike(prefix: string): Promise<MessageId[]> {
    const ids = this.rows.map((row) => row.message.id).filter((id) => id.startsWith(prefix));
    return ids.reverse().slice(0, 10);
  }

  async copy(mailbox: AgentName, id: MessageId): Promise<CopyRecord | null> {
    return structuredClone(this.row(id)?.copies.get(mailbox) ?? null);
  }

  async open(mailbox: AgentName): Promise<Map<MessageId, CopyRecord>> {
    const open = this.copies().filter((copy) => copy.mailbox === mailbox && copy.settledAt === null);
    return new Map(open.map((copy) => [copy.id, structuredClone(copy)]));
  }

  async heldBy(mailbox: AgentName, owner: string): Promise<CopyRecord[]> {
    const held = this.copies().filter(
      (copy) => copy.state === 'held' && copy.mailbox === mailbox && copy.owner === owner,
    );
    return structuredClone(held);
  }

  async openIds(mailbox: AgentName): Promise<Map<MessageId, boolean>> {
    const open = await this.open(mailbox);
    return new Map([...open].map(([id, { state, fileless }]) => [id, state === 'stored' && !fileless]));
  }

  async waiting(mailbox: AgentName, after: number, limit: number): Promise<Mail[]> {
    return this.rows
      .filter((row) => row.seq > after && row.copies.get(mailbox)?.state === 'stored')
      .slice(0, limit)
      .map(({ seq, message }) => ({ seq, text: JSON.stringify(message) }));
  }

  async waitingCount(mailbox: AgentName): Promise<number> {
    return this.rows.filter((row) => row.copies.get(mailbox)?.state === 'stored').length;
  }

  async returned(mailbox: AgentName, after: number, upTo: number, limit: number): Promise<Mail[]> {
    const wasHeld = ({ copies, receipts }: Row): boolean =>
      (copies.get(mailbox)?.attempt ?? 0) > 0 ||
      receipts.some((receipt) => receipt.mailbox === mailbox && receipt.step === 'released');
    return this.rows
      .filter((row) => row.seq > after && row.seq <= upTo && row.copies.get(mailbox)?.state === 'stored')
      .filter(wasHeld)
      .slice(0, limit)
      .map(({ seq, message }) => ({ seq, text: JSON.stringify(message) }));
  }

  async history(page: Page): Promise<HistoryRow[]> {
    return this.#page(page, () => true);
  }

  async exchange(root: MessageId, limit: number): Promise<Message[]> {
    const messages = this.rows.map((row) => row.message).filter((message) => rootOf(message) === root);
    return structuredClone(messages.slice(Math.max(0, messages.length - limit)));
  }

  async unanswered(one: AgentName, other: AgentName, since: number): Promise<Message | null> {
    const last = (from: AgentName, to: AgentName): Row[] =>
      this.rows
        .filter(({ copies }) => copies.has(to))
        .slice(-LAST_MESSAGES)
        .filter(({ message, copies }) => message.from === from && copies.size === 1)
        .filter(({ message }) => [to, `@${to}`].includes(message.to))
        .filter(({ message }) => Date.parse(message.ts) >= since && message.parley?.signal === undefined);
    const said = last(one, other).at(-1);
    const isAnswered = last(other, one).some(({ seq }) => said && seq > said.seq);
    return structuredClone((!isAnswered && said?.message) || null);
  }

  async search(words: string, page: Page): Promise<HistoryRow[]> {
    const terms = termsIn(words).flatMap(tokens);
    if (terms.length === 0) return [];
    const holding = (fits: (token: string, term: string) => boolean): HistoryRow[] =>
      this.#page(page, ({ message, pruned }) => {
        const there = pruned ? [] : tokens(message.body);
        return terms.every((term) => there.some((token) => fits(token, term)));
      });
    const whole = holding((token, term) => token === term);
    return whole.length > 0 ? whole : holding((token, term) => token.startsWith(term));
  }

  async trace(id: MessageId): Promise<Trace | null> {
    const row = this.row(id);
    if (!row) return null;
    const copies = this.copiesOf(id).map((copy) => ({
      ...copy,
      receipts: row.receipts
        .filter((receipt) => receipt.mailbox === copy.mailbox)
        .map(({ step, at, evidence }) => ({ step, at, evidence })),
    }));
    return structuredClone({ message: row.message, copies });
  }

  protected add(message: Message, key: string | undefined): Row {
    this.#seq += 1;
    const row: Row = {
      seq: this.#seq,
      message: structuredClone(message),
      key,
      pruned: false,
      copies: new Map(),
      receipts: [],
    };
    this.rows.push(row);
    return row;
  }

  protected drop(rows: Row[]): number {
    this.rows = this.rows.filter((row) => !rows.includes(row));
    return rows.length;
  }

  protected row(id: MessageId): Row | undefined {
    return this.rows.find((row) => row.message.id === id);
  }

  protected keyed(sender: string, key: string): Acceptance | null {
    const row = this.rows.find((one) => one.message.from === sender && one.key === key);
    return row ? this.acceptance(row) : null;
  }

  protected acceptance({ message, copies, pruned }: Row): Acceptance {
    return structuredClone({ message, copies: [...copies.values()], first: false, ...(pruned && { pruned }) });
  }

  protected copies(): CopyRecord[] {
    return this.rows.flatMap((row) => [...row.copies.values()]);
  }

  protected copiesOf(id: MessageId): CopyRecord[] {
    const copies = [...(this.row(id)?.copies.values() ?? [])];
    return copies.sort((a, b) => (a.mailbox < b.mailbox ? -1 : 1));
  }

  #page({ agent, thread, before = Infinity, limit }: Page, fits: (row: Row) => boolean): HistoryRow[] {
    const first = thread && this.row(thread);
    const root = first ? rootOf(first.message) : thread;
    return this.rows
      .filter((row) => row.seq < before && fits(row))
      .filter((row) => !agent || row.message.from === agent || row.copies.has(agent))
      .filter((row) => !root || rootOf(row.message) === root)
      .reverse()
      .slice(0, limit)
      .map(({ seq, message, copies, pruned }) =>
        structuredClone({ seq, pruned, message, recipients: [...copies.keys()].sort() }),
      );
  }
}

function rootOf(message: Message): string {
  return message.parley?.lineage?.root ?? message.id;
}

function tokens(text: string): string[] {
  return (
    text
      .normalize('NFKD')
      .replaceAll(/\p{M}/gu, '')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}
