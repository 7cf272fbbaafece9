import type { Database } from 'bun:sqlite';
import type { AgentName } from '../../protocol/names.ts';
import type { Connection } from './connection.ts';
import { SETTLED } from './schema.ts';

/** How many messages are forgotten in one go: others want to write too. */
const BITE = 1000;

/** The messages all of whose copies ended before a time; open ones are never pruned. One without copies ended when it was sent. */
const ENDED_BEFORE = `SELECT m.seq FROM messages m LEFT JOIN copies c USING (seq) GROUP BY m.seq
  HAVING min(coalesce(c.state, ${SETTLED})) >= ${SETTLED} AND max(coalesce(c.settled_at, m.at)) < ?`;

export function prune(
  connection: Connection,
  cut: { bodies: number | null; facts: number | null },
): { bodies: number; messages: number } {
  const bodies = cut.bodies === null ? 0 : inBites(connection, ended(connection, cut.bodies), dropBodies);
  const messages = cut.facts === null ? 0 : inBites(connection, ended(connection, cut.facts), dropMessages);
  return { bodies, messages };
}

/** Removes an agent's copies, and what it wrote that nobody else has a copy of. Others keep what they sent or got. */
export function forget(db: Database, agent: AgentName): { copies: number; messages: number } {
  const open = db.query('DELETE FROM copies WHERE mailbox = ? AND settled_at IS NULL').run(agent).changes;
  const settled = db.query('DELETE FROM copies WHERE mailbox = ? AND settled_at IS NOT NULL').run(agent).changes;
  db.query('DELETE FROM receipts WHERE mailbox = ?').run(agent);
  db.query('DELETE FROM unfiled WHERE mailbox = ?').run(agent);
  const own = 'SELECT seq FROM messages WHERE sender = ? AND seq NOT IN (SELECT seq FROM copies)';
  const messages = dropMessages(
    db,
    db
      .query<{ seq: number }, [string]>(own)
      .all(agent)
      .map(({ seq }) => seq),
  );
  return { copies: open + settled, messages };
}

function ended(connection: Connection, before: number): number[] {
  return connection.read((db) => db.query<{ seq: number }, [number]>(ENDED_BEFORE).all(before)).map(({ seq }) => seq);
}

function inBites(connection: Connection, seqs: number[], drop: (db: Database, seqs: number[]) => number): number {
  let dropped = 0;
  for (let at = 0; at < seqs.length; at += BITE) {
    const bite = seqs.slice(at, at + BITE);
    dropped += connection.write((db) => drop(db, bite));
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

/** The highest number that may be dropped, kept so that it is never given again. */
const KEEP_NUMBER = `INSERT INTO meta SELECT 'dropped', max(seq) FROM messages WHERE true HAVING max(seq) IS NOT NULL
  ON CONFLICT DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))`;

function dropMessages(db: Database, seqs: number[]): number {
  const which = JSON.stringify(seqs);
  db.query(KEEP_NUMBER).run();
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
