import { statSync } from 'node:fs';
import { isMessageId } from '../../protocol/names.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { LateCopies, OpenCopy } from '../ledger/late.ts';
import type { Looked } from './back-room-talk.ts';
import { IdNotes } from './id-notes.ts';
import type { MaildirFiles } from './maildir-files.ts';
import { list } from './maildir-places.ts';

/** A folder that changed this shortly before it was listed may change once more without a new time. */
const BLUR_MS = 100;
/** What took this long is not repeated before five times its length: a huge mailbox must not fill the clerk's day. */
const LONG_MS = 20;
const REST = 5;

/** So many rows are read at a time: as many as wait would be in memory at once. */
const PAGE = 1000;

/** Notes on an id: it is there; it should have a file, it has none, its file was found. */
const THERE = 1;
const WITH_FILE = 1;
const WITHOUT_FILE = 2;
const FOUND = 3;
/** It was there, and is in a reader's hand. */
const AWAY = 2;

/** After a look at more than this what it left behind is cleared away at once: it is tens of megabytes, and the next look adds as much. */
const MANY = 5000;

const NOTHING: Looked = { missing: [], strangers: [], arrived: [] };

/** What we know of a mailbox since the last look. */
interface Known {
  /** The times of new/ and quiet/ as they were before it was listed; null: look in any case. */
  times: string | null;
  notBefore: number;
  /** For a watched one: what stood in new/, or was brought there by ourselves. */
  seen: IdNotes | null;
  isWatched: boolean;
}

/** Notices what other programs do in mailboxes: what they bring, what they take. It lists a folder only if its time has changed. */
export class Looker {
  readonly #known = new Map<AgentName, Known>();
  /** How many rows were read for the last look. */
  #read = 0;

  constructor(
    readonly files: MaildirFiles,
    readonly ledger: LateCopies,
  ) {}

  /** From now on news of this mailbox are gathered. What came after this number in the ledger is news already. */
  async watch(mailbox: AgentName, since: number): Promise<void> {
    const known = this.#of(mailbox);
    known.isWatched = true;
    if (known.seen) return this.#resume(mailbox, known.seen);
    const begun = Date.now();
    const seen = new IdNotes();
    for await (const page of this.#open(mailbox)) {
      for (const { seq, id, waits } of page) if (waits && seq <= since) seen.set(id, THERE);
    }
    known.seen = seen;
    known.times = null;
    rest(known, begun);
  }

  /** What we know of a mailbox that must rest is kept until it has: whoever comes back before that goes on with it. */
  unwatch(mailbox: AgentName): void {
    const known = this.#known.get(mailbox);
    if (known) known.isWatched = false;
    if (known && hasRested(known)) this.#known.delete(mailbox);
  }

  /** Whoever comes back is told by others of what waits. What a reader has in hand does not: if it is put back, that is news. */
  #resume(mailbox: AgentName, seen: IdNotes): void {
    for (const id of this.#ids(mailbox, 'held')) seen.set(id, AWAY);
  }

  /** These come into new/ by our own doing. */
  expected(mailbox: AgentName, ids: MessageId[]): void {
    const seen = this.#known.get(mailbox)?.seen;
    if (seen) for (const id of ids) seen.set(id, THERE);
  }

  /** The watched mailboxes. What was kept of others is dropped as soon as they have rested: looks come one after the other, so few do. */
  due(): AgentName[] {
    for (const [mailbox, known] of this.#known) {
      if (known.seen && !known.isWatched && hasRested(known)) this.#known.delete(mailbox);
    }
    return [...this.#known].filter(([, { isWatched }]) => isWatched).map(([mailbox]) => mailbox);
  }

  async look(mailbox: AgentName): Promise<Looked> {
    const known = this.#of(mailbox);
    const begun = Date.now();
    this.files.make(mailbox);
    const { text, newest } = this.#times(mailbox);
    if (text === known.times || begun < known.notBefore) return NOTHING;
    const found = await this.#compare(mailbox, known);
    if (this.#read > MANY) Bun.gc(true);
    // A stranger may be half written: its folder does not change when the rest comes.
    known.times = found.strangers.length === 0 && begun - newest > BLUR_MS ? text : null;
    rest(known, begun);
    return found;
  }

  /** Like `compared` in maildir-found.ts, for any number of copies: the ledger is read before the folders are listed. */
  async #compare(mailbox: AgentName, known: Known): Promise<Looked> {
    const open = new IdNotes();
    this.#read = 0;
    for await (const page of this.#open(mailbox)) {
      this.#read += page.length;
      for (const { id, hasFile } of page) open.set(id, hasFile ? WITH_FILE : WITHOUT_FILE);
    }
    const found: Looked = { missing: [], strangers: [], arrived: [] };
    const { seen } = known;
    const loud = new IdNotes();
    for (const id of this.#ids(mailbox, 'new')) {
      if (open.get(id) === 0) found.strangers.push(id);
      else open.set(id, FOUND);
      if (!seen) continue;
      if (seen.get(id) !== THERE) found.arrived.push(id);
      loud.set(id, THERE);
    }
    if (seen) known.seen = loud;
    for (const id of this.#ids(mailbox, 'quiet')) if (open.get(id) !== 0) open.set(id, FOUND);
    found.missing = [...open.having(WITH_FILE)];
    return found;
  }

  /** Everything of a mailbox that waits or is held, page by page. Nothing else is done in this thread meanwhile. */
  async *#open(mailbox: AgentName): AsyncGenerator<OpenCopy[]> {
    for (let page: OpenCopy[], after = 0; ; after = page.at(-1)?.seq ?? 0) {
      page = await this.ledger.openCopies(mailbox, after, PAGE);
      yield page;
      if (page.length < PAGE) return;
    }
  }

  *#ids(mailbox: AgentName, folder: 'new' | 'quiet' | 'held'): Generator<MessageId> {
    for (const name of list(this.files.folder(mailbox, folder))) {
      const id = name.slice(0, -5);
      if (name.endsWith('.json') && isMessageId(id)) yield id;
    }
  }

  #times(mailbox: AgentName): { text: string; newest: number } {
    const times = (['new', 'quiet'] as const).map((folder) => {
      const { mtimeMs, ino } = statSync(this.files.folder(mailbox, folder));
      return { mtimeMs, ino };
    });
    return {
      text: times.map(({ mtimeMs, ino }) => `${ino} ${mtimeMs}`).join(),
      newest: Math.max(...times.map(({ mtimeMs }) => mtimeMs)),
    };
  }

  #of(mailbox: AgentName): Known {
    const known = this.#known.get(mailbox) ?? { times: null, notBefore: 0, seen: null, isWatched: false };
    this.#known.set(mailbox, known);
    return known;
  }
}

function rest(known: Known, begun: number): void {
  const took = Date.now() - begun;
  if (took >= LONG_MS) known.notBefore = Math.max(known.notBefore, begun) + REST * took;
}

function hasRested({ notBefore }: Known): boolean {
  return Date.now() >= notBefore;
}
