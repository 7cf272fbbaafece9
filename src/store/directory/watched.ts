import { renameSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { AgentName, ChannelName } from '../../core/names.ts';
import { explained } from '../../core/disk.ts';
import { AddressBook } from './address-book.ts';
import type { AgentRecord, Amendment, Directory } from '../../core/ports/directory.ts';
import { isLately, recordFrom, RecordFiles, seenAt } from './record-files.ts';
import { RecordWatch } from './record-watch.ts';
import type { WatchOptions } from './record-watch.ts';
import { newRecord, recordText, refuseLikeness, rewritten, withChannel, withoutChannel } from './rules.ts';

/** How long a record stays valid after it becomes unreadable: another program may be writing it. */
const HALF_WRITTEN_MS = 300;

/**
 * The records on disk, cached in memory: right for a long-running program. After the first query only an unknown name reads the disk,
 * and no query costs more with many agents. It sees changes of other programs within a second, its own at once.
 */
export class WatchedDirectory implements Directory {
  readonly #files: RecordFiles;
  readonly #book = new AddressBook();
  readonly #watch: RecordWatch;
  readonly #writer: RecordWriter;
  readonly #firstScan: Promise<void>;
  #isLoaded = false;
  /** Why the first scan failed, until one succeeds. */
  #failure: unknown = null;
  /** `get` too sees every finished change of other Parley processes, at the cost of a `stat`. */
  readonly #isExact: boolean;
  /** The last marked change of another process that is in the cache. */
  #lastChange = 0;
  /** Since when a record is unreadable. */
  readonly #unreadableSince = new Map<AgentName, number>();
  /** `lastSeen` times that are not on disk yet. */
  readonly #unsavedSeen = new Map<AgentName, string>();
  /** Parsed `lastSeen` of each record, in ms: parsing a date for every message is slow. */
  readonly #seenAt = new WeakMap<AgentRecord, number>();
  #saving: Promise<void> | undefined;

  constructor(
    readonly root: string,
    readonly now: () => number,
    options: Partial<WatchOptions> & { exact?: boolean } = {},
  ) {
    this.#isExact = options.exact ?? false;
    this.#files = new RecordFiles(root);
    this.#writer = new RecordWriter(this.#files, (name, record) => this.#written(name, record));
    const cache = { names: () => this.#book.names(), reread: (name: AgentName) => this.#reread(name) };
    const looked = (failure: unknown): void => {
      this.#failure = failure;
      this.#isLoaded ||= failure === null;
    };
    this.#watch = new RecordWatch(this.#files, cache, looked, options);
    this.#firstScan = this.#watch.look();
  }

  get(name: AgentName): Promise<AgentRecord | null> {
    if (this.#isExact) return this.#upToDate().then((book) => book.get(name) ?? this.#lookedFor(name));
    const known = this.#known()?.get(name);
    return known ? Promise.resolve(known) : this.#lookedFor(name);
  }

  async #lookedFor(name: AgentName): Promise<AgentRecord | null> {
    const book = await this.#loaded();
    // A new agent may be queried before its file event arrives: then read the disk.
    return book.get(name) ?? (this.#reread(name) ? book.get(name) : null);
  }

  async list(): Promise<AgentRecord[]> {
    return (await this.#loaded()).list();
  }

  async unreadable(): Promise<string[]> {
    return (await this.#loaded()).unreadable().map((name) => this.#files.path(name));
  }

  async count(): Promise<number> {
    return (await this.#loaded()).size;
  }

  async channels(): Promise<ChannelName[]> {
    return (await this.#loaded()).channels();
  }

  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    return (await this.#upToDate()).subscribers(channel);
  }

  async members(role: AgentName): Promise<AgentRecord[]> {
    return (await this.#upToDate()).members(role);
  }

  async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return (await this.#loaded()).rolesAmong(names);
  }

  byToken(tokenHash: string): Promise<AgentName | null> {
    const book = this.#known();
    return book ? Promise.resolve(book.byToken(tokenHash)) : this.#loaded().then((all) => all.byToken(tokenHash));
  }

  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord> {
    const book = await this.#loaded();
    const now = new Date(this.now()).toISOString();
    const record = newRecord(name, kind, now, tokenHash);
    // The disk decides about the same name, the cache about similar ones; it may miss an agent that was just added.
    const isNew = await this.#writer.create(record, () => refuseLikeness(name, book.alike(name), book.members(name)));
    return isNew ? record : this.#writer.change(name, () => ({ lastSeen: now }));
  }

  async amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    await this.#loaded();
    return this.#writer.amend(name, change);
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    await this.#change(name, (record) => withChannel(record, channel));
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    await this.#change(name, (record) => withoutChannel(record, channel));
  }

  async giveToken(name: AgentName, tokenHash: string | null): Promise<void> {
    await this.#change(name, () => ({ tokenHash: tokenHash ?? undefined }));
  }

  /** Updates memory at once and the disk soon, so no request waits for it. */
  seen(name: AgentName): Promise<void> {
    const record = this.#known()?.get(name);
    return record && this.#wasSeenLately(record) ? Promise.resolve() : this.#updateSeen(name);
  }

  #wasSeenLately(record: AgentRecord): boolean {
    let at = this.#seenAt.get(record);
    if (at === undefined) {
      at = seenAt(record);
      this.#seenAt.set(record, at);
    }
    return isLately(at, this.now());
  }

  async #updateSeen(name: AgentName): Promise<void> {
    const record = (await this.#loaded()).get(name);
    if (!record || this.#wasSeenLately(record)) return;
    const at = new Date(this.now()).toISOString();
    this.#book.set(name, { ...record, lastSeen: at });
    this.#unsavedSeen.set(name, at);
    this.#saving ??= this.#saveSeen();
  }

  async remove(name: AgentName): Promise<void> {
    await this.#writer.remove(name);
  }

  /** Writes everything to disk first. */
  async close(): Promise<void> {
    await this.#watch.close();
    await this.#saving;
    await this.#writer.close();
  }

  /** The cache if it is up to date, without a wait: this runs for every message. */
  #known(): AddressBook | null {
    return this.#isLoaded && !this.#watch.asked() ? this.#book : null;
  }

  async #loaded(): Promise<AddressBook> {
    const waking = this.#watch.asked();
    if (this.#isLoaded && !waking) return this.#book;
    await (waking ?? this.#firstScan);
    if (!this.#isLoaded) throw this.#failure;
    return this.#book;
  }

  /** For queries over all records. Sees every finished change of other Parley processes, at the cost of one `stat`. */
  async #upToDate(): Promise<AddressBook> {
    const book = await this.#loaded();
    const changed = this.#files.lastChange();
    if (changed === this.#lastChange) return book;
    await this.#watch.lookAtAll();
    this.#lastChange = changed;
    return book;
  }

  async #change(name: AgentName, change: (record: AgentRecord) => Partial<AgentRecord> | null): Promise<void> {
    await this.#loaded();
    await this.#writer.change(name, change);
  }

  async #saveSeen(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    for (const [name, at] of this.#unsavedSeen) {
      this.#unsavedSeen.delete(name);
      const change = ({ lastSeen }: AgentRecord): Partial<AgentRecord> | null =>
        seenAt({ lastSeen }) < Date.parse(at) ? { lastSeen: at } : null;
      // A removed agent needs no update. After a disk error the next `seen` tries again.
      await this.#writer.change(name, change).catch(() => {});
    }
    this.#saving = undefined;
  }

  #written(name: AgentName, record: AgentRecord | null): void {
    if (record) this.#book.set(name, record);
    else this.#book.delete(name);
    this.#watch.follow();
  }

  /** Reads one record into the cache. Returns false if it may be half written. */
  #reread(name: AgentName): boolean {
    const text = this.#files.textIfAny(name);
    if (text === undefined) return false;
    const record = text === null ? null : recordFrom(name, text);
    if (text === null) this.#book.delete(name);
    else if (record) this.#book.set(name, record);
    else if (this.#mayBeHalf(name)) return false;
    else this.#book.set(name, null);
    this.#unreadableSince.delete(name);
    return true;
  }

  #mayBeHalf(name: AgentName): boolean {
    if (!this.#book.get(name)) return false;
    const since = this.#unreadableSince.get(name) ?? performance.now();
    this.#unreadableSince.set(name, since);
    return performance.now() - since < HALF_WRITTEN_MS;
  }
}

/** Returns the changed fields of a record; null: none. */
type Change = (record: AgentRecord) => Partial<AgentRecord> | null;

/** Attempts without the lock, if another process keeps changing the record, before the change takes the lock. */
const TRIES = 8;
const PAUSE_MS = 40;

/**
 * Changes records without blocking the event loop: writes and flushes a draft on another thread, then renames it under the lock if the
 * record has not changed meanwhile. Changes of one record queue.
 */
class RecordWriter {
  readonly #turns = new Map<AgentName, Promise<unknown>>();

  constructor(
    readonly files: RecordFiles,
    /** Called under the lock with the new record; null: it was removed. */
    readonly written: (name: AgentName, record: AgentRecord | null) => void,
  ) {}

  /** Makes a record; false if a file exists. `check` refuses it under the lock, by throwing. */
  create(record: AgentRecord, check: () => void): Promise<boolean> {
    const { name } = record;
    return this.#inTurn(name, async () => {
      check();
      if (this.files.isThere(name)) return false;
      return this.#put(name, recordText(record), () => {
        check();
        return !this.files.isThere(name);
      });
    });
  }

  /** No concurrent change is lost. */
  change(name: AgentName, change: Change): Promise<AgentRecord> {
    return this.#inTurn(name, () => this.#change(name, change));
  }

  /** It may depend on all records, so it runs under the lock. It is rare. */
  amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    return this.#inTurn(name, async () => this.files.amend(name, change, (record) => this.written(name, record)));
  }

  remove(name: AgentName): Promise<void> {
    return this.#inTurn(name, async () => {
      this.files.remove(name);
      this.written(name, null);
    });
  }

  /** Waits for the changes under way. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#turns.values());
  }

  async #change(name: AgentName, change: Change): Promise<AgentRecord> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const before = this.files.textIfAny(name);
      if (before === null) break;
      const record = recordFrom(name, before ?? '');
      if (before && record) {
        const after = changedText(before, record, change);
        if (after === before) return record;
        if (await this.#put(name, after, () => this.files.textIfAny(name) === before)) return parsed(name, after);
      } else await Bun.sleep(PAUSE_MS);
    }
    return this.#changeAtOnce(name, change);
  }

  /** Under the lock from read to write. */
  #changeAtOnce(name: AgentName, change: Change): AgentRecord {
    return this.files.locked(() => {
      const { record, text } = this.files.wholeOrRefuse(name);
      const after = changedText(text, record, change);
      this.files.write(name, after);
      this.written(name, parsed(name, after));
      return parsed(name, after);
    });
  }

  async #put(name: AgentName, text: string, isUnchanged: () => boolean): Promise<boolean> {
    const draft = `${this.files.folder}/.${name}.${crypto.randomUUID()}`;
    try {
      this.files.makeFolder();
      await writeFile(draft, text, { mode: 0o600, flush: true });
      return this.files.locked(() => {
        if (!isUnchanged()) return false;
        renameSync(draft, this.files.path(name));
        this.written(name, parsed(name, text));
        return true;
      });
    } catch (error) {
      throw explained(error, this.files.root, 'nothing was changed');
    } finally {
      rmSync(draft, { force: true });
    }
  }

  async #inTurn<T>(name: AgentName, act: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(name);
    const turn = (async () => {
      await before?.catch(() => {});
      return act();
    })();
    this.#turns.set(name, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(name) === turn) this.#turns.delete(name);
    }
  }
}

function changedText(text: string, record: AgentRecord, change: Change): string {
  const changed = change(record);
  return changed ? rewritten(text, changed) : text;
}

function parsed(name: AgentName, text: string): AgentRecord {
  const record = recordFrom(name, text);
  if (!record) throw new Error(`the record of ${name} cannot be read by who wrote it`);
  return record;
}
