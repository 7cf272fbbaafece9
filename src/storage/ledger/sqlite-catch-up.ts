import type { Database } from 'bun:sqlite';
import type { Connection } from './connection.ts';
import { metaOf, setMeta } from './meta.ts';

/** How many messages one round takes in: small enough that senders do not wait for it. */
const STEP = 2000;

/**
 * Indexes that no send pays for: whoever asks enters first what was accepted since somebody last asked. `meta` has the number up to
 * which that was done, under the index's name; every later message has a higher one.
 */
const ENTER = {
  words: `INSERT INTO words (rowid, body) SELECT seq, json_extract(json, '$.body') FROM messages
    WHERE seq > ? AND seq <= ? AND pruned = 0`,
  sent: 'INSERT INTO sent SELECT sender, seq FROM messages WHERE seq > ? AND seq <= ? ORDER BY sender, seq',
};
const MARKS = { words: 'indexed', sent: 'sent' } as const;

type Index = keyof typeof ENTER;

/** The number up to which messages stand in this index. */
export function enteredIn(db: Database, index: Index): number {
  return Number(metaOf(db, MARKS[index]) ?? 0);
}

export function catchUp(connection: Connection, index: Index, onProgress?: (left: number) => void): void {
  for (;;) {
    const [done, newest] = connection.read((db) => [
      enteredIn(db, index),
      db.query<{ seq: number }, []>('SELECT ifnull(max(seq), 0) AS seq FROM messages').get()?.seq ?? 0,
    ]);
    if (newest <= done) return;
    const upTo = Math.min(newest, done + STEP);
    onProgress?.(newest - done);
    connection.write((db) => {
      // Another asker may have come first.
      if (enteredIn(db, index) !== done) return;
      db.query(ENTER[index]).run(done, upTo);
      setMeta(db, MARKS[index], String(upTo));
    });
  }
}
