import { statSync } from 'node:fs';
import type { RecordPlace, TurnEvent } from '../core/ports/session.ts';
import { endOfLines, linesFrom } from './follow.ts';

/**
 * A client that rests writes the end of a turn within some 100 ms. One that rests longer than this, and has written none, was interrupted
 * before its first word.
 */
const REST_MS = 1000;
/** Entries bear the time at which something was said, and are written a little later. */
const LATE_MS = 5000;

/** Limit for a registry that says nothing, ms. */
const SLEEP_MS = 60_000;

/** What the client said of itself, just before its record is read. */
export interface LiveClient {
  conversation: string;
  startedAt: number;
  /** Since when it rests; null if it does not. */
  idleSince: number | null;
}

/** Reads turns from the lines of one conversation's record, in order. */
export interface TurnLines {
  /** The events that this line brings. */
  take(line: string): TurnEvent[];
  /** When the turn began that has not ended yet; null if there is none. */
  readonly since: number | null;
  /** The turns that were begun and have not ended, by id. */
  readonly open: string[];
  /** The model has said all, though the client has not yet said that the turn is over. */
  readonly isSaid: boolean;
  /** Ends the open turn. */
  close(how: 'interrupted' | 'failed' | 'done', at: number): TurnEvent[];
}

/** How a client records a conversation: in which file, and how its lines are read. */
export interface RecordFormat {
  pathOf(conversation: string): string | null;
  reader(): TurnLines;
}

/** A place in the record of a conversation. Where a turn is open it is the beginning of that turn, and says what was reported of it. */
interface Place {
  conversation: string;
  offset: number;
  reported: string[];
  /** What was said before this is not new in a record that is read from its beginning. */
  after: number;
}

/** What a client wrote down of one session: the record of its conversation, one JSON object per line, and that of the one which its user went on to. */
export class TurnRecord {
  #reading: Reading | null = null;
  #read: RecordPlace | null = null;

  constructor(readonly format: RecordFormat) {}

  /** The end of a conversation. Of none: what comes first after this moment is new. */
  place(conversation: string | null): RecordPlace {
    const path = conversation === null ? null : this.format.pathOf(conversation);
    const offset = path === null ? 0 : endOfLines(path);
    return written({ conversation: conversation ?? '', offset, reported: [], after: Date.now() - LATE_MS });
  }

  /** What is new since a place. `live` is null if the client does not run. */
  events(since: RecordPlace, live: LiveClient | null): { events: TurnEvent[]; next: RecordPlace } {
    let reading = this.#reading && this.#read === since ? this.#reading : new Reading(this.format, placeIn(since));
    const events = reading.take();
    if (live && live.conversation !== reading.conversation) {
      events.push(...reading.end(live.startedAt > (reading.since ?? 0) ? 'failed' : 'interrupted'));
      const { after } = reading.place();
      reading = new Reading(this.format, { conversation: live.conversation, offset: 0, reported: [], after });
      events.push(...reading.take());
    }
    events.push(...reading.settle(live));
    this.#reading = reading;
    const place = reading.place();
    // Only its time has moved on.
    this.#read = isSame(place, placeIn(since)) ? since : written(place);
    return { events, next: this.#read };
  }

  /**
   * Whether a turn has begun, as far as somebody follows this conversation, since the client last said that it rests. On a machine with too
   * much to do its registry sleeps through whole turns.
   */
  isInTurn({ conversation, startedAt, idleSince }: LiveClient): boolean {
    if (this.#reading?.conversation !== conversation) return false;
    this.#reading.look();
    const { since } = this.#reading;
    return since !== null && since >= startedAt && since > (idleSince ?? 0) && Date.now() - since < SLEEP_MS;
  }

  /** The folder of the record that was read last. */
  get folder(): string | null {
    const path = this.#reading?.path;
    return path ? path.slice(0, path.lastIndexOf('/')) : null;
  }
}

/** One record, being read. */
class Reading {
  readonly conversation: string;
  readonly #turns: TurnLines;
  readonly #reported: Set<string>;
  readonly #old = new Set<string>();
  #after: number;
  #offset: number;
  #turnFrom = 0;
  #events: TurnEvent[] = [];
  #path: string | null = null;

  constructor(
    readonly format: RecordFormat,
    place: Place,
  ) {
    this.#turns = format.reader();
    this.conversation = place.conversation;
    this.#offset = place.offset;
    this.#reported = new Set(place.reported);
    this.#after = place.after;
  }

  get path(): string | null {
    return (this.#path ??= this.format.pathOf(this.conversation));
  }

  /** When the turn began that has not ended yet. */
  get since(): number | null {
    return this.#turns.since;
  }

  /** Reads on. What it finds is taken later. */
  look(): void {
    const isFromStart = this.#offset === 0;
    for (const line of this.path ? linesFrom(this.path, this.#offset) : []) {
      const [before] = this.#turns.open;
      const events = this.#turns.take(line.text);
      if (this.#turns.open[0] !== before) this.#turnFrom = line.from;
      this.#events.push(...events.filter((event) => this.#isNew(event, isFromStart)));
      this.#offset = line.to;
    }
  }

  take(): TurnEvent[] {
    this.look();
    return this.#events.splice(0);
  }

  end(how: 'interrupted' | 'failed' | 'done'): TurnEvent[] {
    return this.#turns.close(how, Date.now()).filter(({ turn }) => !this.#old.has(turn));
  }

  /** Ends a turn of which the client will write nothing more: it has ended itself, or it rests. */
  settle(live: LiveClient | null): TurnEvent[] {
    const { since } = this;
    if (since === null) return [];
    if (!live || live.startedAt > since) return this.end('failed');
    const { idleSince } = live;
    if (idleSince === null || idleSince < since) return [];
    const writtenAt = (this.path && statSync(this.path, { throwIfNoEntry: false })?.mtimeMs) || 0;
    if (Date.now() - Math.max(idleSince, writtenAt) < REST_MS) return [];
    return this.end(this.#turns.isSaid ? 'done' : 'interrupted');
  }

  place(): Place {
    const { conversation } = this;
    const { open } = this.#turns;
    if (open.length > 0) return { conversation, offset: this.#turnFrom, reported: open, after: this.#after };
    if (this.#offset > 0) this.#after = Date.now() - LATE_MS;
    return { conversation, offset: this.#offset, reported: [], after: this.#after };
  }

  #isNew(event: TurnEvent, isFromStart: boolean): boolean {
    if (event.kind === 'prompt' && isFromStart && event.at < this.#after) this.#old.add(event.turn);
    if (this.#old.has(event.turn)) return false;
    return event.kind === 'end' || !this.#reported.delete(event.turn);
  }
}

function written({ conversation, offset, reported, after }: Place): RecordPlace {
  return JSON.stringify({ c: conversation, o: offset, ...(reported.length > 0 && { r: reported }), t: after });
}

function isSame(a: Place, b: Place): boolean {
  return a.conversation === b.conversation && a.offset === b.offset && a.reported.join() === b.reported.join();
}

/** A place that cannot be read is this moment. */
function placeIn(place: RecordPlace): Place {
  try {
    const { c = '', o = 0, r = [], t = 0 } = JSON.parse(place) as { c?: string; o?: number; r?: string[]; t?: number };
    return { conversation: c, offset: o, reported: r, after: t };
  } catch {
    return { conversation: '', offset: 0, reported: [], after: Date.now() - LATE_MS };
  }
}
