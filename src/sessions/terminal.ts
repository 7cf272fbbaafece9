import { Refusal } from '../core/refusal.ts';

/** What a terminal's screen shows. */
export interface Screen {
  lines: readonly string[];
  cursor: { row: number; column: number };
  /** The same lines with what is drawn faint left out: placeholders and hints are drawn so, and what a person typed is not. */
  bright: readonly string[];
}

/** A terminal in which a client runs: a pane of tmux, a PTY that we own, or the master of one that another program owns. */
export interface Terminal {
  /** In words that a person can check: `tmux work:0.1`, `pty 4711`. */
  readonly name: string;
  /** Its device, `/dev/pts/3`: says which processes run in it, and keeps two writers apart. Null where nobody knows. */
  readonly tty: string | null;
  /** Null if the terminal is gone. */
  screen(): Promise<Screen | null>;
  /** Puts a text in as one bracketed paste, byte for byte, or throws and has put in nothing; if it has, it throws HalfTyped. */
  paste(text: string): Promise<void>;
  /** One Enter, by itself. */
  enter(): Promise<void>;
  /** One Ctrl-U, by itself: takes back a typed line, and answers no question. */
  erase(): Promise<void>;
  close(): Promise<void>;
}

/** Part of a text went in, and the rest could not follow. */
export class HalfTyped extends Error {
  override readonly name = 'HalfTyped';
}

/**
 * What a screen says of the place where a user types. `busy`: the client shows that it works. `dialog`: something is asked, and Enter
 * would answer. `unknown`: no composer is seen, so another program may run there.
 */
export type Composer = 'empty' | 'draft' | 'busy' | 'dialog' | 'unknown';

/** One client's screen, read. It can only forbid: that a client is idle is said by the client itself (client-state.ts). */
export type ReadComposer = (screen: Screen) => Composer;

/** For a terminal whose screen nobody can read, and only for those who asked for that: the client's state must do alone. */
export const unseen: ReadComposer = () => 'empty';

/** More than this is not typed into a terminal. */
export const PASTE_LIMIT = 4 * 1024 * 1024;

// oxlint-disable-next-line no-control-regex -- these are what must not get through.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

/**
 * Refuses a text that could leave its brackets: an escape sequence ends a paste, a carriage return is an Enter, and a NUL or Ctrl-C
 * is a key. A terminal cannot quote them, so they do not go in. The caller makes them visible first.
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
