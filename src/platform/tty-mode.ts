import { FFIType, ptr } from 'bun:ffi';
import { once, openLibc } from './libc.ts';

/** Larger than `struct termios` on Linux and macOS. */
const TERMIOS_BYTES = 256;
/** Apply the settings at once; pending input and output are kept. */
const TCSANOW = 0;

const calls = once(() =>
  openLibc({
    tcgetattr: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    tcsetattr: { args: [FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    cfmakeraw: { args: [FFIType.ptr], returns: FFIType.void },
  }),
);

/**
 * Switches a terminal to raw mode, and back to its settings at the time of the constructor. Bun's own raw mode still turns `\n` into
 * `\r\n` in the output; this one changes no byte in either direction.
 */
export class TtyMode {
  readonly #saved = new Uint8Array(TERMIOS_BYTES);
  readonly #raw: Uint8Array;

  constructor(readonly fd: number) {
    if (calls().tcgetattr(fd, ptr(this.#saved)) !== 0) throw new Error(`file descriptor ${fd} is not a terminal`);
    this.#raw = this.#saved.slice();
    calls().cfmakeraw(ptr(this.#raw));
  }

  /** From now on the terminal passes every byte unchanged, Ctrl-C and Ctrl-Z included. */
  raw(): void {
    calls().tcsetattr(this.fd, TCSANOW, ptr(this.#raw));
  }

  restore(): void {
    calls().tcsetattr(this.fd, TCSANOW, ptr(this.#saved));
  }
}
