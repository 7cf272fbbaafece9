import type { MessageId } from '../core/names.ts';
import type { Terminal } from '../sessions/terminal.ts';
import type { Attempt, Parcel, Way } from '../core/ports/way-in.ts';

/** How soon the client is asked again whether it is idle, while something waits that it was not woken for. */
const SIGN_FIRST_MS = 250;
const SIGN_LONGEST_MS = 2000;

/** What a session was woken for, and when (ms). Kept where the death of a loop does not reach. */
export interface Woken {
  ids: readonly MessageId[];
  at: number;
}

export interface WakeNotes {
  read(): Woken;
  /**
   * Survives this process as soon as it returns. A crash of the machine may lose it: the clients are gone then, too.
   */
  write(woken: Woken): void;
}

/** Loud mail that waits for a session that may be disturbed. `againMs`: when to look although nothing came. */
export interface Waits {
  ids: readonly MessageId[];
  againMs: number | null;
}

export interface WakeParts {
  /** The text that wakes this client: it says that mail waits, and nothing of it. */
  sentinel: string;
  terminal: Terminal;
  /** How something is typed there: only into an idle client with an empty composer. `note`: for a way that does not type. */
  typing: (terminal: Terminal, note: () => void) => Way;
  waits: () => Promise<Waits>;
  notes: WakeNotes;
  /** The first wake after a quiet time is immediate; between two of them lies at least this. */
  gapMs: number;
  now: () => number;
  /** Hears for which mail the session was woken. */
  onWoken: (ids: readonly MessageId[], terminal: string) => Promise<void>;
  onLeft: (because: string) => void;
}

/**
 * Way 6: tells an idle session that mail waits, without its text. spec: c2c#wake
 *
 * nothing new → something waits that it was not woken for → (gap over, client idle) noted in a file → typed.
 *
 * The wish stays until it was typed and entered: a busy client, a dialog or a draft only put it off. The note comes before the typing, so that a
 * loop that dies in between does not wake a second time for the same mail; the mail itself waits in any case.
 */
export class Waker {
  readonly #way: Way;
  #leftInARow = 0;
  /** The last reason that was told. */
  #told: string | null = null;
  #noted: Woken | null = null;

  constructor(readonly parts: WakeParts) {
    this.#way = parts.typing(this.#noting(parts.terminal), () => this.#note());
  }

  /** Looks once, wakes if it is time, and answers after how many ms to look again; null: when something comes. */
  async look(signal: AbortSignal): Promise<number | null> {
    const { waits, notes, now, gapMs, sentinel, onWoken, onLeft } = this.parts;
    const { ids, againMs } = await waits();
    const woken = notes.read();
    const known = new Set(woken.ids);
    if (ids.every((id) => known.has(id))) {
      this.#calm();
      return againMs;
    }
    const early = woken.at + gapMs - now();
    // A clock that was set back must not keep a session asleep.
    if (early > 0 && early <= gapMs) return early;
    this.#noted = { ids, at: now() };
    const said = await this.#way.attempt([parcel(sentinel)], signal);
    this.#noted = null;
    const not = notWoken(said);
    if (!not) {
      this.#calm();
      await onWoken(
        ids.filter((id) => !known.has(id)),
        this.parts.terminal.name,
      );
      return againMs;
    }
    if (not.because !== this.#told) onLeft(not.because);
    this.#told = not.because;
    // What was typed may have woken it: the note stays, and it is never woken twice for the same mail.
    if (!not.again && said.outcome !== 'left') return againMs;
    if (notes.read().at !== woken.at) notes.write(woken);
    this.#leftInARow += 1;
    return not.again ? Math.min(SIGN_FIRST_MS * 2 ** (this.#leftInARow - 1), SIGN_LONGEST_MS) : againMs;
  }

  #calm(): void {
    this.#leftInARow = 0;
    this.#told = null;
  }

  #note(): void {
    if (this.#noted) this.parts.notes.write(this.#noted);
  }

  /** The same terminal, with a note before each paste. */
  #noting(terminal: Terminal): Terminal {
    return {
      name: terminal.name,
      // A pane learns its device at each look.
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
 * Why nobody was woken, if so, and whether it is tried again. A text without its Enter wakes nobody: where the screen shows it, it is a
 * draft until a person has done something with it.
 */
function notWoken(said: Attempt): { because: string; again: boolean } | null {
  if (said.outcome === 'left') return { because: said.because, again: said.retry };
  const { entered, because, again } = said.evidence;
  return entered === false || entered === 'unknown' ? { because: String(because), again: again === true } : null;
}

export interface HeartParts {
  /** What is typed while so many messages wait. */
  text: (waiting: number) => string;
  way: Way;
  intervalMs: number;
  waiting: () => Promise<number>;
  now: () => number;
}

/** A sign of life at an interval, typed only into an idle session. A beat that finds it at work is left out. spec: c2c#heartbeat */
export class Heart {
  #next: number;

  constructor(readonly parts: HeartParts) {
    this.#next = parts.now() + parts.intervalMs;
  }

  /** Beats if it is time; answers after how many ms the next beat is due. */
  async look(signal: AbortSignal): Promise<number> {
    const { now, intervalMs, way, text, waiting } = this.parts;
    if (now() >= this.#next) {
      await way.attempt([parcel(text(await waiting()))], signal);
      this.#next = now() + intervalMs;
    }
    return Math.max(1, this.#next - now());
  }
}

/** What is typed here is no message: the id is only this parcel's. */
function parcel(text: string): Parcel {
  return { id: crypto.randomUUID() as MessageId, text };
}
