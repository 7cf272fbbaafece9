import type { Database } from 'bun:sqlite';
import type { AgentName } from '../../protocol/names.ts';
import { SETTLED } from './schema.ts';

/** The messages all of whose copies were settled before a time; open ones are never pruned. */
const SETTLED_BEFORE = `seq IN (SELECT seq FROM copies GROUP BY seq HAVING min(state) >= ${SETTLED}
  AND max(coalesce(settled_at, 0)) < ?)`;

export function prune(db: Database, cut: { bodies: number | null; facts: number | null }): { bodies: number; messages: number } {
  const bodies = cut.bodies === null ? 0 : dropBodies(db, `pruned = 0 AND ${SETTLED_BEFORE}`, cut.bodies);
  const messages = cut.facts === null ? 0 : dropMessages(db, SETTLED_BEFORE, cut.facts);
  return { bodies, messages };
}

/** Removes an agent's copies, and every message that then has no copy left or that the agent wrote. */
export function forget(db: Database, agent: AgentName): { copies: number; messages: number } {
  const copies = db.query('DELETE FROM copies WHERE mailbox = ?').run(agent).changes;
  db.query('DELETE FROM receipts WHERE mailbox = ?').run(agent);
  const messages = dropMessages(
    db,
    'seq NOT IN (SELECT seq FROM copies) AND (sender = ?1 OR seq NOT IN (SELECT seq FROM copies))',
    agent,
  );
  return { copies, messages };
}

function dropBodies(db: Database, which: string, value: string | number): number {
  db.query(`DELETE FROM words WHERE rowid IN (SELECT seq FROM messages WHERE ${which})`).run(value);
  return db.query(`UPDATE messages SET json = json_set(json, '$.body', ''), pruned = 1 WHERE ${which}`).run(value).changes;
}

function dropMessages(db: Database, which: string, value: string | number): number {
  db.query(`DELETE FROM words WHERE rowid IN (SELECT seq FROM messages WHERE ${which})`).run(value);
  db.query(`DELETE FROM receipts WHERE seq IN (SELECT seq FROM messages WHERE ${which})`).run(value);
  const dropped = db.query(`DELETE FROM messages WHERE ${which}`).run(value).changes;
  db.run('DELETE FROM copies WHERE seq NOT IN (SELECT seq FROM messages)');
  return dropped;
}
