import { lstatSync, statSync, watch } from 'node:fs';
import type { FSWatcher, Stats } from 'node:fs';
import type { AgentName } from '../../core/names.ts';
import { ifThere } from '../../core/disk.ts';
import { platform } from '../../platform/os.ts';
import { nameOf } from './record-files.ts';
import type { RecordFiles } from './record-files.ts';

/** The shortest time between two scans of all files. File events are faster, where the file system has them. */
const LOOK_MS = 500;
/** Scans take at most one part in this many of the time, with and without file events. A scan of 10,000 agents takes 30 ms. */
const LOOK_SHARE = { events: 50, alone: 20 };
/** Files per slice; other work runs between two slices. Where events are reliable, a scan is one slice. */
const SLICE = 100;
/** A program that writes in place truncates first: a short wait avoids a half-written read. */
const SETTLE_MS = 5;
/** A file that changed this recently may change again without a newer timestamp. */
const YOUNG_MS = 100;

/** After this long without a query the scans stop; the next query scans first. A relay may have a thousand idle rooms. */
const NAP_MS = 10_000;

/** For tests: other intervals, or no file events. */
export interface WatchOptions {
  events: boolean;
  lookMs: number;
  napMs: number;
}

/** The cache that the watch refreshes. */
export interface RecordCache {
  /** The cached names. */
  names(): AgentName[];
  /** Reads a record again. False: it may be half written; retry at the next scan. */
  reread(name: AgentName): boolean;
}

/**
 * Sees every file that is added, changed or removed in `agents/`, until closed. File events come at once, but they can be lost, and some
 * file systems have none. So it also scans the files' timestamps: all of them each time, or, where events are reliable, one slice in
 * turn, so that the cost does not grow with the number of agents. The folder may be missing, come and go.
 */
export class RecordWatch {
  readonly #options: WatchOptions;
  readonly #stamps = new Map<AgentName, string>();
  readonly #touched = new Set<AgentName>();
  /** Records that may be half written, and links, whose targets send no events here: every scan includes them. */
  readonly #doubtful = new Set<AgentName>();
  readonly #linked = new Set<AgentName>();
  #events: { watcher: FSWatcher; folder: string; areTrusted: boolean } | null = null;
  /** A full scan finished since the events began. */
  #hasSeenAll = false;
  #round: Generator<number> | null = null;
  #settling: Timer | undefined;
  #next: Timer | undefined;
  #look: Promise<void> | undefined;
  #askedAt = performance.now();
  #isFirst = true;
  #isAsleep = false;
  #closed = false;

  constructor(
    readonly files: RecordFiles,
    readonly cache: RecordCache,
    /** Called after each scan, with the error if it failed, else with null. */
    readonly looked: (failure: unknown) => void,
    options: Partial<WatchOptions>,
  ) {
    this.#options = { events: true, lookMs: LOOK_MS, napMs: NAP_MS, ...options };
  }

  /** Scans, and schedules the next scan. Concurrent callers share one scan. */
  look(): Promise<void> {
    this.#look ??= this.#lookOnce().finally(() => (this.#look = undefined));
    return this.#look;
  }

  /** Runs a new full scan: one that is under way may have passed the file in question. */
  async lookAtAll(): Promise<void> {
    await this.#look;
    this.#hasSeenAll = false;
    await this.look();
  }

  /** The folder exists now: listens to its events before the next scan. */
  follow(): void {
    if (!this.#events && !this.#closed) this.#follow();
  }

  /** Call before every query. After an idle time it returns the scan to wait for. */
  asked(): Promise<void> | null {
    this.#askedAt = performance.now();
    return this.#isAsleep ? this.look() : null;
  }

  /** Waits for a scan that is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#isAsleep = false;
    clearTimeout(this.#next);
    clearTimeout(this.#settling);
    this.#events?.watcher.close();
    this.#events = null;
    await this.#look;
  }

  async #lookOnce(): Promise<void> {
    let spent = 0;
    try {
      this.#follow();
      spent = await this.#lookAtSome();
      this.looked(null);
    } catch (error) {
      this.#round = null;
      this.looked(error);
    }
    this.#isAsleep = !this.#closed && performance.now() - this.#askedAt > this.#options.napMs;
    if (this.#closed || this.#isAsleep) return;
    // The first scan reads everything, later ones do not.
    const share = this.#isFirst ? 0 : LOOK_SHARE[this.#events ? 'events' : 'alone'];
    this.#isFirst = false;
    const pause = Math.max(this.#options.lookMs, spent * share);
    this.#next = setTimeout(() => void this.look(), pause);
    this.#next.unref();
  }

  /** Scans all files if events may be missing, else the next slice. Returns how long it took (ms). */
  async #lookAtSome(): Promise<number> {
    const isAll = !this.#hasSeenAll || this.#isAsleep || !this.#events?.areTrusted;
    if (isAll) this.#round = null;
    const events = this.#events;
    let spent = 0;
    for (const name of [...this.#doubtful, ...this.#linked].slice(0, SLICE)) this.#lookAt(name);
    do {
      this.#round ??= this.#slices();
      const { value, done } = this.#round.next();
      if (done) this.#round = null;
      else spent += value;
      await new Promise((resolve) => setImmediate(resolve));
    } while (isAll ? this.#round : !this.#round && !this.#closed);
    if (isAll) this.#hasSeenAll = events === this.#events;
    return spent;
  }

  /** Scans all records in slices and yields the time of each (ms). Cached names without a file are included. */
  *#slices(): Generator<number> {
    let since = performance.now();
    let count = 0;
    for (const name of new Set([...this.files.names(), ...this.cache.names()])) {
      if (this.#closed) return;
      this.#lookAt(name);
      count += 1;
      if (count % SLICE !== 0) continue;
      yield performance.now() - since;
      since = performance.now();
    }
    yield performance.now() - since;
  }

  #lookAt(name: AgentName): void {
    const stamp = this.#stampOf(name);
    if (stamp === '' || stamp !== this.#stamps.get(name)) this.#reread(name, stamp);
  }

  /** Empty: there is no stamp that would show a change. An error at one record does not stop the scan. */
  #stampOf(name: AgentName): string {
    const path = this.files.path(name);
    this.#linked.delete(name);
    try {
      const stat = lstatSync(path);
      if (!stat.isSymbolicLink() && stat.nlink === 1) return stampOf(stat);
      this.#linked.add(name);
      return stampOf(statSync(path));
    } catch {
      return '';
    }
  }

  /** Keeps a stamp only if it will show the next change. */
  #reread(name: AgentName, stamp = ''): void {
    const isWhole = this.cache.reread(name);
    if (isWhole) this.#doubtful.delete(name);
    else this.#doubtful.add(name);
    if (isWhole && stamp !== '') this.#stamps.set(name, stamp);
    else this.#stamps.delete(name);
  }

  /** Listens to the events of the folder at this path. Without events, scans must do. */
  #follow(): void {
    const stat = ifThere(() => statSync(this.files.folder));
    const folder = stat ? `${stat.dev} ${stat.ino} ${stat.birthtimeMs}` : '';
    if (this.#events?.folder === folder) return;
    this.#unfollow();
    if (!stat || !this.#options.events) return;
    try {
      const watcher = watch(this.files.folder, { persistent: false }, (_kind, file) => this.#onFileEvent(file));
      watcher.on('error', () => this.#unfollow());
      this.#events = { watcher, folder, areTrusted: platform.tellsOfChanges(this.files.folder) };
      this.#hasSeenAll = false;
    } catch {
      // The system has no watch left.
    }
  }

  #unfollow(): void {
    this.#events?.watcher.close();
    this.#events = null;
  }

  /** Handles a file event. Null: the system does not name the file. */
  #onFileEvent(file: string | null): void {
    if (this.#closed) return;
    const name = file === null ? null : nameOf(file);
    if (name) this.#touched.add(name);
    // The folder itself was moved or removed: the next scan follows its replacement.
    else if (file === null || this.files.folder.endsWith(`/${file}`)) this.#unfollow();
    if (this.#touched.size === 0) return;
    this.#settling ??= setTimeout(() => this.#settled(), SETTLE_MS);
  }

  /** Reads the records that changed a moment ago, a slice at a time. */
  #settled(): void {
    this.#settling = undefined;
    const some = [...this.#touched].slice(0, SLICE);
    for (const name of some) {
      this.#touched.delete(name);
      this.#reread(name);
    }
    if (this.#touched.size > 0) this.#settling = setTimeout(() => this.#settled(), 0);
  }
}

/** A stamp that changes with the file; empty if it changed just now, because the next change could leave it the same. */
function stampOf({ ino, size, mtimeMs, ctimeMs }: Stats): string {
  return Math.abs(Date.now() - ctimeMs) < YOUNG_MS ? '' : `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
}
