const NEWLINE = 10;

/**
 * Cuts a stream of bytes into lines, wherever its pieces begin and end: a line is only read as text when all of it is there, so
 * no letter is ever cut. A line that is no UTF-8, or longer than the limit, is told by `bad` and left out.
 */
export class ByteLines {
  #parts: Uint8Array[] = [];
  #length = 0;
  #isTooLong = false;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

  constructor(
    readonly limit: number,
    readonly line: (text: string) => void,
    readonly bad: (why: 'too long' | 'no UTF-8') => void,
  ) {}

  take(bytes: Uint8Array): void {
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, from)) {
      this.#keep(bytes.subarray(from, at));
      this.#finish();
      from = at + 1;
    }
    // A copy: the owner of the bytes may use them again.
    if (from < bytes.length) this.#keep(bytes.slice(from));
  }

  /** The stream has ended; what stands after the last newline is a line too. */
  end(): void {
    if (this.#length > 0 || this.#isTooLong) this.#finish();
  }

  #keep(part: Uint8Array): void {
    if (this.#isTooLong) return;
    this.#length += part.length;
    this.#isTooLong = this.#length > this.limit;
    if (this.#isTooLong) this.#parts = [];
    else this.#parts.push(part);
  }

  #finish(): void {
    const [parts, isTooLong] = [this.#parts, this.#isTooLong];
    [this.#parts, this.#length, this.#isTooLong] = [[], 0, false];
    if (isTooLong) return this.bad('too long');
    const text = this.#read(parts);
    if (text === null) this.bad('no UTF-8');
    else if (text.trim() !== '') this.line(text);
  }

  #read(parts: Uint8Array[]): string | null {
    try {
      return this.#decoder.decode(parts.length === 1 ? parts[0] : Buffer.concat(parts));
    } catch {
      return null;
    }
  }
}
