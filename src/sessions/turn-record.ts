import { statSync } from 'node:fs';
import type { RecordPlace, TurnEvent } from '../core/ports/session.ts';
import { endOfLines, linesFrom } from './follow.ts';

/**
 * An idle client writes the end of its turn within about 100 ms. If it is idle for longer than this and wrote no end, the turn was
 * interrupted before its first word.
 */
const REST_MS = 1000;
/** An entry is written at most this long after the time that it names. */
const LATE_MS = 5000;

/** How long an open turn counts although the client's registry calls it idle, ms. */
const SLEEP_MS = 60_000;

/** The client's own state, read just before its record. */
export interface LiveClient {
  conversation: string;
  startedAt: number;
  /** Since when it is idle; null if it is not. */
  idleSince: number | null;
}

/** Reads turns from the lines of one conversation's record, in order. */
export interface TurnLines {
  /** Reads the next line, and returns the events in it. */
  take(line: string): TurnEvent[];
  /** When the open turn began; null if none is open. */
  readonly since: number | null;
  /** The ids of the open turns. */
  readonly open: string[];
  /** The model's answer is complete, but the client has not recorded the end of the turn. */
  readonly isSaid: boolean;
  /** Ends the open turn. */
  close(how: 'interrupted' | 'failed' | 'done', at: number): TurnEvent[];
}

/** How a client records a conversation: the file, and a reader of its lines. */
export interface RecordFormat {
  pathOf(conversation: string): string | null;
  reader(): TurnLines;
}

/** A place in the record of a conversation. While a turn is open, the place stays at the beginning of that turn. */
interface Place {
  conversation: string;
  offset: number;
  /** The ids of the open turns whose prompts were reported already. */
  reported: string[];
  /** In a record that is read from its beginning, prompts before this time (Unix ms) are not new. */
  after: number;
}

/** The events of one session, from the record of its conversation: one JSON object per line. Follows the user to another conversation. */
export class TurnRecord {
  #reading: Reading | null = null;
  #read: RecordPlace | null = null;

  constructor(readonly format: RecordFormat) {}

  /** The place at the end of a conversation. Without a conversation, everything recorded after this moment is new. */
  place(conversation: string | null): RecordPlace {
    const path = conversation === null ? null : this.format.pathOf(conversation);
    const offset = path === null ? 0 : endOfLines(path);
    return written({ conversation: conversation ?? '', offset, reported: [], after: Date.now() - LATE_MS });
  }

  /** The events since a place, and the next place. `live` is null if the client does not run. */
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
    // If only the time has changed, the stored place need not change.
    this.#read = isSame(place, placeIn(since)) ? since : written(place);
    return { events, next: this.#read };
  }

  /**
   * Whether the record has an open turn that began after the client last reported that it is idle. On a busy machine its registry can miss
   * whole turns. False if this conversation is not being read.
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

/** Reads one record. */
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

  /** When the open turn began; null if none is open. */
  get since(): number | null {
    return this.#turns.since;
  }

  /** Reads the new lines. Their events wait for `take`. */
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

  /** Ends a turn of which the client will write nothing more, because the client has ended or is idle. */
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

/** Parses a stored place. If it cannot be parsed, everything from this moment on is new. */
function placeIn(place: RecordPlace): Place {
  try {
    const { c = '', o = 0, r = [], t = 0 } = JSON.parse(place) as { c?: string; o?: number; r?: string[]; t?: number };
    return { conversation: c, offset: o, reported: r, after: t };
  } catch {
    return { conversation: '', offset: 0, reported: [], after: Date.now() - LATE_MS };
  }
}
