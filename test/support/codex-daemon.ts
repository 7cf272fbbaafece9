// A stand-in for the daemon of Codex: the part of its control socket that we use, and the record that it writes. Its windows are
// processes of codex-window.child.ts.
//
//   const codex = new ScriptedCodex();
//   codex.env, codex.folder, codex.command               // for a CodexSession
//   codex.answers = (text) => `re: ${text}`;             // null: the turn continues until `step`, `finish` or `interrupt`
//   codex.shown                                          // the texts in requests to the model
//   codex.asks(thread, 'item/tool/requestUserInput', {}) // asks every joined client; `resolve` answers as the user in the window
import { appendFileSync, existsSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import type { ServerWebSocket } from 'bun';
import { temporaryHome } from './home.ts';

const WINDOW = new URL('./codex-window.child.ts', import.meta.url).pathname;

interface Item {
  id: string;
  clientUserMessageId: string;
  input: { text: string }[];
}

interface PlayedThread {
  id: string;
  cwd: string;
  path: string;
  ephemeral: boolean;
  status: object;
  isLoaded: boolean;
  turn: string | null;
  queue: Item[];
  /** The port on which its window serves tools. */
  port?: number;
  /** Prompts that wait for the next request of the running turn. They are only in the daemon's memory. */
  pending: Item[];
  /** True after an interrupt: then no queued prompt starts by itself. */
  isPaused: boolean;
}

/** A request of the daemon that waits for the user of a thread. */
interface PlayedRequest {
  id: number;
  thread: PlayedThread;
  method: string;
  params: Record<string, unknown>;
}

interface Frame {
  id?: number | string;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
}

const IDLE = { type: 'idle' };
const ACTIVE = { type: 'active', activeFlags: [] as string[] };

export class ScriptedCodex {
  readonly home = temporaryHome();
  readonly codexHome = `${this.home}/.codex`;
  readonly folder = `${this.home}/project`;
  readonly socket = `${this.home}/s`;
  readonly threads = new Map<string, PlayedThread>();
  /** Every method that a client called. */
  readonly called: string[] = [];
  /** The number of clients that have connected. */
  clients = 0;
  /** Answers of clients to requests of the daemon. */
  readonly replies: Frame[] = [];
  answers: (text: string) => string | null = (text) => `re: ${text}`;
  /** The texts in requests to the model, in order. */
  readonly shown: string[] = [];
  /** The daemon records a prompt and stops before it sends the request to the model. */
  diesBeforeRequest = false;
  /** The methods that are refused, each with its error message. */
  readonly refuses = new Map<string, string>();
  /** The approval policy in the settings of Codex. */
  approvalPolicy = 'never';
  /** The parameters of each `thread/settings/update`. */
  readonly rights: Record<string, unknown>[] = [];
  /** The methods that are carried out but not answered. */
  readonly silent = new Set<string>();
  #server: Bun.Server<undefined> | null = null;
  readonly #sockets = new Set<ServerWebSocket>();
  readonly requests = new Map<number, PlayedRequest>();
  /** The clients that joined each thread, by thread id. */
  readonly #joined = new Map<string, Set<ServerWebSocket>>();
  #count = 0;
  #requestId = -1;
  /** Handles the reply of a client to a request. By default it resolves the request. */
  taken: (request: PlayedRequest, result: Record<string, unknown>) => void = (request, result) =>
    this.resolve(request, result);
  /** The items of the running turn that a joining client gets. */
  items: object[] = [];

  constructor() {
    mkdirSync(this.folder);
    for (const name of ['app-server-control', 'app-server-daemon', 'sessions/2026/11/18'])
      mkdirSync(`${this.codexHome}/${name}`, { recursive: true });
    symlinkSync(this.socket, `${this.codexHome}/app-server-control/app-server-control.sock`);
    this.start();
  }

  get env(): Record<string, string> {
    const { PATH = '' } = process.env;
    return { PATH, HOME: this.home, TMUX_TMPDIR: this.home, LANG: 'C.UTF-8', TERM: 'xterm-256color', SHELL: '/bin/sh' };
  }

  /** The command that starts a window, in place of `codex`. */
  get command(): string[] {
    return [process.execPath, WINDOW, this.socket];
  }

  start(): void {
    this.#server = Bun.serve({
      unix: this.socket,
      fetch: (request, server) => (server.upgrade(request) ? undefined : this.#window(request)),
      websocket: {
        open: (socket) => {
          this.clients += 1;
          this.#sockets.add(socket);
        },
        message: (socket, text) => this.#take(socket, JSON.parse(String(text)) as Frame),
        close: (socket) => {
          this.#sockets.delete(socket);
          for (const sockets of this.#joined.values()) sockets.delete(socket);
        },
      },
    });
    this.startedAt(0);
    this.#pidFile(process.pid);
  }

  /** Makes the daemon look as if it had started at this time (ms). */
  startedAt(ms: number): void {
    utimesSync(this.socket, new Date(ms), new Date(ms));
  }

  /** Kills the daemon: running turns get no end in the record, and no thread stays loaded. */
  async kill(): Promise<void> {
    await this.#server?.stop(true);
    this.#server = null;
    for (const thread of this.threads.values())
      Object.assign(thread, { isLoaded: false, turn: null, status: IDLE, pending: [] });
    this.#pidFile(999_999_999);
    rmSync(this.socket, { force: true });
  }

  async close(): Promise<void> {
    await this.#server?.stop(true);
    const tmux = Bun.spawn(['tmux', 'kill-server'], { env: this.env, stdout: 'ignore', stderr: 'ignore' });
    await tmux.exited;
  }

  /** Begins a conversation, as a window does. */
  begin(cwd = this.folder, more: Partial<PlayedThread> = {}): PlayedThread {
    const id = `01a1ecff-0000-7000-8000-${String((this.#count += 1)).padStart(12, '0')}`;
    const path = `${this.codexHome}/sessions/2026/11/18/rollout-2026-11-18T00-00-00-${id}.jsonl`;
    const state = { status: IDLE, isLoaded: true, turn: null, queue: [], pending: [], isPaused: false };
    const thread = { id, cwd, path, ephemeral: false, ...state, ...more };
    this.threads.set(id, thread);
    if (thread.isLoaded) this.#tell('thread/started', { thread: shown(thread) });
    return thread;
  }

  status(thread: PlayedThread, status: object): void {
    thread.status = status;
    this.#tell('thread/status/changed', { threadId: thread.id, status });
  }

  unload(thread: PlayedThread): void {
    thread.isLoaded = false;
    this.#tell('thread/closed', { threadId: thread.id });
  }

  /** Loads a conversation again. Clients learn of it only by its status. */
  load(thread: PlayedThread): void {
    if (thread.isLoaded) this.status(thread, { type: 'notLoaded' });
    thread.isLoaded = true;
    this.status(thread, IDLE);
  }

  /** Shows a conversation that a client began in a window. */
  shows(threadId: string): void {
    this.#tell('thread/goal/cleared', { threadId });
  }

  /** Sends a request to every client, as for an approval. */
  ask(method: string): void {
    for (const socket of this.#sockets) socket.send(JSON.stringify({ id: 'approval-1', method, params: {} }));
  }

  /** Makes the thread wait for its user: asks all clients that have joined it, and those that join later. */
  asks(thread: PlayedThread, method: string, params: Record<string, unknown> = {}): PlayedRequest {
    const id = (this.#requestId += 1);
    const item = { turnId: 'turn-1', itemId: `call_${id}`, ...params };
    const request = { id, thread, method, params: { threadId: thread.id, ...item } };
    this.requests.set(id, request);
    const call = { type: 'function_call', call_id: item.itemId, name: 'request_user_input' };
    if (method === 'item/tool/requestUserInput') this.#record(thread, call, 'response_item');
    for (const socket of this.#joinedTo(thread)) socket.send(JSON.stringify({ id, method, params: request.params }));
    this.#showWaiting(thread);
    return request;
  }

  /** Ends a request with the first answer. `item`: the fields of the completed item. */
  resolve({ id, thread, method, params }: PlayedRequest, result: Record<string, unknown>, item?: object): void {
    if (!this.requests.delete(id)) return;
    this.#tellJoined(thread, 'serverRequest/resolved', { threadId: thread.id, requestId: id });
    const output = { type: 'function_call_output', call_id: params['itemId'], output: JSON.stringify(result) };
    if (method === 'item/tool/requestUserInput') this.#record(thread, output, 'response_item');
    else if (item)
      this.#tellJoined(thread, 'item/completed', { threadId: thread.id, item: { id: params['itemId'], ...item } });
    else if (result['decision'] === 'cancel')
      this.#tellJoined(thread, 'turn/completed', {
        threadId: thread.id,
        turn: { id: params['turnId'], status: 'interrupted' },
      });
    this.#showWaiting(thread);
  }

  /** Tells every joined client that an item begins. */
  begins(thread: PlayedThread, item: object): void {
    this.#tellJoined(thread, 'item/started', { threadId: thread.id, item });
  }

  /** How many clients have joined a thread. */
  joinedTo({ id }: PlayedThread): number {
    return this.#joined.get(id)?.size ?? 0;
  }

  #showWaiting(thread: PlayedThread): void {
    const flags = [...this.requests.values()]
      .filter((request) => request.thread === thread)
      .map(({ method }) => (method.endsWith('requestApproval') ? 'waitingOnApproval' : 'waitingOnUserInput'));
    this.status(thread, { type: 'active', activeFlags: [...new Set(flags)] });
  }

  #joinedTo({ id }: PlayedThread): Set<ServerWebSocket> {
    const sockets = this.#joined.get(id) ?? new Set();
    this.#joined.set(id, sockets);
    return sockets;
  }

  #tellJoined(thread: PlayedThread, method: string, params: object): void {
    for (const socket of this.#joinedTo(thread)) socket.send(JSON.stringify({ method, params }));
  }

  /** Joins a client to a thread, and sends it the open requests right after the answer. */
  #joins(socket: ServerWebSocket, thread: PlayedThread): void {
    this.#joinedTo(thread).add(socket);
    queueMicrotask(() => {
      for (const { id, method, params, thread: its } of this.requests.values())
        if (its === thread) socket.send(JSON.stringify({ id, method, params }));
    });
  }

  /** A person submits a prompt in the window. */
  typed(thread: PlayedThread, text: string): void {
    this.#run(thread, { id: 'i', clientUserMessageId: 'a-window', input: [{ text }] });
  }

  /** Ends the tool call of a turn: the pending prompts are in the next request, and the model answers with another call. */
  step(thread: PlayedThread): void {
    this.#join(thread, thread.pending.splice(0));
    if (!this.diesBeforeRequest) this.#output(thread, 'next call');
  }

  /** Ends a turn with the model's final text. */
  finish(thread: PlayedThread, text: string): void {
    this.#join(thread, thread.pending.splice(0));
    this.#output(thread, text);
    this.#record(thread, { type: 'task_complete', turn_id: thread.turn, last_agent_message: text });
    this.#ended(thread);
  }

  /** Ends a turn because the request to the model fails. */
  fail(thread: PlayedThread): void {
    const error = { message: 'stream disconnected' };
    this.#record(thread, { type: 'task_complete', turn_id: thread.turn, last_agent_message: null, error });
    this.#ended(thread, { type: 'systemError' });
  }

  interrupt(thread: PlayedThread): void {
    this.#record(thread, { type: 'turn_aborted', turn_id: thread.turn, reason: 'interrupted' });
    thread.isPaused = true;
    thread.pending = [];
    this.#ended(thread);
  }

  #ended(thread: PlayedThread, status: object = IDLE): void {
    thread.turn = null;
    this.status(thread, status);
    if (!thread.isPaused) this.#drain(thread);
  }

  #drain(thread: PlayedThread): void {
    const item = thread.turn === null ? thread.queue.shift() : undefined;
    if (item) this.#run(thread, item);
  }

  #run(thread: PlayedThread, item: Item, turn_id = this.#newTurn()): void {
    thread.turn = turn_id;
    thread.isPaused = false;
    this.#record(thread, { type: 'task_started', turn_id });
    this.status(thread, ACTIVE);
    this.#join(thread, [item]);
    const answer = this.diesBeforeRequest ? null : this.answers(item.input.map(({ text }) => text).join(''));
    if (answer !== null) this.finish(thread, answer);
  }

  #newTurn(): string {
    return `turn-${(this.#count += 1)}`;
  }

  /** Adds prompts to the conversation, and to the next request. */
  #join(thread: PlayedThread, items: Item[]): void {
    for (const { clientUserMessageId: client_id, input } of items) {
      const item = { type: 'UserMessage', client_id, content: input.map(({ text }) => ({ type: 'text', text })) };
      this.#record(thread, { type: 'item_completed', turn_id: thread.turn, item });
      if (!this.diesBeforeRequest) this.shown.push(input.map(({ text }) => text).join(''));
    }
  }

  #output(thread: PlayedThread, text: string): void {
    const item = { type: 'AgentMessage', id: `msg_${(this.#count += 1)}`, content: [{ type: 'Text', text }] };
    this.#record(thread, { type: 'item_completed', turn_id: thread.turn, item });
  }

  #record(thread: PlayedThread, payload: object, type = 'event_msg'): void {
    const timestamp = new Date().toISOString();
    const { id, cwd, path } = thread;
    if (!existsSync(path)) writeFileSync(path, `${JSON.stringify({ type: 'session_meta', payload: { id, cwd } })}\n`);
    appendFileSync(path, `${JSON.stringify({ timestamp, type, payload })}\n`);
  }

  #take(socket: ServerWebSocket, frame: Frame): void {
    const { id, method, params = {} } = frame;
    if (method === undefined) {
      this.replies.push(frame);
      const request = this.requests.get(Number(id));
      return request && frame.result ? this.taken(request, frame.result) : undefined;
    }
    this.called.push(method);
    if (id === undefined) return;
    const outcome = this.#answer(method, params, socket);
    // Without `jsonrpc`, as Codex does.
    if (!this.silent.has(method)) socket.send(JSON.stringify({ id, ...outcome }));
  }

  #answer(method: string, params: Record<string, unknown>, socket: ServerWebSocket): object {
    const thread = this.threads.get(String(params['threadId']));
    if (method === 'initialize') return { result: { codexHome: this.codexHome } };
    if (method === 'thread/loaded/list') return { result: { data: this.#loaded().map(({ id }) => id) } };
    if (method === 'thread/start') {
      const { ephemeral, approvalPolicy = this.approvalPolicy } = params;
      const begun = this.begin(String(params['cwd']), { ephemeral: ephemeral === true });
      return { result: { thread: shown(begun), approvalPolicy, sandbox: { type: 'workspaceWrite' } } };
    }
    if (!thread) return refused(-32_603, 'no rollout found');
    const words = this.refuses.get(method);
    if (words !== undefined) return refused(-32_603, words);
    switch (method) {
      case 'thread/read':
        return { result: { thread: shown(thread) } };
      case 'turn/start': {
        const item = params as unknown as Item;
        if (thread.turn !== null) thread.pending.push(item);
        else thread.turn = this.#newTurn();
        const { turn, pending } = thread;
        if (!pending.includes(item)) queueMicrotask(() => this.#run(thread, item, turn));
        return { result: { turn: { id: turn } } };
      }
      case 'thread/resume':
        if (!existsSync(thread.path)) return refused(-32_600, 'no rollout found');
        this.#joins(socket, thread);
        return { result: { thread: shown(thread), initialTurnsPage: { data: [{ items: this.items }] } } };
      case 'thread/name/set':
        return { result: {} };
      case 'thread/settings/update':
        this.rights.push(params);
        return { result: {} };
      case 'thread/unsubscribe':
        this.#joinedTo(thread).delete(socket);
        return { result: { status: 'unsubscribed' } };
      case 'mcpServerStatus/list': {
        const { port } = thread;
        return { result: { data: port === undefined ? [] : [{ httpOrigin: `http://127.0.0.1:${port}` }] } };
      }
      case 'thread/queue/list':
        return { result: { data: thread.queue } };
      case 'thread/queue/add': {
        const item = { id: `item-${(this.#count += 1)}`, ...params } as unknown as Item;
        thread.queue.push(item);
        if (!thread.isPaused) queueMicrotask(() => this.#drain(thread));
        return { result: { queuedSubmission: item } };
      }
      case 'thread/queue/start': {
        const at = thread.queue.findIndex(({ id }) => id === params['queuedSubmissionId']);
        if (at < 0) return refused(-32_600, 'queued submission not found');
        if (thread.turn !== null) return refused(-32_600, 'thread already has an active or pending turn');
        const [item] = thread.queue.splice(at, 1);
        if (item) queueMicrotask(() => this.#run(thread, item));
        return { result: { turn: {} } };
      }
      case 'thread/queue/delete': {
        const at = thread.queue.findIndex(({ id }) => id === params['queuedSubmissionId']);
        if (at >= 0) thread.queue.splice(at, 1);
        return { result: { deleted: at >= 0 } };
      }
      case 'thread/turns/list':
        return { result: { data: [{ id: thread.turn }] } };
      case 'turn/interrupt':
        this.interrupt(thread);
        return { result: {} };
      default:
        return refused(-32_600, `unknown variant ${method}`);
    }
  }

  /** Handles the start of a window: it begins or resumes a conversation. */
  async #window(request: Request): Promise<Response> {
    const { cwd, args } = (await request.json()) as { cwd: string; args: string[] };
    const resumed = this.threads.get(args[args.indexOf('resume') + 1] ?? '');
    if (args.includes('--asks')) return new Response('asks');
    if (!args.includes('resume')) this.begin(cwd);
    else if (resumed) this.load(resumed);
    else return new Response('ERROR: No saved session found', { status: 404 });
    return new Response('ok');
  }

  #loaded(): PlayedThread[] {
    return [...this.threads.values()].filter(({ isLoaded }) => isLoaded);
  }

  #tell(method: string, params: object): void {
    for (const socket of this.#sockets) socket.send(JSON.stringify({ method, params }));
  }

  #pidFile(pid: number): void {
    const file = `${this.codexHome}/app-server-daemon/daemon.pid`;
    rmSync(file, { force: true });
    writeFileSync(file, JSON.stringify({ pid }));
  }
}

function shown({ id, cwd, path, ephemeral, status }: PlayedThread): object {
  return { id, cwd, path, ephemeral, parentThreadId: null, threadSource: ephemeral ? 'thread_title' : 'user', status };
}

function refused(code: number, message: string): object {
  return { error: { code, message } };
}
