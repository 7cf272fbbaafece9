import type { Database } from 'bun:sqlite';
import type { AgentName } from '../../protocol/names.ts';
import { SETTLED } from './schema.ts';

/** The messages all of whose copies ended before a time; open ones are never pruned. One without copies ended when it was sent. */
const ENDED_BEFORE = `seq IN (SELECT m.seq FROM messages m LEFT JOIN copies c USING (seq) GROUP BY m.seq
  HAVING min(coalesce(c.state, ${SETTLED})) >= ${SETTLED} AND max(coalesce(c.settled_at, m.at)) < ?)`;

export function prune(
  db: Database,
  cut: { bodies: number | null; facts: number | null },
): { bodies: number; messages: number } {
  const bodies = cut.bodies === null ? 0 : dropBodies(db, `pruned = 0 AND ${ENDED_BEFORE}`, cut.bodies);
  const messages = cut.facts === null ? 0 : dropMessages(db, ENDED_BEFORE, cut.facts);
  return { bodies, messages };
}

/** Removes an agent's copies, and what it wrote that nobody else has a copy of. Others keep what they sent or got. */
export function forget(db: Database, agent: AgentName): { copies: number; messages: number } {
  const copies = db.query('DELETE FROM copies WHERE mailbox = ?').run(agent).changes;
  db.query('DELETE FROM receipts WHERE mailbox = ?').run(agent);
  const messages = dropMessages(db, 'sender = ? AND seq NOT IN (SELECT seq FROM copies)', agent);
  return { copies, messages };
}

function dropBodies(db: Database, which: string, value: string | number): number {
  db.query(`DELETE FROM words WHERE rowid IN (SELECT seq FROM messages WHERE ${which})`).run(value);
  return db.query(`UPDATE messages SET json = json_set(json, '$.body', ''), pruned = 1 WHERE ${which}`).run(value)
    .changes;
}

function dropMessages(db: Database, which: string, value: string | number): number {
  db.query(`DELETE FROM words WHERE rowid IN (SELECT seq FROM messages WHERE ${which})`).run(value);
  db.query(`DELETE FROM receipts WHERE seq IN (SELECT seq FROM messages WHERE ${which})`).run(value);
  const dropped = db.query(`DELETE FROM messages WHERE ${which}`).run(value).changes;
  db.run('DELETE FROM copies WHERE seq NOT IN (SELECT seq FROM messages)');
  return dropped;
}
