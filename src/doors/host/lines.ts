const LF = 0x0a;

/** A frame, or word that one was too long to be kept. */
export type Line = { bytes: Uint8Array } | { tooLong: true };

/**
 * Cuts a stream of bytes into frames. LF only: U+2028 is legal inside JSON, and a byte 0x0a never stands inside a character.
 * Of a line that is too long nothing is kept, and the next line is read again. spec: host#frames
 */
export class Lines {
  #pieces: Uint8Array[] = [];
  #size = 0;
  #isTooLong = false;

  constructor(readonly limit: number) {}

  /** Every line that this piece completes. Empty ones are nobody's. */
  *push(chunk: Uint8Array): Generator<Line> {
    let from = 0;
    for (let at = chunk.indexOf(LF); at !== -1; at = chunk.indexOf(LF, from)) {
      this.#keep(chunk.subarray(from, at));
      from = at + 1;
      const line = this.#line();
      if (line) yield line;
    }
    this.#keep(chunk.subarray(from));
  }

  /** What stands after the last end of a line. */
  *end(): Generator<Line> {
    const line = this.#line();
    if (line) yield line;
  }

  #keep(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#size += piece.length;
    if (this.#size > this.limit) {
      this.#isTooLong = true;
      this.#pieces = [];
      return;
    }
    // The transport may use its buffer again.
    this.#pieces.push(piece.slice());
  }

  #line(): Line | null {
    const [only, ...others] = this.#pieces;
    const isTooLong = this.#isTooLong;
    const bytes = others.length > 0 ? Buffer.concat(this.#pieces) : only;
    this.#pieces = [];
    this.#size = 0;
    this.#isTooLong = false;
    if (isTooLong) return { tooLong: true };
    return bytes && !isBlank(bytes) ? { bytes } : null;
  }
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}
