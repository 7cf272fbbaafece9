import { statSync } from 'node:fs';
import { isMessageId } from '../../core/names.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { MailboxJournal, OpenCopy } from '../../core/ports/journal.ts';
import type { Changes } from './export-messages.ts';
import type { MaildirFiles } from './files.ts';
import { list } from './files.ts';

/** A folder that changed this recently may change again without a new time. */
const YOUNG_MS = 100;
/** After a look that took at least this long, the mailbox rests for `REST_FACTOR` times as long: a huge one must not take all of the worker's time. */
const LONG_MS = 20;
const REST_FACTOR = 5;
/** Rows read at a time. */
const PAGE = 1000;
/** After a look at more copies than this, the garbage is collected at once: it is tens of megabytes, and the next look adds as much. */
const MANY = 5000;

const NOTHING: Changes = { missing: [], strangers: [], arrived: [] };

/** What the last look found in a mailbox. */
interface Known {
  /** The times of new/ and quiet/ before they were listed. Null: list them at the next look in any case. */
  times: string | null;
  /** The mailbox rests until this time. */
  notBefore: number;
  /** In a watched mailbox: the copies that were in new/ at the last look, or that we moved there since. They are not news. */
  seen: Set<number> | null;
  /** Set while `seen` lacks the copies that waited up to this sequence number, because the journal was not read yet. */
  lacksUpTo: number | null;
  isWatched: boolean;
}

/** Detects messages that other programs add to or take from mailboxes. Lists a folder only if its time has changed. */
export class ForeignChanges {
  readonly #known = new Map<AgentName, Known>();

  constructor(
    readonly files: MaildirFiles,
    readonly journal: () => MailboxJournal,
  ) {}

  /**
   * From now on, looks at this mailbox report arrivals. Copies with a higher sequence number than `since` count as arrivals. If this
   * throws, the mailbox is watched all the same: the next look tries again.
   */
  async watch(mailbox: AgentName, since: number): Promise<void> {
    const known = this.#of(mailbox);
    known.isWatched = true;
    if (known.seen && known.lacksUpTo === null) {
      // It was watched before, so `seen` is still valid, except for copies that a reader holds: one that is put back is an arrival.
      for (const id of this.files.ids(mailbox, 'held')) known.seen.delete(short(id));
      return;
    }
    known.seen ??= new Set();
    known.lacksUpTo = since;
    await this.#complete(mailbox, known);
  }

  /** Adds to `seen` the copies that waited when the watch began. */
  async #complete(mailbox: AgentName, known: Known): Promise<void> {
    const { seen, lacksUpTo } = known;
    if (!seen || lacksUpTo === null) return;
    const begun = Date.now();
    for await (const { seq, id, waits } of this.#open(mailbox)) if (waits && seq <= lacksUpTo) seen.add(short(id));
    known.lacksUpTo = null;
    known.times = null;
    rest(known, begun);
  }

  /** Ends a watch. While the mailbox rests, its state is kept, so that a new watch need not list it again. */
  unwatch(mailbox: AgentName): void {
    const known = this.#known.get(mailbox);
    if (known) known.isWatched = false;
    if (known && hasRested(known)) this.#known.delete(mailbox);
  }

  /** Our own process moves these into new/: they are not reported as arrivals. */
  expect(mailbox: AgentName, ids: MessageId[]): void {
    const seen = this.#known.get(mailbox)?.seen;
    if (seen) for (const id of ids) seen.add(short(id));
  }

  /** The watched mailboxes. Drops the state of unwatched ones that have rested. */
  due(): AgentName[] {
    for (const [mailbox, known] of this.#known) {
      if (known.seen && !known.isWatched && hasRested(known)) this.#known.delete(mailbox);
    }
    return [...this.#known].filter(([, { isWatched }]) => isWatched).map(([mailbox]) => mailbox);
  }

  async look(mailbox: AgentName): Promise<Changes> {
    const known = this.#of(mailbox);
    await this.#complete(mailbox, known);
    const begun = Date.now();
    this.files.make(mailbox);
    const { text, newest } = this.#times(mailbox);
    if (text === known.times || begun < known.notBefore) return NOTHING;
    const changes = await this.#compare(mailbox, known);
    // A stranger may be half written, and writing the rest does not change its folder's time.
    known.times = changes.strangers.length === 0 && begun - newest > YOUNG_MS ? text : null;
    rest(known, begun);
    return changes;
  }

  /** Like `compareFolders` in files.ts, but in pages, for any number of copies. Reads the journal before it lists the folders. */
  async #compare(mailbox: AgentName, known: Known): Promise<Changes> {
    /** True for a copy that should have a file, until its file is found. */
    const open = new Map<number, boolean>();
    for await (const { id, hasFile } of this.#open(mailbox)) open.set(short(id), hasFile);
    const changes: Changes = { missing: [], strangers: [], arrived: [] };
    const { seen } = known;
    const loud = new Set<number>();
    for (const id of this.#ids(mailbox, 'new')) {
      const name = short(id);
      if (open.has(name)) open.set(name, false);
      else changes.strangers.push(id);
      if (seen && !seen.has(name)) changes.arrived.push(id);
      if (seen) loud.add(name);
    }
    if (seen) known.seen = loud;
    for (const id of this.#ids(mailbox, 'quiet')) if (open.has(short(id))) open.set(short(id), false);
    if ([...open.values()].some(Boolean)) {
      for await (const { id, hasFile } of this.#open(mailbox)) {
        if (hasFile && open.get(short(id))) changes.missing.push(id);
      }
    }
    if (open.size > MANY) Bun.gc(true);
    return changes;
  }

  /** All copies of a mailbox that wait or are held. */
  async *#open(mailbox: AgentName): AsyncGenerator<OpenCopy> {
    for (let page: OpenCopy[], after = 0; ; after = page.at(-1)?.seq ?? 0) {
      page = await this.journal().openCopies(mailbox, after, PAGE);
      yield* page;
      if (page.length < PAGE) return;
    }
  }

  /** Yields one id at a time: a list of all of them would be megabytes. */
  *#ids(mailbox: AgentName, folder: 'new' | 'quiet'): Generator<MessageId> {
    for (const name of list(this.files.folder(mailbox, folder))) {
      const id = name.slice(0, -5);
      if (name.endsWith('.json') && isMessageId(id)) yield id;
    }
  }

  #times(mailbox: AgentName): { text: string; newest: number } {
    const times = (['new', 'quiet'] as const).map((folder) => statSync(this.files.folder(mailbox, folder)));
    return {
      text: times.map(({ mtimeMs, ino }) => `${ino} ${mtimeMs}`).join(),
      newest: Math.max(...times.map(({ mtimeMs }) => mtimeMs)),
    };
  }

  #of(mailbox: AgentName): Known {
    const known = this.#known.get(mailbox) ?? {
      times: null,
      notBefore: 0,
      seen: null,
      lacksUpTo: null,
      isWatched: false,
    };
    this.#known.set(mailbox, known);
    return known;
  }
}

/**
 * A hash of an id in 52 bits: a mailbox may have a hundred thousand ids, and as texts they would take some 50 MB. In one of a million such
 * mailboxes two ids share a hash; then the second is detected only when the first is gone.
 */
function short(id: MessageId): number {
  return Bun.hash.xxHash32(id) * 2 ** 20 + (Bun.hash.xxHash32(id, 1) >>> 12);
}

/** Makes a mailbox rest after a long look. */
function rest(known: Known, begun: number): void {
  const took = Date.now() - begun;
  if (took >= LONG_MS) known.notBefore = Math.max(known.notBefore, begun) + REST_FACTOR * took;
}

function hasRested({ notBefore }: Known): boolean {
  return Date.now() >= notBefore;
}
