import { Refusal } from '../../core/refusal.ts';
import { codeOf } from '../../core/disk.ts';

/** A relay, a room in it, and our token there. */
export interface RelayAddress {
  url: string;
  room?: string | undefined;
  token?: string | undefined;
  /** The error text if the relay refuses our token: its own text does not help. */
  ifRefused?: string;
}

export interface RelayRequest {
  body?: unknown;
  headers?: Record<string, string>;
  /** Another token than our own: the room's, or none. */
  token?: string | null;
  /** The most characters of an answer, if more than usual. */
  limit?: number;
  /** How long a connection, and then an answer, may take, if shorter than usual. */
  patienceMs?: number;
}

export interface RelayAnswer {
  status: number;
  data: unknown;
  headers: Headers;
}

const CONNECT_MS = 5000;
/** How long an answer may take to begin, and how long it may be silent after that. */
const ANSWER_MS = 15_000;
/** An answer may take this many times `ANSWER_MS` in all. */
const MOST_TIMES = 20;
/** A larger answer cannot be a message. */
const ANSWER_LIMIT = 128 * 1024 * 1024;
/** The largest answer that is an error. */
const REFUSAL_LIMIT = 1024 * 1024;
/** A command does not try an unreachable relay again within this time. */
const DOWN_MS = 1000;

/** Requests to one relay as one agent. Tokens are sent only to the configured address. */
export class RelayHttp {
  #reached = false;
  #down: { until: number; trouble: NoRelayAnswer } | undefined;

  constructor(readonly place: RelayAddress) {}

  get url(): string {
    return this.place.url;
  }

  /** The answer to a request that must succeed. Throws the relay's own refusal with its text. */
  async ask(method: 'GET' | 'POST', path: string, request: RelayRequest = {}): Promise<RelayAnswer> {
    const answer = await this.call(method, path, request);
    if (answer.status < 300) return answer;
    const { ifRefused } = this.place;
    if (answer.status === 401 && request.token === undefined && ifRefused) throw new RelayRefusal(401, ifRefused);
    throw this.#refusal(answer);
  }

  /** Any JSON answer, also a refusal. Throws a `NoRelayAnswer` for everything else. */
  async call(method: 'GET' | 'POST', path: string, request: RelayRequest = {}): Promise<RelayAnswer> {
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
      // Stop the request: its rest is not needed.
      silence.end();
      if (error instanceof Refusal) throw error;
      this.#reached = false;
      throw troubleFrom(codeOf(error), this.url, answerMs);
    } finally {
      silence.close();
    }
  }

  /** An endless stream. Its reader decides how long it may be silent. */
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

  #options(method: string, { body, headers, token = this.place.token ?? null }: RelayRequest): BunFetchRequestInit {
    const { room } = this.place;
    return {
      method,
      redirect: 'manual',
      // Bun would use a proxy even for loopback.
      ...(isLoopbackUrl(new URL(this.url)) && { proxy: false }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      headers: {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
        ...(room && { 'x-backchannel-room': room }),
        ...headers,
      },
    };
  }

  /** Throws if no connection is possible. Tries once, and again after a failure. */
  async reach(patienceMs = CONNECT_MS): Promise<void> {
    if (this.#down && Date.now() < this.#down.until) throw this.#down.trouble;
    if (this.#reached) return;
    try {
      await reach(new URL(this.url), this.url, patienceMs);
      this.#reached = true;
      this.#down = undefined;
    } catch (error) {
      if (error instanceof NoRelayAnswer) this.#down = { until: Date.now() + DOWN_MS, trouble: error };
      throw error;
    }
  }

  #redirected(response: Response): NoRelayAnswer {
    const to = response.headers.get('location') ?? 'elsewhere';
    return new NoRelayAnswer(
      'refused',
      `${this.url} redirects to ${to}; give that address instead: tokens are not sent to another address`,
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
      throw new NoRelayAnswer(
        // A 4xx of any program in between is a refusal. For any other status, the relay behind it may have done the request.
        status >= 400 && status < 500 ? 'refused' : 'unknown',
        `${this.url} answered ${status} with ${kind} instead of JSON: a proxy or another program answers there, not a relay` +
          (gist ? ` ("${gist}")` : ''),
      );
    }
  }

  #refusal({ status, data, headers }: RelayAnswer): Refusal {
    const { error } = (typeof data === 'object' && data !== null ? data : {}) as { error?: unknown };
    const text = typeof error === 'string' && error !== '' ? error : `the relay ${this.url} answered ${status}`;
    if (status >= 500 && status !== 501)
      return new NoRelayAnswer('unknown', `the relay ${this.url} has trouble: ${text}`);
    const wait = headers.get('retry-after');
    return new RelayRefusal(status, status === 429 && wait ? `${text} (in ${wait} s)` : text);
  }
}

/** Aborts a request that is silent for too long, or that takes too long in all. */
class Silence {
  readonly #end = new AbortController();
  readonly #longest: ReturnType<typeof setTimeout>;
  #timer: ReturnType<typeof setTimeout>;

  constructor(readonly ms: number) {
    this.#timer = setTimeout(() => this.#end.abort(), ms);
    this.#longest = setTimeout(() => this.#end.abort(), ms * MOST_TIMES);
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
    if (text.length > most) throw new NoRelayAnswer('unknown', `the answer of ${response.url} is too long`);
  }
  return text + decoder.decode();
}

const LONGEST_LINE = 1000;

/** The outcome of a request without a usable answer: it never left this machine, it may have arrived, or it failed. */
export type Fate = 'never left' | 'unknown' | 'refused';

/** A relay's text, made safe for a terminal: it may come from anyone. */
function shown(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}

/** The error for a relay without a usable answer. */
export class NoRelayAnswer extends Refusal {
  constructor(
    readonly fate: Fate,
    message: string,
  ) {
    super('unreachable', shown(message));
  }
}

/** A relay's own refusal, with its status and its text for the user. */
export class RelayRefusal extends Refusal {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(codeFor(status, message), shown(message));
  }
}

/** True if the request never left this machine, so that it is safe to repeat. */
export function neverLeft(error: unknown): boolean {
  return error instanceof NoRelayAnswer && error.fate === 'never left';
}

const CODES: Record<number, Refusal['code']> = {
  401: 'no_identity',
  403: 'not_yours',
  404: 'not_found',
  409: 'already_claimed',
  413: 'too_large',
  429: 'busy',
  501: 'not_in_this_version',
};

function codeFor(status: number, text: string): Refusal['code'] {
  if (/^unknown agent "|has no other subscribers/.test(text)) return 'unknown_recipient';
  if (status === 409 && text.startsWith('agent name "')) return 'name_taken';
  if (status === 409 && text.startsWith('key "')) return 'key_conflict';
  if (status === 409 && text.startsWith('nobody can tell')) return 'outcome_unknown';
  return CODES[status] ?? 'invalid_request';
}

/** Error codes of a connection that failed before anything was sent. */
const NO_CONNECTION: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'its name cannot be looked up at present',
  EHOSTUNREACH: 'no route to that host',
  ENETUNREACH: 'no network',
  EPROTO: 'it does not speak TLS on that port; is it http:// instead?',
};
const BAD_CERTIFICATE = /CERT|SIGNATURE|ERR_TLS|ERR_SSL/;

/** The meaning of a failed connection or request, by its error code. */
export function troubleFrom(code: string | undefined, url: string, answerMs: number): NoRelayAnswer {
  const known = code === undefined ? undefined : NO_CONNECTION[code];
  if (known) return new NoRelayAnswer('never left', `the relay ${url} cannot be reached (${known})`);
  if (code !== undefined && BAD_CERTIFICATE.test(code)) {
    const remedy = 'if the relay is your own, name the file of its CA in NODE_EXTRA_CA_CERTS';
    return new NoRelayAnswer('never left', `the certificate of ${url} is not trusted (${code}); ${remedy}`);
  }
  const how = code === 'ECONNRESET' ? 'it closed the connection' : `no answer within ${Math.ceil(answerMs / 1000)} s`;
  return new NoRelayAnswer('unknown', `the relay ${url} did not answer (${how})`);
}

/** Is this an address of this machine? Then no network can overhear the request, and no proxy is used. */
export function isLoopbackUrl({ hostname }: URL): boolean {
  return /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/i.test(hostname);
}

/** Does a proxy from the environment make the connection? Then only the proxy knows whether the host can be reached. */
export function isProxied(url: URL): boolean {
  const variable = url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  return !isLoopbackUrl(url) && Boolean(process.env[variable] ?? process.env[variable.toLowerCase()]);
}

/**
 * Tests whether a connection is possible. Only this tells a request that never left from one whose answer was lost: `fetch` has one
 * timeout for both.
 */
export async function reach(url: URL, shown: string, patienceMs: number): Promise<void> {
  if (isProxied(url)) return;
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const failed = await new Promise<unknown>((resolve) => {
    const timer = setTimeout(() => resolve('late'), patienceMs);
    const settled = (error?: unknown): void => {
      clearTimeout(timer);
      resolve(error);
    };
    Bun.connect({
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port,
      socket: {
        open(socket) {
          socket.end();
          settled();
        },
        connectError: (_socket, error) => settled(error),
        error: (_socket, error) => settled(error),
        data: () => {},
      },
    }).catch((error: unknown) => settled(error));
  });
  if (failed === undefined) return;
  if (failed === 'late') {
    const seconds = Math.ceil(patienceMs / 1000);
    throw new NoRelayAnswer('never left', `the relay ${shown} cannot be reached (no connection within ${seconds} s)`);
  }
  const trouble = troubleFrom(codeOf(failed), shown, patienceMs);
  // No request was made yet, whatever the error.
  throw trouble.fate === 'never left'
    ? trouble
    : new NoRelayAnswer('never left', `the relay ${shown} cannot be reached`);
}
