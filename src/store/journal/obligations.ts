import type { Database } from 'bun:sqlite';
import type { Obligation } from '../../core/obligations/rules.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { Evidence } from '../../core/receipt.ts';
import type { Disposition } from '../../core/receipt.ts';
import type {
  Obligations,
  ObligationPage,
  EventClaim,
  SessionRecord,
  UnenteredCopy,
} from '../../core/ports/obligations.ts';
import { COPY_COLUMNS, copyFrom, messageFrom, entered, setEntered } from './rows.ts';
import type { CopyRow } from './rows.ts';
import { numberAt, placeAt } from './rules.ts';
import type { SessionStore } from '../../core/ports/session-store.ts';
import { SqliteCopies } from './copies.ts';
import { SqliteSessions } from './sessions.ts';

/** Scans the copies in order of arrival: an extra index would cost every send a page. */
const UNENTERED = `SELECT ${COPY_COLUMNS}, c.seq, m.json,
    NOT EXISTS (SELECT 1 FROM messages o WHERE o.root = m.root AND o.root <> o.id) AS alone FROM copies c CROSS JOIN messages m ON m.seq = c.seq
  WHERE c.seq BETWEEN ? AND ? AND instr(c.attention, ' must_respond ') > 0
    AND NOT EXISTS (SELECT 1 FROM duties d WHERE d.id = m.id AND d.mailbox = c.mailbox)
  ORDER BY c.seq, c.mailbox LIMIT ?`;

const COLUMNS =
  'id, mailbox, sender, kind, at, every, state, due, returns, tier, extended, note, ended_as, ended_at, ended_by';
const INSERT = `INSERT INTO duties (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`;
const UPDATE = `UPDATE duties SET state = ?, due = ?, returns = ?, tier = ?, extended = ?, note = ?, ended_as = ?, ended_at = ?,
  ended_by = ? WHERE id = ? AND mailbox = ?`;
const ONE = `SELECT ${COLUMNS} FROM duties WHERE id = ? AND mailbox = ?`;
/** Each query reads its own index of open obligations, and none sorts. */
export const PAGES = {
  owed: {
    index: 'duties_owed',
    sql: `SELECT ${COLUMNS} FROM duties WHERE mailbox = ? AND ended_as IS NULL AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?`,
  },
  blocking: {
    index: 'duties_blocking',
    sql: `SELECT ${COLUMNS} FROM duties WHERE sender = ? AND ended_as IS NULL AND (at, id, mailbox) > (?, ?, ?)
      ORDER BY at, id, mailbox LIMIT ?`,
  },
  count: {
    index: 'duties_owed',
    sql: 'SELECT count(*) AS n FROM (SELECT 1 FROM duties WHERE mailbox = ? AND ended_as IS NULL LIMIT max(?, 0))',
  },
  due: {
    index: 'duties_due',
    sql: `SELECT ${COLUMNS} FROM duties WHERE ended_as IS NULL AND due <= ? ORDER BY due LIMIT ?`,
  },
  next: {
    index: 'duties_due',
    sql: 'SELECT due FROM duties WHERE ended_as IS NULL AND due IS NOT NULL ORDER BY due LIMIT 1',
  },
} as const;

/** Few obligations have a delegate, and few ask for them: they have no index of their own. */
const DELEGATED = `SELECT ${COLUMNS} FROM duties WHERE kind = 'obligation' AND ended_as IS NULL AND id IN
  (SELECT m.id FROM duties d JOIN messages m ON m.id = d.id WHERE d.kind = 'obligation' AND d.ended_as IS NULL
    AND json_extract(m.json, '$.parley.obligation.delegate') = ?) ORDER BY at, id, mailbox LIMIT ?`;

const SAVE_CLAIM = `INSERT INTO claims (key, holder, until, reserved) VALUES (?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET holder = excluded.holder, until = excluded.until, reserved = excluded.reserved`;
const SAVE_SESSION = `INSERT INTO sessions (id, token_hash, identities, roles, streams, threads, seen) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET token_hash = excluded.token_hash, identities = excluded.identities, roles = excluded.roles,
    streams = excluded.streams, threads = excluded.threads, seen = excluded.seen`;

const BEFORE_ALL = Number.MIN_SAFE_INTEGER;
/** Sorts after every mailbox name. */
const AFTER_ALL = '\u{10ffff}';

type Place = [at: number, id: string, mailbox: string];
type UnenteredRow = CopyRow & { seq: number; json: string; alone: number };

/** Obligations, event claims and sessions complete the SQLite journal. core/ports/obligations.ts documents each method. */
export class SqliteObligations extends SqliteCopies implements Obligations {
  sessionStore(): SessionStore {
    return new SqliteSessions(this.connection);
  }

  async unentered(limit: number): Promise<{ from: number; upTo: number; copies: UnenteredCopy[] }> {
    return this.connection.read((db) => {
      const from = entered(db);
      const first = numberAt(from) + 1;
      // Read before the copies: the next scan gets what is accepted between the two queries.
      const newest = db.query<{ seq: number }, []>('SELECT ifnull(max(seq), 0) AS seq FROM messages').get()?.seq ?? 0;
      const query = db.query<UnenteredRow, [number, number, number]>(UNENTERED);
      const rows = query.all(first, newest, limit + 1);
      const cut = rows.length > limit ? (rows.at(-1)?.seq ?? first) : newest + 1;
      const whole = rows.filter(({ seq }) => seq < cut);
      // One message has more copies than the limit.
      const taken = whole.length === 0 && rows.length > 0 ? query.all(cut, cut, -1) : whole;
      const last = taken === whole ? cut - 1 : cut;
      const copies = taken.map((row) => ({
        copy: copyFrom(row),
        message: messageFrom(row.json),
        alone: row.alone === 1,
      }));
      return { from, upTo: placeAt(Math.max(last, numberAt(from)), from), copies };
    });
  }

  async enter(from: number, upTo: number, obligations: Obligation[]): Promise<boolean> {
    if (upTo === from && obligations.length === 0) return this.connection.read((db) => entered(db) === from);
    return this.connection.write((db) => {
      if (entered(db) !== from) return false;
      for (const obligation of obligations) insert(db, obligation);
      setEntered(db, upTo);
      return true;
    });
  }

  async addObligation(obligation: Obligation): Promise<boolean> {
    return this.connection.write((db) => insert(db, obligation));
  }

  async obligation(mailbox: AgentName, id: MessageId): Promise<Obligation | null> {
    return this.connection.read((db) => obligationIn(db, mailbox, id));
  }

  async owed(mailbox: AgentName, { after, limit }: ObligationPage): Promise<Obligation[]> {
    const rows = this.connection.read((db) =>
      db
        .query<ObligationRow, [string, number, string, number]>(PAGES.owed.sql)
        .all(mailbox, after?.at ?? BEFORE_ALL, after?.id ?? '', limit),
    );
    return rows.map(obligationFrom);
  }

  async blocking(from: AgentName, { after, limit }: ObligationPage): Promise<Obligation[]> {
    const place: Place = after ? [after.at, after.id, after.mailbox ?? AFTER_ALL] : [BEFORE_ALL, '', ''];
    const rows = this.connection.read((db) =>
      db.query<ObligationRow, [string, ...Place, number]>(PAGES.blocking.sql).all(from, ...place, limit),
    );
    return rows.map(obligationFrom);
  }

  async delegated(delegate: AgentName, limit: number): Promise<Obligation[]> {
    const rows = this.connection.read((db) =>
      db.query<ObligationRow, [string, number]>(DELEGATED).all(delegate, limit),
    );
    return rows.map(obligationFrom);
  }

  async owedCount(mailbox: AgentName, most: number): Promise<number> {
    return (
      this.connection.read((db) => db.query<{ n: number }, [string, number]>(PAGES.count.sql).get(mailbox, most))?.n ??
      0
    );
  }

  async dueObligations(now: number, limit: number): Promise<Obligation[]> {
    return this.connection
      .read((db) => db.query<ObligationRow, [number, number]>(PAGES.due.sql).all(now, limit))
      .map(obligationFrom);
  }

  async nextDue(): Promise<number | null> {
    return this.connection.read((db) => db.query<{ due: number }, []>(PAGES.next.sql).get())?.due ?? null;
  }

  async changeObligation(
    mailbox: AgentName,
    id: MessageId,
    change: (obligation: Obligation) => Obligation | null,
  ): Promise<Obligation | null> {
    return this.connection.write((db) => {
      const obligation = obligationIn(db, mailbox, id);
      const next = obligation && afterChange(obligation, change);
      if (!next) return obligation;
      db.query(UPDATE).run(...changingIn(next), id, mailbox);
      return next;
    });
  }

  async claimEvent(claim: EventClaim, now: number): Promise<EventClaim> {
    return this.connection.write((db) => {
      const valid = claimAfter(claimIn(db, claim.key), claim, now);
      if (valid.holder !== claim.holder) return valid;
      db.query(SAVE_CLAIM).run(valid.key, valid.holder, valid.until, valid.reserved ? 1 : 0);
      return valid;
    });
  }

  async eventClaim(key: MessageId, now: number): Promise<EventClaim | null> {
    const claim = this.connection.read((db) => claimIn(db, key));
    return claim && claim.until > now ? claim : null;
  }

  async freeClaim(key: MessageId, holder: AgentName): Promise<boolean> {
    // Few events are claimed, and a read is cheaper than a write.
    if (!this.connection.read((db) => claimIn(db, key))) return false;
    const sql = 'DELETE FROM claims WHERE key = ? AND holder = ?';
    return this.connection.write((db) => db.query(sql).run(key, holder).changes > 0);
  }

  async claimsOf(holder: AgentName, now: number): Promise<EventClaim[]> {
    const sql = 'SELECT * FROM claims WHERE holder = ? AND until > ? ORDER BY until, key';
    return this.connection.read((db) => db.query<ClaimRow, [string, number]>(sql).all(holder, now)).map(claimFrom);
  }

  async saveSession(session: SessionRecord): Promise<void> {
    const { id, tokenHash, identities, roles, streams, threads, seen } = session;
    const names = [identities, roles, streams, threads].map((list) => JSON.stringify(list));
    this.connection.write((db) => db.query(SAVE_SESSION).run(id, tokenHash, ...names, seen));
  }

  async session(id: string): Promise<SessionRecord | null> {
    const row = this.connection.read((db) =>
      db.query<SessionRow, [string]>('SELECT * FROM sessions WHERE id = ?').get(id),
    );
    return row && sessionFrom(row);
  }

  async sessions(): Promise<SessionRecord[]> {
    return this.connection
      .read((db) => db.query<SessionRow, []>('SELECT * FROM sessions ORDER BY id').all())
      .map(sessionFrom);
  }

  async dropSession(id: string): Promise<void> {
    this.connection.write((db) => db.query('DELETE FROM sessions WHERE id = ?').run(id));
  }
}

function insert(db: Database, given: Obligation): boolean {
  const obligation = readable(given);
  return db.query(INSERT).run(...fixedIn(obligation), ...changingIn(obligation)).changes > 0;
}

function obligationIn(db: Database, mailbox: AgentName, id: MessageId): Obligation | null {
  const row = db.query<ObligationRow, [string, string]>(ONE).get(id, mailbox);
  return row && obligationFrom(row);
}

function claimIn(db: Database, key: MessageId): EventClaim | null {
  const row = db.query<ClaimRow, [string]>('SELECT * FROM claims WHERE key = ?').get(key);
  return row && claimFrom(row);
}

/** The time between two returns of an obligation without a readable one: a third of five minutes. */
const UNREADABLE_MS = 100_000;

/** Other programs may write unreadable times. One such message must not block all obligations after it. */
function readable(obligation: Obligation): Obligation {
  const at = Number.isFinite(obligation.at) ? obligation.at : 0;
  const { every, due, ended } = obligation;
  return {
    ...obligation,
    at,
    every: Number.isFinite(every) ? every : UNREADABLE_MS,
    due: due === null || Number.isFinite(due) ? due : at,
    ended: ended && { ...ended, at: Number.isFinite(ended.at) ? ended.at : at },
  };
}

/** The obligation after a change; null if nothing changes. An ended obligation never changes. */
function afterChange(obligation: Obligation, change: (obligation: Obligation) => Obligation | null): Obligation | null {
  if (obligation.ended) return null;
  const next = change(structuredClone(obligation));
  const { id, mailbox, from, kind, at, every } = obligation;
  return next && readable({ ...next, id, mailbox, from, kind, at, every });
}

/** The claim that is valid after a request for one. */
function claimAfter(current: EventClaim | null, asked: EventClaim, now: number): EventClaim {
  if (!current || current.until <= now) return asked;
  if (current.holder !== asked.holder) return current;
  return {
    ...asked,
    until: Math.max(current.until, asked.until),
    reserved: current.reserved && asked.reserved,
  };
}

/** A row of `duties`. The fixed columns come first. */
interface ObligationRow {
  id: string;
  mailbox: string;
  sender: string;
  kind: string;
  at: number;
  every: number;
  state: string;
  due: number | null;
  returns: number;
  tier: number;
  extended: number;
  note: string | null;
  ended_as: string | null;
  ended_at: number | null;
  ended_by: string | null;
}

/** In the order of the columns. */
function fixedIn({ id, mailbox, from, kind, at, every }: Obligation) {
  return [id, mailbox, from, kind, at, every] as const;
}

function changingIn({ state, due, returns, tier, extended, note, ended }: Obligation) {
  const end = ended ? ([ended.as, ended.at, JSON.stringify(ended.by)] as const) : ([null, null, null] as const);
  return [state, due, returns, tier, extended ? 1 : 0, note, ...end] as const;
}

function obligationFrom(row: ObligationRow): Obligation {
  return {
    id: row.id as MessageId,
    mailbox: row.mailbox as AgentName,
    from: row.sender,
    kind: row.kind as Obligation['kind'],
    at: row.at,
    every: row.every,
    state: row.state as Obligation['state'],
    due: row.due,
    returns: row.returns,
    tier: row.tier as Obligation['tier'],
    extended: row.extended === 1,
    note: row.note,
    ended: endFrom(row),
  };
}

function endFrom({ ended_as, ended_at, ended_by }: ObligationRow): Obligation['ended'] {
  if (ended_as === null) return null;
  return { as: ended_as as Disposition, at: ended_at ?? 0, by: Evidence.parse(JSON.parse(ended_by ?? '{}')) };
}

interface ClaimRow {
  key: string;
  holder: string;
  until: number;
  reserved: number;
}

function claimFrom({ key, holder, until, reserved }: ClaimRow): EventClaim {
  return { key: key as MessageId, holder: holder as AgentName, until, reserved: reserved === 1 };
}

/** The four lists of names are JSON. */
interface SessionRow {
  id: string;
  token_hash: string;
  identities: string;
  roles: string;
  streams: string;
  threads: string;
  seen: number;
}

function sessionFrom(row: SessionRow): SessionRecord {
  return {
    id: row.id,
    tokenHash: row.token_hash,
    identities: JSON.parse(row.identities) as AgentName[],
    roles: JSON.parse(row.roles) as AgentName[],
    streams: JSON.parse(row.streams) as string[],
    threads: JSON.parse(row.threads) as MessageId[],
    seen: row.seen,
  };
}
