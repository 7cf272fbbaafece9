import { Database } from 'bun:sqlite';
import { chmodSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import { locked } from '../libc.ts';
import { platform } from '../platform/platform.ts';
import { isKept, LogFile } from './log.ts';
import { MIGRATIONS } from './schema.ts';
import { inOurWords, isDamage, PATIENCE_MS, patiently } from './trouble.ts';

export interface LedgerOptions {
  path: string;
  /** `full` flushes every commit; `normal` relies on the flushed message file, from which a lost row is made again. */
  durability: 'normal' | 'full';
  migrations?: readonly string[];
  /** Leases run by this clock. */
  now?: () => number;
}

/**
 * SQLite waits for its lock in naps that grow to 100 ms, so that those who came last get it first, and some waited for over a
 * second. We let it give up after three short naps and begin anew. While a ledger is made it waits by itself.
 */
const SHORT_NAPS = 'PRAGMA busy_timeout = 5';
/** How long the write-ahead log may be before whoever opens the ledger empties it. */
const LOG_BYTES = 400_000;
/** For who is asked by many at once. In the usual 2 MB there is no room for the last page of each of a thousand mailboxes. */
const BUSY = 'PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -8000';

// The runtime keeps twenty prepared statements and makes every further one anew, each time: a host has more, and needs them all.
Database.MAX_QUERY_CACHE_SIZE = 200;

/**
 * One SQLite file, held the way several processes need it: writers queue for the lock, a file that was replaced under us is
 * opened anew, a newer format is refused and left alone, and a damaged one is kept beside a fresh one.
 */
export class Connection {
  readonly now: () => number;
  #db: Database;
  /** Which file we have open, or are opening. */
  #inode: number | undefined;
  readonly log: LogFile;
  readonly #migrations: readonly string[];
  #leavesLog = false;

  constructor(readonly options: LedgerOptions) {
    this.#migrations = options.migrations ?? MIGRATIONS;
    this.log = new LogFile(`${options.path}-wal`);
    this.now = options.now ?? Date.now;
    this.#db = this.#open();
  }

  /** Runs `look` on the ledger as it is. A cursor never leaves it: an open one would hold the write-ahead log. */
  read<T>(look: (db: Database) => T): T {
    return this.#guarded(() => {
      this.#follow();
      return patiently(() => look(this.#db));
    });
  }

  /** Runs `act` alone among all writers, as one transaction. */
  write<T>(act: (db: Database) => T): T {
    return this.#guarded(() => {
      this.#follow();
      const db = this.#db;
      // IMMEDIATE: a deferred transaction that turns into a writer fails at once instead of waiting. `query` keeps the statement.
      patiently(() => db.query('BEGIN IMMEDIATE').run());
      try {
        if (this.#leavesLog) this.log.layOut();
        const result = act(db);
        db.query('COMMIT').run();
        return result;
      } catch (error) {
        // After a full disk SQLite has rolled back by itself.
        if (db.inTransaction) db.run('ROLLBACK');
        throw error;
      }
    });
  }

  /** Runs what removes, after which nothing of what it removed is left in the files. */
  erase<T>(act: () => T): T {
    this.#follow();
    const db = this.#db;
    db.run('PRAGMA secure_delete = ON');
    try {
      const result = act();
      // The index of words keeps removed ones until its parts are merged.
      this.write((ledger) => ledger.run("INSERT INTO words (words) VALUES ('optimize')"));
      db.run('PRAGMA wal_checkpoint(TRUNCATE)');
      return result;
    } finally {
      db.run('PRAGMA secure_delete = OFF');
    }
  }

  meta(name: string): string | null {
    const row = this.read((db) =>
      db.query<{ value: string }, [string]>('SELECT value FROM meta WHERE name = ?').get(name),
    );
    return row?.value ?? null;
  }

  setMeta(db: Database, name: string, value: string): void {
    db.query('INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value').run(name, value);
  }

  /** Somebody else moves the log into the ledger from now on: no commit of ours ever waits for that. */
  leaveLog(): void {
    this.#leavesLog = true;
    this.#db.run(BUSY);
  }

  close(): void {
    this.log.forget();
    this.#db.close();
  }

  /** A ledger that was moved or rebuilt would swallow our writes without an error: compare inodes first. */
  #follow(): void {
    if (inodeOf(this.options.path) === this.#inode) return;
    this.log.forget();
    this.#db.close();
    this.#db = this.#open();
  }

  #open(): Database {
    return this.#guarded(() => this.#alone(() => this.#openNow()));
  }

  /**
   * While one process opens the ledger, makes it, or moves a damaged one aside, no other does either: otherwise one could take
   * the fresh file of another for the damaged one, or open the log of one with the file of the other.
   */
  #alone<T>(act: () => T): T {
    return locked(`${this.options.path}.lock`, act);
  }

  #openNow(): Database {
    const { path } = this.options;
    const isNew = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0;
    const db = new Database(path, { create: true, readwrite: true, strict: true });
    this.#inode = inodeOf(path);
    try {
      if (isNew) chmodSync(path, 0o600);
      this.#prepare(db);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  }

  #prepare(db: Database): void {
    db.run(`PRAGMA busy_timeout = ${PATIENCE_MS}`);
    const version = this.#version(db);
    if (version === 0) this.#create(db);
    else if (version < this.#newest) this.#migrate(db, version);
    this.#emptyLog(db);
    db.run(`PRAGMA synchronous = ${this.options.durability === 'full' ? 'FULL' : 'NORMAL'}; ${SHORT_NAPS}`);
    if (this.#leavesLog) db.run(BUSY);
  }

  /**
   * Commands end without closing the ledger (see libc.ts), and one that opens it alone takes its write-ahead log for new from
   * the first page on: without this nobody would ever empty it, and every start would read a longer one.
   */
  #emptyLog(db: Database): void {
    const log = statSync(`${this.options.path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    if (log < LOG_BYTES) return;
    // A relay's log is always long, and its own affair: no command should copy it, and the relay should not wait for one.
    if (isKept(this.options.path)) {
      db.run('PRAGMA wal_autocheckpoint = 0');
      return;
    }
    // Others at work go on undisturbed; then the next command does it.
    db.run('PRAGMA busy_timeout = 0');
    try {
      db.run('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // On a full disk it stays as long as it is, and reading goes on.
    }
  }

  get #newest(): number {
    return this.#migrations.length;
  }

  #version(db: Database): number {
    const version = db.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version ?? 0;
    if (version > this.#newest) {
      throw new Refusal(
        'newer_format',
        `${this.options.path} was written by a newer Parley (format ${version}, this one knows ${this.#newest}); it was left alone: update Parley`,
      );
    }
    return version;
  }

  #create(db: Database): void {
    const witness = this.#witness;
    const wasLost = existsSync(witness);
    const generation = crypto.randomUUID();
    db.run('PRAGMA journal_mode = WAL');
    db.run('BEGIN IMMEDIATE');
    // Two processes may both have found no ledger: the second finds the first one's here.
    if (this.#version(db) === 0) {
      for (const step of this.#migrations) db.run(step);
      this.setMeta(db, 'generation', generation);
      if (wasLost) this.setMeta(db, 'rebuilt', String(this.now()));
      db.run(`PRAGMA user_version = ${this.#newest}`);
    }
    db.run('COMMIT');
    const own = db.query<{ value: string }, []>("SELECT value FROM meta WHERE name = 'generation'").get()?.value;
    writeFileSync(`${witness}.${process.pid}`, own ?? generation, { mode: 0o600 });
    renameSync(`${witness}.${process.pid}`, witness);
  }

  /** Forward in one transaction, with a copy of the old ledger beside it. */
  #migrate(db: Database, from: number): void {
    const copy = `${this.options.path}.v${from}`;
    const draft = `${copy}.${process.pid}`;
    writeFileSync(draft, '', { mode: 0o600 });
    // Unlike a copy of the file this has what still stands in the write-ahead log.
    db.query('VACUUM INTO ?').run(draft);
    db.run('BEGIN IMMEDIATE');
    try {
      // Somebody else may have migrated while we waited for the lock; then theirs is the copy to keep.
      const version = this.#version(db);
      if (version === from) renameSync(draft, copy);
      for (const step of this.#migrations.slice(version)) db.run(step);
      db.run(`PRAGMA user_version = ${this.#newest}`);
      db.run('COMMIT');
    } catch (error) {
      if (db.inTransaction) db.run('ROLLBACK');
      throw error;
    } finally {
      rmSync(draft, { force: true });
    }
  }

  /** The name of this ledger's life, kept beside it: without it a lost ledger looks like a new one. */
  get #witness(): string {
    return `${this.options.path}.id`;
  }

  /** What this ledger's meta row `life` says once every file has its row, in this life of the ledger and of the machine. */
  get life(): string {
    return `${platform.bootId()} ${readText(this.#witness)}`;
  }

  complete(): void {
    const generation = this.meta('generation') ?? '';
    this.write((db) => this.setMeta(db, 'life', `${platform.bootId()} ${generation}`));
    if (readText(this.#witness) !== generation) writeFileSync(this.#witness, generation, { mode: 0o600 });
  }

  #guarded<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw this.#explained(error);
    }
  }

  /** Puts the damaged ledger beside its place, and says where. */
  #moveAside(): string {
    const { path } = this.options;
    const kept = `${path}.damaged-${Date.now()}`;
    return this.#alone(() => {
      // Another process may have put a fresh one in its place already.
      if (inodeOf(path) !== this.#inode) return 'another process has set it aside';
      for (const part of ['', '-wal', '-shm']) if (existsSync(path + part)) renameSync(path + part, kept + part);
      return `it is kept as ${kept}`;
    });
  }

  /** SQLite's errors in our words. A damaged ledger is kept beside a fresh one, which is filled from the files. */
  #explained(error: unknown): unknown {
    const { path } = this.options;
    if (!isDamage(error)) return inOurWords(error, path);
    return new Refusal(
      'storage_failed',
      `${path} was damaged; ${this.#moveAside()}, and the next command rebuilds the ledger from the messages on disk: run it again`,
    );
  }
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
