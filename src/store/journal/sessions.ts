import type { Database } from 'bun:sqlite';
import * as v from 'valibot';
import { MOST_OPEN } from '../../core/ports/session-store.ts';
import type {
  HistoryPage,
  KeptChoices,
  NewSessionMessage,
  PromptState,
  SessionBinding,
  SessionMessage,
  SessionStore,
  StoredPrompt,
} from '../../core/ports/session-store.ts';
import type { RecordPlace } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { JournalConnection } from './connection.ts';
import { metaOf, setMeta } from './meta.ts';

/** In `meta`: the ids up to this number belong to an earlier ccc. */
const EARLIER_IDS = 'earlier_session_ids';

const Choices = new Schema(() =>
  v.array(v.nullable(v.union([v.object({ options: v.array(v.number()) }), v.object({ text: v.string() })]))),
);

/** An id is never given twice: lines are never removed, and every writer waits for its turn. */
const NEXT_ID = `max(ifnull((SELECT max(id) FROM session_lines), 0),
  ifnull((SELECT CAST(value AS INTEGER) FROM meta WHERE name = '${EARLIER_IDS}'), 0)) + 1`;
const INSERT_LINE = `INSERT INTO session_lines (id, session, sender, ts, text, reply_to, status, fields, turn)
  VALUES (${NEXT_ID}, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`;
const INSERT_PROMPT = `INSERT INTO session_prompts (id, session, key, raw, state, at, deadline) VALUES (?, ?, ?, ?, 'queued', ?, ?)`;
const PROMPT = 'SELECT p.*, l.text FROM session_prompts p CROSS JOIN session_lines l ON l.id = p.id';
/** Reads the line of a prompt only if some of its text is wanted. */
const PROMPT_CUT = `SELECT p.*, iif(?1 > 0, (SELECT substr(l.text, 1, ?1) FROM session_lines l WHERE l.id = p.id), '') AS text
  FROM session_prompts p`;
const COUNT_OPEN = 'SELECT count(*) AS open FROM session_prompts WHERE session = ? AND ended = 0';
const BIND = `INSERT INTO session_bindings (session, conversation, place) VALUES (?, ?, ?)
  ON CONFLICT DO UPDATE SET conversation = excluded.conversation, place = excluded.place`;
const KEEP_CHOICES = `INSERT INTO session_choices (session, call, choices) VALUES (?, ?, ?)
  ON CONFLICT DO UPDATE SET call = excluded.call, choices = excluded.choices`;
const CHANGE_LINE = `UPDATE session_lines SET status = ?, fields = json_set(ifnull(fields, '{}'), '$.error', ?), unexported = 1 WHERE id = ?`;

/** Queries that read one page, however long the history is. A test checks their query plans. */
export const SESSION_PAGES = {
  after: {
    index: 'session_lines_session',
    sql: 'SELECT * FROM session_lines WHERE session = ? AND id > ? ORDER BY id LIMIT ?',
  },
  newest: {
    index: 'session_lines_session',
    sql: 'SELECT * FROM session_lines WHERE session = ? ORDER BY id DESC LIMIT ?',
  },
  afterFrom: {
    index: 'session_lines_sender',
    sql: 'SELECT * FROM session_lines WHERE session = ? AND sender = ? AND id > ? ORDER BY id LIMIT ?',
  },
  newestFrom: {
    index: 'session_lines_sender',
    sql: 'SELECT * FROM session_lines WHERE session = ? AND sender = ? ORDER BY id DESC LIMIT ?',
  },
  reply: {
    index: 'session_lines_reply',
    sql: "SELECT * FROM session_lines WHERE reply_to = ? AND sender = 'claude' ORDER BY id LIMIT 1",
  },
  turn: {
    index: 'session_lines_turn',
    sql: "SELECT * FROM session_lines WHERE session = ? AND turn = ? AND (sender = 'claude') = ?",
  },
  unexported: {
    index: 'session_lines_unexported',
    sql: 'SELECT * FROM session_lines WHERE unexported = 1 AND id > 0 ORDER BY id LIMIT ?',
  },
  open: { index: 'session_prompts_open', sql: `${PROMPT} WHERE p.session = ? AND p.ended = 0 ORDER BY p.id` },
  openCut: {
    index: 'session_prompts_open',
    sql: `${PROMPT_CUT} WHERE p.session = ?2 AND p.ended = 0 ORDER BY p.id`,
  },
} as const;
/** Ended prompts are not in the index: these read the open ones and sort them. */
const ALL_OPEN = `${PROMPT} WHERE p.ended = 0 AND p.session > '' ORDER BY p.id`;
const ALL_OPEN_CUT = `${PROMPT_CUT} WHERE p.ended = 0 AND p.session > '' ORDER BY p.id`;

/** Prompts and history of sessions in the journal. core/ports/session-store.ts documents each method. */
export class SqliteSessions implements SessionStore {
  constructor(readonly connection: JournalConnection) {}

  async enqueue(
    message: NewSessionMessage,
    { key, raw, at, deadline }: { key: string; raw: boolean; at: number; deadline: number | null },
  ): Promise<StoredPrompt> {
    return this.connection.writeNew((db) => {
      const open = db.query<{ open: number }, [string]>(COUNT_OPEN).get(message.session)?.open ?? 0;
      if (open >= MOST_OPEN)
        throw new Refusal('busy', `${open} prompts wait for this session; send it when they are fewer`);
      const id = insertLine(db, message, null);
      db.query(INSERT_PROMPT).run(id, message.session, key, raw ? 1 : 0, at, deadline);
      return promptIn(db, id) ?? unreachable(id);
    });
  }

  async record(message: NewSessionMessage, turn?: string): Promise<SessionMessage> {
    return this.connection.write((db) => {
      const known = turn === undefined ? null : lineOfTurn(db, message, turn);
      return known ?? lineIn(db, insertLine(db, message, turn ?? null));
    });
  }

  async open(session?: string, characters?: number): Promise<StoredPrompt[]> {
    const [one, all] =
      characters === undefined ? [SESSION_PAGES.open.sql, ALL_OPEN] : [SESSION_PAGES.openCut.sql, ALL_OPEN_CUT];
    const values = [characters, session].filter((value) => value !== undefined);
    const sql = session === undefined ? all : one;
    return this.connection.read((db) => db.query<PromptRow, (string | number)[]>(sql).all(...values)).map(promptFrom);
  }

  async prompt(id: number): Promise<StoredPrompt | null> {
    return this.connection.read((db) => promptIn(db, id));
  }

  async begin(id: number, place: RecordPlace): Promise<boolean> {
    const sql = `UPDATE session_prompts SET state = 'submitting', place = ?, because = NULL WHERE id = ? AND state = 'queued'`;
    return this.connection.writeFlushed((db) => db.query(sql).run(place, id).changes > 0);
  }

  async requeue(id: number, because: string): Promise<void> {
    const sql = `UPDATE session_prompts SET state = 'queued', place = NULL, because = ? WHERE id = ? AND state = 'submitting'`;
    this.connection.write((db) => db.query(sql).run(because, id));
  }

  async submitted(id: number, turn: string | null): Promise<void> {
    const sql = `UPDATE session_prompts SET state = 'submitted', turn = ifnull(?, turn) WHERE id = ? AND ended = 0`;
    this.connection.write((db) => {
      if (db.query(sql).run(turn, id).changes === 0 || turn === null) return;
      db.query('UPDATE OR IGNORE session_lines SET turn = ? WHERE id = ?').run(turn, id);
    });
  }

  async answer(id: number, reply: NewSessionMessage): Promise<SessionMessage> {
    return this.connection.write((db) => {
      const known = replyIn(db, id);
      if (known) return known;
      // A failed prompt may still be answered: its client may return to it.
      const sql = `UPDATE session_prompts SET state = 'answered', because = NULL, ended = 1 WHERE id = ?`;
      db.query(sql).run(id);
      const turn = promptIn(db, id)?.turn ?? null;
      const isFirst = turn !== null && !lineOfTurn(db, reply, turn);
      return lineIn(db, insertLine(db, { ...reply, reply_to: id }, isFirst ? turn : null));
    });
  }

  async end(
    id: number,
    as: 'failed' | 'withdrawn',
    because: string,
    status: SessionMessage['status'] = as,
  ): Promise<boolean> {
    const from = as === 'withdrawn' ? `state = 'queued'` : 'ended = 0';
    const sql = `UPDATE session_prompts SET state = ?, because = ?, ended = 1 WHERE id = ? AND ${from}`;
    return this.connection.write((db) => {
      if (db.query(sql).run(as, because, id).changes === 0) return false;
      db.query(CHANGE_LINE).run(status, because, id);
      return true;
    });
  }

  async history({ session, after, limit, from, bytes = Infinity }: HistoryPage): Promise<SessionMessage[]> {
    const who = from === undefined ? [session] : [session, from];
    return this.connection.read((db) => {
      if (after === undefined) {
        const { sql } = from === undefined ? SESSION_PAGES.newest : SESSION_PAGES.newestFrom;
        return linesOf(db, sql, [...who, limit], bytes).reverse();
      }
      const { sql } = from === undefined ? SESSION_PAGES.after : SESSION_PAGES.afterFrom;
      return linesOf(db, sql, [...who, after, limit], bytes);
    });
  }

  async message(id: number): Promise<SessionMessage | null> {
    return this.connection.read((db) => lineOrNull(db, id));
  }

  async replyTo(id: number): Promise<SessionMessage | null> {
    return this.connection.read((db) => replyIn(db, id));
  }

  async last(session: string): Promise<SessionMessage | null> {
    return (await this.history({ session, limit: 1 }))[0] ?? null;
  }

  async binding(session: string): Promise<SessionBinding | null> {
    const sql = 'SELECT conversation, place FROM session_bindings WHERE session = ?';
    return this.connection.read((db) => db.query<SessionBinding, [string]>(sql).get(session));
  }

  async bind(session: string, { conversation, place }: SessionBinding): Promise<void> {
    this.connection.write((db) => db.query(BIND).run(session, conversation, place));
  }

  async choices(session: string): Promise<KeptChoices | null> {
    const sql = 'SELECT call, choices FROM session_choices WHERE session = ?';
    const row = this.connection.read((db) => db.query<{ call: string; choices: string }, [string]>(sql).get(session));
    return row && { call: row.call, choices: Choices.parse(JSON.parse(row.choices)) };
  }

  async keepChoices(session: string, kept: KeptChoices | null): Promise<void> {
    this.connection.write((db) => {
      if (kept) db.query(KEEP_CHOICES).run(session, kept.call, JSON.stringify(kept.choices));
      else db.query('DELETE FROM session_choices WHERE session = ?').run(session);
    });
  }

  async unexported(limit: number): Promise<SessionMessage[]> {
    const { sql } = SESSION_PAGES.unexported;
    return this.connection.read((db) => db.query<LineRow, [number]>(sql).all(limit)).map(lineFrom);
  }

  async exported(lines: readonly Pick<SessionMessage, 'id' | 'status'>[]): Promise<void> {
    const sql = 'UPDATE session_lines SET unexported = 0 WHERE id = ? AND status IS ?';
    this.connection.write((db) => {
      for (const { id, status } of lines) db.query(sql).run(id, status ?? null);
    });
  }

  async raiseIds(above: number): Promise<void> {
    this.connection.write((db) => {
      const known = metaOf(db, EARLIER_IDS);
      if (known === null || Number(known) < above) setMeta(db, EARLIER_IDS, String(above));
    });
  }

  async lastEarlierId(): Promise<number | null> {
    const above = this.connection.read((db) => metaOf(db, EARLIER_IDS));
    return above === null ? null : Number(above);
  }
}

interface LineRow {
  id: number;
  session: string;
  sender: string;
  ts: number;
  text: string;
  reply_to: number | null;
  status: string | null;
  /** Everything else, as JSON. */
  fields: string | null;
}

function insertLine(db: Database, message: NewSessionMessage, turn: string | null): number {
  const { session, ts, from, text, reply_to, status, ...fields } = message;
  const rest = Object.keys(fields).length > 0 ? JSON.stringify(fields) : null;
  const row = [session, from, ts, text, reply_to ?? null, status ?? null, rest, turn] as const;
  const made = db.query<{ id: number }, (string | number | null)[]>(INSERT_LINE).get(...row);
  if (!made) throw new Error('a line of history was not stored');
  return made.id;
}

/** Reads row by row, and stops after `bytes`: a page of long lines is not read whole. */
function linesOf(db: Database, sql: string, values: (string | number)[], bytes: number): SessionMessage[] {
  const lines: SessionMessage[] = [];
  let left = bytes;
  for (const row of db.query<LineRow, (string | number)[]>(sql).iterate(...values)) {
    lines.push(lineFrom(row));
    left -= Buffer.byteLength(row.text);
    if (left < 0) break;
  }
  return lines;
}

function lineOrNull(db: Database, id: number): SessionMessage | null {
  const row = db.query<LineRow, [number]>('SELECT * FROM session_lines WHERE id = ?').get(id);
  return row && lineFrom(row);
}

function lineIn(db: Database, id: number): SessionMessage {
  return lineOrNull(db, id) ?? unreachable(id);
}

function lineOfTurn(db: Database, { session, from }: NewSessionMessage, turn: string): SessionMessage | null {
  const isAnswer = from === 'claude' ? 1 : 0;
  const row = db.query<LineRow, [string, string, number]>(SESSION_PAGES.turn.sql).get(session, turn, isAnswer);
  return row && lineFrom(row);
}

function replyIn(db: Database, id: number): SessionMessage | null {
  const row = db.query<LineRow, [number]>(SESSION_PAGES.reply.sql).get(id);
  return row && lineFrom(row);
}

function lineFrom({ id, session, sender, ts, text, reply_to, status, fields }: LineRow): SessionMessage {
  return {
    id,
    session,
    ts,
    from: sender as SessionMessage['from'],
    text,
    ...(JSON.parse(fields ?? '{}') as Partial<SessionMessage>),
    ...(reply_to !== null && { reply_to }),
    ...(status !== null && { status: status as NonNullable<SessionMessage['status']> }),
  };
}

interface PromptRow {
  id: number;
  session: string;
  key: string;
  text: string;
  raw: number;
  state: string;
  at: number;
  deadline: number | null;
  place: string | null;
  turn: string | null;
  because: string | null;
}

function promptIn(db: Database, id: number): StoredPrompt | null {
  const row = db.query<PromptRow, [number]>(`${PROMPT} WHERE p.id = ?`).get(id);
  return row && promptFrom(row);
}

function promptFrom(row: PromptRow): StoredPrompt {
  const { id, session, key, text, at, deadline, place, turn, because } = row;
  const state = row.state as PromptState;
  return { id, session, key, text, raw: row.raw === 1, state, at, deadline, place, turn, because };
}

function unreachable(id: number): never {
  throw new Error(`line ${id} of the history was stored and is gone`);
}
