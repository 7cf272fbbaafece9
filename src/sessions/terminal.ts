import { Refusal } from '../core/refusal.ts';

/** What a terminal's screen shows. */
export interface Screen {
  lines: readonly string[];
  cursor: { row: number; column: number };
  /** The same lines without faint text: placeholders and hints are faint, typed text is not. */
  bright: readonly string[];
}

/** A terminal in which a client runs: a tmux pane, a PTY that we own, or a PTY whose master another program owns. */
export interface Terminal {
  /** A name that a person can check: `tmux work:0.1`, `pty 4711`. */
  readonly name: string;
  /** Its device, such as `/dev/pts/3`: tells which processes run in it, and lets writers lock each other out. Null if unknown. */
  readonly tty: string | null;
  /** Its screen now; null if the terminal is gone. */
  screen(): Promise<Screen | null>;
  /** Types a text as one bracketed paste, byte for byte. If it throws, nothing was typed, except with HalfTyped. */
  paste(text: string): Promise<void>;
  /** Presses Enter once. */
  enter(): Promise<void>;
  /** Presses Ctrl-U once: erases the typed line, and answers no question. */
  erase(): Promise<void>;
  close(): Promise<void>;
}

/** Part of a text was typed, or may have been, and the rest was not. */
export class HalfTyped extends Error {
  override readonly name = 'HalfTyped';
}

/**
 * The state of the composer, the field where the user types. `busy`: the client shows that it works. `dialog`: a question is open, and Enter
 * would answer it. `unknown`: there is no composer on the screen, so another program may run there.
 */
export type Composer = 'empty' | 'draft' | 'busy' | 'dialog' | 'unknown';

/** Reads the screen of one client. A screen can only forbid typing: only the client itself reports that it is idle (client-state.ts). */
export type ReadComposer = (screen: Screen) => Composer;

/** For a terminal whose screen cannot be read: then only the client's state decides. Use it only where the user asked for that. */
export const unseen: ReadComposer = () => 'empty';

/** The most bytes that are typed into a terminal. */
export const PASTE_LIMIT = 4 * 1024 * 1024;

// oxlint-disable-next-line no-control-regex -- these characters must not be typed.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

/**
 * Refuses a text that a bracketed paste cannot hold: an escape sequence could end the paste, a carriage return is an Enter, and a NUL or
 * Ctrl-C is a key. A terminal cannot quote them, so the caller must replace them with visible text first.
 */
export function pasteable(text: string): void {
  const found = CONTROL.exec(text);
  if (found) {
    const code = (found[0].codePointAt(0) ?? 0).toString(16).padStart(4, '0');
    throw new Refusal('invalid_request', `a text with the control character U+${code} is not typed into a terminal`);
  }
  if (!text.isWellFormed())
    throw new Refusal('invalid_request', 'a text with half a character is not typed into a terminal');
  if (Buffer.byteLength(text) > PASTE_LIMIT)
    throw new Refusal('too_large', `at most ${PASTE_LIMIT} bytes are typed into a terminal`);
}
