import type { Database } from 'bun:sqlite';
import { Evidence, Receipt } from '../../protocol/receipt.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId, SendKey } from '../../protocol/names.ts';
import type { Connection } from './connection.ts';
import type { Acceptance, CopyRecord, HistoryRow, Page, Records, Trace } from './ledger.ts';
import { COPY_COLUMNS, copyFrom, messageFrom } from './rows.ts';
import type { CopyRow } from './rows.ts';

const SEQ = '(SELECT seq FROM messages WHERE id = ?)';
/** How many messages one round of indexing takes in: small enough that senders do not wait for it. */
const INDEX_STEP = 2000;

/** The read half of the SQLite ledger. */
export class SqliteRecords implements Records {
  constructor(protected readonly connection: Connection) {}

  async message(id: MessageId): Promise<Message | null> {
    const row = this.#db.query<{ json: string }, [string]>('SELECT json FROM messages WHERE id = ?').get(id);
    return row && messageFrom(row.json);
  }

  async underKey(sender: AgentName, key: SendKey): Promise<Acceptance | null> {
    return this.keyed(this.#db, sender, key);
  }

  async idsLike(prefix: string): Promise<MessageId[]> {
    return this.#db
      .query<{ id: MessageId }, [string, string]>('SELECT id FROM messages WHERE id >= ? AND id < ? ORDER BY seq DESC LIMIT 10')
      .all(prefix, `${prefix}\u{10ffff}`)
      .map((row) => row.id);
  }

  async copy(mailbox: AgentName, id: MessageId): Promise<CopyRecord | null> {
    return this.copyIn(this.#db, mailbox, id);
  }

  async open(mailbox: AgentName): Promise<Map<MessageId, CopyRecord>> {
    const rows = this.#db
      .query<CopyRow, [string]>(
        `SELECT ${COPY_COLUMNS} FROM copies c JOIN messages m USING (seq) WHERE c.mailbox = ? AND c.state < 2`,
      )
      .all(mailbox);
    return new Map(rows.map((row) => [row.id as MessageId, copyFrom(row)]));
  }

  async history(page: Page): Promise<HistoryRow[]> {
    const before = page.before ?? Number.MAX_SAFE_INTEGER;
    // Each half reads its own index from the newest end, so that a page costs a page and not the history.
    const mine = `SELECT seq FROM (SELECT seq FROM messages WHERE sender = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3)
      UNION SELECT seq FROM (SELECT seq FROM copies WHERE mailbox = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3)`;
    const seqs = page.thread
      ? this.#db
          .query<{ seq: number }, [string, number, number]>(
            'SELECT seq FROM messages WHERE root = ? AND seq < ? ORDER BY seq DESC LIMIT ?',
          )
          .all(await this.#rootOf(page.thread), before, page.limit)
      : page.agent
        ? this.#db
            .query<{ seq: number }, [string, number, number]>(`${mine} ORDER BY seq DESC LIMIT ?3`)
            .all(page.agent, before, page.limit)
        : this.#db
            .query<{ seq: number }, [number, number]>('SELECT seq FROM messages WHERE seq < ? ORDER BY seq DESC LIMIT ?')
            .all(before, page.limit);
    return seqs.map(({ seq }) => this.#row(seq)).filter((row) => row !== null);
  }

  async exchange(root: MessageId, limit: number): Promise<Message[]> {
    return this.#db
      .query<{ json: string }, [string, number]>('SELECT json FROM messages WHERE root = ? ORDER BY seq DESC LIMIT ?')
      .all(root, limit)
      .map((row) => messageFrom(row.json))
      .reverse();
  }

  async search(words: string, page: Page, onProgress?: (left: number) => void): Promise<HistoryRow[]> {
    this.#index(onProgress);
    const terms = words.split(/\s+/).filter(Boolean);
    if (terms.length === 0) return [];
    const match = terms.map((term) => `"${term.replaceAll('"', '""')}"*`).join(' AND ');
    // Ordered by arrival, not by rank: ranking has to visit every hit.
    const hits = this.#db.query<{ seq: number }, [string, number]>(
      'SELECT rowid AS seq FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT 200',
    );
    const found: HistoryRow[] = [];
    let before = page.before ?? Number.MAX_SAFE_INTEGER;
    while (found.length < page.limit) {
      const seqs = hits.all(match, before);
      for (const { seq } of seqs) {
        const row = this.#row(seq);
        if (row && concerns(row, page.agent)) found.push(row);
        if (found.length === page.limit) return found;
      }
      if (seqs.length < 200) return found;
      before = seqs.at(-1)?.seq ?? 0;
    }
    return found;
  }

  async trace(id: MessageId): Promise<Trace | null> {
    const message = await this.message(id);
    if (!message) return null;
    const seen = this.#db
      .query<{ mailbox: string; step: string; at: number; evidence: string }, [string]>(
        `SELECT mailbox, step, at, evidence FROM receipts WHERE seq = ${SEQ} ORDER BY n`,
      )
      .all(id);
    const copies = this.copiesIn(this.#db, id).map((copy) => ({
      ...copy,
      receipts: seen
        .filter((row) => row.mailbox === copy.mailbox)
        .map((row) =>
          Receipt.parse({
            step: row.step,
            at: new Date(row.at).toISOString(),
            evidence: Evidence.parse(JSON.parse(row.evidence)),
          }),
        ),
    }));
    return { message, copies };
  }

  protected keyed(db: Database, sender: string, key: string): Acceptance | null {
    const row = db
      .query<{ json: string; id: string }, [string, string]>('SELECT id, json FROM messages WHERE sender = ? AND key = ?')
      .get(sender, key);
    if (!row) return null;
    return { message: messageFrom(row.json), copies: this.copiesIn(db, row.id as MessageId), first: false };
  }

  protected copyIn(db: Database, mailbox: AgentName, id: MessageId): CopyRecord | null {
    const row = db
      .query<CopyRow, [string, string]>(
        `SELECT ${COPY_COLUMNS} FROM copies c JOIN messages m USING (seq) WHERE m.id = ? AND c.mailbox = ?`,
      )
      .get(id, mailbox);
    return row && copyFrom(row);
  }

  protected copiesIn(db: Database, id: MessageId): CopyRecord[] {
    return db
      .query<CopyRow, [string]>(
        `SELECT ${COPY_COLUMNS} FROM copies c JOIN messages m USING (seq) WHERE m.id = ? ORDER BY c.mailbox`,
      )
      .all(id)
      .map(copyFrom);
  }

  get #db(): Database {
    return this.connection.db;
  }

  async #rootOf(id: MessageId): Promise<string> {
    return this.#db.query<{ root: string }, [string]>('SELECT root FROM messages WHERE id = ?').get(id)?.root ?? id;
  }

  #row(seq: number): HistoryRow | null {
    const row = this.#db.query<{ json: string }, [number]>('SELECT json FROM messages WHERE seq = ?').get(seq);
    if (!row) return null;
    const recipients = this.#db
      .query<{ mailbox: AgentName }, [number]>('SELECT mailbox FROM copies WHERE seq = ?')
      .all(seq)
      .map((copy) => copy.mailbox);
    return { seq, message: messageFrom(row.json), recipients };
  }

  /** Full text is indexed when somebody searches, never inside a send. */
  #index(onProgress?: (left: number) => void): void {
    for (;;) {
      const done = Number(this.connection.meta('indexed') ?? 0);
      const newest = this.#db.query<{ seq: number | null }, []>('SELECT max(seq) AS seq FROM messages').get()?.seq ?? 0;
      if (newest <= done) return;
      onProgress?.(newest - done);
      this.connection.write((db) => {
        // Another searcher may have come first.
        if (Number(this.connection.meta('indexed') ?? 0) !== done) return;
        db.query(
          `INSERT INTO words (rowid, body) SELECT seq, json_extract(json, '$.body') FROM messages
           WHERE seq > ? AND seq <= ? AND pruned = 0`,
        ).run(done, done + INDEX_STEP);
        this.connection.setMeta(db, 'indexed', String(Math.min(newest, done + INDEX_STEP)));
      });
    }
  }
}

function concerns(row: HistoryRow, agent: AgentName | undefined): boolean {
  return !agent || row.message.from === agent || row.recipients.includes(agent);
}
