import { fstatSync, writeSync } from 'node:fs';
import { codeOf, PartlyShown } from '../core/disk.ts';
import { libc } from './libc.ts';

/** What a pipe takes at once even if nobody reads: up to here a write cannot block. */
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

/** True if writing this much could wait for a slow reader: a file never does, a terminal may always (Ctrl-S). */
export function isSlow(fd: number, text: string): boolean {
  const stat = fstatSync(fd);
  return !stat.isFile() && !(stat.isFIFO() && Buffer.byteLength(text) <= PIPE_BYTES);
}

/** Importing node:tty, which knows the same, costs 4 ms at every start. */
export function isTerminal(fd: number): boolean {
  return libc().isatty(fd) === 1;
}

/** How many columns the window has now; 80 where nobody knows. */
export function columns(): number {
  return (isTerminal(1) && process.stdout.getWindowSize()[0]) || 80;
}

/** A text in lines that are no longer than this, broken between words. A line that fits stays as it is. */
export function wrapped(text: string, width: number): string[] {
  return Bun.stringWidth(text) <= width
    ? [text]
    : Bun.wrapAnsi(text, width, { wordWrap: true, trim: true }).split('\n');
}

/** Colour is for people at a terminal only. */
export function hasColour(env: Record<string, string | undefined>): boolean {
  return isTerminal(1) && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
}

/** The few styles that our words for people use. Without colour they change nothing. */
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
