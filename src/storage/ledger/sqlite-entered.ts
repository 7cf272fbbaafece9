import type { Database } from 'bun:sqlite';
import { goneBack } from './rules.ts';
import { metaOf, setMeta } from './meta.ts';

/** The place up to which duties were entered. */
export function entered(db: Database): number {
  return Number(metaOf(db, 'entered') ?? 0);
}

export function setEntered(db: Database, place: number): void {
  setMeta(db, 'entered', String(place));
}

/** A copy was found of a message that may have been looked at already. */
export function enterAgain(db: Database, seq: number): void {
  setEntered(db, goneBack(entered(db), seq));
}
