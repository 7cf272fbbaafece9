import { badRequest, Declined } from './relay-phrases.ts';

/** Below this a body is read in one piece. Above it, so much must arrive within each span of time. */
const PIECE = 64 * 1024;

/** Reads the bodies of requests: never more than allowed, never for ever. spec: relay#limits */
export class Bodies {
  readonly #deadlines: Deadlines;

  constructor(
    readonly limit: number,
    ms: number,
  ) {
    this.#deadlines = new Deadlines(ms);
  }

  /** The JSON object of a request. */
  async fields(request: Request, limit = this.limit): Promise<Fields> {
    const length = Number(request.headers.get('content-length') ?? Infinity);
    // Who says beforehand that it is too much is not listened to.
    if (Number.isFinite(length) && length > limit) throw tooLarge(limit);
    let text: string;
    try {
      text = await (length <= PIECE ? this.#deadlines.within(request.text()) : this.#pieces(request, limit));
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
        // A trickle of single bytes is no progress: the next 64 KiB count.
        const next = await this.#deadlines.within(nextPiece(reader));
        if (next.length > 0) pieces.push(next);
        size += next.length;
        if (size > limit) throw tooLarge(limit);
        if (next.length < PIECE) return Buffer.concat(pieces).toString('utf8');
      }
    } catch (error) {
      // Not awaited: it ends with the connection, which is closed with our answer.
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

/** At least 64 KiB; less only at the end. */
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

/** The connection stays: to close it under a client that still sends would take our answer from it. */
function tooLarge(limit: number): Declined {
  return new Declined(413, `the request has more than ${limit} bytes — write it to a file and send its path in refs`);
}

/** One clock for everything that must end in time: a timer per request would cost more than the request. */
class Deadlines {
  readonly #open = new Set<{ until: number; reject: (why: Declined) => void }>();
  #clock: ReturnType<typeof setInterval> | undefined;

  constructor(readonly ms: number) {}

  within<T>(work: Promise<T>): Promise<T> {
    // In a crowd nearly every body is there when it is asked for.
    if (Bun.peek.status(work) !== 'pending') return work;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const entry = { until: performance.now() + this.ms, reject };
    this.#open.add(entry);
    this.#clock ??= setInterval(() => this.#look(), Math.max(20, this.ms / 30));
    const arrived = (result: T): void => {
      this.#open.delete(entry);
      resolve(result);
    };
    const failed = (error: unknown): void => {
      this.#open.delete(entry);
      reject(error);
    };
    work.then(arrived, failed);
    return promise;
  }

  #look(): void {
    const now = performance.now();
    for (const entry of this.#open) {
      // They stand in the order of their ends.
      if (entry.until > now) break;
      this.#open.delete(entry);
      entry.reject(timedOut());
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#clock);
    this.#clock = undefined;
  }
}

function timedOut(): Declined {
  return new Declined(408, 'the request came too slowly', { connection: 'close' });
}

/** The fields of a request's JSON. What is null counts as absent, as the original's clients mean it. */
export class Fields {
  constructor(readonly values: Record<string, unknown>) {}

  /** A text that must be there. */
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

  /** A whole number between these two. */
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
