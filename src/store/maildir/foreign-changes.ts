import { statSync } from 'node:fs';
import { isMessageId } from '../../core/names.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { MailboxJournal, OpenCopy } from '../../core/ports/journal.ts';
import type { Changes } from './export-messages.ts';
import type { MaildirFiles } from './files.ts';
import { list } from './files.ts';

/** A folder that changed this shortly before it was listed may change once more without a new time. */
const BLUR_MS = 100;
/** What took this long is not repeated before five times its length: a huge mailbox must not take all of the worker's time. */
const LONG_MS = 20;
const REST = 5;
/** Rows read at a time. */
const PAGE = 1000;
/** After a look at more than this what it left behind is cleared away at once: it is tens of megabytes, and the next look adds as much. */
const MANY = 5000;

const NOTHING: Changes = { missing: [], strangers: [], arrived: [] };

/** What we know of a mailbox since the last look. */
interface Known {
  /** The times of new/ and quiet/ as they were before it was listed; null: look in any case. */
  times: string | null;
  notBefore: number;
  /** For a watched one: what stood in new/, or was brought there by ourselves. */
  seen: Set<number> | null;
  /** `seen` still lacks what waited up to this number: the journal could not be read yet. */
  lacksUpTo: number | null;
  isWatched: boolean;
}

/** Notices what other programs do in mailboxes: what they bring, what they take. It lists a folder only if its time has changed. */
export class ForeignChanges {
  readonly #known = new Map<AgentName, Known>();

  constructor(
    readonly files: MaildirFiles,
    readonly journal: () => MailboxJournal,
  ) {}

  /**
   * From now on news of this mailbox are gathered. What came after this number in the journal is news already. If this throws, the
   * mailbox is watched all the same: the next look tries again.
   */
  async watch(mailbox: AgentName, since: number): Promise<void> {
    const known = this.#of(mailbox);
    known.isWatched = true;
    if (known.seen && known.lacksUpTo === null) {
      // Who comes back is told by others of what waits. What a reader holds does not: if it is put back, that is news.
      for (const id of this.files.ids(mailbox, 'held')) known.seen.delete(short(id));
      return;
    }
    known.seen ??= new Set();
    known.lacksUpTo = since;
    await this.#complete(mailbox, known);
  }

  /** Adds to `seen` what waited when the watch began. */
  async #complete(mailbox: AgentName, known: Known): Promise<void> {
    const { seen, lacksUpTo } = known;
    if (!seen || lacksUpTo === null) return;
    const begun = Date.now();
    for await (const { seq, id, waits } of this.#open(mailbox)) if (waits && seq <= lacksUpTo) seen.add(short(id));
    known.lacksUpTo = null;
    known.times = null;
    rest(known, begun);
  }

  /** What we know of a mailbox that must rest is kept until it has: who comes back before that goes on with it. */
  unwatch(mailbox: AgentName): void {
    const known = this.#known.get(mailbox);
    if (known) known.isWatched = false;
    if (known && hasRested(known)) this.#known.delete(mailbox);
  }

  /** These come into new/ by our own doing. */
  expect(mailbox: AgentName, ids: MessageId[]): void {
    const seen = this.#known.get(mailbox)?.seen;
    if (seen) for (const id of ids) seen.add(short(id));
  }

  /** The watched mailboxes. What was kept of others is dropped as soon as they have rested. */
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
    // A stranger may be half written: its folder does not change when the rest comes.
    known.times = changes.strangers.length === 0 && begun - newest > BLUR_MS ? text : null;
    rest(known, begun);
    return changes;
  }

  /** Like `compared` in files.ts, for any number of copies: the journal is read before the folders are listed. */
  async #compare(mailbox: AgentName, known: Known): Promise<Changes> {
    /** Whether it should have a file that was not found yet. */
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

  /** Everything of a mailbox that waits or is held. Nothing else is done in this thread meanwhile. */
  async *#open(mailbox: AgentName): AsyncGenerator<OpenCopy> {
    for (let page: OpenCopy[], after = 0; ; after = page.at(-1)?.seq ?? 0) {
      page = await this.journal().openCopies(mailbox, after, PAGE);
      yield* page;
      if (page.length < PAGE) return;
    }
  }

  /** One at a time: the names alone are megabytes. */
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
 * An id in 52 bits: there may be a hundred thousand in one mailbox, and as texts they would take some 50 MB. If two of those are alike, which
 * happens once in a million such mailboxes, one of them is noticed when the other is gone.
 */
function short(id: MessageId): number {
  return Bun.hash.xxHash32(id) * 2 ** 20 + (Bun.hash.xxHash32(id, 1) >>> 12);
}

function rest(known: Known, begun: number): void {
  const took = Date.now() - begun;
  if (took >= LONG_MS) known.notBefore = Math.max(known.notBefore, begun) + REST * took;
}

function hasRested({ notBefore }: Known): boolean {
  return Date.now() >= notBefore;
}
