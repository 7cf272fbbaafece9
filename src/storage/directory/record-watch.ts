import { lstatSync, statSync, watch } from 'node:fs';
import type { FSWatcher, Stats } from 'node:fs';
import type { AgentName } from '../../protocol/names.ts';
import { ifThere } from '../disk.ts';
import { platform } from '../platform/platform.ts';
import { nameOf } from './record-files.ts';
import type { RecordFiles } from './record-files.ts';

/** From one look at all files to the next, at least. File events come sooner, where the file system has them. */
const LOOK_MS = 500;
/** Looking takes at most one part in so many of the time, with and without file events. A look at 10,000 agents costs 30 ms. */
const LOOK_SHARE = { events: 50, alone: 20 };
/** So many files are looked at in one go; then others have their turn. Where events can be trusted, a look is no more than that. */
const SLICE = 100;
/** Who writes a file in place cuts it first: to wait a little spares reading it half written. */
const SETTLE_MS = 5;
/** A file that was changed so lately may be changed once more without a newer time on it. */
const YOUNG_MS = 100;

/** After so long without a question nobody looks; the next question looks first. A relay may have a thousand rooms that sleep. */
const NAP_MS = 10_000;

/** A test may have less patience, or a file system without events. */
export interface WatchOptions {
  events: boolean;
  lookMs: number;
  napMs: number;
}

/** What the watch asks of whoever keeps the records. */
export interface Keeper {
  /** Whose record is kept. */
  names(): AgentName[];
  /** Reads a record anew. False: it may be half written; ask once more at the next look. */
  reread(name: AgentName): boolean;
}

/**
 * Sees what anybody adds, changes or removes in `agents/`, until closed. File events tell at once; they can be lost, and some file
 * systems have none, so every file's times are looked at again and again too: all of them each time, or, where the system tells of
 * every change, some of them in turn, so that it costs the same however many agents there are. The folder may be missing, come and go.
 */
export class RecordWatch {
  readonly #options: WatchOptions;
  readonly #stamps = new Map<AgentName, string>();
  readonly #touched = new Set<AgentName>();
  /** Those that may be half written, and links, of whose other end the folder tells nothing: they have their turn at every look. */
  readonly #doubtful = new Set<AgentName>();
  readonly #linked = new Set<AgentName>();
  #events: { watcher: FSWatcher; folder: string; areTrusted: boolean } | null = null;
  /** Everything was looked at since the events began. */
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
    readonly keeper: Keeper,
    /** A look that failed: nobody's record can be listed at the moment. Null: it went well. */
    readonly looked: (failure: unknown) => void,
    options: Partial<WatchOptions>,
  ) {
    this.#options = { events: true, lookMs: LOOK_MS, napMs: NAP_MS, ...options };
  }

  /** Looks at everything, and goes on looking. Who asks while a look is under way gets that one. */
  look(): Promise<void> {
    this.#look ??= this.#lookOnce().finally(() => (this.#look = undefined));
    return this.#look;
  }

  /** Looks at everything that is there now: a look that is under way may have passed what is asked for. */
  async lookAtAll(): Promise<void> {
    await this.#look;
    this.#hasSeenAll = false;
    await this.look();
  }

  /** The folder is there now: its events need not wait for the next look. */
  follow(): void {
    if (!this.#events && !this.#closed) this.#follow();
  }

  /** Somebody wants to know. If nobody did for long, they must wait for the look that is returned. */
  asked(): Promise<void> | null {
    this.#askedAt = performance.now();
    return this.#isAsleep ? this.look() : null;
  }

  /** Waits for a look that is under way. */
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
    // The first look has read everything; the next ones will not.
    const share = this.#isFirst ? 0 : LOOK_SHARE[this.#events ? 'events' : 'alone'];
    this.#isFirst = false;
    const pause = Math.max(this.#options.lookMs, spent * share);
    this.#next = setTimeout(() => void this.look(), pause);
    this.#next.unref();
  }

  /** At everybody, if nobody would have told us of a change; otherwise at those whose turn it is. Returns how long it took (ms). */
  async #lookAtSome(): Promise<number> {
    const isAll = !this.#hasSeenAll || this.#isAsleep || !this.#events?.areTrusted;
    if (isAll) this.#round = null;
    const heard = this.#events;
    let spent = 0;
    for (const name of [...this.#doubtful, ...this.#linked].slice(0, SLICE)) this.#lookAt(name);
    do {
      this.#round ??= this.#slices();
      const { value, done } = this.#round.next();
      if (done) this.#round = null;
      else spent += value;
      await new Promise((resolve) => setImmediate(resolve));
    } while (isAll ? this.#round : !this.#round && !this.#closed);
    if (isAll) this.#hasSeenAll = heard === this.#events;
    return spent;
  }

  /** Looks at everybody's record in slices, each of which says how long it took. Who is kept and not listed has left. */
  *#slices(): Generator<number> {
    let since = performance.now();
    let count = 0;
    for (const name of new Set([...this.files.names(), ...this.keeper.names()])) {
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

  /** Empty: there is none that would tell a change. What is in the way of one record is no reason to look at no other. */
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

  /** A stamp is kept only if it will tell the next change. */
  #reread(name: AgentName, stamp = ''): void {
    const isWhole = this.keeper.reread(name);
    if (isWhole) this.#doubtful.delete(name);
    else this.#doubtful.add(name);
    if (isWhole && stamp !== '') this.#stamps.set(name, stamp);
    else this.#stamps.delete(name);
  }

  /** Listens to the events of the folder that has this name now. Without events, looking must do. */
  #follow(): void {
    const stat = ifThere(() => statSync(this.files.folder));
    const folder = stat ? `${stat.dev} ${stat.ino} ${stat.birthtimeMs}` : '';
    if (this.#events?.folder === folder) return;
    this.#unfollow();
    if (!stat || !this.#options.events) return;
    try {
      const watcher = watch(this.files.folder, { persistent: false }, (_kind, file) => this.#heard(file));
      watcher.on('error', () => this.#unfollow());
      this.#events = { watcher, folder, areTrusted: platform.tellsOfChanges(this.files.folder) };
      this.#hasSeenAll = false;
    } catch {
      // The system has no more of them to give.
    }
  }

  #unfollow(): void {
    this.#events?.watcher.close();
    this.#events = null;
  }

  #heard(file: string | null): void {
    if (this.#closed) return;
    const name = file === null ? null : nameOf(file);
    if (name) this.#touched.add(name);
    // The folder itself was moved or removed: the next look follows whatever stands in its place.
    else if (file === null || this.files.folder.endsWith(`/${file}`)) this.#unfollow();
    if (this.#touched.size === 0) return;
    this.#settling ??= setTimeout(() => this.#settled(), SETTLE_MS);
  }

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

/** What changes with a file; nothing, if it was changed a moment ago: the next change could leave it the same. */
function stampOf({ ino, size, mtimeMs, ctimeMs }: Stats): string {
  return Math.abs(Date.now() - ctimeMs) < YOUNG_MS ? '' : `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
}
