const LF = 0x0a;
const decoder = new TextDecoder('utf-8', { fatal: true });

export interface LineHandler {
  /** Gets one line, without its line end. Blank lines are skipped. */
  receive(bytes: Uint8Array): void;
  /** Called once when a line is longer than the limit, as soon as that is known. The line is dropped. */
  tooLong(): void;
}

/**
 * Cuts a stream of bytes into lines, wherever its chunks begin and end. LF only: readline also splits on U+2028, which is legal
 * inside JSON. A byte 0x0a is never inside a UTF-8 character, so no character is cut.
 */
export class LineReader {
  #pieces: Uint8Array[] = [];
  #size = 0;

  constructor(
    readonly limit: number,
    readonly handler: LineHandler,
  ) {}

  push(chunk: Uint8Array): void {
    let from = 0;
    for (let at = chunk.indexOf(LF); at !== -1; at = chunk.indexOf(LF, from)) {
      this.#keep(chunk.subarray(from, at));
      this.end();
      from = at + 1;
    }
    this.#keep(chunk.subarray(from));
  }

  /** The stream has ended: the text after the last LF is a line too. */
  end(): void {
    const [only = new Uint8Array(), ...others] = this.#pieces;
    const bytes = others.length > 0 ? Buffer.concat(this.#pieces) : only;
    this.#pieces = [];
    this.#size = 0;
    if (!bytes.every(isSpace)) this.handler.receive(bytes);
  }

  #keep(piece: Uint8Array): void {
    const before = this.#size;
    this.#size += piece.length;
    if (this.#size <= this.limit) {
      // A copy: the transport may reuse its buffer.
      if (piece.length > 0) this.#pieces.push(piece.slice());
      return;
    }
    this.#pieces = [];
    if (before <= this.limit) this.handler.tooLong();
  }
}

/** Reads a stream to its end, line by line. */
export async function readLines(input: AsyncIterable<Uint8Array>, limit: number, handler: LineHandler): Promise<void> {
  const lines = new LineReader(limit, handler);
  for await (const chunk of input) lines.push(chunk);
  lines.end();
}

/** The text of a line; null if it is not UTF-8. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}
