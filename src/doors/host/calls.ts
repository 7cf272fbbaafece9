import { Refusal } from '../../protocol/refusal.ts';
import type { Id, Outcome, Params, RpcErrorBody } from './frames.ts';

/** More are not under way at once. spec: host#limits */
const MOST_PENDING = 1000;
/** Under so many ids one thing that is asked again and again may still be answered. */
const MOST_IDS = 4;
/** One thing that was asked of the other side, perhaps several times: any answer answers it. */
interface Asked {
  key: string;
  ids: string[];
  answer: PromiseWithResolvers<void>;
}

/**
 * What we ask of the other side and has no answer yet. Asked again under the same key (a redelivery), it is the same thing with
 * a further id: a late answer to an earlier one still counts.
 */
export class Calls {
  readonly #byId = new Map<string, Asked>();
  readonly #byKey = new Map<string, Asked>();
  #count = 0;
  #isOver = false;

  constructor(readonly write: (frame: Params) => void) {}

  /** Asks, and returns under which id. The answer throws if the other side says no or goes away. */
  request(prefix: string, key: string, method: string, params: Params): { id: string; answer: Promise<void> } {
    if (this.#isOver) throw gone();
    const asked = this.#byKey.get(key) ?? this.#new(key);
    this.#count += 1;
    const id = `${prefix}-${this.#count}`;
    asked.ids.push(id);
    this.#byId.set(id, asked);
    if (asked.ids.length > MOST_IDS) this.#byId.delete(asked.ids.shift() ?? '');
    this.write({ jsonrpc: '2.0', id, method, params });
    return { id, answer: asked.answer.promise };
  }

  notify(method: string, params: Params): void {
    if (!this.#isOver) this.write({ jsonrpc: '2.0', method, params });
  }

  /** False for an answer to nothing: it may be the second one. */
  answered(id: Id, outcome: Outcome): boolean {
    const asked = typeof id === 'string' ? this.#byId.get(id) : undefined;
    if (!asked) return false;
    this.#forget(asked);
    if ('error' in outcome) asked.answer.reject(new PeerSaidNo(outcome.error));
    else asked.answer.resolve();
    return true;
  }

  /** Nobody will answer any more. */
  end(): void {
    this.#isOver = true;
    for (const asked of this.#byKey.values()) {
      this.#forget(asked);
      asked.answer.reject(gone());
    }
  }

  #new(key: string): Asked {
    if (this.#byKey.size >= MOST_PENDING)
      throw new Refusal('busy', `the peer has left ${MOST_PENDING} requests unanswered; it gets more when it answers`);
    const asked: Asked = { key, ids: [], answer: Promise.withResolvers<void>() };
    // Whoever asked may have stopped waiting: then a "no" is nobody's business, and no reason to end the program.
    asked.answer.promise.catch(() => {});
    this.#byKey.set(key, asked);
    return asked;
  }

  #forget(asked: Asked): void {
    this.#byKey.delete(asked.key);
    for (const id of asked.ids) this.#byId.delete(id);
  }
}

/** The other side answered with an error. Its words are somebody's words: they are kept out of logs. */
export class PeerSaidNo extends Error {
  override readonly name = 'PeerSaidNo';
  readonly code: number;
  /** After which time it may be asked again, where it says so. */
  readonly retryAfterMs?: number;

  constructor({ code, message, data }: RpcErrorBody) {
    super(message);
    this.code = code;
    if (typeof data?.['retryAfterMs'] === 'number') this.retryAfterMs = data['retryAfterMs'];
  }
}

function gone(): Refusal {
  return new Refusal('unreachable', 'the peer went away before it answered');
}
