import type { Database } from 'bun:sqlite';
import { goneBack } from './duty-rules.ts';

/** The place up to which duties were entered. */
export function entered(db: Database): number {
  const row = db.query<{ value: string }, []>("SELECT value FROM meta WHERE name = 'entered'").get();
  return Number(row?.value ?? 0);
}

export function setEntered(db: Database, place: number): void {
  db.query("INSERT INTO meta VALUES ('entered', ?) ON CONFLICT DO UPDATE SET value = excluded.value").run(
    String(place),
  );
}

/** A copy was found of a message that may have been looked at already. */
export function enterAgain(db: Database, seq: number): void {
  setEntered(db, goneBack(entered(db), seq));
}
