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

/** How long a writer waits for the lock before it fails. */
export const PATIENCE_MS = 10_000;

/** True if the error says that the journal is damaged. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(NOTADB|CORRUPT)/.test(codeOf(error) ?? '');
}

/** True if SQLite ran out of disk. Errors about other files do not count: their transaction must not run twice. */
export function isFullLedger(error: unknown): boolean {
  return codeOf(error)?.startsWith('SQLITE_') === true && isDiskFull(error);
}

/** Retries while other processes hold the lock, for at most `PATIENCE_MS`. */
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
  /** `full` flushes every commit. `normal` does not: a lost row is made again from the message file, which is flushed. */
  durability: 'normal' | 'full';
  migrations?: readonly string[];
  /** The clock of leases. */
  now?: () => number;
}

/**
 * SQLite waits for its lock with pauses that grow to 100 ms, so that the newest waiters get it first and others waited for over a second.
 * With this timeout it fails after three short pauses, and `patiently` tries again. Only while the journal is opened does SQLite do all the waiting.
 */
const SHORT_NAPS = 'PRAGMA busy_timeout = 5';
/** The length of the write-ahead log above which the next process that opens the journal empties it. */
const LOG_BYTES = 400_000;
/** In a server the log may grow to 64 MB: usually the exporter makes a checkpoint before that, so no sender waits for one. */
const RARE_CHECKPOINTS = 'PRAGMA wal_autocheckpoint = 32000';
/** The default of 2 MB has no room for the last page of each of a thousand mailboxes. */
const SERVER_CACHE_KB = 8000;

// By default Bun caches only twenty prepared statements. A host uses more of them all the time.
Database.MAX_QUERY_CACHE_SIZE = 200;

/**
 * One SQLite file that several processes use. Writers wait for the lock. A file that was replaced meanwhile is opened again. A newer
 * format is refused and left alone. A damaged file is kept beside a new one.
 */
export class JournalConnection {
  readonly now: () => number;
  /** Room for readers on a full disk. */
  readonly reserve: Reserve;
  #db: Database;
  /** The inode of the open file. */
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

  /** The write-ahead log, for callers that flush it. */
  get log(): LogFile {
    return (this.#log ??= new LogFile(`${this.options.path}-wal`));
  }

  /** Runs `look` without a transaction of ours. `look` must not return a cursor: an open one would keep the write-ahead log from being restarted. */
  read<T>(look: (db: Database) => T): T {
    return this.#guarded(() => {
      this.#follow();
      return patiently(() => look(this.#db));
    });
  }

  /**
   * Runs `act` as one transaction; no other writer runs meanwhile. On a full disk it runs a second time after the reserve was deleted, so
   * that reading and settling still work.
   */
  write<T>(act: (db: Database) => T): T {
    return this.#guarded(() => this.reserve.orSpend(() => this.#transact(act), isFullLedger));
  }

  /** Like `write`, for new mail and for large work that can be split: fails while the disk has no room for the reserve. */
  writeNew<T>(act: (db: Database) => T): T {
    return this.#guarded(() => {
      this.reserve.fill();
      return this.#transact(act);
    });
  }

  #transact<T>(act: (db: Database) => T): T {
    this.#follow();
    const db = this.#db;
    // IMMEDIATE: a deferred transaction that becomes a writer fails at once instead of waiting. `query` caches the statement.
    patiently(() => db.query('BEGIN IMMEDIATE').run());
    try {
      const result = act(db);
      db.query('COMMIT').run();
      return result;
    } catch (error) {
      // After a full disk SQLite has already rolled back.
      if (db.inTransaction) db.run('ROLLBACK');
      throw error;
    }
  }

  /** Runs a removal, and leaves nothing of the removed data in the files. */
  erase<T>(act: () => T): T {
    this.#follow();
    const db = this.#db;
    db.run('PRAGMA secure_delete = ON');
    try {
      const result = act();
      // The search index keeps removed words until its parts are merged.
      this.write((ledger) => ledger.run("INSERT INTO words (words) VALUES ('optimize')"));
      db.run('PRAGMA wal_checkpoint(TRUNCATE)');
      return result;
    } finally {
      db.run('PRAGMA secure_delete = OFF');
    }
  }

  /** Like `writeNew`, and the transaction is on disk when it returns. */
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

  /** Sets the cache and the checkpoints for a process with many concurrent callers. */
  tuneForServer(cacheKb = SERVER_CACHE_KB): void {
    this.#tuning = `${RARE_CHECKPOINTS}; PRAGMA cache_size = -${cacheKb}`;
    this.#db.run(this.#tuning);
  }

  /** Call after a flush of the log failed. Copies the whole log into the journal with a flush. If that is not possible now, the log still counts as failed. */
  restartLog(): void {
    const sql = 'PRAGMA wal_checkpoint(RESTART)';
    const row = this.read((db) => db.query<{ busy: number; log: number; checkpointed: number }, []>(sql).get());
    if (row?.busy === 0 && row.checkpointed === row.log) this.log.wasRestarted();
  }

  close(): void {
    this.#log?.forget();
    this.#db.close();
  }

  /** Opens the journal again if another file has its place: writes to the old file would be lost without an error. */
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
   * Runs `act` while no other process opens the journal, makes it, or moves a damaged one aside. Otherwise a process could move a new file
   * aside as the damaged one, or open the log of one file with the other.
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
   * Empties a long write-ahead log. Commands end without closing the journal (see `exitNow` in libc.ts), so nothing else would ever
   * empty it, and every start would read a longer one.
   */
  #emptyLog(db: Database): void {
    const log = statSync(`${this.options.path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    if (log < LOG_BYTES) return;
    // The exporter of a relay makes the checkpoints: no command should copy its long log, and the relay should not wait for a command.
    if (isExported(this.options.path)) {
      db.run('PRAGMA wal_autocheckpoint = 0');
      return;
    }
    // Do not wait for other processes: if the log is in use, the next command empties it.
    db.run('PRAGMA busy_timeout = 0');
    try {
      db.run('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // On a full disk the log keeps its length, and reading still works.
    }
  }

  /** Makes a new journal, or migrates an older format. */
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

  /** The value of the meta row `life` if every file has its row in this generation of the journal and since this boot. */
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

  /** Renames the damaged journal, and returns a text that says where it is. */
  #moveAside(): string {
    const { path } = this.options;
    const kept = `${path}.damaged-${Date.now()}`;
    return this.#alone(() => {
      // Another process may have replaced it already.
      if (inodeOf(path) !== this.#inode) return 'another process has set it aside';
      for (const part of ['', '-wal', '-shm']) if (existsSync(path + part)) renameSync(path + part, kept + part);
      return `it is kept as ${kept}`;
    });
  }

  /** Turns SQLite's errors into ours. Moves a damaged journal aside; the next command makes a new one from the files. */
  #explained(error: unknown): unknown {
    const { path } = this.options;
    if (!isDamage(error)) return explained(error, path, 'nothing was changed');
    return new Refusal(
      'storage_failed',
      `${path} was damaged; ${this.#moveAside()}, and the next command rebuilds the ledger from the messages on disk: run it again`,
    );
  }
}

/** Called before every transaction. The file nearly always exists, and `throwIfNoEntry` would make the call slower. */
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
