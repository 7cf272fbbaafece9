import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import type { SessionState } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { userHome } from '../../platform/env.ts';
import { isProcessAlive, startOf } from '../../platform/process.ts';
import { isRecord, JsonRpcPeer, RemoteError } from '../../wire/jsonrpc.ts';
import type { Id, Notification, Params, Request } from '../../wire/jsonrpc.ts';

/** `failed`: the last turn ended with an error. Codex takes the next prompt then, as if it were idle. */
export type ThreadStatus = 'idle' | 'failed' | 'active' | 'waitingOnApproval' | 'waitingOnUserInput';

/** A conversation that Codex's daemon has loaded. */
export interface Thread {
  id: string;
  cwd: string;
  /** Its record. Codex makes the file with the first turn. */
  path: string | null;
  /** False for threads that Codex keeps for itself: titles, helpers of a turn. */
  isUsers: boolean;
  status: ThreadStatus;
}

const WAITING = { waitingOnApproval: 'permission prompt', waitingOnUserInput: 'input needed' } as const;

/** A call that is not answered in this time may still be done by the daemon. */
const CALL_MS = 5000;
const OPEN_MS = 1500;
const RETRY_MS = 1000;
/** The name of its first client becomes the name of the daemon, also towards the model's provider. That name is Codex's. */
const FIRST_CLIENT_MS = 1500;

const shared = new Map<string, CodexDaemon>();

/**
 * The daemon of one Codex home, over its control socket (WebSocket, JSON-RPC without the version). One connection per process. It knows
 * every loaded thread: the daemon tells each client about starts, ends and status. It never starts the daemon, and it replies to a request
 * of the daemon only where the user answered it.
 */
export class CodexDaemon {
  /** Loaded threads; empty while there is no connection. */
  readonly threads = new Map<string, Thread>();
  /** The conversations and terminals that sessions of ours have, and the name of that session. */
  readonly claims = new Map<string, string>();
  readonly #listeners = new Set<(thread: string | null) => void>();
  readonly #hearers = new Set<(message: Request | Notification) => void>();
  #users = 0;
  #peer: JsonRpcPeer | null = null;
  #socket: WebSocket | null = null;
  #opening: Promise<void> | null = null;
  #timer: ReturnType<typeof setInterval> | undefined;
  #starts: Promise<unknown> = Promise.resolve();
  #starting = 0;

  private constructor(readonly home: string) {}

  /** The connection of this process for a Codex home. Each `at` needs one `release`. */
  static at(home: string): CodexDaemon {
    const daemon = shared.get(home) ?? new CodexDaemon(home);
    shared.set(home, daemon);
    daemon.#users += 1;
    return daemon;
  }

  release(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    shared.delete(this.home);
    clearInterval(this.#timer);
    this.#socket?.close();
  }

  get isConnected(): boolean {
    return this.#peer !== null;
  }

  /** Connects if there is a daemon. False if there is none, or it does not answer. */
  async connect(): Promise<boolean> {
    if (this.#peer) return true;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return this.#opening.then(
      () => true,
      () => false,
    );
  }

  /** Calls back when a thread has changed; null: the connection came or went. Keeps the connection open until it is stopped. */
  listen(changed: (thread: string | null) => void): () => void {
    this.#listeners.add(changed);
    this.#timer ??= setInterval(() => void this.connect(), RETRY_MS);
    return () => {
      this.#listeners.delete(changed);
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Calls back with each request and notification of the daemon. Returns how to stop. */
  hear(heard: (message: Request | Notification) => void): () => void {
    this.#hearers.add(heard);
    return () => void this.#hearers.delete(heard);
  }

  /** Replies to a request of the daemon. False if there is no connection. */
  reply(id: Id, result: Params): boolean {
    return this.#peer?.answer(id, result) ?? false;
  }

  /** Throws RemoteError if Codex refuses, NoAnswer if it is late, Refusal `unreachable` if there is no daemon or it goes away. */
  async call(method: string, params: Params, ms = CALL_MS): Promise<Params> {
    if (!(await this.connect()) || !this.#peer)
      throw new Refusal('unreachable', 'the daemon of Codex does not run; a start of Codex starts it');
    const result = await this.#peer.request(method, params, { ms }).answer;
    return isRecord(result) ? result : {};
  }

  /** Whether the daemon has a thread in its memory, by its own word. */
  async hasLoaded(threadId: string, ms = CALL_MS): Promise<boolean> {
    const { data, nextCursor } = await this.call('thread/loaded/list', {}, ms);
    return !Array.isArray(data) || data.includes(threadId) || typeof nextCursor === 'string';
  }

  /** The port on which the window listens that began or resumed this thread: it serves tools to it. Null: no window did. */
  async windowPort(threadId: string, ms = CALL_MS): Promise<number | null> {
    const asked = { threadId, serverName: 'codex_tui', detail: 'toolsAndAuthOnly' };
    const { data } = await this.call('mcpServerStatus/list', asked, ms);
    const [server]: unknown[] = Array.isArray(data) ? data : [];
    const origin = isRecord(server) ? String(server['httpOrigin']) : '';
    return Number(/^http:\/\/127\.0\.0\.1:(\d+)$/.exec(origin)?.[1] ?? 0) || null;
  }

  /** The id of a prompt that waits in the queue of a thread; null if it is not there, or not any more. */
  async queued(threadId: string, key: string, ms = CALL_MS): Promise<string | null> {
    return placeInQueue(await this.call('thread/queue/list', { threadId }, ms), key);
  }

  /**
   * Gives a prompt to a thread: it begins a turn, or joins the one that runs after its tool call. Returns that turn's id. The same key again
   * is a second prompt, so this is asked once.
   */
  async prompt(threadId: string, key: string, text: string): Promise<string> {
    const input = [{ type: 'text', text, text_elements: [] }];
    const { turn } = await this.call('turn/start', { threadId, clientUserMessageId: key, input });
    return isRecord(turn) ? String(turn['id']) : '';
  }

  /** Adds a prompt to the queue of a thread: its id there. The same key again is a second prompt, so this is asked once. */
  async enqueue(threadId: string, key: string, text: string): Promise<string> {
    const input = [{ type: 'text', text, text_elements: [] }];
    const { queuedSubmission: item } = await this.call('thread/queue/add', {
      threadId,
      clientUserMessageId: key,
      input,
    });
    return isRecord(item) ? String(item['id']) : '';
  }

  /** Begins a prompt of the queue. False if it waits on, because another turn runs. One that has begun already is not begun twice. */
  async begin(threadId: string, queuedSubmissionId: string): Promise<boolean> {
    try {
      await this.call('thread/queue/start', { threadId, queuedSubmissionId });
      return true;
    } catch (error) {
      return error instanceof RemoteError && /not found/.test(error.message);
    }
  }

  /** Takes a prompt out of the queue. False if it is not there: one that has begun stays. */
  async dequeue(threadId: string, queuedSubmissionId: string): Promise<boolean> {
    const { deleted } = await this.call('thread/queue/delete', { threadId, queuedSubmissionId });
    return deleted === true;
  }

  /** Interrupts the turn that runs. */
  async interrupt(threadId: string): Promise<void> {
    const { data } = await this.call('thread/turns/list', { threadId, limit: 1 });
    const turn: unknown = Array.isArray(data) ? data[0] : null;
    if (isRecord(turn)) await this.call('turn/interrupt', { threadId, turnId: String(turn['id']) });
  }

  /** One start at a time: a new thread then belongs to the client that was just started. */
  async alone<T>(act: () => Promise<T>): Promise<T> {
    this.#starting += 1;
    const turn = this.#starts.then(act).finally(() => (this.#starting -= 1));
    this.#starts = turn.catch(() => 'the next one may start');
    return turn;
  }

  /** Then a new thread may belong to a session that does not know it yet. */
  get isStarting(): boolean {
    return this.#starting > 0;
  }

  /** True only if the daemon is known to be gone. Its windows do not start it again; they wait for it. */
  isDead(): boolean {
    const folder = `${this.home}/app-server-daemon`;
    if (!existsSync(`${folder}/daemon.pid`)) return !existsSync(this.#link);
    try {
      const file = readFileSync(`${folder}/daemon.pid`, 'utf8');
      const { pid, processIdentity } = JSON.parse(file) as { pid: number; processIdentity?: { startTicks?: number } };
      const [started, ticks] = [startOf(pid), processIdentity?.startTicks];
      return !isProcessAlive(pid) || (started !== null && ticks !== undefined && started !== String(ticks));
    } catch {
      // It is being written.
      return false;
    }
  }

  get #link(): string {
    return `${this.home}/app-server-control/app-server-control.sock`;
  }

  async #open(): Promise<void> {
    const socket = new WebSocket(`ws+unix://${this.#path()}`, { perMessageDeflate: false });
    const peer = new JsonRpcPeer((frame) => socket.send(frame), this.#handler(), 'optional');
    const opened = Promise.withResolvers<void>();
    const timer = setTimeout(() => opened.reject(new Refusal('unreachable', 'Codex does not answer')), OPEN_MS);
    socket.addEventListener('open', () => opened.resolve());
    socket.addEventListener('message', ({ data }: MessageEvent<string | Uint8Array>) => peer.receive(data));
    socket.addEventListener('close', () => {
      opened.reject(new Refusal('unreachable', 'the daemon of Codex is gone'));
      peer.close();
      this.#lost(socket);
    });
    this.#socket = socket;
    try {
      await opened.promise;
      await this.#greet(peer);
    } catch (error) {
      socket.terminate();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    if (this.#users === 0) return socket.close();
    this.#peer = peer;
    this.#tell(null);
  }

  async #greet(peer: JsonRpcPeer): Promise<void> {
    const call = async (method: string, params: Params): Promise<unknown> =>
      peer.request(method, params, { ms: CALL_MS }).answer;
    const clientInfo = { name: 'parley', title: 'Parley', version: '1' };
    await call('initialize', { clientInfo, capabilities: { experimentalApi: true } });
    peer.notify('initialized', {});
    const loaded = await call('thread/loaded/list', {});
    const ids = isRecord(loaded) && Array.isArray(loaded['data']) ? loaded['data'].map(String) : [];
    // One that ended meanwhile is not there any more.
    await Promise.all(
      ids.map((threadId) => call('thread/read', { threadId }).then((read) => this.#keep(read), ignore)),
    );
  }

  #handler(): ConstructorParameters<typeof JsonRpcPeer>[1] {
    return {
      request: (request) => this.#pass(request),
      broken: ignore,
      notification: (notification) => {
        this.#pass(notification);
        const { method, params } = notification;
        const { threadId: id } = params;
        if (method === 'thread/started') this.#keep(params);
        else if (typeof id !== 'string') return;
        else if (method === 'thread/closed') this.#unloaded(id);
        else if (method === 'thread/status/changed') this.#changed(id, params['status']);
      },
    };
  }

  #pass(message: Request | Notification): void {
    for (const heard of this.#hearers) heard(message);
  }

  #changed(id: string, status: unknown): void {
    const known = this.threads.get(id);
    const now = statusIn(status);
    if (now === null) return this.#unloaded(id);
    if (known) {
      known.status = now;
      return this.#tell(id);
    }
    // A conversation that is resumed is announced by its status alone.
    void this.call('thread/read', { threadId: id }).then((read) => this.#keep(read), ignore);
  }

  #keep(read: unknown): void {
    const thread = isRecord(read) ? threadIn(read['thread']) : null;
    if (!thread) return;
    this.threads.set(thread.id, thread);
    this.#tell(thread.id);
  }

  #unloaded(id: string): void {
    if (this.threads.delete(id)) this.#tell(id);
  }

  #lost(socket: WebSocket): void {
    if (this.#socket !== socket) return;
    const wasConnected = this.#peer !== null;
    this.#socket = null;
    this.#peer = null;
    this.threads.clear();
    if (wasConnected) this.#tell(null);
  }

  #tell(thread: string | null): void {
    for (const listener of this.#listeners) listener(thread);
  }

  /** The socket itself: the link to it may have a longer path than a socket can have. Throws if nobody of ours listens there yet. */
  #path(): string {
    const path = realpathSync(this.#link);
    const { uid, mtimeMs } = statSync(path);
    if (uid !== process.getuid?.()) throw new Refusal('not_yours', `${path} belongs to another user`);
    if (Date.now() - mtimeMs < FIRST_CLIENT_MS) throw new Refusal('unreachable', 'the daemon of Codex is starting');
    return path;
  }
}

/** Codex has no record of this conversation. */
export function isUnknownThread(error: unknown): boolean {
  return error instanceof RemoteError && /no rollout found/.test(error.message);
}

/** The id of a prompt in the queue of a thread, as Codex lists it; null if it is not there. */
export function placeInQueue({ data }: Params, key: string): string | null {
  const items: unknown[] = Array.isArray(data) ? data : [];
  const found = items.find((item) => isRecord(item) && item['clientUserMessageId'] === key);
  return isRecord(found) ? String(found['id']) : null;
}

export function codexHome(env: Env): string {
  return env['CODEX_HOME'] || `${userHome(env)}/.codex`;
}

/** Nothing runs in it: a prompt begins a turn. */
export function isThreadFree({ status }: Thread): boolean {
  return status === 'idle' || status === 'failed';
}

export function stateOf(thread: Thread): Pick<SessionState, 'status' | 'waitingFor'> {
  const { status } = thread;
  if (status === 'waitingOnApproval' || status === 'waitingOnUserInput')
    return { status: 'waiting', waitingFor: WAITING[status] };
  return { status: isThreadFree(thread) ? 'idle' : 'active' };
}

function threadIn(value: unknown): Thread | null {
  if (!isRecord(value)) return null;
  const { id, cwd, path, ephemeral, parentThreadId, threadSource, status } = value;
  const now = statusIn(status);
  if (typeof id !== 'string' || typeof cwd !== 'string' || now === null) return null;
  const isUsers = ephemeral === false && typeof parentThreadId !== 'string' && threadSource === 'user';
  return { id, cwd, path: typeof path === 'string' ? path : null, isUsers, status: now };
}

/** Null if the thread is not loaded. A status that we do not know may be anything: nothing is typed then. */
function statusIn(value: unknown): ThreadStatus | null {
  const { type, activeFlags } = isRecord(value) ? value : {};
  if (type === 'notLoaded') return null;
  if (type === 'idle') return 'idle';
  if (type === 'systemError') return 'failed';
  const flags: unknown[] = Array.isArray(activeFlags) ? activeFlags : [];
  if (flags.includes('waitingOnApproval')) return 'waitingOnApproval';
  return flags.includes('waitingOnUserInput') ? 'waitingOnUserInput' : 'active';
}

function ignore(): void {}
