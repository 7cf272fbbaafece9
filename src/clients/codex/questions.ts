import type { Answering, Choice, OpenQuestion, QuestionDriver } from '../../core/ports/session.ts';
import type { Id, Notification, Params, Request } from '../../wire/jsonrpc.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { AskedTimes } from '../asked-times.ts';
import { changesIn, type CodexRequest, isAnsweredWith, isDenial, codexRequestIn } from './requests.ts';
import { callIn } from './rollout.ts';
import type { CodexDaemon, Thread } from './rpc.ts';

/** Time for the open requests to arrive after the answer to `thread/resume`, ms. Codex sends them right after it. */
const REPLAY_MS = 1000;
/** Time for Codex to record an answer, ms. */
const RECORDED_MS = 10_000;
/** How long to wait for the end of an approved item, ms. A command may run for hours. */
const APPROVED_MS = 500;
/** How long to wait for the end of a denied item, ms. */
const DENIED_MS = 3000;
/** How long to stay in a thread after the last look, ms. Codex keeps a joined thread loaded, even without a window. */
const STAY_MS = 10_000;
const LOOK_MS = 10;

/**
 * The questions of a Codex thread to its user. Codex sends each question as a request to all clients that have joined the thread, including its
 * window, and again to a client that joins later, so none is lost when Parley restarts. The first reply counts; the other clients get a
 * notice that the request is resolved. Parley joins a thread only while a caller looks for its questions.
 */
export class CodexQuestions implements QuestionDriver {
  readonly #requests = new Map<Id, Request>();
  /** The file changes of each item. */
  readonly #changes = new Map<string, string>();
  /** How items and turns ended. */
  readonly #ended = new Map<string, string>();
  #joined: { thread: string; stop: () => void } | null = null;
  #joining: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The number of answers that Codex has not confirmed yet. */
  #inHand = 0;
  readonly #askedTimes = new AskedTimes();

  constructor(
    readonly daemon: CodexDaemon,
    /** The thread of the session, if the thread waits for its user and a window shows it. */
    readonly waitingThread: () => Promise<Thread | null>,
    readonly stayMs = STAY_MS,
  ) {}

  async open(): Promise<OpenQuestion | null> {
    const found = await this.#look();
    if (!found) return null;
    const { call, kind, questions } = found.request;
    return { call, kind, questions, askedAt: this.#askedAt(found.thread, found.request) };
  }

  async answer(call: string, choices: readonly Choice[], signal: AbortSignal): Promise<Answering> {
    const found = await this.#look();
    if (found?.request.call !== call) return { outcome: 'gone' };
    const { thread, request } = found;
    const reply = request.reply(choices);
    if (typeof reply === 'string') return { outcome: 'left', because: reply };
    if (signal.aborted) return { outcome: 'left', because: 'Parley was stopped before it answered' };
    // No await since the look, so the request is still open as far as we know.
    if (!this.daemon.reply(request.id, reply)) return { outcome: 'left', because: 'the daemon of Codex has ended' };
    this.#inHand += 1;
    try {
      return await this.#outcome(thread, request, reply);
    } finally {
      this.#inHand -= 1;
      // The timer may have fired meanwhile.
      if (this.#joined) this.#stay();
    }
  }

  /** Leaves the thread. */
  close(): void {
    const joined = this.#joined;
    this.#forget();
    if (joined) void this.daemon.call('thread/unsubscribe', { threadId: joined.thread }).catch(() => 'it is gone');
  }

  async #outcome(thread: Thread, request: CodexRequest, reply: Params): Promise<Answering> {
    if (!(await until(RECORDED_MS, () => !this.#requests.has(request.id))))
      return { outcome: 'unknown', because: 'Codex did not take the answer' };
    if (this.#joined?.thread !== thread.id) return { outcome: 'unknown', because: 'the daemon of Codex has ended' };
    return request.kind === 'question' ? recorded(thread, request, reply) : this.#decided(request, reply);
  }

  #leave(): void {
    if (this.#inHand === 0) this.close();
  }

  #stay(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#leave(), this.stayMs);
  }

  async #look(): Promise<{ thread: Thread; request: CodexRequest } | null> {
    const thread = await this.waitingThread();
    if (!thread) {
      this.#leave();
      return null;
    }
    clearTimeout(this.#timer);
    // Another caller may be joining a different thread.
    while (this.#joining) await this.#joining.catch(() => 'that caller gets the error');
    this.#joining = this.#join(thread.id).finally(() => (this.#joining = null));
    await this.#joining;
    if (this.#joined?.thread !== thread.id) return null;
    this.#stay();
    const [message] = this.#requests.values();
    const request = message && codexRequestIn(message, this.#changes);
    return request ? { thread, request } : null;
  }

  async #join(threadId: string): Promise<void> {
    if (this.#joined?.thread === threadId) return;
    this.close();
    const unheard = this.daemon.hear((message) => this.#hear(threadId, message));
    // A new connection has joined no thread.
    const unlistened = this.daemon.listen((changed) => changed === null && this.#forget());
    const stop = (): void => {
      unheard();
      unlistened();
    };
    this.#joined = { thread: threadId, stop };
    try {
      const initialTurnsPage = { limit: 1, itemsView: 'full' };
      const joined = await this.daemon.call('thread/resume', { threadId, excludeTurns: true, initialTurnsPage });
      for (const item of itemsIn(joined['initialTurnsPage'])) this.#keep(item);
    } catch (error) {
      this.#forget();
      throw error;
    }
    await until(REPLAY_MS, () => this.#requests.size > 0);
  }

  #forget(): void {
    clearTimeout(this.#timer);
    this.#joined?.stop();
    this.#joined = null;
    for (const known of [this.#requests, this.#changes, this.#ended]) known.clear();
  }

  #hear(threadId: string, message: Request | Notification): void {
    const { kind, method, params } = message;
    if (params['threadId'] !== threadId) return;
    if (kind === 'request' && codexRequestIn(message, this.#changes)) this.#requests.set(message.id, message);
    else if (method === 'serverRequest/resolved') this.#requests.delete(params['requestId'] as Id);
    else if (method === 'item/started' || method === 'item/completed') this.#keep(params['item']);
    else if (method === 'turn/completed') this.#keep(params['turn']);
  }

  #keep(itemOrTurn: unknown): void {
    if (!isRecord(itemOrTurn)) return;
    const { id, changes, status } = itemOrTurn;
    const known = changesIn(changes);
    if (known !== null) this.#changes.set(String(id), known);
    if (typeof status === 'string' && status !== 'inProgress') this.#ended.set(String(id), status);
  }

  #askedAt({ path }: Thread, { call, item, startedAt }: CodexRequest): number {
    const began = startedAt ?? (path === null ? null : callIn(path, item)?.at) ?? Date.now();
    return this.#askedTimes.of(call, began);
  }

  /**
   * Codex does not report which decision it took. If the item ends in a way that contradicts ours, another client's decision counted. A
   * cancelled command has no end of its own: its turn is interrupted.
   */
  async #decided({ turn, item }: CodexRequest, reply: Params): Promise<Answering> {
    const isDenied = isDenial(reply);
    const end = (): string | undefined =>
      this.#ended.get(item) ?? (this.#ended.get(turn) === 'interrupted' ? 'declined' : undefined);
    if (!(await until(isDenied ? DENIED_MS : APPROVED_MS, () => end() !== undefined)))
      return isDenied ? { outcome: 'unknown', because: 'Codex did not end the denied item' } : { outcome: 'answered' };
    return { outcome: (end() === 'declined') === isDenied ? 'answered' : 'gone' };
  }
}

/** Waits until the record has the answer that the model got, and compares it with ours. */
async function recorded({ path }: Thread, { item }: CodexRequest, reply: Params): Promise<Answering> {
  const output = (): string | null => (path === null ? null : (callIn(path, item)?.output ?? null));
  if (!(await until(RECORDED_MS, () => output() !== null)))
    return { outcome: 'unknown', because: 'Codex did not record the answer' };
  return { outcome: isAnsweredWith(output() ?? '', reply) ? 'answered' : 'gone' };
}

function itemsIn(page: unknown): unknown[] {
  const turns: unknown = isRecord(page) ? page['data'] : null;
  if (!Array.isArray(turns)) return [];
  return turns.flatMap((turn: unknown) => {
    const items: unknown = isRecord(turn) ? turn['items'] : null;
    return Array.isArray(items) ? items : [];
  });
}

async function until(ms: number, isSo: () => boolean): Promise<boolean> {
  for (const end = performance.now() + ms; !isSo(); await Bun.sleep(LOOK_MS)) if (performance.now() > end) return false;
  return true;
}
