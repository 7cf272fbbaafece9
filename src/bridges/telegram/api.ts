import { Api, GrammyError } from 'grammy/web';
import type { Update } from 'grammy/types';
import type { Log } from '../../core/service.ts';
import { Refusal } from '../../core/refusal.ts';
import { withLimit } from '../../core/wait.ts';

const DEFAULT_ROOT = 'https://api.telegram.org';
const POLL_SECONDS = 30;
/** A call that takes longer counts as failed and is repeated. */
const CALL_SECONDS = 15;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
/** The codes of a bad request and of one that is too large: repeating them does not help. */
const FINAL_CODES = [400, 413];
/** The largest file that Telegram gives to bots. */
const FILE_LIMIT = 20 * 1024 * 1024;

export interface ApiOptions {
  token: string;
  root: string;
  log: Log;
}

/**
 * The Bot API for one bot. Messages to a chat are sent in order, one at a time, and wait while the API is down or rate limited. The token is
 * a part of every address, so use `because` to show an error: it leaves the token out.
 */
export class TelegramApi {
  readonly #api: Api;
  readonly #polling: Api;
  readonly #root: string;
  readonly #closed = new AbortController();
  readonly #end = Promise.withResolvers<void>();
  /** The last call of each chat. Each chat has its own queue, so that a blocked group does not hold back the private chat. */
  readonly #turns = new Map<number, Promise<unknown>>();
  #isDown = false;

  constructor(readonly options: ApiOptions) {
    this.#root = (options.root || DEFAULT_ROOT).replace(/\/+$/, '');
    this.#api = new Api(options.token, { apiRoot: this.#root, timeoutSeconds: CALL_SECONDS });
    this.#polling = new Api(options.token, { apiRoot: this.#root, timeoutSeconds: POLL_SECONDS + CALL_SECONDS });
  }

  get isClosed(): boolean {
    return this.#closed.signal.aborted;
  }

  /** Resolves when the chat is closed. */
  get closed(): Promise<void> {
    return this.#end.promise;
  }

  /** Waits for new updates, up to 30 s. */
  async updates(offset: number): Promise<Update[]> {
    const wanted = ['message', 'callback_query'] as const;
    const options = { offset, timeout: POLL_SECONDS, allowed_updates: wanted };
    return this.#polling.getUpdates(options, this.#closed.signal as never);
  }

  /** Makes one call after all earlier ones of this chat. Repeats it until the chat accepts it or refuses it for good. */
  inTurn<T>(chat: number, call: (api: Api, signal: never) => Promise<T>): Promise<T> {
    return this.#queued(chat, () => this.#untilTaken(call));
  }

  /** Like `inTurn`, with one attempt. */
  onceInTurn<T>(chat: number, call: (api: Api, signal: never) => Promise<T>): Promise<T> {
    return this.#queued(chat, () => this.now(call));
  }

  /** One attempt, now. */
  async now<T>(call: (api: Api, signal: never) => Promise<T>): Promise<T> {
    return call(this.#api, this.#closed.signal as never);
  }

  /** Waits as long as the API asks for; otherwise longer after each failure. */
  async pause(error: unknown, before: number): Promise<number> {
    const asked = error instanceof GrammyError ? (error.parameters.retry_after ?? 0) * 1000 : 0;
    const ms = asked || Math.min(before * 2 || FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    await withLimit(this.#end.promise, ms);
    return asked ? before : ms;
  }

  /** A file that the user sent. Throws a Refusal if it is too large or cannot be downloaded. */
  async download(fileId: string): Promise<Uint8Array> {
    const { file_path: place, file_size: size = 0 } = await this.now((api, signal) => api.getFile(fileId, signal));
    if (size > FILE_LIMIT) throw tooLarge();
    const url = `${this.#root}/file/bot${this.options.token}/${place}`;
    const signal = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(4 * CALL_SECONDS * 1000)]);
    const response = await fetch(url, { signal });
    if (!response.ok || !response.body)
      throw new Refusal('unreachable', `Telegram refused the download (${response.status}); send the file again`);
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response.body) {
      bytes += chunk.length;
      if (bytes > FILE_LIMIT) throw tooLarge();
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  /** The text of an error, without the token. */
  because(error: unknown): string {
    const text = error instanceof Error ? error.message : String(error);
    return text.replaceAll(this.options.token, '<token>').replace(/\s+/g, ' ').slice(0, 300);
  }

  close(): void {
    this.#closed.abort();
    this.#end.resolve();
  }

  #queued<T>(chat: number, act: () => Promise<T>): Promise<T> {
    const done = (this.#turns.get(chat) ?? Promise.resolve()).then(act);
    this.#turns.set(
      chat,
      done.catch(() => {}),
    );
    return done;
  }

  async #untilTaken<T>(call: (api: Api, signal: never) => Promise<T>): Promise<T> {
    let pause = 0;
    for (;;) {
      if (this.isClosed) throw new Refusal('unreachable', 'the chat is closed');
      try {
        const result = await this.now(call);
        this.#isDown = false;
        return result;
      } catch (error) {
        if (isFinal(error)) throw error;
        if (!this.#isDown && !this.isClosed) this.options.log('chat_down', { because: this.because(error) });
        this.#isDown = true;
        pause = await this.pause(error, pause);
      }
    }
  }
}

/** The chat has refused the call; the same call would be refused again. */
export function isFinal(error: unknown): error is GrammyError {
  return error instanceof GrammyError && FINAL_CODES.includes(error.error_code);
}

/** The message has this text already. */
export function isUnchanged(error: GrammyError): boolean {
  return /message is not modified/i.test(error.description);
}

/** The topic was deleted. */
export function isTopicGone(error: unknown): boolean {
  return error instanceof GrammyError && /thread not found|TOPIC_(DELETED|ID_INVALID)/i.test(error.description);
}

function tooLarge(): Refusal {
  return new Refusal('invalid_request', 'the file is too large (limit 20 MB)');
}
