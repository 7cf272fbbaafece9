import type { MessageId } from '../core/names.ts';
import type { Terminal } from '../sessions/terminal.ts';
import type { Attempt, Parcel, Way } from '../core/ports/way-in.ts';

/** The first and the longest pause before a wake that failed is tried again. */
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 2000;

/** The mail that a session was woken for, and when (Unix ms). Kept outside the loop, so that it survives its death. */
export interface Woken {
  ids: readonly MessageId[];
  at: number;
}

export interface WakeNotes {
  read(): Woken;
  /** After it returns, the note survives this process. A crash of the machine may lose it, but that ends the clients, too. */
  write(woken: Woken): void;
}

/** Loud mail that waits for a session which may be disturbed. `againMs`: when to look again although no mail came. */
export interface Waits {
  ids: readonly MessageId[];
  againMs: number | null;
}

export interface WakeParts {
  /** The text that wakes this client. It says that mail waits, and no word of that mail. */
  sentinel: string;
  terminal: Terminal;
  /**
   * Makes the way that types into this terminal, if the client is idle and its composer empty. A way that does not type calls `note` before
   * it tries.
   */
  typing: (terminal: Terminal, note: () => void) => Way;
  waits: () => Promise<Waits>;
  notes: WakeNotes;
  /** The least time between two wakes. The first wake after a quiet time is immediate. */
  gapMs: number;
  now: () => number;
  /** Called with the mail that the session was woken for. */
  onWoken: (ids: readonly MessageId[], terminal: string) => Promise<void>;
  onLeft: (because: string) => void;
}

/**
 * Way 6: tells an idle session that mail waits, without its text. spec: c2c#wake
 *
 * no new mail → mail waits that the session was not woken for → (gap over, client idle) noted in a file → typed.
 *
 * The wake stays due until its text was typed and entered: a busy client, a dialog or a draft only delays it. The note is written before the
 * text is typed, so that a loop which dies in between does not wake the session twice for the same mail. The mail waits in any case.
 */
export class Waker {
  readonly #way: Way;
  #leftInARow = 0;
  /** The last reason that was reported to `onLeft`. */
  #reported: string | null = null;
  #noted: Woken | null = null;

  constructor(readonly parts: WakeParts) {
    this.#way = parts.typing(this.#notingBeforePaste(parts.terminal), () => this.#note());
  }

  /** Wakes the session if it is time. Returns after how many ms to call it again; null: when mail comes. */
  async look(signal: AbortSignal): Promise<number | null> {
    const { waits, notes, now, gapMs, sentinel, onWoken, onLeft } = this.parts;
    const { ids, againMs } = await waits();
    const woken = notes.read();
    const known = new Set(woken.ids);
    if (ids.every((id) => known.has(id))) {
      this.#resetFailures();
      return againMs;
    }
    const early = woken.at + gapMs - now();
    // A clock that was set back must not delay a wake for longer than the gap.
    if (early > 0 && early <= gapMs) return early;
    this.#noted = { ids, at: now() };
    const said = await this.#way.attempt([parcel(sentinel)], signal);
    this.#noted = null;
    const not = notWoken(said);
    if (!not) {
      this.#resetFailures();
      await onWoken(
        ids.filter((id) => !known.has(id)),
        this.parts.terminal.name,
      );
      return againMs;
    }
    if (not.because !== this.#reported) onLeft(not.because);
    this.#reported = not.because;
    // The typed text may have woken the session. So the note stays, and the session is not woken twice for the same mail.
    if (!not.again && said.outcome !== 'left') return againMs;
    if (notes.read().at !== woken.at) notes.write(woken);
    this.#leftInARow += 1;
    return not.again ? Math.min(FIRST_RETRY_MS * 2 ** (this.#leftInARow - 1), LONGEST_RETRY_MS) : againMs;
  }

  #resetFailures(): void {
    this.#leftInARow = 0;
    this.#reported = null;
  }

  #note(): void {
    if (this.#noted) this.parts.notes.write(this.#noted);
  }

  /** The same terminal, but it writes the note before each paste. */
  #notingBeforePaste(terminal: Terminal): Terminal {
    return {
      name: terminal.name,
      // Read each time: a pane may have another device after a restart.
      get tty() {
        return terminal.tty;
      },
      screen: () => terminal.screen(),
      paste: async (text) => {
        this.#note();
        await terminal.paste(text);
      },
      enter: () => terminal.enter(),
      erase: () => terminal.erase(),
      close: () => terminal.close(),
    };
  }
}

/**
 * Why the session was not woken, and whether that is tried again; null if it was woken. A text without its Enter wakes no session: it stays
 * in the composer as a draft.
 */
function notWoken(said: Attempt): { because: string; again: boolean } | null {
  if (said.outcome === 'left') return { because: said.because, again: said.retry };
  const { entered, because, again } = said.evidence;
  return entered === false || entered === 'unknown' ? { because: String(because), again: again === true } : null;
}

export interface HeartParts {
  /** The text to type, for the number of messages that wait. */
  text: (waiting: number) => string;
  way: Way;
  intervalMs: number;
  waiting: () => Promise<number>;
  now: () => number;
}

/** Types a heartbeat at an interval, if the session is idle then. A beat that is due while the session works is left out. spec: c2c#heartbeat */
export class Heart {
  #next: number;

  constructor(readonly parts: HeartParts) {
    this.#next = parts.now() + parts.intervalMs;
  }

  /** Types a beat if one is due. Returns after how many ms the next one is. */
  async look(signal: AbortSignal): Promise<number> {
    const { now, intervalMs, way, text, waiting } = this.parts;
    if (now() >= this.#next) {
      await way.attempt([parcel(text(await waiting()))], signal);
      this.#next = now() + intervalMs;
    }
    return Math.max(1, this.#next - now());
  }
}

/** A parcel for a text that is not a message, with an id of its own. */
function parcel(text: string): Parcel {
  return { id: crypto.randomUUID() as MessageId, text };
}
