import { Refusal } from '../../protocol/refusal.ts';
import { codeOf } from '../disk.ts';
import { isLoopback, reach } from './reach.ts';
import { NoAnswer, RelayRefusal, troubleFrom } from './trouble.ts';

/** Which relay, which room in it, and by which token we are known there. */
export interface Place {
  url: string;
  room?: string | undefined;
  token?: string | undefined;
}

export interface Request {
  body?: unknown;
  headers?: Record<string, string>;
  /** Not our own token: the room's, or none. */
  token?: string | null;
  /** How many characters an answer may have, where that is more than usual. */
  limit?: number;
  /** How long a connection and then an answer may take, where the usual time would be too long. */
  patienceMs?: number;
}

export interface Answer {
  status: number;
  data: unknown;
  headers: Headers;
}

const CONNECT_MS = 5000;
/** An answer may take this long to begin, and be silent this long while it comes. */
const ANSWER_MS = 15_000;
/** An answer that always moves and never ends is over after this many times its silence. */
const LONGEST = 20;
/** No message is as large as this; what is has to be something else. */
const ANSWER_LIMIT = 128 * 1024 * 1024;
/** A "no" is a line. */
const REFUSAL_LIMIT = 1024 * 1024;
/** A relay that was not there a moment ago is not asked again by the same command. */
const DOWN_MS = 1000;

/** One relay, spoken to as one agent. Tokens are sent to the address that was given, and to no other. */
export class RelayHttp {
  #reached = false;
  #down: { until: number; trouble: NoAnswer } | undefined;

  constructor(readonly place: Place) {}

  get url(): string {
    return this.place.url;
  }

  /** The answer of a request that must succeed; the relay's own "no" is thrown in its words. */
  async ask(method: 'GET' | 'POST', path: string, request: Request = {}): Promise<Answer> {
    const answer = await this.call(method, path, request);
    if (answer.status < 300) return answer;
    throw this.#refusal(answer);
  }

  /** Any answer in JSON, also a "no". Everything else is thrown as what it means. */
  async call(method: 'GET' | 'POST', path: string, request: Request = {}): Promise<Answer> {
    const { patienceMs } = request;
    await this.reach(patienceMs);
    const answerMs = patienceMs ?? ANSWER_MS;
    const silence = new Silence(answerMs);
    try {
      const response = await fetch(`${this.url}${path}`, {
        ...this.#options(method, request),
        signal: silence.signal,
      });
      if (response.status >= 300 && response.status < 400) throw this.#redirected(response);
      const text = await textOf(response, request.limit, silence);
      return { status: response.status, data: this.#parsed(response, text), headers: response.headers };
    } catch (error) {
      // Nothing more of it is wanted, however much there would be.
      silence.end();
      if (error instanceof Refusal) throw error;
      this.#reached = false;
      throw troubleFrom(codeOf(error), this.url, answerMs);
    } finally {
      silence.close();
    }
  }

  /** A stream that has no end; its reader decides how long silence may last. */
  async stream(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const response = await fetch(`${this.url}${path}`, { ...this.#options('GET', { headers }), signal }).catch(
      (error: unknown) => {
        throw signal.aborted ? error : troubleFrom(codeOf(error), this.url, ANSWER_MS);
      },
    );
    if (response.status >= 300 && response.status < 400) throw this.#redirected(response);
    if (response.ok) return response;
    const data = this.#parsed(response, await textOf(response));
    throw this.#refusal({ status: response.status, data, headers: response.headers });
  }

  #options(method: string, { body, headers, token = this.place.token ?? null }: Request): BunFetchRequestInit {
    const { room } = this.place;
    return {
      method,
      redirect: 'manual',
      // Bun asks a proxy even about this machine itself.
      ...(isLoopback(new URL(this.url)) && { proxy: false }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      headers: {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
        ...(room && { 'x-backchannel-room': room }),
        ...headers,
      },
    };
  }

  /** Whether a connection comes about; asked once, and again after a failure. */
  async reach(patienceMs = CONNECT_MS): Promise<void> {
    if (this.#down && Date.now() < this.#down.until) throw this.#down.trouble;
    if (this.#reached) return;
    try {
      await reach(new URL(this.url), this.url, patienceMs);
      this.#reached = true;
      this.#down = undefined;
    } catch (error) {
      if (error instanceof NoAnswer) this.#down = { until: Date.now() + DOWN_MS, trouble: error };
      throw error;
    }
  }

  #redirected(response: Response): NoAnswer {
    const to = response.headers.get('location') ?? 'elsewhere';
    return new NoAnswer(
      'refused',
      `${this.url} sends us on to ${to}; give that address itself, a token is not sent along`,
    );
  }

  #parsed({ status, headers }: Response, text: string): unknown {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      const kind = headers.get('content-type')?.split(';')[0] ?? 'something';
      const gist = text
        .replace(/<[^>]*>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim()
        .slice(0, 60);
      throw new NoAnswer(
        // A "no" from whatever stands in between is a no; anything else may have come from behind it.
        status >= 400 && status < 500 ? 'refused' : 'unknown',
        `${this.url} answered ${status} with ${kind} instead of JSON: a proxy or another program stands there, not a relay` +
          (gist ? ` ("${gist}")` : ''),
      );
    }
  }

  #refusal({ status, data, headers }: Answer): Refusal {
    const { error } = (typeof data === 'object' && data !== null ? data : {}) as { error?: unknown };
    const text = typeof error === 'string' && error !== '' ? error : `the relay ${this.url} answered ${status}`;
    if (status >= 500 && status !== 501) return new NoAnswer('unknown', `the relay ${this.url} has trouble: ${text}`);
    const wait = headers.get('retry-after');
    return new RelayRefusal(status, status === 429 && wait ? `${text} (in ${wait} s)` : text);
  }
}

/** Ends a request in which nothing moves any more, or in which it moves without end. */
class Silence {
  readonly #end = new AbortController();
  readonly #longest: ReturnType<typeof setTimeout>;
  #timer: ReturnType<typeof setTimeout>;

  constructor(readonly ms: number) {
    this.#timer = setTimeout(() => this.#end.abort(), ms);
    this.#longest = setTimeout(() => this.#end.abort(), ms * LONGEST);
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  end(): void {
    this.#end.abort();
  }

  heard(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#end.abort(), this.ms);
  }

  close(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#longest);
  }
}

async function textOf(response: Response, limit = ANSWER_LIMIT, silence?: Silence): Promise<string> {
  silence?.heard();
  const most = response.ok ? limit : REFUSAL_LIMIT;
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of response.body ?? []) {
    silence?.heard();
    text += decoder.decode(bytes as Uint8Array, { stream: true });
    if (text.length > most) throw new NoAnswer('unknown', `${response.url} answers without end`);
  }
  return text + decoder.decode();
}
