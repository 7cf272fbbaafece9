import type { Database } from 'bun:sqlite';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { ifThere } from '../disk.ts';
import { platform } from '../platform/platform.ts';
import type { Connection } from './connection.ts';

/** Beside a ledger stands the name of its life: without it a lost ledger looks like a new one. */
export function idFileOf(path: string): string {
  return `${path}.id`;
}

/** What a ledger knows of itself. */
export function metaOf(db: Database, name: string): string | null {
  return db.query<{ value: string }, [string]>('SELECT value FROM meta WHERE name = ?').get(name)?.value ?? null;
}

export function setMeta(db: Database, name: string, value: string): void {
  db.query('INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value').run(name, value);
}

/** Says that every file has its row, in this life of the ledger and of the machine. */
export function complete(connection: Connection): void {
  const witness = idFileOf(connection.options.path);
  const generation = connection.write((db) => {
    const own = metaOf(db, 'generation') ?? '';
    setMeta(db, 'life', `${platform.bootId()} ${own}`);
    return own;
  });
  if (ifThere(() => readFileSync(witness, 'utf8')) !== generation) writeFileSync(witness, generation, { mode: 0o600 });
}

/**
 * A send changes seven or eight pages, and each is written whole. In turns with 4,096, a lone send to a relay took a tenth less and a command a
 * hundredth; with 1,024 a command took a twelfth more.
 */
const PAGE_BYTES = 2048;

/** How a ledger comes to be what this Parley knows. */
export interface Order {
  path: string;
  /** Each brings it to the next version. */
  steps: readonly string[];
  /** Its version now. */
  version: () => number;
  now: () => number;
}

/** A new ledger. What was beside a lost one says that it was. */
export function create(db: Database, { path, steps, version, now }: Order): void {
  const witness = idFileOf(path);
  const wasLost = existsSync(witness);
  const generation = crypto.randomUUID();
  db.run(`PRAGMA page_size = ${PAGE_BYTES}`);
  db.run('PRAGMA journal_mode = WAL');
  db.run('BEGIN IMMEDIATE');
  // Two processes may both have found no ledger: the second finds the first one's here.
  if (version() === 0) {
    for (const step of steps) db.run(step);
    setMeta(db, 'generation', generation);
    if (wasLost) setMeta(db, 'rebuilt', String(now()));
    db.run(`PRAGMA user_version = ${steps.length}`);
  }
  db.run('COMMIT');
  writeFileSync(`${witness}.${process.pid}`, metaOf(db, 'generation') ?? generation, { mode: 0o600 });
  renameSync(`${witness}.${process.pid}`, witness);
}

/** Forward in one transaction, with a copy of the old ledger beside it. */
export function migrate(db: Database, from: number, { path, steps, version }: Order): void {
  const copy = `${path}.v${from}`;
  const draft = `${copy}.${process.pid}`;
  writeFileSync(draft, '', { mode: 0o600 });
  // Unlike a copy of the file this has what still stands in the write-ahead log.
  db.query('VACUUM INTO ?').run(draft);
  db.run('BEGIN IMMEDIATE');
  try {
    // Somebody else may have migrated while we waited for the lock; then theirs is the copy to keep.
    const found = version();
    if (found === from) renameSync(draft, copy);
    for (const step of steps.slice(found)) db.run(step);
    db.run(`PRAGMA user_version = ${steps.length}`);
    db.run('COMMIT');
  } catch (error) {
    if (db.inTransaction) db.run('ROLLBACK');
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}
