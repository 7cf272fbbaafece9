import type { Database } from 'bun:sqlite';
import type { AgentName } from '../../core/names.ts';
import type { Disposition, Evidence } from '../../core/receipt.ts';
import type { JournalConnection } from './connection.ts';
import { numberAt } from './rules.ts';
import { SETTLED } from './schema.ts';
import { indexedUpTo } from './records.ts';
import { entered } from './rows.ts';

/** Messages per transaction: other writers get their turn between two transactions. */
const BATCH = 1000;

/**
 * The messages whose copies and obligations all ended before a time. A message with an open copy or obligation is never pruned. A message
 * without copies ended when it was sent. An obligation that is not entered yet counts as open. An owed reply is pruned with its message,
 * entered or not.
 */
const ENDED_BEFORE = `SELECT m.seq FROM messages m LEFT JOIN copies c USING (seq)
  WHERE m.id NOT IN (SELECT id FROM duties WHERE kind = 'obligation' AND (ended_as IS NULL OR ended_at >= ?1))
    AND (m.seq <= ?2 OR m.json ->> '$.parley.obligation' IS NULL)
  GROUP BY m.seq
  HAVING min(coalesce(c.state, ${SETTLED})) >= ${SETTLED} AND max(coalesce(c.settled_at, m.at)) < ?1`;

/** Messages of an agent without any copy. The newest may not be in the index yet. */
const OWN = `SELECT seq FROM (SELECT seq FROM sent WHERE sender = ?1 UNION ALL SELECT seq FROM messages WHERE seq > ?2 AND sender = ?1)
  WHERE seq NOT IN (SELECT seq FROM copies)`;

/** How an obligation ends when its author is forgotten. */
const AUTHOR_FORGOTTEN: { as: Disposition; by: Evidence } = {
  as: 'superseded',
  by: { because: 'its author was forgotten' },
};

export function prune(
  connection: JournalConnection,
  cut: { bodies: number | null; facts: number | null },
): { bodies: number; messages: number } {
  const bodies = cut.bodies === null ? 0 : inBatches(connection, ended(connection, cut.bodies), dropBodies);
  const messages = cut.facts === null ? 0 : inBatches(connection, ended(connection, cut.facts), dropMessages);
  const { facts } = cut;
  if (facts !== null) connection.write((db) => dropSpent(db, facts, connection.now()));
  return { bodies, messages };
}

/** Drops obligations without a message, and expired claims and sessions. */
function dropSpent(db: Database, facts: number, now: number): void {
  db.query('DELETE FROM duties WHERE ended_at < ? AND id NOT IN (SELECT id FROM messages)').run(facts);
  db.query('DELETE FROM claims WHERE until <= ?').run(now);
  db.query('DELETE FROM sessions WHERE seen < ?').run(facts);
}

/** Removes an agent's copies, and its messages of which no other agent has a copy. Other agents keep what they sent and got. */
export function forget(db: Database, agent: AgentName, now: number): { copies: number; messages: number } {
  forgetObligations(db, agent, now);
  const open = db.query('DELETE FROM copies WHERE mailbox = ? AND settled_at IS NULL').run(agent).changes;
  const settled = db.query('DELETE FROM copies WHERE mailbox = ? AND settled_at IS NOT NULL').run(agent).changes;
  db.query('DELETE FROM receipts WHERE mailbox = ?').run(agent);
  db.query('DELETE FROM unfiled WHERE mailbox = ?').run(agent);
  const messages = dropMessages(
    db,
    db
      .query<{ seq: number }, [string, number]>(OWN)
      .all(agent, indexedUpTo(db, 'sent'))
      .map(({ seq }) => seq),
  );
  return { copies: open + settled, messages };
}

function forgetObligations(db: Database, agent: AgentName, now: number): void {
  const awaited = "kind = 'obligation' AND ended_as IS NULL AND sender <> mailbox";
  db.query(`DELETE FROM duties WHERE mailbox = ? AND NOT (${awaited})`).run(agent);
  db.query("UPDATE duties SET state = 'open', note = NULL, due = min(due, ?) WHERE mailbox = ?").run(now, agent);
  const end = 'UPDATE duties SET ended_as = ?, ended_at = ?, ended_by = ? WHERE sender = ? AND ended_as IS NULL';
  db.query(end).run(AUTHOR_FORGOTTEN.as, now, JSON.stringify(AUTHOR_FORGOTTEN.by), agent);
  db.query('DELETE FROM claims WHERE holder = ?').run(agent);
  const sessions = db.query<{ id: string; identities: string }, []>('SELECT id, identities FROM sessions').all();
  for (const { id, identities } of sessions) {
    const names = JSON.parse(identities) as AgentName[];
    if (!names.includes(agent)) continue;
    const left = names.filter((name) => name !== agent);
    db.query('UPDATE sessions SET identities = ? WHERE id = ?').run(JSON.stringify(left), id);
    if (left.length === 0) db.query('DELETE FROM sessions WHERE id = ?').run(id);
  }
}

function ended(connection: JournalConnection, before: number): number[] {
  return connection
    .read((db) => db.query<{ seq: number }, [number, number]>(ENDED_BEFORE).all(before, numberAt(entered(db))))
    .map(({ seq }) => seq);
}

function inBatches(
  connection: JournalConnection,
  seqs: number[],
  drop: (db: Database, seqs: number[]) => number,
): number {
  let dropped = 0;
  for (let at = 0; at < seqs.length; at += BATCH) {
    const batch = seqs.slice(at, at + BATCH);
    dropped += connection.write((db) => drop(db, batch));
  }
  return dropped;
}

function dropBodies(db: Database, seqs: number[]): number {
  const which = JSON.stringify(seqs);
  db.query('DELETE FROM words WHERE rowid IN (SELECT value FROM json_each(?))').run(which);
  const sql = `UPDATE messages SET json = json_set(json, '$.body', ''), pruned = 1
    WHERE pruned = 0 AND seq IN (SELECT value FROM json_each(?))`;
  return db.query(sql).run(which).changes;
}

/** Keeps the highest sequence number, so that it is never used again. */
const KEEP_NUMBER = `INSERT INTO meta SELECT 'dropped', max(seq) FROM messages WHERE true HAVING max(seq) IS NOT NULL
  ON CONFLICT DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))`;

function dropMessages(db: Database, seqs: number[]): number {
  const which = JSON.stringify(seqs);
  db.query(KEEP_NUMBER).run();
  const ids = 'SELECT id FROM messages WHERE seq IN (SELECT value FROM json_each(?))';
  db.query(`DELETE FROM duties WHERE id IN (${ids})`).run(which);
  db.query(`DELETE FROM claims WHERE key IN (${ids})`).run(which);
  const sent = 'SELECT sender, seq FROM messages WHERE seq IN (SELECT value FROM json_each(?))';
  db.query(`DELETE FROM sent WHERE (sender, seq) IN (${sent})`).run(which);
  for (const [table, column] of [
    ['words', 'rowid'],
    ['receipts', 'seq'],
    ['copies', 'seq'],
    ['unfiled', 'seq'],
  ]) {
    db.query(`DELETE FROM ${table} WHERE ${column} IN (SELECT value FROM json_each(?))`).run(which);
  }
  return db.query('DELETE FROM messages WHERE seq IN (SELECT value FROM json_each(?))').run(which).changes;
}
