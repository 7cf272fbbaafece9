import type { Database } from 'bun:sqlite';
import { Evidence, Receipt } from '../../core/receipt.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId, SendKey } from '../../core/names.ts';
import type { JournalConnection } from './connection.ts';
import { LAST_MESSAGES } from '../../core/ports/journal.ts';
import type {
  Acceptance,
  CopyRecord,
  HistoryRow,
  Mail,
  Page,
  Records,
  Trace,
  JournalTroubles,
} from '../../core/ports/journal.ts';
import { HELD } from './schema.ts';
import { COPY_COLUMNS, copyFrom, messageFrom, FILELESS } from './rows.ts';
import type { CopyRow } from './rows.ts';
import { metaOf, setMeta } from './meta.ts';

const SEQ = '(SELECT seq FROM messages WHERE id = ?)';
const WAITING_COUNT = 'SELECT count(*) AS n FROM copies WHERE mailbox = ? AND settled_at IS NULL AND state = 0';
/** A dead reader leaves an attempt, a release leaves a receipt. Messages that no reader held are not read. */
const RETURNED = `SELECT c.seq, m.json AS text FROM copies c CROSS JOIN messages m ON m.seq = c.seq
  WHERE c.mailbox = ? AND c.seq > ? AND c.seq <= ? AND c.settled_at IS NULL AND c.state = 0 AND (c.attempt > 0 OR EXISTS
    (SELECT 1 FROM receipts r WHERE r.seq = c.seq AND r.mailbox = c.mailbox AND r.step = 'released'))
  ORDER BY c.seq LIMIT ?`;
/** The first message of an exchange is not in the index of answers: its id is the root. */
const IN_EXCHANGE = `SELECT seq FROM messages WHERE root = ?1 AND root <> id
  UNION ALL SELECT seq FROM messages WHERE id = ?1 AND root = id`;

/** Each part reads one index entry. */
const TROUBLES = `SELECT (SELECT value FROM meta WHERE name = 'life') AS life,
  EXISTS (SELECT 1 FROM copies WHERE state = ${HELD}) AS held, EXISTS (SELECT 1 FROM unfiled) AS unexported`;

const newestOf = (which: string): string =>
  `SELECT seq FROM (SELECT seq FROM copies WHERE mailbox = ?2 AND seq > ?4 AND ${which} ORDER BY seq DESC LIMIT ${LAST_MESSAGES})`;
/** Reads the two indexes of a mailbox from their newest end; older messages are not read. */
const LAST_BY_NAME = `SELECT m.seq, m.json FROM
    (${newestOf('settled_at IS NULL')} UNION ALL ${newestOf('settled_at IS NOT NULL')} ORDER BY seq DESC LIMIT ${LAST_MESSAGES}) s
  CROSS JOIN messages m ON m.seq = s.seq
  WHERE m.sender = ?1 AND NOT EXISTS (SELECT 1 FROM copies o WHERE o.seq = s.seq AND o.mailbox <> ?2)
    AND m.at >= ?3 AND m.json ->> 'to' IN (?2, '@' || ?2) AND m.json ->> '$.parley.signal' IS NULL
  ORDER BY s.seq DESC LIMIT 1`;
const GOT_ANYTHING = `SELECT EXISTS (SELECT 1 FROM copies WHERE mailbox = ?1 AND settled_at IS NULL)
  OR EXISTS (SELECT 1 FROM copies WHERE mailbox = ?1 AND settled_at IS NOT NULL) AS yes`;

interface Json {
  json: string;
}
interface Seq {
  seq: number;
}
interface ReceiptRow {
  mailbox: AgentName;
  step: string;
  at: number;
  evidence: string;
}

function receiptFrom({ step, at, evidence }: ReceiptRow): Receipt {
  return Receipt.parse({ step, at: new Date(at).toISOString(), evidence: Evidence.parse(JSON.parse(evidence)) });
}

/** The read half of the SQLite journal, with the indexes that are filled on demand. */
export class SqliteRecords implements Records {
  constructor(readonly connection: JournalConnection) {}

  async message(id: MessageId): Promise<Message | null> {
    const row = this.connection.read((db) =>
      db.query<Json, [string]>('SELECT json FROM messages WHERE id = ?').get(id),
    );
    return row && messageFrom(row.json);
  }

  async underKey(sender: AgentName, key: SendKey): Promise<Acceptance | null> {
    return this.connection.read((db) => this.keyed(db, sender, key));
  }

  async idsLike(prefix: string): Promise<MessageId[]> {
    const newest = 'SELECT id FROM messages WHERE id >= ? AND id < ? ORDER BY seq DESC LIMIT 10';
    const like = [prefix, `${prefix}\u{10ffff}`] as const;
    const rows = this.connection.read((db) => db.query<{ id: MessageId }, [string, string]>(newest).all(...like));
    return rows.map((row) => row.id);
  }

  async copy(mailbox: AgentName, id: MessageId): Promise<CopyRecord | null> {
    return this.connection.read((db) => this.copyIn(db, mailbox, id));
  }

  async open(mailbox: AgentName): Promise<Map<MessageId, CopyRecord>> {
    const sql = `SELECT ${COPY_COLUMNS} FROM copies c JOIN messages m USING (seq) 
      WHERE c.mailbox = ? AND c.settled_at IS NULL AND c.state < 2`;
    const rows = this.connection.read((db) => db.query<CopyRow, [string]>(sql).all(mailbox));
    return new Map(rows.map((row) => [row.id as MessageId, copyFrom(row)]));
  }

  async openIds(mailbox: AgentName): Promise<Map<MessageId, boolean>> {
    const sql = `SELECT m.id, c.state = 0 AND NOT (${FILELESS}) FROM copies c JOIN messages m USING (seq)
      WHERE c.mailbox = ? AND c.settled_at IS NULL AND c.state < 2`;
    const rows = this.connection.read((db) => db.query<never, [string]>(sql).values(mailbox));
    return new Map(rows.map(([id, isHere]) => [id as MessageId, isHere === 1]));
  }

  async heldBy(mailbox: AgentName, owner: string): Promise<CopyRecord[]> {
    const sql = `SELECT ${COPY_COLUMNS} FROM copies c JOIN messages m USING (seq) WHERE c.state = 1 AND c.mailbox = ? AND c.owner = ?`;
    return this.connection.read((db) => db.query<CopyRow, [string, string]>(sql).all(mailbox, owner)).map(copyFrom);
  }

  async waitingCount(mailbox: AgentName): Promise<number> {
    return this.connection.read((db) => db.query<{ n: number }, [string]>(WAITING_COUNT).get(mailbox))?.n ?? 0;
  }

  async returned(mailbox: AgentName, after: number, upTo: number, limit: number): Promise<Mail[]> {
    const asked = [mailbox, after, upTo, limit] as const;
    return this.connection.read((db) => db.query<Mail, [string, number, number, number]>(RETURNED).all(...asked));
  }

  async history(page: Page): Promise<HistoryRow[]> {
    const before = page.before ?? Number.MAX_SAFE_INTEGER;
    if (page.agent && !page.thread) catchUp(this.connection, 'sent');
    return this.connection.read((db) =>
      this.#seqs(db, page, before)
        .map(({ seq }) => this.#row(db, seq))
        .filter((row) => row !== null),
    );
  }

  async exchange(root: MessageId, limit: number): Promise<Message[]> {
    const last = `SELECT json FROM messages WHERE seq IN (${IN_EXCHANGE}) ORDER BY seq DESC LIMIT ?2`;
    const rows = this.connection.read((db) => db.query<Json, [string, number]>(last).all(root, limit));
    return rows.map((row) => messageFrom(row.json)).reverse();
  }

  async unanswered(from: AgentName, to: AgentName, since: number): Promise<Message | null> {
    return this.connection.read((db) => {
      // An agent that never got a message has nothing to answer. This query is cheap to prepare.
      if (db.query<{ yes: number }, [string]>(GOT_ANYTHING).get(to)?.yes !== 1) return null;
      const last = db.query<{ seq: number; json: string }, [string, string, number, number]>(LAST_BY_NAME);
      const said = last.get(from, to, since, 0);
      if (!said || last.get(to, from, since, said.seq)) return null;
      return messageFrom(said.json);
    });
  }

  async troubles(): Promise<JournalTroubles> {
    const row = this.connection.read((db) =>
      db.query<{ life: string | null; held: number; unexported: number }, []>(TROUBLES).get(),
    );
    return { fresh: row?.life !== this.connection.life, held: row?.held === 1, unexported: row?.unexported === 1 };
  }

  async search(words: string, page: Page, onProgress?: (left: number) => void): Promise<HistoryRow[]> {
    catchUp(this.connection, 'words', onProgress);
    const terms = termsIn(words);
    if (terms.length === 0) return [];
    const quoted = terms.map((term) => `"${term.replaceAll('"', '""')}"`);
    // Whole words are read from the newest end. A prefix search gathers every hit first.
    const whole = this.connection.read((db) => this.#hits(db, quoted.join(' AND '), page));
    if (whole.length > 0) return whole;
    return this.connection.read((db) => this.#hits(db, quoted.map((term) => `${term}*`).join(' AND '), page));
  }

  #hits(db: Database, match: string, page: Page): HistoryRow[] {
    const thread = page.thread && this.#rootOf(db, page.thread);
    // Ordered by arrival, not by rank: ranking visits every hit.
    const hits = db.query<Seq, [string, number, number]>(
      'SELECT rowid AS seq FROM words WHERE words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?',
    );
    // A filter drops hits, so read many at once.
    const step = page.agent || thread ? 200 : page.limit;
    const found: HistoryRow[] = [];
    let before = page.before ?? Number.MAX_SAFE_INTEGER;
    while (found.length < page.limit) {
      const seqs = hits.all(match, before, step);
      for (const { seq } of seqs) {
        const row = this.#row(db, seq);
        if (row && concerns(row, page.agent) && (!thread || rootIn(row.message) === thread)) found.push(row);
        if (found.length === page.limit) return found;
      }
      if (seqs.length < step) return found;
      before = seqs.at(-1)?.seq ?? 0;
    }
    return found;
  }

  async trace(id: MessageId): Promise<Trace | null> {
    const message = await this.message(id);
    if (!message) return null;
    const receipts = `SELECT mailbox, step, at, evidence FROM receipts WHERE seq = ${SEQ} ORDER BY n`;
    const seen = this.connection.read((db) => db.query<ReceiptRow, [string]>(receipts).all(id));
    const copies = this.connection
      .read((db) => this.copiesIn(db, id))
      .map((copy) => ({
        ...copy,
        receipts: seen.filter((row) => row.mailbox === copy.mailbox).map(receiptFrom),
      }));
    return { message, copies };
  }

  async receiptsSince(
    since: number,
    steps: readonly Receipt['step'][],
  ): Promise<(Receipt & { mailbox: AgentName; id: MessageId })[]> {
    const newest = `SELECT m.id, r.mailbox, r.step, r.at, r.evidence FROM receipts r CROSS JOIN messages m ON m.seq = r.seq
      ORDER BY r.n DESC`;
    return this.connection.read((db) => {
      const found: (Receipt & { mailbox: AgentName; id: MessageId })[] = [];
      // Receipts have no index by time, but are recorded in order of time.
      for (const row of db.query<ReceiptRow & { id: MessageId }, []>(newest).iterate()) {
        if (!steps.some((step) => step === row.step)) continue;
        if (row.at < since) break;
        found.push({ ...receiptFrom(row), mailbox: row.mailbox, id: row.id });
      }
      return found.reverse();
    });
  }

  protected keyed(db: Database, sender: string, key: string): Acceptance | null {
    const row = db
      .query<{ id: MessageId; json: string; pruned: number }, [string, string]>(
        'SELECT id, json, pruned FROM messages WHERE sender = ? AND key = ?',
      )
      .get(sender, key);
    if (!row) return null;
    const copies = this.copiesIn(db, row.id);
    return { message: messageFrom(row.json), copies, first: false, ...(row.pruned === 1 && { pruned: true }) };
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

  /** Each part of `mine` reads its own index from the newest end: a page costs a page, not the history. */
  #seqs(db: Database, { agent, thread, limit }: Page, before: number): Seq[] {
    if (thread) {
      const had = 'EXISTS (SELECT 1 FROM copies c WHERE c.seq = m.seq AND c.mailbox = ?3)';
      return db
        .query<Seq, [string, number, string | null, number]>(
          `SELECT seq FROM messages m WHERE seq IN (${IN_EXCHANGE}) AND seq < ?2 AND (?3 IS NULL OR sender = ?3 OR ${had})
           ORDER BY seq DESC LIMIT ?4`,
        )
        .all(this.#rootOf(db, thread), before, agent ?? null, limit);
    }
    if (!agent) {
      const all = 'SELECT seq FROM messages WHERE seq < ? ORDER BY seq DESC LIMIT ?';
      return db.query<Seq, [number, number]>(all).all(before, limit);
    }
    const newest = (from: string): string =>
      `SELECT seq FROM (SELECT seq FROM ${from} AND seq < ?2 ORDER BY seq DESC LIMIT ?3)`;
    const mine = [
      newest('sent WHERE sender = ?1'),
      newest('copies WHERE mailbox = ?1 AND settled_at IS NULL'),
      newest('copies WHERE mailbox = ?1 AND settled_at IS NOT NULL'),
    ].join(' UNION ');
    return db.query<Seq, [string, number, number]>(`${mine} ORDER BY seq DESC LIMIT ?3`).all(agent, before, limit);
  }

  #rootOf(db: Database, id: MessageId): string {
    return db.query<{ root: string }, [string]>('SELECT root FROM messages WHERE id = ?').get(id)?.root ?? id;
  }

  #row(db: Database, seq: number): HistoryRow | null {
    const sql = 'SELECT json, pruned FROM messages WHERE seq = ?';
    const row = db.query<Json & { pruned: number }, [number]>(sql).get(seq);
    if (!row) return null;
    const copies = db.query<{ mailbox: AgentName }, [number]>('SELECT mailbox FROM copies WHERE seq = ?').all(seq);
    const recipients = copies.map((copy) => copy.mailbox);
    return { seq, pruned: row.pruned === 1, message: messageFrom(row.json), recipients };
  }
}

function concerns(row: HistoryRow, agent: AgentName | undefined): boolean {
  return !agent || row.message.from === agent || row.recipients.includes(agent);
}

function rootIn(message: Message): string {
  return message.parley?.lineage?.root ?? message.id;
}

/** The search terms. A lone symbol is none, and a NUL would end a query early. */
function termsIn(words: string): string[] {
  return words.split(/[\s\p{Cc}]+/u).filter((term) => /[\p{L}\p{N}]/u.test(term));
}

/** Messages per transaction: few enough that senders do not wait. */
const BATCH = 2000;

/**
 * Indexes that no send pays for: a query first adds the messages that were accepted since the last one. `meta` holds the highest
 * sequence number in each index.
 */
const FILL = {
  words: `INSERT INTO words (rowid, body) SELECT seq, json_extract(json, '$.body') FROM messages
    WHERE seq > ? AND seq <= ? AND pruned = 0`,
  sent: 'INSERT INTO sent SELECT sender, seq FROM messages WHERE seq > ? AND seq <= ? ORDER BY sender, seq',
};
const MARKS = { words: 'indexed', sent: 'sent' } as const;

type Index = keyof typeof FILL;

/** The highest sequence number in this index. */
export function indexedUpTo(db: Database, index: Index): number {
  return Number(metaOf(db, MARKS[index]) ?? 0);
}

export function catchUp(connection: JournalConnection, index: Index, onProgress?: (left: number) => void): void {
  for (;;) {
    const [done, newest] = connection.read((db) => [
      indexedUpTo(db, index),
      db.query<{ seq: number }, []>('SELECT ifnull(max(seq), 0) AS seq FROM messages').get()?.seq ?? 0,
    ]);
    if (newest <= done) return;
    const upTo = Math.min(newest, done + BATCH);
    onProgress?.(newest - done);
    connection.write((db) => {
      // Another process may have been faster.
      if (indexedUpTo(db, index) !== done) return;
      db.query(FILL[index]).run(done, upTo);
      setMeta(db, MARKS[index], String(upTo));
    });
  }
}
