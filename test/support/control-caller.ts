import { connect } from 'node:net';
import type { Socket } from 'node:net';

/** A server that says nothing for so long does not answer any more. */
const ANSWER_MS = 120_000;

export type Line = Record<string, unknown> & { ok?: boolean; error?: string };

/** A program that opens `~/.ccc.sock` and writes lines, as the document says. */
export class ControlCaller {
  readonly chunks: Buffer[] = [];
  #seen = 0;
  #arrived = Promise.withResolvers<void>();
  isClosed = false;

  private constructor(readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.chunks.push(chunk);
      this.#arrived.resolve();
    });
    const close = (): void => {
      this.isClosed = true;
      this.#arrived.resolve();
    };
    socket.on('end', close);
    socket.on('close', close);
    socket.on('error', () => {});
  }

  static async open(path: string): Promise<ControlCaller> {
    const socket = connect({ path, allowHalfOpen: true });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new ControlCaller(socket);
  }

  write(text: string | Uint8Array): void {
    this.socket.write(text);
  }

  /** Its next line. Throws if the server closed the connection before one. */
  async line(): Promise<Line> {
    for (;;) {
      const text = Buffer.concat(this.chunks).toString();
      const lines = text.split('\n');
      if (lines.length - 1 > this.#seen) return JSON.parse(lines[this.#seen++] ?? '') as Line;
      if (this.isClosed) throw new Error('the server closed the connection');
      await this.#next();
    }
  }

  async ask(request: Record<string, unknown> | string): Promise<Line> {
    this.write(`${typeof request === 'string' ? request : JSON.stringify(request)}\n`);
    return this.line();
  }

  /** The text of everything that came until the server closed the connection. */
  async rest(): Promise<string> {
    while (!this.isClosed) await this.#next();
    return Buffer.concat(this.chunks).toString();
  }

  async #next(): Promise<void> {
    const { promise, reject } = this.#arrived;
    const timer = setTimeout(() => reject(new Error(`nothing came within ${ANSWER_MS / 1000} s`)), ANSWER_MS);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
    }
    this.#arrived = Promise.withResolvers();
  }

  close(): void {
    this.socket.destroy();
  }
}
