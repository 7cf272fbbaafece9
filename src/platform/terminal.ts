import { fstatSync, writeSync } from 'node:fs';
import { codeOf, PartlyShown } from '../core/disk.ts';
import { libc } from './libc.ts';

/** The capacity of a pipe without a reader: a shorter write cannot block. */
const PIPE_BYTES = 64 * 1024;

/** Writes everything, or throws. `process.stdout` costs over 10 ms at start and loses its tail at exit. */
export function writeAll(fd: number, text: string): void {
  const all = new TextEncoder().encode(text);
  let rest = all;
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') {
        throw rest.length === all.length ? error : new PartlyShown(error);
      }
      // A non-blocking pipe is full: wait for its reader.
      Bun.sleepSync(2);
    }
  }
}

/** True if writing this text could wait for a slow reader. A file never waits; a terminal may always wait (Ctrl-S). */
export function isSlow(fd: number, text: string): boolean {
  const stat = fstatSync(fd);
  return !stat.isFile() && !(stat.isFIFO() && Buffer.byteLength(text) <= PIPE_BYTES);
}

/** Not from node:tty: importing it costs 4 ms at every start. */
export function isTerminal(fd: number): boolean {
  return libc().isatty(fd) === 1;
}

/** The width of the terminal window in columns; 80 if it is unknown. */
export function columns(): number {
  return (isTerminal(1) && process.stdout.getWindowSize()[0]) || 80;
}

/** Breaks a text between words into lines of at most this width. A text that fits stays unchanged. */
export function wrapped(text: string, width: number): string[] {
  return Bun.stringWidth(text) <= width
    ? [text]
    : Bun.wrapAnsi(text, width, { wordWrap: true, trim: true }).split('\n');
}

/** True if stdout is a terminal that should get colours. */
export function hasColour(env: Record<string, string | undefined>): boolean {
  return isTerminal(1) && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
}

/** The styles of our texts for people. With `on` false they change nothing. */
export class Paint {
  constructor(readonly on: boolean) {}
  bold = (text: string): string => this.#wrap('1', text);
  dim = (text: string): string => this.#wrap('2', text);
  red = (text: string): string => this.#wrap('31', text);
  green = (text: string): string => this.#wrap('32', text);
  yellow = (text: string): string => this.#wrap('33', text);
  #wrap(code: string, text: string): string {
    return this.on ? `\u001b[${code}m${text}\u001b[0m` : text;
  }
}
