import { renameSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { AgentName, ChannelName } from '../../protocol/names.ts';
import { explained } from '../disk.ts';
import { AddressBook } from './address-book.ts';
import type { AgentRecord, Amendment, Directory } from './directory.ts';
import { isLately, recordFrom, RecordFiles, seenAt } from './record-files.ts';
import { RecordWatch } from './record-watch.ts';
import type { WatchOptions } from './record-watch.ts';
import { newRecord, recordText, refuseLikeness, rewritten, withChannel, withoutChannel } from './rules.ts';

/** A record that could be read before is believed so long after it cannot: another program may be writing it. */
const HALF_WRITTEN_MS = 300;

/**
 * The records on disk, kept in memory: right for a program that stays and is asked often. After the first question only that for a name
 * that nobody has asks the disk, and none costs more because many agents are here. What others do to the files is seen within a second, what is done here
 * at once.
 */
export class WatchedDirectory implements Directory {
  readonly #files: RecordFiles;
  readonly #book = new AddressBook();
  readonly #watch: RecordWatch;
  readonly #writer: RecordWriter;
  readonly #firstLook: Promise<void>;
  #isLoaded = false;
  /** Why nobody is known, as long as it is so. */
  #failure: unknown = null;
  /** Also a question for one agent sees every change of other programs of ours that is over. Costs a `stat` each time. */
  readonly #isExact: boolean;
  /** The last change of subscriptions or roles by others that is in memory. */
  #lastChange = 0;
  /** Since when a record that was readable is not. */
  readonly #halves = new Map<AgentName, number>();
  /** When agents were seen, as far as it is not on disk yet. */
  readonly #sightings = new Map<AgentName, string>();
  /** When records say that their agents were seen, in ms: a record never changes, and to read a date for every message takes long. */
  readonly #seenAt = new WeakMap<AgentRecord, number>();
  #noting: Promise<void> | undefined;

  constructor(
    readonly root: string,
    readonly now: () => number,
    options: Partial<WatchOptions> & { exact?: boolean } = {},
  ) {
    this.#isExact = options.exact ?? false;
    this.#files = new RecordFiles(root);
    this.#writer = new RecordWriter(this.#files, (name, record) => this.#written(name, record));
    const keeper = { names: () => this.#book.names(), reread: (name: AgentName) => this.#reread(name) };
    const looked = (failure: unknown): void => {
      this.#failure = failure;
      this.#isLoaded ||= failure === null;
    };
    this.#watch = new RecordWatch(this.#files, keeper, looked, options);
    this.#firstLook = this.#watch.look();
  }

  get(name: AgentName): Promise<AgentRecord | null> {
    if (this.#isExact) return this.#upToDate().then((book) => book.get(name) ?? this.#lookedFor(name));
    const known = this.#known()?.get(name);
    return known ? Promise.resolve(known) : this.#lookedFor(name);
  }

  async #lookedFor(name: AgentName): Promise<AgentRecord | null> {
    const book = await this.#everybody();
    // Who came a moment ago may be asked for before anybody was told: then the disk knows.
    return book.get(name) ?? (this.#reread(name) ? book.get(name) : null);
  }

  async list(): Promise<AgentRecord[]> {
    return (await this.#everybody()).list();
  }

  async unreadable(): Promise<string[]> {
    return (await this.#everybody()).unreadable().map((name) => this.#files.path(name));
  }

  async count(): Promise<number> {
    return (await this.#everybody()).size;
  }

  async channels(): Promise<ChannelName[]> {
    return (await this.#everybody()).channels();
  }

  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    return (await this.#upToDate()).subscribers(channel);
  }

  async members(role: AgentName): Promise<AgentRecord[]> {
    return (await this.#upToDate()).members(role);
  }

  async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return (await this.#everybody()).rolesAmong(names);
  }

  byToken(tokenHash: string): Promise<AgentName | null> {
    const book = this.#known();
    return book ? Promise.resolve(book.byToken(tokenHash)) : this.#everybody().then((all) => all.byToken(tokenHash));
  }

  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord> {
    const book = await this.#everybody();
    const now = new Date(this.now()).toISOString();
    const record = newRecord(name, kind, now, tokenHash);
    // Against the same name the disk is asked; against similar ones memory, which may not know yet who came a moment ago.
    const isNew = await this.#writer.create(record, () => refuseLikeness(name, book.alike(name), book.members(name)));
    return isNew ? record : this.#writer.change(name, () => ({ lastSeen: now }));
  }

  async amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    await this.#everybody();
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

  /** In memory at once, on disk soon: no request waits for it. */
  seen(name: AgentName): Promise<void> {
    const record = this.#known()?.get(name);
    return record && this.#wasSeenLately(record) ? Promise.resolve() : this.#noteSeen(name);
  }

  #wasSeenLately(record: AgentRecord): boolean {
    let at = this.#seenAt.get(record);
    if (at === undefined) {
      at = seenAt(record);
      this.#seenAt.set(record, at);
    }
    return isLately(at, this.now());
  }

  async #noteSeen(name: AgentName): Promise<void> {
    const record = (await this.#everybody()).get(name);
    if (!record || this.#wasSeenLately(record)) return;
    const at = new Date(this.now()).toISOString();
    this.#book.note(name, { ...record, lastSeen: at });
    this.#sightings.set(name, at);
    this.#noting ??= this.#noteSightings();
  }

  async remove(name: AgentName): Promise<void> {
    await this.#writer.remove(name);
  }

  /** What was seen or begun is on disk afterwards. */
  async close(): Promise<void> {
    await this.#watch.close();
    await this.#noting;
    await this.#writer.close();
  }

  /** Nearly always it is in memory: who is asked for every message does not wait for that. */
  #known(): AddressBook | null {
    return this.#isLoaded && !this.#watch.asked() ? this.#book : null;
  }

  async #everybody(): Promise<AddressBook> {
    const waking = this.#watch.asked();
    if (this.#isLoaded && !waking) return this.#book;
    await (waking ?? this.#firstLook);
    if (!this.#isLoaded) throw this.#failure;
    return this.#book;
  }

  /** For questions about everybody at once. A change by another program of ours that is over is never missed; this costs one `stat`. */
  async #upToDate(): Promise<AddressBook> {
    const book = await this.#everybody();
    const changed = this.#files.lastChange();
    if (changed === this.#lastChange) return book;
    await this.#watch.lookAtAll();
    this.#lastChange = changed;
    return book;
  }

  async #change(name: AgentName, change: (record: AgentRecord) => Partial<AgentRecord> | null): Promise<void> {
    await this.#everybody();
    await this.#writer.change(name, change);
  }

  async #noteSightings(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    for (const [name, at] of this.#sightings) {
      this.#sightings.delete(name);
      const change = ({ lastSeen }: AgentRecord): Partial<AgentRecord> | null =>
        seenAt({ lastSeen }) < Date.parse(at) ? { lastSeen: at } : null;
      // Who has left meanwhile needs no note; after a disk that failed, the next sighting tries again.
      await this.#writer.change(name, change).catch(() => {});
    }
    this.#noting = undefined;
  }

  #written(name: AgentName, record: AgentRecord | null): void {
    if (record) this.#book.note(name, record);
    else this.#book.drop(name);
    this.#watch.follow();
  }

  /** One bad record is that agent's trouble alone. Says whether there is nothing left to ask. */
  #reread(name: AgentName): boolean {
    const text = this.#files.textIfAny(name);
    if (text === undefined) return false;
    const record = text === null ? null : recordFrom(name, text);
    if (text === null) this.#book.drop(name);
    else if (record) this.#book.note(name, record);
    else if (this.#mayBeHalf(name)) return false;
    else this.#book.note(name, null);
    this.#halves.delete(name);
    return true;
  }

  #mayBeHalf(name: AgentName): boolean {
    if (!this.#book.get(name)) return false;
    const since = this.#halves.get(name) ?? performance.now();
    this.#halves.set(name, since);
    return performance.now() - since < HALF_WRITTEN_MS;
  }
}

/** What a change makes of a record; null: nothing. */
type Change = (record: AgentRecord) => Partial<AgentRecord> | null;

/** So often a change is made anew because somebody else has changed the record, or is writing it, before everybody has to wait. */
const TRIES = 8;
const PAUSE_MS = 40;

/**
 * Changes records while others are served: what shall stand in a record's place is written and flushed beside it by the system's
 * threads, and then put there under the lock, if the record is still what was changed. Changes of one record wait for one another.
 */
class RecordWriter {
  readonly #turns = new Map<AgentName, Promise<unknown>>();

  constructor(
    readonly files: RecordFiles,
    /** Told what stands on disk now, before anybody can change it again; null: nothing. */
    readonly written: (name: AgentName, record: AgentRecord | null) => void,
  ) {}

  /** Makes a record; false if there is one, whatever it is. `check` refuses it under the lock, by throwing. */
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

  /** Of many changes at once none is lost. */
  change(name: AgentName, change: Change): Promise<AgentRecord> {
    return this.#inTurn(name, () => this.#change(name, change));
  }

  /** It may depend on everybody's record: all others wait for it. That is rare. */
  amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    return this.#inTurn(name, async () => this.files.amend(name, change, (record) => this.written(name, record)));
  }

  remove(name: AgentName): Promise<void> {
    return this.#inTurn(name, async () => {
      this.files.remove(name);
      this.written(name, null);
    });
  }

  /** Waits for what was begun. */
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

  /** Nobody comes between; everybody waits. */
  #changeAtOnce(name: AgentName, change: Change): AgentRecord {
    return this.files.locked(() => {
      const { record, text } = this.files.wholeOrRefuse(name);
      const after = changedText(text, record, change);
      this.files.write(name, after);
      this.written(name, parsed(name, after));
      return parsed(name, after);
    });
  }

  async #put(name: AgentName, text: string, mayStand: () => boolean): Promise<boolean> {
    const draft = `${this.files.folder}/.${name}.${crypto.randomUUID()}`;
    try {
      this.files.makeFolder();
      await writeFile(draft, text, { mode: 0o600, flush: true });
      return this.files.locked(() => {
        if (!mayStand()) return false;
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
