// Parley for OpenCode: publishes which session a window shows and its state, and gives the session the mail that Parley brings. Without a
// window (`opencode run`, `serve`, `web`) the session is the one that was prompted last, in the folder in which OpenCode was started.
//
// One file without packages. It has only one export, because OpenCode calls every export of a plugin file as a plugin.
//
//   state   `<Parley's home>/opencode/<pid>.json`, written at each change: the session, its state, and the path of the socket.
//   socket  only its user can open it. It takes the calls below and passes them on within this process. OpenCode opens no port for its
//           window, and neither does this plugin.
//   crash   the file stays. Parley sees that the process in it has ended.
// The plugin answers a question only with an answer of the user that Parley passes on, and a permission only if the user has also turned
// that on (`control_may_approve` in ~/.ccc.json). Mail never answers either.
// No error of the plugin reaches OpenCode.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/** The home of Parley, if an installer wrote one here. PARLEY_HOME in the environment takes precedence. */
const HOME = '';
/** The path of a socket must be shorter than this. */
const SOCKET_PATH = 100;
/** Events come in groups and are handled together after this time. */
const SOON_MS = 10;
/** A window accepts a session to show only after it has drawn: within twice the time that it took to load this plugin, plus this time. */
const DRAWN_S = 5;
const SHOW_MS = 1000;
/** Time for Parley to send what is owed after a compaction. The next request to the model waits for it. */
const OWED_MS = 5000;
const BODY_LIMIT = 4_000_000;
/** The most messages that are remembered as given. */
const KEPT = 10_000;
/** Commands of OpenCode that have sessions but no window. They get no mail before their first prompt. */
const NO_WINDOW = 'run serve web'.split(' ');
/** Commands that get no mail at all. */
const NO_MAIL =
  'acp attach auth providers models upgrade uninstall export import session mcp agent debug github pr stats db plugin plug completion'.split(
    ' ',
  );

/** Options of OpenCode that take a value. The word after one is not a command. */
const WITH_VALUE = /^(-m|-s|--(log-level|port|hostname|mdns-domain|cors|model|session|prompt|agent|replay-limit))$/;

// The parts of OpenCode that are used here, in the shapes of its own client.
type Facts = Record<string, unknown>;
interface Answer {
  data?: unknown;
  error?: unknown;
  response?: { status?: number };
}
interface Input {
  client: { _client: Record<'get' | 'post', (call: Facts) => Promise<Answer>> };
  directory: string;
}
interface Hooks {
  event?(input: { event: { type: string; properties?: Facts } }): Promise<void>;
  'experimental.chat.messages.transform'?(input: unknown, output: { messages: RequestMessage[] }): Promise<void>;
  dispose?(): Promise<void>;
}

/** A message of a request to the model. */
interface RequestMessage {
  info: Facts & { id: string; sessionID: string };
  parts: Facts[];
}

/** The answer to a call of Parley: an HTTP status and JSON. */
interface Reply {
  status: number;
  body?: unknown;
}

/** Shared by all copies of this plugin in the process: OpenCode may load two copies, and one again after a change of settings. Only one serves. */
interface Shared {
  owner: Window | null;
  /** The session that the window shows, if known. */
  current: string | null;
  /** The messages that OpenCode was given, by the endings of their ids. */
  given: Map<string, Given>;
  /** The owed messages, by the compaction after which they are shown again. */
  owed: Map<string, Owed[]>;
}

/** A message that the model must answer, with the ending of its id. */
interface Owed {
  ending: string;
  text: string;
}

/** A message that OpenCode was given. OpenCode may answer the call before it has recorded the message. */
interface Given {
  id: string;
  session: string;
  /** When OpenCode answered the call, in ms of `performance.now()`; infinite until then. */
  at: number;
}
const KEY = Symbol.for('parley.opencode');
const words = wordsOfThis();
const command = words.find((word, at) => !word.startsWith('-') && !WITH_VALUE.test(words[at - 1] ?? '')) ?? '';
const hasWindow = !NO_WINDOW.includes(command);
/** The process of `parley run`, which became the npm script of OpenCode, if that is not this process. */
const runBy = Number(process.env['PARLEY_RUN_PID'] ?? 0);
const world = globalThis as { [KEY]?: Shared };
const shared: Shared = (world[KEY] ??= { owner: null, current: null, given: new Map(), owed: new Map() });

const UNKNOWN = 'unknown';

/** The window of this process. */
class Window {
  readonly #home = process.env['PARLEY_HOME'] || HOME || join(process.env['HOME'] || homedir(), '.parley');
  readonly #folder = join(this.#home, 'opencode');
  readonly #file = join(this.#folder, `${process.pid}.json`);
  readonly #socket = socketIn(this.#folder);
  readonly #data = join(
    process.env['XDG_DATA_HOME'] || join(process.env['HOME'] || homedir(), '.local/share'),
    'opencode',
  );
  /** The settings of control. Only the user writes there whether Parley may answer permissions. */
  readonly #settings = join(process.env['HOME'] || homedir(), '.ccc.json');
  readonly #server: Server;
  /** The parent of each session of a subagent; null for a session of the user. */
  readonly #parents = new Map<string, string | null>();
  /** The id of the newest user message. */
  #prompt = '';
  #state: Facts = {};
  /** Since when the session has been idle without a question, in ms of `performance.now()`; infinite while it is not. */
  #freeSince = Infinity;
  #opening: Promise<Reply> | null = null;
  /** The age of this process when it loaded the plugin, in seconds. */
  readonly #loadedAt = process.uptime();
  #written = '';
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looking: Promise<void> = Promise.resolve();
  /** The compaction for which the plugin waits until Parley sends what is owed. `told` ends the wait. */
  #compaction: { id: string; told: () => void } | null = null;
  #isClosed = false;

  constructor(readonly input: Input) {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    rmSync(this.#socket, { force: true });
    this.#server.on('error', () => this.close());
    // `listen` creates the socket before it returns. The umask keeps other users out until the mode is set.
    const usual = process.umask(0o077);
    try {
      this.#server.listen(this.#socket, () => {
        chmodSync(this.#socket, 0o600);
        this.#server.unref();
        this.#soon();
      });
    } finally {
      process.umask(usual);
    }
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#server.close();
    for (const path of [this.#file, this.#socket]) rmSync(path, { force: true });
    if (shared.owner === this) shared.owner = null;
  }

  /** Handles an event of OpenCode in this folder. */
  async heard(type: string, facts: Facts): Promise<void> {
    const info = factsIn(facts['info']);
    const session = wordIn(facts['sessionID']) ?? wordIn(info['id']);
    if (type === 'session.created' && session) this.#parents.set(session, wordIn(info['parentID']));
    if (type === 'session.deleted' && session === shared.current) shared.current = null;
    const prompt = wordIn(info['id']) ?? '';
    // OpenCode also reports changes of old prompts. Ids grow with time.
    const isPrompted = type === 'message.updated' && info['role'] === 'user' && prompt > this.#prompt;
    if (isPrompted) this.#prompt = prompt;
    const isShown = hasWindow && (type === 'tui.session.select' || type === 'session.created');
    const isChosen = isShown || isPrompted;
    if (isChosen && session && session !== shared.current && (await this.#parentOf(session)) === null) {
      shared.current = session;
      this.#soon();
    }
    if (/^(session\.(status|idle|error|deleted)|permission\.|question\.)/.test(type)) this.#soon();
  }

  /** The parent session; null for a session of the user. */
  async #parentOf(session: string): Promise<string | null> {
    if (!this.#parents.has(session)) {
      const { id, parentID } = factsIn((await this.#call('get', `/session/${session}`)).data);
      if (id !== session) return UNKNOWN;
      this.#parents.set(session, wordIn(parentID));
    }
    return this.#parents.get(session) ?? null;
  }

  #soon(): void {
    if (!this.#isClosed)
      this.#timer ??= setTimeout(() => ((this.#timer = undefined), void this.#look().catch(() => {})), SOON_MS);
  }

  /** Asks OpenCode for its state and writes it. One look at a time, so an older answer never replaces a newer one. */
  #look(): Promise<void> {
    const look = this.#looking.then(() => this.#ask());
    this.#looking = look.catch(() => {});
    return look;
  }

  async #ask(): Promise<void> {
    if (shared.current === null) shared.current = await this.#named();
    const [statuses, permissions, questions] = await Promise.all(
      ['/session/status', '/permission', '/question'].map(async (url) => (await this.#call('get', url)).data),
    );
    const asks = isFull(permissions) ? 'permission' : isFull(questions) ? 'question' : null;
    const type = wordIn(factsIn(factsIn(statuses)[shared.current ?? ''])['type']) ?? 'idle';
    const isFree = type === 'idle' && asks === null && this.#state['session'] === shared.current;
    this.#freeSince = isFree ? Math.min(this.#freeSince, performance.now()) : Infinity;
    this.#state = { session: shared.current, isBusy: type !== 'idle', asks };
    this.#write();
  }

  /** The session that the command line names, if any. */
  async #named(): Promise<string | null> {
    const at = words.findIndex((word) => /^(-s|--session)(=|$)/.test(word));
    const word = words[at] ?? '';
    if (words.includes('--fork')) return null;
    if (at >= 0) return word.includes('=') ? word.slice(word.indexOf('=') + 1) : (words[at + 1] ?? null);
    if (!words.some((one) => one === '-c' || one === '--continue')) return null;
    const { data } = await this.#call('get', '/session');
    const updated = (one: Facts): number => Number(factsIn(one['time'])['updated'] ?? 0);
    const roots = (Array.isArray(data) ? data.map(factsIn) : []).filter((one) => !one['parentID']);
    return wordIn(roots.sort((a, b) => updated(b) - updated(a))[0]?.['id']);
  }

  #write(): void {
    if (this.#isClosed) return;
    if (!hasWindow && shared.current === null) {
      this.#written = '';
      return rmSync(this.#file, { force: true });
    }
    const about = {
      v: 1,
      pid: process.pid,
      start: startOfThis(),
      ...(runBy === process.ppid && { runBy }),
      folder: this.input.directory,
      socket: this.#socket,
      data: this.#data,
      ...this.#state,
      ...(this.#compaction && { compaction: this.#compaction.id }),
    };
    const text = `${JSON.stringify(about)}\n`;
    if (text === this.#written) return;
    this.#written = text;
    writeFileSync(`${this.#file}.new`, text, { mode: 0o600 });
    renameSync(`${this.#file}.new`, this.#file);
  }

  // ------------------------------------------------------------------------------------------------------- the calls of Parley

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, body } = await this.#answer(request).catch((error: unknown): Reply => {
      return { status: 500, body: { because: String(error) } };
    });
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(body === undefined ? '' : JSON.stringify(body));
  }

  async #answer(request: IncomingMessage): Promise<Reply> {
    const { method = '', url = '' } = request;
    if (method === 'GET' && /^\/(permission|question)$/.test(url)) return this.#passed('get', url);
    const body = method === 'POST' ? await bodyOf(request) : null;
    if (body === null) return { status: 404 };
    if (/^\/(permission|question)\/[\w-]+\/(reply|reject)$/.test(url)) {
      // Every process of the user can open the socket, even one that an agent runs.
      if (url.startsWith('/permission/') && !this.#mayApprove()) return { status: 403, body: { because: 'approving' } };
      return this.#passed('post', url, body);
    }
    if (url === '/hand') return this.#hand(body);
    if (url === '/open') return this.#open();
    if (url === '/nudge') return this.#nudge(body);
    if (url === '/has') return this.#has(body);
    if (url === '/owed') return this.#takeOwed(body);
    return { status: 404 };
  }

  #mayApprove(): boolean {
    try {
      return factsIn(JSON.parse(readFileSync(this.#settings, 'utf8')))['control_may_approve'] === true;
    } catch {
      return false;
    }
  }

  /**
   * Gives the session one message that OpenCode's record does not have, or that a summary replaced: `replaced` is the id that it had. The id has
   * the ending that Parley asks for, so that Parley finds it in the record. The rest is made here, because OpenCode answers only messages with
   * a later id than its last answer. A message is given again only if it was replaced, or if OpenCode lost it.
   */
  async #hand({ session, ending, text, silentMs, replaced }: Facts): Promise<Reply> {
    if (typeof session !== 'string' || typeof ending !== 'string' || typeof text !== 'string') return { status: 400 };
    const isUnderWay = (): boolean => this.#isUnderWay(ending, silentMs, replaced);
    const refusal = await this.#refusal(session);
    if (isUnderWay()) return { status: 200 };
    if (refusal) return refusal;
    const before = shared.given.get(ending);
    const time = ((BigInt(Date.now()) * 0x1000n + 0xfffn) & 0xffff_ffff_ffffn).toString(16).padStart(12, '0');
    // With the same id, two attempts are one message in the record, however late OpenCode records the first.
    const isLatest = before !== undefined && before.id !== replaced && before.id > this.#prompt;
    const id = isLatest ? before.id : `msg_${time}${ending}`;
    const given: Given = { id, session, at: Infinity };
    shared.given.delete(ending);
    shared.given.set(ending, given);
    for (const oldest of shared.given.keys()) if (shared.given.size > KEPT) shared.given.delete(oldest);
    try {
      const said = { messageID: id, parts: [{ id: id.replace('msg_', 'prt_'), type: 'text', text }] };
      const usual = await this.#usual(session);
      const reply = await this.#passed('post', `/session/${session}/prompt_async`, { ...usual, ...said });
      if (reply.status >= 400 && reply.status < 500) shared.given.delete(ending);
      return reply;
    } finally {
      given.at = performance.now();
    }
  }

  async #has({ ending, silentMs }: Facts): Promise<Reply> {
    await this.#look();
    return { status: 200, body: { has: typeof ending === 'string' && this.#isUnderWay(ending, silentMs) } };
  }

  /** Was a message given that OpenCode may still record? After the session has been idle for `silentMs`, it will not. */
  #isUnderWay(ending: string, silentMs: unknown, replaced?: unknown): boolean {
    const given = shared.given.get(ending);
    if (!given || given.id === replaced) return false;
    if (typeof silentMs !== 'number' || given.session !== shared.current) return true;
    return performance.now() - Math.max(given.at, this.#freeSince) < silentMs;
  }

  /** Makes the session continue with messages that it has not answered, because the user stopped the turn that they waited for. */
  async #nudge({ session }: Facts): Promise<Reply> {
    if (typeof session !== 'string') return { status: 400 };
    const refusal = await this.#refusal(session);
    if (refusal) return refusal;
    if (this.#state['isBusy'] === true) return { status: 409, body: { because: 'busy' } };
    return this.#passed('post', `/session/${session}/prompt_async`, { ...(await this.#usual(session)), parts: [] });
  }

  /**
   * Adds to a request, after the summary of a compaction, the owed messages that the request does not have. Parley is asked for them once after
   * each compaction, and they stay in all requests until the next one.
   */
  async beforeRequest(messages: RequestMessage[]): Promise<void> {
    const at = messages.findLastIndex(({ parts }) => parts.some(({ type }) => type === 'compaction'));
    const compaction = messages[at]?.info;
    if (!compaction || compaction.sessionID !== shared.current) return;
    const owed = shared.owed.get(compaction.id) ?? (await this.#askOwed(compaction.id));
    const missing = owed.filter(({ ending }) => !messages.some(({ info }) => info.id.endsWith(ending)));
    const added = missing.map(({ ending, text }): RequestMessage => {
      const id = `${compaction.id.slice(0, -ending.length)}${ending}`;
      const part = {
        id: id.replace('msg_', 'prt_'),
        messageID: id,
        sessionID: compaction.sessionID,
        type: 'text',
        text,
      };
      return { info: { ...compaction, id }, parts: [part] };
    });
    const behind = messages.findLastIndex(({ info }) => info['parentID'] === compaction.id && info['summary'] === true);
    messages.splice(Math.max(at, behind) + 1, 0, ...added);
  }

  /** Waits until Parley sends what is owed. Without a daemon it does not wait: a daemon that starts later sends it. */
  async #askOwed(id: string): Promise<Owed[]> {
    if (this.#compaction?.id === id) return [];
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#compaction = { id, told: resolve };
    this.#write();
    if (!existsSync(join(this.#home, 'daemon.json'))) return [];
    const timer = setTimeout(resolve, OWED_MS);
    await promise.finally(() => clearTimeout(timer));
    return shared.owed.get(id) ?? [];
  }

  #takeOwed({ compaction, mail }: Facts): Reply {
    if (typeof compaction !== 'string' || !Array.isArray(mail)) return { status: 400 };
    shared.owed.clear();
    shared.owed.set(compaction, mail as Owed[]);
    if (this.#compaction?.id === compaction) {
      this.#compaction.told();
      this.#compaction = null;
      this.#write();
    }
    return { status: 200 };
  }

  /** Begins a session in a window that shows none, and lets the window show it. */
  #open(): Promise<Reply> {
    this.#opening ??= this.#begin().finally(() => (this.#opening = null));
    return this.#opening;
  }

  async #begin(): Promise<Reply> {
    if (shared.current === null && !hasWindow) return { status: 409 };
    if (shared.current === null) {
      const made = await this.#passed('post', '/session', {});
      const id = wordIn(factsIn(made.body)['id']);
      if (made.status >= 300 || id === null) return { status: 502, body: made.body };
      shared.current ??= id;
    }
    const sessionID = shared.current;
    this.#show(sessionID);
    await this.#look();
    return { status: 200, body: { session: sessionID } };
  }

  /** Makes the window show the session. A window that has not drawn yet ignores this silently, so it is repeated until then; after that the user chooses. */
  #show(sessionID: string): void {
    if (this.#isClosed || shared.current !== sessionID) return;
    void this.#call('post', '/tui/select-session', { sessionID }).catch(() => {});
    if (process.uptime() < 2 * this.#loadedAt + DRAWN_S) setTimeout(() => this.#show(sessionID), SHOW_MS).unref();
  }

  /** Refuses mail for a session that the window does not show, and while the window asks its user something. */
  async #refusal(session: string): Promise<Reply | null> {
    await this.#look();
    if (session !== shared.current) return { status: 410, body: { because: 'another session' } };
    return this.#state['asks'] === null ? null : { status: 409, body: { because: 'dialog' } };
  }

  /** The agent and model that the user chose last for the session. Without them OpenCode uses its defaults, which may have more rights. */
  async #usual(session: string): Promise<Facts> {
    const { agent, model } = factsIn((await this.#call('get', `/session/${session}`)).data);
    const { providerID, id: modelID, variant } = factsIn(model);
    return {
      ...(wordIn(agent) && { agent }),
      ...(wordIn(modelID) && { model: { providerID, modelID } }),
      ...(wordIn(variant) && variant !== 'default' && { variant }),
    };
  }

  async #passed(method: 'get' | 'post', url: string, body?: Facts): Promise<Reply> {
    const { data, error, response } = await this.#call(method, url, body);
    return { status: response?.status ?? (error === undefined ? 200 : 500), body: error ?? data };
  }

  #call(method: 'get' | 'post', url: string, body?: Facts): Promise<Answer> {
    const headers = { 'Content-Type': 'application/json' };
    return this.input.client._client[method]({ url, ...(body && { body, headers }) });
  }
}

function socketIn(folder: string): string {
  const path = join(folder, `${process.pid}.sock`);
  if (path.length < SOCKET_PATH) return path;
  const user = process.getuid?.() ?? 0;
  const own = join(process.env['XDG_RUNTIME_DIR'] || tmpdir(), `parley-${user}`);
  mkdirSync(own, { recursive: true, mode: 0o700 });
  // Any user can create a folder with this name in /tmp.
  const { uid, mode } = lstatSync(own);
  if ((mode & 0o170_077) !== 0o040_000 || uid !== user) throw new Error(`${own} is not a folder of this user alone`);
  return join(own, `opencode-${process.pid}.sock`);
}

/** The start time of this process in the system's own format; null if the system has no /proc. */
function startOfThis(): string | null {
  try {
    const [, rest = ''] = /\)\s(.*)$/s.exec(readFileSync('/proc/self/stat', 'utf8')) ?? [];
    return rest.split(' ')[19] ?? null;
  } catch {
    return null;
  }
}

async function bodyOf(request: IncomingMessage): Promise<Facts | null> {
  let text = '';
  for await (const piece of request.setEncoding('utf8')) {
    text += String(piece);
    if (text.length > BODY_LIMIT) return null;
  }
  try {
    return factsIn(JSON.parse(text || '{}'));
  } catch {
    return null;
  }
}

function factsIn(value: unknown): Facts {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Facts) : {};
}

function wordIn(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function isFull(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0;
}

/** The arguments of OpenCode. The plugin of a window runs in a worker, which does not get them. */
function wordsOfThis(): string[] {
  try {
    return readFileSync('/proc/self/cmdline', 'utf8').split('\0').slice(1, -1);
  } catch {
    const { stdout } = spawnSync('ps', ['-o', 'args=', '-p', String(process.pid)], { encoding: 'utf8' });
    return (stdout ?? '').trim().split(' ').slice(1);
  }
}

/** A window shows one folder. A server can have many, and only the one in which it was started gets mail. */
function getsMail(folder: string): boolean {
  return !NO_MAIL.includes(command) && (hasWindow || realpathSync(folder) === realpathSync(process.cwd()));
}

export default async function parley(input: Input): Promise<Hooks> {
  try {
    if (shared.owner || !getsMail(input.directory)) return {};
    const window = new Window(input);
    shared.owner = window;
    return {
      async event({ event }) {
        await window.heard(event.type, event.properties ?? {}).catch(() => {});
      },
      async 'experimental.chat.messages.transform'(_input, { messages }) {
        await window.beforeRequest(messages).catch(() => {});
      },
      async dispose() {
        window.close();
      },
    };
  } catch {
    // Without a place for its state, Parley does not see this window.
    return {};
  }
}
