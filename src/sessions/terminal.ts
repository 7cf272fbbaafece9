/** What stands on a terminal's screen. */
export interface Screen {
  lines: readonly string[];
  cursor: { row: number; column: number };
  /** The same lines with what is drawn faint left out: placeholders and hints are drawn so, and what a person typed is not. */
  bright: readonly string[];
}

/** A terminal in which a client runs: a pane of tmux, a PTY that we own, or the master of one that somebody else owns. */
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
