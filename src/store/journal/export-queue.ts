import { STILL_QUEUED, attentionFrom, FILELESS } from './rows.ts';
import type { Database } from 'bun:sqlite';
import { isQuiet } from '../../core/attention/attention.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type {
  CopyNumber,
  FilePlace,
  OpenCopy,
  WaitingKind,
  WaitingCopy,
  Unexported,
} from '../../core/ports/journal.ts';
import { SETTLED, STORED } from './schema.ts';
import { SqliteSending } from './send.ts';

/** Copies per transaction of `recount`. */
const BATCH = 200;

const QUIETLY = ['tool_mailbox', 'digest', 'silent'].map((how) => `instr(c.attention, ' ${how} ')`).join(' + ');
const waitingSql = (which: string): string => `SELECT c.seq, c.mailbox, m.id, c.attention, m.json
  FROM copies c CROSS JOIN messages m ON m.seq = c.seq
  WHERE c.mailbox = ? AND c.seq > ? AND c.settled_at IS NULL AND c.state = ${STORED} ${which} ORDER BY c.seq LIMIT ?`;
const WAITING = {
  all: waitingSql(''),
  loud: waitingSql(`AND ${QUIETLY} = 0`),
  immediate: waitingSql("AND instr(c.attention, ' immediate ') > 0"),
  digest: waitingSql("AND instr(c.attention, ' digest ') > 0"),
  kept: waitingSql("AND c.attention LIKE '% digest loop'"),
};
const OPEN = `SELECT c.seq, m.id, c.state = ${STORED}, c.state = ${STORED} AND NOT (${FILELESS})
  FROM copies c CROSS JOIN messages m ON m.seq = c.seq
  WHERE c.mailbox = ? AND c.seq > ? AND c.settled_at IS NULL AND c.state < ${SETTLED} ORDER BY c.seq LIMIT ?`;
/** Jumps from one mailbox name to the next in the index of open copies, so the number of copies does not matter. */
const WITH_MAIL = `WITH RECURSIVE box (name) AS (
    SELECT min(mailbox) FROM copies WHERE settled_at IS NULL AND mailbox >= ?1 AND mailbox < ?2
    UNION ALL
    SELECT (SELECT min(mailbox) FROM copies WHERE settled_at IS NULL AND mailbox > name AND mailbox < ?2) FROM box
      WHERE name IS NOT NULL)
  SELECT name FROM box WHERE name IS NOT NULL`;
const WAITING_ONE = `SELECT c.seq, c.mailbox, m.id, c.attention, m.json FROM messages m JOIN copies c USING (seq)
  WHERE m.id = ? AND c.mailbox = ? AND c.state = ${STORED}`;
const QUEUE = `SELECT u.seq, u.mailbox, m.id, c.attention, m.json FROM unfiled u
  CROSS JOIN copies c ON c.seq = u.seq AND c.mailbox = u.mailbox CROSS JOIN messages m ON m.seq = u.seq
  WHERE (u.seq, u.mailbox) > (?, ?) AND u.drafted = ? ORDER BY u.seq, u.mailbox LIMIT ?`;
const LATE = `SELECT c.seq, c.mailbox, m.id, c.attention, '' AS json FROM copies c INDEXED BY copies_open
  CROSS JOIN messages m ON m.seq = c.seq
  WHERE (c.mailbox, c.seq) > (?, ?) AND c.late = 1 AND c.state = ${STORED} AND c.settled_at IS NULL
  ORDER BY c.mailbox, c.seq LIMIT ${BATCH}`;

interface WaitingRow {
  seq: number;
  mailbox: AgentName;
  id: MessageId;
  attention: string;
  json: string;
}

/**
 * `copies.late` is 0 for a copy whose file was flushed before the copy was accepted; 1 for one whose file is written later and never
 * flushed; 2 for one that is held, or has ended, without a file. `unfiled` has a row for every copy that waits without a file
 * (`drafted` 0) or is just being published (`drafted` 1).
 */
export class SqliteExportQueue extends SqliteSending {
  async flush(alone?: boolean): Promise<void> {
    if (this.connection.log.hasFailed) this.connection.restartLog();
    await this.connection.log.flush(alone);
  }

  tuneForServer(cacheKb?: number): void {
    this.connection.tuneForServer(cacheKb);
  }

  /** Copies as much of the log into the journal as is possible without waiting for readers or writers. */
  checkpoint(): void {
    this.connection.read((db) => db.query('PRAGMA wal_checkpoint(PASSIVE)').get());
  }

  async newest(): Promise<number> {
    const sql = 'SELECT ifnull(max(seq), 0) AS seq FROM messages';
    return this.connection.read((db) => db.query<{ seq: number }, []>(sql).get())?.seq ?? 0;
  }

  async waitingCopy(mailbox: AgentName, id: MessageId): Promise<WaitingCopy | null> {
    const row = this.connection.read((db) => db.query<WaitingRow, [string, string]>(WAITING_ONE).get(id, mailbox));
    return row && waitingFrom(row);
  }

  async waitingCopies(mailbox: AgentName, after: number, limit: number, only?: WaitingKind): Promise<WaitingCopy[]> {
    const sql = WAITING[only ?? 'all'];
    const rows = this.connection.read((db) =>
      db.query<WaitingRow, [string, number, number]>(sql).all(mailbox, after, limit),
    );
    return rows.map(waitingFrom);
  }

  async openCopies(mailbox: AgentName, after: number, limit: number): Promise<OpenCopy[]> {
    const rows = this.connection.read((db) =>
      db.query<never, [string, number, number]>(OPEN).values(mailbox, after, limit),
    ) as [number, MessageId, number, number][];
    return rows.map(([seq, id, waits, hasFile]) => ({ seq, id, waits: waits === 1, hasFile: hasFile === 1 }));
  }

  async mailboxesWithMail(prefix: string): Promise<AgentName[]> {
    const range = [prefix, `${prefix}\u{10ffff}`] as const;
    const rows = this.connection.read((db) => db.query<{ name: AgentName }, [string, string]>(WITH_MAIL).all(...range));
    return rows.map(({ name }) => name);
  }

  async unexported(after: CopyNumber, limit: number, drafted = false): Promise<Unexported[]> {
    const rows = this.connection.read((db) =>
      db
        .query<WaitingRow, [number, string, number, number]>(QUEUE)
        .all(after.seq, after.mailbox, drafted ? 1 : 0, limit),
    );
    return rows.map((row) => ({ ...waitingFrom(row), mailbox: row.mailbox }));
  }

  async drafted(copies: CopyNumber[]): Promise<boolean[]> {
    const sql = 'UPDATE unfiled SET drafted = 1 WHERE seq = ? AND mailbox = ? AND drafted = 0';
    return this.connection.write((db) => {
      const mark = db.query(sql);
      return copies.map(({ seq, mailbox }) => mark.run(seq, mailbox).changes > 0);
    });
  }

  async exported(copies: CopyNumber[]): Promise<void> {
    this.connection.write((db) => {
      const done = db.query('DELETE FROM unfiled WHERE seq = ? AND mailbox = ? AND drafted = 1');
      for (const { seq, mailbox } of copies) done.run(seq, mailbox);
    });
  }

  async placed(copies: CopyNumber[]): Promise<boolean[]> {
    return this.connection.write((db) => {
      const done = db.query(STILL_QUEUED);
      return copies.map(({ seq, mailbox }) => done.run(seq, mailbox).changes > 0);
    });
  }

  async unexportedCount(limit: number): Promise<number> {
    const sql = 'SELECT count(*) AS n FROM (SELECT 1 FROM unfiled LIMIT ?)';
    return this.connection.read((db) => db.query<{ n: number }, [number]>(sql).get(limit))?.n ?? 0;
  }

  async recount(look: (copy: { mailbox: AgentName; id: MessageId; quiet: boolean }) => FilePlace): Promise<void> {
    let last: [string, number] = ['', 0];
    let rows: WaitingRow[];
    do {
      // Look and mark in one transaction: no process can claim a copy, or record a draft, in between.
      rows = this.connection.write((db) => {
        const page = db.query<WaitingRow, [string, number]>(LATE).all(...last);
        for (const row of page) recountOne(db, row, look({ ...waitingFrom(row), mailbox: row.mailbox }));
        return page;
      });
      const end = rows.at(-1);
      if (end) last = [end.mailbox, end.seq];
    } while (rows.length === BATCH);
  }
}

function recountOne(db: Database, row: WaitingRow, found: FilePlace): void {
  const { seq, mailbox } = row;
  if (found === 'exported') db.query('DELETE FROM unfiled WHERE seq = ? AND mailbox = ?').run(seq, mailbox);
  else if (found === 'nowhere') queueExport(db, row);
  // A draft with a row will be published. A draft without a row was published, but its rename was lost.
  else db.query('INSERT INTO unfiled (seq, mailbox) VALUES (?, ?) ON CONFLICT DO NOTHING').run(seq, mailbox);
}

/** Takes a claimed copy out of the export queue, and returns its message; undefined if the copy has a file. */
export function withoutFile(db: Database, copy: { seq: number; mailbox: string; late: number }): string | undefined {
  if (copy.late === 0) return undefined;
  if (copy.late === 1) {
    if (db.query(STILL_QUEUED).run(copy.seq, copy.mailbox).changes === 0) return undefined;
    db.query('UPDATE copies SET late = 2 WHERE seq = ? AND mailbox = ?').run(copy.seq, copy.mailbox);
  }
  return db.query<{ json: string }, [number]>('SELECT json FROM messages WHERE seq = ?').get(copy.seq)?.json;
}

/** Queues a waiting copy without a file for export. */
export function queueExport(db: Database, { seq, mailbox }: { seq: number; mailbox: string }): void {
  db.query('UPDATE copies SET late = 1 WHERE seq = ? AND mailbox = ?').run(seq, mailbox);
  db.query('INSERT INTO unfiled (seq, mailbox) VALUES (?, ?) ON CONFLICT DO UPDATE SET drafted = 0').run(seq, mailbox);
}

function waitingFrom({ seq, id, attention, json }: WaitingRow): WaitingCopy {
  const decided = attentionFrom(attention);
  return { seq, id, text: json, attention: decided, quiet: isQuiet(decided) };
}
