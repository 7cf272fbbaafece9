import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import type { SessionState } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { userHome } from '../../platform/env.ts';
import { isProcessAlive, startOf } from '../../platform/process.ts';
import { isRecord, JsonRpcPeer, RemoteError } from '../../wire/jsonrpc.ts';
import type { Id, Notification, Params, Request } from '../../wire/jsonrpc.ts';

/** `failed`: the last turn ended with an error. Codex then takes prompts as if it were idle. */
export type ThreadStatus = 'idle' | 'failed' | 'active' | 'waitingOnApproval' | 'waitingOnUserInput';

/** A conversation that Codex's daemon has loaded. */
export interface Thread {
  id: string;
  cwd: string;
  /** The path of its record. Codex creates the file with the first turn. */
  path: string | null;
  /** False for internal threads of Codex: titles, subagents. */
  isUsers: boolean;
  status: ThreadStatus;
}

const WAITING = { waitingOnApproval: 'permission prompt', waitingOnUserInput: 'input needed' } as const;

/** Time for the answer to a call. The daemon may still execute a call that it did not answer in time. */
const CALL_MS = 5000;
const OPEN_MS = 1500;
const RETRY_MS = 1000;
/**
 * How long we do not connect to a new daemon. It takes over the name of its first client, also towards the model's provider, and that must be
 * the name of Codex's own client.
 */
const FIRST_CLIENT_MS = 1500;

const shared = new Map<string, CodexDaemon>();

/**
 * The connection of this process to the daemon of one Codex home, over its control socket (WebSocket, JSON-RPC without the version). It knows
 * all loaded threads, because the daemon reports starts, ends and status changes to each client. It never starts the daemon, and it replies
 * to a request of the daemon only with the user's answer.
 */
export class CodexDaemon {
  /** The loaded threads; empty while there is no connection. */
  readonly threads = new Map<string, Thread>();
  /** Which session has which conversation or terminal: the name of the session by the id of the conversation or terminal. */
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

  /** The shared connection for a Codex home. Each `at` needs one `release`. */
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

  /** Connects to the daemon. False if none runs, or it does not answer. */
  async connect(): Promise<boolean> {
    if (this.#peer) return true;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return this.#opening.then(
      () => true,
      () => false,
    );
  }

  /**
   * Calls `changed` with the id of each thread that changes, or with null when the connection opens or closes. Reconnects until the returned
   * function is called.
   */
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

  /** Calls `heard` with each request and notification of the daemon. Returns a function that stops this. */
  hear(heard: (message: Request | Notification) => void): () => void {
    this.#hearers.add(heard);
    return () => void this.#hearers.delete(heard);
  }

  /** Replies to a request of the daemon. False if there is no connection. */
  reply(id: Id, result: Params): boolean {
    return this.#peer?.answer(id, result) ?? false;
  }

  /** Throws RemoteError if Codex refuses, NoAnswer if it does not answer in time, and Refusal `unreachable` if the daemon does not run or ends. */
  async call(method: string, params: Params, ms = CALL_MS): Promise<Params> {
    if (!(await this.connect()) || !this.#peer)
      throw new Refusal('unreachable', 'the daemon of Codex does not run; start Codex, which starts it');
    const result = await this.#peer.request(method, params, { ms }).answer;
    return isRecord(result) ? result : {};
  }

  /** Does the daemon report this thread as loaded? */
  async hasLoaded(threadId: string, ms = CALL_MS): Promise<boolean> {
    const { data, nextCursor } = await this.call('thread/loaded/list', {}, ms);
    return !Array.isArray(data) || data.includes(threadId) || typeof nextCursor === 'string';
  }

  /** The port of the window that began or resumed this thread: the window serves tools to it there. Null if no window did. */
  async windowPort(threadId: string, ms = CALL_MS): Promise<number | null> {
    const asked = { threadId, serverName: 'codex_tui', detail: 'toolsAndAuthOnly' };
    const { data } = await this.call('mcpServerStatus/list', asked, ms);
    const [server]: unknown[] = Array.isArray(data) ? data : [];
    const origin = isRecord(server) ? String(server['httpOrigin']) : '';
    return Number(/^http:\/\/127\.0\.0\.1:(\d+)$/.exec(origin)?.[1] ?? 0) || null;
  }

  /** The queue id of a waiting prompt; null if it is not in the queue. */
  async queued(threadId: string, key: string, ms = CALL_MS): Promise<string | null> {
    return placeInQueue(await this.call('thread/queue/list', { threadId }, ms), key);
  }

  /**
   * Gives a prompt to a thread and returns the id of its turn. The prompt begins a turn, or joins the running turn after its tool call. Not
   * idempotent: a second call with the same key makes a second prompt.
   */
  async prompt(threadId: string, key: string, text: string): Promise<string> {
    const input = [{ type: 'text', text, text_elements: [] }];
    const { turn } = await this.call('turn/start', { threadId, clientUserMessageId: key, input });
    return isRecord(turn) ? String(turn['id']) : '';
  }

  /** Adds a prompt to the queue of a thread and returns its queue id. Not idempotent: a second call makes a second prompt. */
  async enqueue(threadId: string, key: string, text: string): Promise<string> {
    const input = [{ type: 'text', text, text_elements: [] }];
    const { queuedSubmission: item } = await this.call('thread/queue/add', {
      threadId,
      clientUserMessageId: key,
      input,
    });
    return isRecord(item) ? String(item['id']) : '';
  }

  /** Begins a queued prompt. False if it continues to wait because another turn runs. True, without effect, if it has begun already. */
  async begin(threadId: string, queuedSubmissionId: string): Promise<boolean> {
    try {
      await this.call('thread/queue/start', { threadId, queuedSubmissionId });
      return true;
    } catch (error) {
      return error instanceof RemoteError && /not found/.test(error.message);
    }
  }

  /** Removes a prompt from the queue. False if it is not there, for example because it has begun. */
  async dequeue(threadId: string, queuedSubmissionId: string): Promise<boolean> {
    const { deleted } = await this.call('thread/queue/delete', { threadId, queuedSubmissionId });
    return deleted === true;
  }

  /** Interrupts the running turn. */
  async interrupt(threadId: string): Promise<void> {
    const { data } = await this.call('thread/turns/list', { threadId, limit: 1 });
    const turn: unknown = Array.isArray(data) ? data[0] : null;
    if (isRecord(turn)) await this.call('turn/interrupt', { threadId, turnId: String(turn['id']) });
  }

  /** Runs one start of a client at a time, so that a new thread belongs to the client that was just started. */
  async exclusively<T>(act: () => Promise<T>): Promise<T> {
    this.#starting += 1;
    const turn = this.#starts.then(act).finally(() => (this.#starting -= 1));
    this.#starts = turn.catch(() => 'the next one may start');
    return turn;
  }

  /** While a client starts, a new thread may belong to a session that does not know it yet. */
  get isStarting(): boolean {
    return this.#starting > 0;
  }

  /** True only if the daemon has certainly ended. Windows do not restart it; they wait for it. */
  isDead(): boolean {
    const folder = `${this.home}/app-server-daemon`;
    if (!existsSync(`${folder}/daemon.pid`)) return !existsSync(this.#link);
    try {
      const file = readFileSync(`${folder}/daemon.pid`, 'utf8');
      const { pid, processIdentity } = JSON.parse(file) as { pid: number; processIdentity?: { startTicks?: number } };
      const [started, ticks] = [startOf(pid), processIdentity?.startTicks];
      return !isProcessAlive(pid) || (started !== null && ticks !== undefined && started !== String(ticks));
    } catch {
      // The file is being written.
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
      opened.reject(new Refusal('unreachable', 'the daemon of Codex has ended'));
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
    // A thread that ended meanwhile cannot be read.
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
    // For a resumed conversation, Codex sends only a status change.
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

  /**
   * The real path of the socket: the path of the link may be too long for a socket. Throws if there is no socket, if it is another user's, or if
   * the daemon is still starting.
   */
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

/** Finds a prompt in the answer of `thread/queue/list` and returns its queue id; null if it is not there. */
export function placeInQueue({ data }: Params, key: string): string | null {
  const items: unknown[] = Array.isArray(data) ? data : [];
  const found = items.find((item) => isRecord(item) && item['clientUserMessageId'] === key);
  return isRecord(found) ? String(found['id']) : null;
}

export function codexHome(env: Env): string {
  return env['CODEX_HOME'] || `${userHome(env)}/.codex`;
}

/** No turn runs in this thread, so a prompt begins one. */
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

/** Null if the thread is not loaded. An unknown status counts as `active`, so nothing is sent. */
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
