import { FFIType, ptr } from 'bun:ffi';
import { once, openLibc } from './libc.ts';

/** Larger than the settings of a terminal on any system here. */
const TERMIOS_BYTES = 256;
/** At once: what is typed and drawn meanwhile is kept. */
const TCSANOW = 0;

const calls = once(() =>
  openLibc({
    tcgetattr: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    tcsetattr: { args: [FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    cfmakeraw: { args: [FFIType.ptr], returns: FFIType.void },
  }),
);

/**
 * The settings of the terminal behind a file, as they were when this was made. The raw mode of the runtime still turns `\n` into `\r\n` on
 * the way out; this one changes no byte in either direction.
 */
export class TtyMode {
  readonly #saved = new Uint8Array(TERMIOS_BYTES);
  readonly #raw: Uint8Array;

  constructor(readonly fd: number) {
    if (calls().tcgetattr(fd, ptr(this.#saved)) !== 0) throw new Error(`file ${fd} is no terminal`);
    this.#raw = this.#saved.slice();
    calls().cfmakeraw(ptr(this.#raw));
  }

  /** From now on every byte goes through as it is, also Ctrl-C and Ctrl-Z. */
  raw(): void {
    calls().tcsetattr(this.fd, TCSANOW, ptr(this.#raw));
  }

  restore(): void {
    calls().tcsetattr(this.fd, TCSANOW, ptr(this.#saved));
  }
}
