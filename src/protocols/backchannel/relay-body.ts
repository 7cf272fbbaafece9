import { badRequest, Declined } from './relay-phrases.ts';

/** A smaller body is read in one piece. Of a larger one, this much must arrive within each time span. */
const PIECE = 64 * 1024;

/** Reads request bodies, with limits on size and time. spec: relay#limits */
export class Bodies {
  constructor(
    readonly limit: number,
    readonly ms: number,
  ) {}

  /** The JSON object of a request. */
  async fields(request: Request, limit = this.limit): Promise<Fields> {
    const length = Number(request.headers.get('content-length') ?? Infinity);
    // The announced length is over the limit: do not read the body.
    if (Number.isFinite(length) && length > limit) throw tooLarge(limit);
    let text: string;
    try {
      text = await (length <= PIECE ? within(request.text(), this.ms) : this.#pieces(request, limit));
    } catch (error) {
      if (error instanceof Declined) throw error;
      throw badRequest('the body ended before it was complete');
    }
    return new Fields(objectIn(text));
  }

  async #pieces(request: Request, limit: number): Promise<string> {
    const reader = request.body?.getReader();
    if (!reader) return '';
    const pieces: Uint8Array[] = [];
    let size = 0;
    try {
      for (;;) {
        // Single bytes do not count as progress: the next 64 KiB must arrive in time.
        const next = await within(nextPiece(reader), this.ms);
        if (next.length > 0) pieces.push(next);
        size += next.length;
        if (size > limit) throw tooLarge(limit);
        if (next.length < PIECE) return Buffer.concat(pieces).toString('utf8');
      }
    } catch (error) {
      // Not awaited: the stream ends with the connection, which our answer closes.
      reader.cancel().catch(() => {});
      throw error;
    }
  }
}

function objectIn(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw badRequest(error instanceof Error ? error.message : 'malformed JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw badRequest('send a JSON object');
  return value as Record<string, unknown>;
}

/** The next 64 KiB or more; less only at the end. */
async function nextPiece(reader: {
  read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
}): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  while (size < PIECE) {
    const { done, value } = await reader.read();
    if (done || !value) break;
    parts.push(value);
    size += value.length;
  }
  return parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts);
}

/** Keeps the connection open: a client that still sends would not get our answer. */
function tooLarge(limit: number): Declined {
  return new Declined(413, `the request has more than ${limit} bytes — write it to a file and send its path in refs`);
}

/** The result of a promise, or a refusal after `ms`. Nearly every body is there at once and needs no timer. */
function within<T>(work: Promise<T>, ms: number): Promise<T> {
  if (Bun.peek.status(work) !== 'pending') return work;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const tooLate = (): void => reject(new Declined(408, 'the request came too slowly', { connection: 'close' }));
  const timer = setTimeout(tooLate, ms);
  work.then(resolve, reject).finally(() => clearTimeout(timer));
  return promise;
}

/** The fields of a request's JSON. `null` counts as absent, as in the original's clients. */
export class Fields {
  constructor(readonly values: Record<string, unknown>) {}

  /** A required text. */
  text(name: string): string {
    const value = this.values[name];
    if (typeof value === 'string') return value;
    throw badRequest(`"${name}" must be a string`);
  }

  optionalText(name: string): string | undefined {
    return this.#absent(name) ? undefined : this.text(name);
  }

  texts(name: string, most = Infinity): string[] | undefined {
    if (this.#absent(name)) return undefined;
    const value = this.values[name];
    if (!Array.isArray(value) || !value.every((one) => typeof one === 'string')) {
      throw badRequest(`"${name}" must be an array of strings`);
    }
    if (value.length > most) throw badRequest(`"${name}" has more than ${most} entries`);
    return value;
  }

  optionalFlag(name: string): boolean {
    const value = this.values[name] ?? false;
    if (typeof value === 'boolean') return value;
    throw badRequest(`"${name}" must be true or false`);
  }

  /** A whole number from `least` to `most`. */
  optionalNumber(name: string, least: number, most: number): number | undefined {
    if (this.#absent(name)) return undefined;
    const value = this.values[name];
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
    throw badRequest(`"${name}" must be a whole number from ${least} to ${most}`);
  }

  #absent(name: string): boolean {
    return this.values[name] === undefined || this.values[name] === null;
  }
}
