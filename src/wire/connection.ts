import { FRAME_LIMIT } from './jsonrpc.ts';
import { readLines } from './lines.ts';
import type { LineHandler } from './lines.ts';

/** Bytes kept for a reader that does not read. Beyond that it is cut; it comes back for what it did not acknowledge. spec: host#limits */
export const OUTGOING_LIMIT = 16 * 1024 * 1024;

const encoder = new TextEncoder();

/** The way back to a caller, whatever carries it. */
export interface Connection {
  /** Sends one frame. False if the caller reads so little that nothing more is kept for it. */
  write(frame: string): boolean;
  /** Ends the connection after everything written has gone. */
  close(why: string): void | Promise<void>;
  /** Ends it now and drops what was written. */
  cut(): void;
  /** Bytes that were written and that the system has not taken yet, where the transport knows. */
  waiting?(): number;
}

/** What a server does with one caller. */
export interface Receiver extends LineHandler {
  receive(frame: string | Uint8Array): void;
  /** Returns when everything asked so far is done and answered. */
  idle(): Promise<void>;
  /** The caller is gone. */
  ended(): Promise<void>;
}

/** Lets a caller in; null if there is no room, or the server is stopping. */
export type Accept = (connection: Connection) => Receiver | null;

export interface Listening {
  address: string;
  close(): void;
}

/** Lines on their way over something that takes bytes when it can. `write` returns how many it took. */
export class WriteQueue {
  #queue: Uint8Array[] = [];
  #size = 0;
  #onEmpty: (() => void) | undefined;

  constructor(readonly write: (bytes: Uint8Array) => number) {}

  get size(): number {
    return this.#size;
  }

  /** One frame, one line, one write. False if too much waits already. */
  push(frame: string): boolean {
    if (this.#size > OUTGOING_LIMIT) return false;
    const bytes = encoder.encode(`${frame}\n`);
    this.#queue.push(bytes);
    this.#size += bytes.length;
    // With more in the queue it is known to be full.
    if (this.#queue.length === 1) this.drain();
    return true;
  }

  /** It may take more now. */
  drain(): void {
    for (let first = this.#queue[0]; first; first = this.#queue[0]) {
      const taken = Math.max(0, this.write(first));
      this.#size -= taken;
      if (taken < first.length) {
        this.#queue[0] = first.subarray(taken);
        return;
      }
      this.#queue.shift();
    }
    this.#onEmpty?.();
    this.#onEmpty = undefined;
  }

  /** Calls back once everything is gone. */
  whenEmpty(act: () => void): void {
    if (this.#queue.length === 0) act();
    else this.#onEmpty = act;
  }
}

/**
 * Serves one caller on a pair of pipes: the process that started us, which is all the proof it needs. Returns when it has closed its
 * end, or was cut, and everything it asked for is done and answered. `write` returns when the parent has taken the bytes.
 * spec: host#stdio
 */
export async function serveStdio(
  accept: Accept,
  input: AsyncIterable<Uint8Array>,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const over = Promise.withResolvers<void>();
  let waiting = 0;
  let written: Promise<void> = Promise.resolve();
  const receiver = accept({
    write(frame) {
      if (waiting > OUTGOING_LIMIT) return false;
      const bytes = encoder.encode(`${frame}\n`);
      waiting += bytes.length;
      written = written
        .then(() => write(bytes))
        .then(() => void (waiting -= bytes.length))
        // The parent is gone.
        .catch(() => over.resolve());
      return true;
    },
    close: () => written.then(() => over.resolve()),
    cut: () => over.resolve(),
  });
  if (!receiver) return;
  const reading = async (): Promise<void> => {
    await readLines(input, FRAME_LIMIT, receiver);
    // A parent that has closed its end may still read ours.
    await receiver.idle();
    await written;
  };
  await Promise.race([reading(), over.promise]);
  await receiver.ended();
}
