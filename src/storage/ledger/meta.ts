import type { Database } from 'bun:sqlite';
import { readFileSync, writeFileSync } from 'node:fs';
import { ifThere } from '../disk.ts';
import { platform } from '../platform/platform.ts';
import { witnessOf } from './ledger-id.ts';
import type { Connection } from './connection.ts';

/** What a ledger knows of itself. */
export function metaOf(db: Database, name: string): string | null {
  return db.query<{ value: string }, [string]>('SELECT value FROM meta WHERE name = ?').get(name)?.value ?? null;
}

export function setMeta(db: Database, name: string, value: string): void {
  db.query('INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value').run(name, value);
}

/** Says that every file has its row, in this life of the ledger and of the machine. */
export function complete(connection: Connection): void {
  const witness = witnessOf(connection.options.path);
  const generation = connection.write((db) => {
    const own = metaOf(db, 'generation') ?? '';
    setMeta(db, 'life', `${platform.bootId()} ${own}`);
    return own;
  });
  if (ifThere(() => readFileSync(witness, 'utf8')) !== generation) writeFileSync(witness, generation, { mode: 0o600 });
}
