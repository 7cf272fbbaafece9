import { codeOf, isDiskFull, explained, isMissing } from '../../core/disk.ts';
import { Database } from 'bun:sqlite';
import { chmodSync, existsSync, readFileSync, renameSync, statSync } from 'node:fs';
import { Refusal } from '../../core/refusal.ts';
import { locked } from '../../platform/lock-file.ts';
import { platform } from '../../platform/os.ts';
import { Reserve } from './reserve.ts';
import { isExported, LogFile } from './log.ts';
import { create, idFileOf, migrate } from './meta.ts';
import { MIGRATIONS } from './schema.ts';

/** How long a writer waits for others before it gives up. */
export const PATIENCE_MS = 10_000;

/** True if the file is no readable ledger. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(NOTADB|CORRUPT)/.test(codeOf(error) ?? '');
}

/** True if SQLite ran out of disk. Errors about other files do not count: their transaction must not run twice. */
export function isFullLedger(error: unknown): boolean {
  return codeOf(error)?.startsWith('SQLITE_') === true && isDiskFull(error);
}

/** Retries while other processes hold the lock, up to a limit. */
export function patiently<T>(act: () => T): T {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return act();
    } catch (error) {
      if (!codeOf(error)?.startsWith('SQLITE_BUSY') || performance.now() > end) throw error;
    }
  }
}

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
 * second. We let it give up after three short naps and begin again. While a journal is made it waits by itself.
 */
const SHORT_NAPS = 'PRAGMA busy_timeout = 5';
/** How long the write-ahead log may be before the next to open the journal empties it. */
const LOG_BYTES = 400_000;
/** For a server the log may have 64 MB: mostly the exporter makes a checkpoint before that, and no sender waits for it. */
const RARE_CHECKPOINTS = 'PRAGMA wal_autocheckpoint = 32000';
/** In the usual 2 MB there is no room for the last page of each of a thousand mailboxes. */
const SERVER_CACHE_KB = 8000;

// The runtime keeps twenty prepared statements and makes every further one again, each time: a host has more, and needs them all.
Database.MAX_QUERY_CACHE_SIZE = 200;

/**
 * One SQLite file, held the way several processes need it: writers queue for the lock, a file that was replaced under us is
 * opened again, a newer format is refused and left alone, and a damaged one is kept beside a fresh one.
 */
export class JournalConnection {
  readonly now: () => number;
  /** Room for readers on a full disk. */
  readonly reserve: Reserve;
  #db: Database;
  /** Which file we have open, or are opening. */
  #inode: number | undefined;
  #log: LogFile | undefined;
  readonly #migrations: readonly string[];
  #tuning = '';

  constructor(readonly options: LedgerOptions) {
    this.#migrations = options.migrations ?? MIGRATIONS;
    this.now = options.now ?? Date.now;
    this.reserve = new Reserve(`${options.path}.reserve`);
    this.#db = this.#open();
  }

  /** For who flushes it or lays it out. */
  get log(): LogFile {
    return (this.#log ??= new LogFile(`${this.options.path}-wal`));
  }

  /** Runs `look` on the journal as it is. A cursor never leaves it: an open one would hold the write-ahead log. */
  read<T>(look: (db: Database) => T): T {
    return this.#guarded(() => {
      this.#follow();
      return patiently(() => look(this.#db));
    });
  }

  /**
   * Runs `act` alone among all writers, as one transaction. On a full disk it is run a second time, in the room of the reserve: reading
   * and settling must go on.
   */
  write<T>(act: (db: Database) => T): T {
    return this.#guarded(() => this.reserve.orSpend(() => this.#transact(act), isFullLedger));
  }

  /** The same for new mail, and for what can be done in smaller parts: it is refused while the disk has no room for the reserve. */
  writeNew<T>(act: (db: Database) => T): T {
    return this.#guarded(() => {
      this.reserve.fill();
      return this.#transact(act);
    });
  }

  #transact<T>(act: (db: Database) => T): T {
    this.#follow();
    const db = this.#db;
    // IMMEDIATE: a deferred transaction that turns into a writer fails at once instead of waiting. `query` keeps the statement.
    patiently(() => db.query('BEGIN IMMEDIATE').run());
    try {
      const result = act(db);
      db.query('COMMIT').run();
      return result;
    } catch (error) {
      // After a full disk SQLite has rolled back by itself.
      if (db.inTransaction) db.run('ROLLBACK');
      throw error;
    }
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

  /** The same as `writeNew`, and on disk when it returns. */
  writeFlushed<T>(act: (db: Database) => T): T {
    this.#follow();
    const db = this.#db;
    db.run('PRAGMA synchronous = FULL');
    try {
      return this.writeNew(act);
    } finally {
      db.run(`PRAGMA synchronous = ${this.#synchronous}`);
    }
  }

  /** This process is asked by many at once. */
  tuneForServer(cacheKb = SERVER_CACHE_KB): void {
    this.#tuning = `${RARE_CHECKPOINTS}; PRAGMA cache_size = -${cacheKb}`;
    this.#db.run(this.#tuning);
  }

  /** After a flush of the log that failed: all of it is copied into the journal, which is flushed; if that cannot be done now, nothing changes. */
  restartLog(): void {
    const sql = 'PRAGMA wal_checkpoint(RESTART)';
    const row = this.read((db) => db.query<{ busy: number; log: number; checkpointed: number }, []>(sql).get());
    if (row?.busy === 0 && row.checkpointed === row.log) this.log.wasRestarted();
  }

  close(): void {
    this.#log?.forget();
    this.#db.close();
  }

  /** A journal that was moved or rebuilt would swallow our writes without an error: compare inodes first. */
  #follow(): void {
    if (inodeOf(this.options.path) === this.#inode) return;
    this.#log?.forget();
    this.#db.close();
    this.#db = this.#open();
  }

  #open(): Database {
    const open = (): Database => this.#alone(() => this.#openNow());
    return this.#guarded(() => {
      const db = this.reserve.orSpend(open, isFullLedger);
      this.reserve.fillIfPossible();
      return db;
    });
  }

  /**
   * While one process opens the journal, makes it, or moves a damaged one aside, no other does either: otherwise one could take
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
    if (version < this.#newest) this.#make(db, version);
    this.#emptyLog(db);
    db.run(`PRAGMA synchronous = ${this.#synchronous}; ${SHORT_NAPS}`);
    if (this.#tuning) db.run(this.#tuning);
  }

  get #synchronous(): string {
    return this.options.durability === 'full' ? 'FULL' : 'NORMAL';
  }

  /**
   * Commands end without closing the journal (see libc.ts), and one that opens it alone takes its write-ahead log for new from
   * the first page on: without this nobody would ever empty it, and every start would read a longer one.
   */
  #emptyLog(db: Database): void {
    const log = statSync(`${this.options.path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    if (log < LOG_BYTES) return;
    // A relay's log is always long, and its own affair: no command should copy it, and the relay should not wait for one.
    if (isExported(this.options.path)) {
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

  /** From nothing, or from an older format. */
  #make(db: Database, from: number): void {
    const order = { path: this.options.path, steps: this.#migrations, version: () => this.#version(db), now: this.now };
    if (from === 0) create(db, order);
    else migrate(db, from, order);
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

  /** What this journal's meta row `life` says once every file has its row, in this life of the journal and of the machine. */
  get life(): string {
    return `${platform.bootId()} ${readText(idFileOf(this.options.path))}`;
  }

  #guarded<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw this.#explained(error);
    }
  }

  /** Puts the damaged journal beside its place, and says where. */
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

  /** SQLite's errors in our words. A damaged journal is kept beside a fresh one, which is filled from the files. */
  #explained(error: unknown): unknown {
    const { path } = this.options;
    if (!isDamage(error)) return explained(error, path, 'nothing was changed');
    return new Refusal(
      'storage_failed',
      `${path} was damaged; ${this.#moveAside()}, and the next command rebuilds the ledger from the messages on disk: run it again`,
    );
  }
}

/** Asked before every transaction, and nearly always there. To say `throwIfNoEntry` takes longer than to ask without. */
function inodeOf(path: string): number | undefined {
  try {
    return statSync(path).ino;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
