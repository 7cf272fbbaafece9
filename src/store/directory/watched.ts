import type { AgentName, ChannelName } from '../../core/names.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import { AddressBook } from './address-book.ts';
import { FilesDirectory } from './files.ts';
import type { RecordChange } from './files.ts';
import { recordFrom, seenAt, seenLately } from './record-files.ts';
import type { ChangeMark } from './record-files.ts';
import { RecordWatch } from './record-watch.ts';
import type { WatchOptions } from './record-watch.ts';
import { newRecord, recordText, refuseLikeness, rewritten } from './rules.ts';

/** How long a record stays valid after it becomes unreadable: another program may be writing it. */
const HALF_WRITTEN_MS = 300;
/** `lastSeen` times saved at once: concurrent flushes share the work of the disk. */
const SAVES_AT_ONCE = 16;

/**
 * The records on disk, cached in memory: right for a long-running program. After the first query only an unknown name reads the disk,
 * and no query costs more with many agents. It sees changes of other programs within a second, its own at once.
 */
export class WatchedDirectory extends FilesDirectory {
  readonly #book = new AddressBook();
  readonly #watch: RecordWatch;
  readonly #firstScan: Promise<void>;
  #isLoaded = false;
  /** Why the first scan failed, until one succeeds. */
  #failure: unknown = null;
  /** `get` too sees every finished change of other Parley processes, at the cost of a `stat`. */
  readonly #isExact: boolean;
  /** The last marked change that is in the cache, of this process or another. */
  #lastChange = 0;
  /** Since when a record is unreadable. */
  readonly #unreadableSince = new Map<AgentName, number>();
  /** `lastSeen` times that are not on disk yet. */
  readonly #unsavedSeen = new Map<AgentName, string>();
  #saving: Promise<void> | undefined;

  constructor(root: string, now: () => number, options: Partial<WatchOptions> & { exact?: boolean } = {}) {
    super(root, now);
    this.#isExact = options.exact ?? false;
    const cache = { names: () => this.#book.names(), reread: (name: AgentName) => this.#reread(name) };
    const looked = (failure: unknown): void => {
      this.#failure = failure;
      this.#isLoaded ||= failure === null;
    };
    this.#watch = new RecordWatch(this.files, cache, looked, options);
    this.#firstScan = this.#watch.look();
  }

  override async get(name: AgentName): Promise<AgentRecord | null> {
    const book = await (this.#isExact ? this.#upToDate() : this.#loaded());
    // A new agent may be queried before its file event arrives: then read the disk.
    return book.get(name) ?? (this.#reread(name) ? book.get(name) : null);
  }

  override async list(): Promise<AgentRecord[]> {
    return (await this.#loaded()).list();
  }

  override async unreadable(): Promise<string[]> {
    return (await this.#loaded()).unreadable().map((name) => this.files.path(name));
  }

  override async count(): Promise<number> {
    return (await this.#loaded()).size;
  }

  override async channels(): Promise<ChannelName[]> {
    return (await this.#loaded()).channels();
  }

  override async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    return (await this.#upToDate()).subscribers(channel);
  }

  override async members(role: AgentName): Promise<AgentRecord[]> {
    return (await this.#upToDate()).members(role);
  }

  override async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return (await this.#loaded()).rolesAmong(names);
  }

  override async byToken(tokenHash: string): Promise<AgentName | null> {
    return (await this.#loaded()).byToken(tokenHash);
  }

  override async register(
    name: AgentName,
    kind: 'agent' | 'human' | 'foreign',
    tokenHash?: string,
  ): Promise<AgentRecord> {
    const book = await this.#loaded();
    const record = newRecord(name, kind, new Date(this.now()).toISOString(), tokenHash);
    // A refused name costs no flush.
    if (!book.get(name)) this.refuseLikeness(name);
    const text = this.#changed(name, () => ({ lastSeen: record.lastSeen })) ?? recordText(record);
    return this.files.withDraft(name, text, (draft) => this.enter(record, draft));
  }

  /** The disk decides about the same name, the cache about similar ones; it may miss an agent that was just added. */
  protected override refuseLikeness(name: AgentName): void {
    refuseLikeness(name, this.#book.alike(name), this.#book.members(name));
  }

  /** Updates memory at once and the disk soon, so no request waits for it. */
  override async seen(name: AgentName): Promise<void> {
    const record = (await this.#loaded()).get(name);
    if (!record || seenLately(record, this.now())) return;
    const at = new Date(this.now()).toISOString();
    this.#book.set(name, { ...record, lastSeen: at });
    this.#unsavedSeen.set(name, at);
    this.#saving ??= this.#saveSeen();
  }

  /** Writes everything to disk first. */
  override async close(): Promise<void> {
    await this.#watch.close();
    await this.#saving;
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
    const changed = this.files.lastChange();
    if (changed === this.#lastChange) return book;
    await this.#watch.lookAtAll();
    this.#lastChange = changed;
    return book;
  }

  async #saveSeen(): Promise<void> {
    while (this.#unsavedSeen.size > 0) {
      // Requests go first.
      await new Promise((resolve) => setImmediate(resolve));
      const some = [...this.#unsavedSeen].slice(0, SAVES_AT_ONCE);
      for (const [name] of some) this.#unsavedSeen.delete(name);
      await Promise.all(some.map(([name, at]) => this.#saveSeenAt(name, at)));
    }
    this.#saving = undefined;
  }

  async #saveSeenAt(name: AgentName, at: string): Promise<void> {
    const change: RecordChange = (record) => (seenAt(record) < Date.parse(at) ? { lastSeen: at } : null);
    const text = this.#changed(name, change);
    if (text === null) return;
    try {
      await this.files.withDraft(name, text, (draft) => this.change(name, change, { draft }));
    } catch {
      // A removed agent needs no update. After a disk error the next `seen` tries again.
    }
  }

  /** The text of a record after this change, if nobody else changes it meanwhile; null: none, or it cannot be read now. */
  #changed(name: AgentName, change: RecordChange): string | null {
    const text = this.files.textIfAny(name) ?? '';
    const record = recordFrom(name, text);
    const changed = record && change(record);
    return changed && rewritten(text, changed);
  }

  protected override written(name: AgentName, record: AgentRecord | null, mark?: ChangeMark): void {
    if (record) this.#book.set(name, record);
    else this.#book.delete(name);
    // Only if the cache missed nothing before: else the next query scans.
    if (mark && mark.before === this.#lastChange) this.#lastChange = mark.after;
    this.#watch.follow();
  }

  /** Reads one record into the cache. Returns false if it may be half written. */
  #reread(name: AgentName): boolean {
    const text = this.files.textIfAny(name);
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
