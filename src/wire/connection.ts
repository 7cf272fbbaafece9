import { FRAME_LIMIT } from './jsonrpc.ts';
import { readLines } from './lines.ts';
import type { LineHandler } from './lines.ts';

/** The most bytes kept for a slow reader. Beyond that it is cut; it can connect again for what it did not acknowledge. spec: host#limits */
export const OUTGOING_LIMIT = 16 * 1024 * 1024;

const encoder = new TextEncoder();

/** Our side of a connection to a caller, over any transport. */
export interface Connection {
  /** Sends one frame. False if too many bytes wait for the caller already. */
  write(frame: string): boolean;
  /** Ends the connection after everything written was sent. */
  close(why: string): void | Promise<void>;
  /** Ends the connection now and drops unsent bytes. */
  cut(): void;
  /** The number of unsent bytes, if the transport knows it. */
  waiting?(): number;
}

/** What a server does with one caller. */
export interface Receiver extends LineHandler {
  receive(frame: string | Uint8Array): void;
  /** Returns when every request so far is answered. */
  idle(): Promise<void>;
  /** The caller is gone. */
  ended(): Promise<void>;
}

/** Accepts a caller; null if there is no room or the server is stopping. */
export type Accept = (connection: Connection) => Receiver | null;

export interface Listening {
  address: string;
  close(): void;
}

/** A queue of lines for a transport that takes bytes when it can. `write` returns how many it took. */
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
    // If more is queued, the transport is known to be full.
    if (this.#queue.length === 1) this.drain();
    return true;
  }

  /** Writes as much as the transport takes now. */
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

  /** Calls back once everything was sent. */
  whenEmpty(act: () => void): void {
    if (this.#queue.length === 0) act();
    else this.#onEmpty = act;
  }
}

/**
 * Serves the process that started us on a pair of pipes; it needs no other proof. Returns when the process has closed its end or was cut,
 * and all its requests are answered. `write` returns when the process has taken the bytes. spec: host#stdio
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
    // A parent that has closed its end may still read our answers.
    await receiver.idle();
    await written;
  };
  await Promise.race([reading(), over.promise]);
  await receiver.ended();
}
