// c2c for OpenCode: brings waiting mail into the root session as user turns, and publishes what the session is doing.
//
// One file without packages. It belongs in ~/.config/opencode/plugins/ or <project>/.opencode/plugins/. It has one export:
// OpenCode calls every export of a plugin file as a plugin.
//
// What it does, and what a crash leaves behind:
//   arrival   `c2c monitor` prints a line → drain. Also at start, at every idle, after a restart of the monitor, and twice a minute.
//   drain     `c2c oc-plugin drain-inbox-to-spool` moves waiting mail into this process's spool file; only what stands there counts.
//   offer     one message after the other: noted as offered, then promptAsync. An answer of 204 only says that it was accepted.
//   proof     the message's id is seen in the session's own record (an event, or asked for). Only then it leaves the spool.
//   crash     the spool stands. The next plugin takes it over, asks OpenCode about what was noted as offered, and sends the rest.
// It never answers a permission or a question, except on the word of somebody whom the user has named (see Desk).
// Whatever fails here is noted in ~/.local/share/c2c/opencode/plugin.log and never reaches OpenCode.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** An installer may put a path here. The environment's C2C_CLI_COMMAND goes before it. */
const COMMAND = 'c2c';
const HEARTBEAT_MS = 15_000;
/** A file that only grows gets another name at this size. */
const FILE_BYTES = 1_000_000;
const OUTPUT_LIMIT = 64_000_000;
const TEXT_LIMIT = 2000;
/** A window hears which session it should show once it has drawn. By then it has, in seconds since its start. */
const DRAWN_S = 20;
const SHOW_MS = 1000;
const SHOW_TIMES = 20;
/** Commands of OpenCode that show no window, or not one of their own. */
const NO_WINDOW =
  /^(run|serve|web|acp|attach|auth|providers|models|upgrade|uninstall|export|import|session|mcp|agent|debug|github|pr|stats|db|plugin|plug|completion)$/;

/** How long things take. The environment's C2C_PLUGIN_<name> goes before these. */
const WAITS = {
  CLI_TIMEOUT_MS: 5000,
  RESTART_MS: 1000,
  /** Until a monitor that was just started hears what arrives. */
  LISTEN_MS: 3000,
  POLL_INTERVAL_MS: 30_000,
  /** Until OpenCode must have answered a call. */
  ANSWER_MS: 30_000,
  /** Until a message that was accepted must be in the session's record. */
  PROOF_MS: 10_000,
  /** Until one that is still not there may be offered again. */
  PATIENCE_MS: 60_000,
  /** Until an idle session would have begun its next turn by itself. */
  SETTLE_MS: 1500,
};

function wait(name: keyof typeof WAITS): number {
  return Number(process.env[`C2C_PLUGIN_${name}`]) || WAITS[name];
}

// What is used of OpenCode, in the shapes of its own client.
type Answer = { data?: unknown; error?: unknown; response?: { status?: number } } | undefined;
interface Client {
  session: {
    promptAsync(call: { path: { id: string }; body: Record<string, unknown> }): Promise<Answer>;
    messages(call: { path: { id: string } }): Promise<Answer>;
    get(call: { path: { id: string } }): Promise<Answer>;
  };
  tui?: { showToast(call: { body: Record<string, unknown> }): Promise<unknown> };
  postSessionIdPermissionsPermissionId?(call: Record<string, unknown>): Promise<Answer>;
  _client?: { post(call: Record<string, unknown>): Promise<Answer> };
}
interface Input {
  client: Client;
  directory: string;
  /** The top of the repository, or `/` if there is none. */
  worktree?: string;
}
type Facts = Record<string, unknown>;
interface OpenCodeEvent {
  type: string;
  properties?: Facts;
}
interface Hooks {
  event?(input: { event: OpenCodeEvent }): Promise<void>;
  dispose?(): Promise<void>;
}

// ---------------------------------------------------------------------------------------------------------------- who we are

interface Identity {
  sessionId: string;
  alias: string | null;
  brokerRoot: string | null;
  directory: string;
  /** The session that a starter has named for us, if any. */
  root: string | null;
  env: NodeJS.ProcessEnv;
  /** Ends the calls that run when we are stopped. */
  over: AbortController;
}

/** What may be a file's name, and a word of a command without being an option. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

/** The folders whose `.opencode` counts here: the repository's and our own. */
function projectFolders({ directory, worktree = '/' }: Input): string[] {
  return [...new Set([worktree, directory])].filter((folder) => folder !== '/');
}

/**
 * Environment first, then the sidecar of the instance, of the folder, of the repository. Without a session id we have nothing to do.
 */
function identityOf(input: Input): Identity | null {
  const { directory } = input;
  const { env } = process;
  const instance = env['C2C_INSTANCE_NAME'] ?? '';
  const places = projectFolders(input).map((folder) => join(folder, '.opencode'));
  if (NAME.test(instance)) places.push(join(share(), 'instances', instance));
  let sidecar: Facts = {};
  for (const place of places) sidecar = { ...sidecar, ...factsIn(join(place, 'c2c-plugin.json')) };
  const sessionId = env['C2C_MCP_SESSION_ID'] || env['C2C_SESSION_ID'] || word(sidecar['session_id']);
  if (!sessionId || !NAME.test(sessionId)) return null;
  const brokerRoot = env['C2C_MCP_BROKER_ROOT'] || env['C2C_BROKER_ROOT'] || word(sidecar['broker_root']);
  const alias = env['C2C_MCP_AUTO_REGISTER_ALIAS'] || word(sidecar['alias']) || '';
  const root = env['C2C_OPENCODE_SESSION_ID'] || word(sidecar['opencode_session_id']);
  const own: NodeJS.ProcessEnv = {
    ...env,
    C2C_MCP_SESSION_ID: sessionId,
    C2C_SESSION_ID: sessionId,
    C2C_MCP_CLIENT_TYPE: 'opencode',
    C2C_MCP_CLIENT_PID: String(process.pid),
    ...(brokerRoot && { C2C_MCP_BROKER_ROOT: brokerRoot, C2C_BROKER_ROOT: brokerRoot }),
  };
  // Our children have no business with OpenCode's server.
  delete own['OPENCODE_SERVER_PASSWORD'];
  return {
    sessionId,
    alias: NAME.test(alias) ? alias : null,
    brokerRoot: brokerRoot ?? null,
    directory,
    root: root ?? null,
    env: own,
    over: new AbortController(),
  };
}

/** The home in which the plugin was started: what is written later goes there too. */
let startedIn = '';

function share(): string {
  return join(startedIn || process.env['HOME'] || homedir(), '.local', 'share', 'c2c');
}

function word(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function factsIn(path: string): Facts {
  try {
    return parsed(readFileSync(path, 'utf8'));
  } catch {
    return {};
  }
}

/** A line of JSON; nothing where it is none. */
function parsed(text: string): Facts {
  try {
    return facts(JSON.parse(text));
  } catch {
    return {};
  }
}

function facts(value: unknown): Facts {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Facts) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Somebody's words where one short line is wanted. */
function line(value: unknown, limit = 200): string {
  return (typeof value === 'string' ? value : '').replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').slice(0, limit);
}

// ---------------------------------------------------------------------------------------------------- failures and children

/** Notes what failed. A log that cannot be written is nobody's problem. */
function note(what: string, error?: unknown): void {
  try {
    const path = join(share(), 'opencode', 'plugin.log');
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    setAside(path);
    const why = error === undefined ? undefined : line(error instanceof Error ? error.message : error, 500);
    const said = { ts: new Date().toISOString(), pid: process.pid, what, ...(why !== undefined && { why }) };
    appendFileSync(path, `${JSON.stringify(said)}\n`, { mode: 0o600 });
  } catch {
    // Nothing depends on it.
  }
}

/** A file that has grown enough makes room for the next; of two, the older goes. */
function setAside(path: string): void {
  if (existsSync(path) && statSync(path).size > FILE_BYTES) renameSync(path, `${path}.old`);
}

/** Runs something whose failure must not matter to anybody else. */
function guarded(what: string, act: () => void): void {
  try {
    act();
  } catch (error) {
    note(what, error);
  }
}

function command(): string {
  return process.env['C2C_CLI_COMMAND'] || COMMAND;
}

/**
 * One call of `c2c`, to its end, without a shell. Anyone who takes longer than five seconds or has no end of words is ended, with all
 * that it started; its end is not waited for, because a process that it left behind could hold its output open for ever.
 */
function call({ directory, env, over }: Identity, args: string[]): Promise<string> {
  const name = `c2c ${args.slice(0, 2).join(' ')}`;
  return new Promise((done, fail) => {
    over.signal.throwIfAborted();
    const child = spawn(command(), args, { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    const settle = (error: Error | null): void => {
      clearTimeout(timer);
      over.signal.removeEventListener('abort', stop);
      if (error) fail(error);
      else done(out);
    };
    const giveUp = (why: string): void => {
      endGroup(child);
      child.stdout.destroy();
      child.stderr.destroy();
      settle(new Error(`${name} ${why}`));
    };
    const stop = (): void => giveUp('was stopped');
    const timer = setTimeout(() => giveUp('takes too long'), wait('CLI_TIMEOUT_MS'));
    over.signal.addEventListener('abort', stop);
    let [out, err] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
      if (out.length > OUTPUT_LIMIT) giveUp('says too much');
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err = `${err}${text}`.slice(-2000)));
    for (const emitter of [child, child.stdout, child.stderr]) emitter.on('error', settle);
    child.on('close', (code, signal) => {
      settle(code === 0 ? null : new Error(`${name} ended with ${code ?? signal}: ${line(err)}`));
    });
  });
}

/** What it answered as JSON. The words of an answer that is none are not repeated: they may be somebody's mail. */
async function answerOf(who: Identity, args: string[]): Promise<Facts> {
  const text = await call(who, [...args, '--json']);
  try {
    return facts(JSON.parse(text));
  } catch {
    throw new Error(`c2c ${args.slice(0, 2).join(' ')} answered something that is no JSON`);
  }
}

/** A call leads a group of its own. */
function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid) process.kill(-pid, 'SIGKILL');
  } catch {
    // It is gone already.
  }
}

/** A child that should always run: started again when it ends, after a pause that grows while it does not live long. */
class Lasting {
  #child: ChildProcess | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #failures = 0;
  #isOver = false;

  constructor(
    readonly who: Identity,
    readonly args: string[],
    readonly started: (child: ChildProcess) => void,
    readonly ended: () => void = () => {},
  ) {}

  start(): void {
    if (this.#isOver) return;
    const since = Date.now();
    const again = once(() => {
      this.#child = null;
      this.#failures = Date.now() - since > 30_000 ? 1 : this.#failures + 1;
      guarded(`after ${this.args.join(' ')}`, this.ended);
      this.#later();
    });
    try {
      const child = spawn(command(), this.args, {
        cwd: this.who.directory,
        env: this.who.env,
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      this.#child = child;
      child.on('error', (error) => {
        note(`c2c ${this.args.join(' ')} did not start`, error);
        again();
      });
      child.on('exit', (code, signal) => {
        if (!this.#isOver) note(`c2c ${this.args.join(' ')} ended with ${code ?? signal}`);
        again();
      });
      // A pipe whose other end died says so here; without a listener it would end OpenCode.
      for (const pipe of child.stdio) pipe?.on('error', () => {});
      child.stderr?.setEncoding('utf8').on('data', (text: string) => note(`c2c ${this.args.join(' ')} says`, text));
      this.started(child);
      // OpenCode must be able to end while we wait for something.
      child.unref();
    } catch (error) {
      note(`c2c ${this.args.join(' ')} did not start`, error);
      again();
    }
  }

  /** The end of its stdin tells a child that may still have something to write; a signal all others. */
  stop(signal: 'SIGTERM' | null = 'SIGTERM'): void {
    this.#isOver = true;
    if (this.#timer) clearTimeout(this.#timer);
    this.#child?.stdin?.end();
    if (signal) this.#child?.kill(signal);
    this.#child = null;
  }

  #later(): void {
    if (this.#isOver) return;
    const pause = Math.min(wait('RESTART_MS') * 2 ** Math.min(this.#failures - 1, 6), 60_000);
    this.#timer = setTimeout(() => this.start(), pause);
    this.#timer.unref();
  }
}

function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) [isDone] = [true, act()];
  };
}

// ------------------------------------------------------------------------------------------------------- the published state

interface State {
  c2c_session_id: string;
  c2c_alias: string | null;
  root_opencode_session_id: string | null;
  opencode_pid: number;
  plugin_started_at: string;
  state_last_updated_at: string;
  agent: {
    is_idle: boolean | null;
    turn_count: number;
    step_count: number;
    last_step: { event_type: string; at: string; details: Facts | null } | null;
    provider_id: string | null;
    model_id: string | null;
  };
  tui_focus: { ty: 'permission' | 'question' | 'prompt' | 'menu' | 'unknown'; details: Facts | null };
  prompt: { has_text: boolean | null };
  pendingQuestion: Question | null;
}
interface Question {
  id: string;
  text: string;
  header: string;
  options: string[];
}
/** What a patch may change. The id of the process and the time of its start never do. */
interface Patch {
  root_opencode_session_id?: string | null;
  agent?: Partial<State['agent']>;
  tui_focus?: State['tui_focus'];
}

/** Keeps the state and streams it to `c2c`: a snapshot for each new writer, patches after it. Without a writer it only keeps it. */
class Published {
  readonly state: State;
  readonly #writer: Lasting;
  #child: ChildProcess | null = null;
  #isBehind = false;

  constructor(who: Identity) {
    const now = new Date().toISOString();
    this.state = {
      c2c_session_id: who.sessionId,
      c2c_alias: who.alias,
      root_opencode_session_id: null,
      opencode_pid: process.pid,
      plugin_started_at: now,
      state_last_updated_at: now,
      agent: { is_idle: null, turn_count: 0, step_count: 0, last_step: null, provider_id: null, model_id: null },
      tui_focus: { ty: 'unknown', details: null },
      prompt: { has_text: null },
      pendingQuestion: null,
    };
    this.#writer = new Lasting(
      who,
      ['oc-plugin', 'stream-write-statefile'],
      (child) => {
        this.#child = child;
        this.#isBehind = false;
        child.stdout?.resume();
        child.stdin?.on('drain', () => this.#catchUp());
        this.snapshot();
      },
      () => (this.#child = null),
    );
  }

  start(): void {
    this.#writer.start();
  }

  stop(): void {
    this.#child = null;
    this.#writer.stop(null);
  }

  /** Says what changed. A merge adds to an object and never takes from it: where one loses a key, all of the state is said. */
  patch(patch: Patch): void {
    const { agent, ...rest } = patch;
    const before = this.#details();
    Object.assign(this.state, rest);
    Object.assign(this.state.agent, agent);
    if (this.#details().some((now, at) => losesKeys(before[at] ?? null, now))) return this.snapshot();
    const ts = this.#touch();
    this.#say({ event: 'state.patch', ts, patch: { ...patch, state_last_updated_at: ts } });
  }

  snapshot(): void {
    this.#say({ event: 'state.snapshot', ts: this.#touch(), state: this.state });
  }

  /** Replaces the question, and says all of the state again. */
  question(pending: Question | null, focus: State['tui_focus']): void {
    this.state.pendingQuestion = pending;
    this.state.tui_focus = focus;
    this.snapshot();
  }

  #details(): (Facts | null)[] {
    return [this.state.agent.last_step?.details ?? null, this.state.tui_focus.details];
  }

  #touch(): string {
    this.state.state_last_updated_at = new Date().toISOString();
    return this.state.state_last_updated_at;
  }

  /** A writer that does not read gets no more until it does, and then everything at once: nothing is piled up in OpenCode. */
  #say(event: Facts): void {
    const stdin = this.#child?.stdin;
    if (!stdin?.writable || this.#isBehind) return;
    guarded('state', () => {
      this.#isBehind = !stdin.write(`${JSON.stringify(event)}\n`);
    });
  }

  #catchUp(): void {
    if (!this.#isBehind) return;
    this.#isBehind = false;
    this.snapshot();
  }
}

function losesKeys(before: Facts | null, now: Facts | null): boolean {
  return before !== null && now !== null && Object.keys(before).some((key) => !(key in now));
}

// ------------------------------------------------------------------------------------------------------------- the spool

interface Entry {
  id: string;
  from: string;
  content: string;
  /** As the model reads it. */
  text: string;
}
type Known = { session: string; at: number; isSeen: boolean };

/** So many ids are remembered: a message may come a second time if the process that moved it here was killed. */
const REMEMBERED = 10_000;

/**
 * What was drained and is not proven to be in a session yet. Each process has a spool file of its own, so two OpenCodes on one
 * mailbox never hand out the same message; what a dead one left is taken over by a rename, which only one can win. The journal is
 * everybody's: one line per offer and per proof.
 */
class Spool {
  readonly folder: string;
  readonly path: string;
  readonly #me = `${process.pid}.${startOf(process.pid) ?? 'x'}`;
  readonly #journal: string;
  readonly #known = new Map<string, Known>();
  #isOpen = false;

  constructor(readonly who: Identity) {
    const place = hash(`${who.directory}\0${who.brokerRoot ?? ''}`, 12);
    this.folder = join(share(), 'opencode', `${who.sessionId}-${place}`);
    this.path = join(this.folder, `spool.${this.#me}.json`);
    this.#journal = join(this.folder, 'journal.jsonl');
  }

  /** Makes the place ready, once, and takes over what others left. */
  open(): void {
    if (!this.#isOpen) {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      this.#readJournal();
      // What another c2c plugin has drained here and not handed out.
      this.#adopt(join(this.who.directory, '.opencode', 'c2c-plugin-spool.json'));
      this.#isOpen = true;
    }
    for (const name of readdirSync(this.folder)) if (this.#isOrphan(name)) this.#adopt(join(this.folder, name));
  }

  /** Everything that stands there and is not proven to be in a session. */
  waiting(): Entry[] {
    return this.#pairs().flatMap(([, entry]) => (entry && !this.isSeen(entry.id) ? [entry] : []));
  }

  /** Takes out what is proven, and nothing else: anyone who drains may have added to it meanwhile. */
  clear(): void {
    const pairs = this.#pairs();
    const gone = pairs.flatMap(([, entry]) => (entry && this.isSeen(entry.id) ? [entry.id] : []));
    if (gone.length === 0) return;
    this.#write(pairs.flatMap(([row, entry]) => (entry && this.isSeen(entry.id) ? [] : [row])));
    // An id that was made from a message's words may come again with another message.
    for (const id of gone) if (id.startsWith(MADE)) this.forget(id);
  }

  known(id: string): Known | undefined {
    return this.#known.get(id);
  }

  isSeen(id: string): boolean {
    return this.#known.get(id)?.isSeen === true;
  }

  offered(id: string, session: string): void {
    this.#mark(id, { session, at: Date.now(), isSeen: false });
  }

  /** As if it had never been offered. */
  forget(id: string): void {
    if (this.#known.delete(id)) this.#append({ id, gone: true });
  }

  seen(id: string): void {
    this.#mark(id, { session: this.#known.get(id)?.session ?? '', at: Date.now(), isSeen: true });
  }

  #mark(id: string, known: Known): void {
    this.#remember(id, known);
    this.#append({ id, ...known });
  }

  #remember(id: string, known: Known): void {
    this.#known.delete(id);
    this.#known.set(id, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > REMEMBERED && oldest !== undefined) this.#known.delete(oldest);
  }

  #append(row: Facts): void {
    setAside(this.#journal);
    appendFileSync(this.#journal, `${JSON.stringify(row)}\n`, { mode: 0o600 });
  }

  #readJournal(): void {
    for (const path of [`${this.#journal}.old`, this.#journal]) {
      if (!existsSync(path)) continue;
      for (const text of readFileSync(path, 'utf8').split('\n')) {
        const row = parsed(text);
        const [id, session, at] = [word(row['id']), word(row['session']) ?? '', Number(row['at'])];
        // The last line of somebody who was killed says nothing.
        if (id === undefined) continue;
        if (row['gone'] === true) this.#known.delete(id);
        else this.#remember(id, { session, at, isSeen: row['isSeen'] === true });
      }
    }
  }

  /** A file of a process that is gone, or one that we ourselves took over and did not finish. */
  #isOrphan(name: string): boolean {
    const [, pid, start] = /^spool\.(\d+)\.(\w+)(?:\.[\w-]+)?\.json$/.exec(name) ?? [];
    if (pid === undefined || start === undefined || name === basename(this.path)) return false;
    return `${pid}.${start}` === this.#me || !isProcess(Number(pid), start);
  }

  /** First ours by name, then merged, then removed: killed in between, the next one finds it under our name. */
  #adopt(path: string): void {
    const ours = join(this.folder, `spool.${this.#me}.${hash(path, 8)}.json`);
    try {
      moved(path, ours);
    } catch {
      // There is none, or another was faster.
      return;
    }
    const there = rowsIn(this.path);
    const ids = new Set(there.map((row) => facts(row)['message_id']).filter(Boolean));
    this.#write([...rowsIn(ours).filter((row) => !ids.has(facts(row)['message_id'])), ...there]);
    rmSync(ours, { force: true });
    // How far the other one came with them.
    this.#readJournal();
  }

  /** The rows of the file, each with the message that it is, if it is one. */
  #pairs(): [row: unknown, entry: Entry | null][] {
    const counts = new Map<string, number>();
    return rowsIn(this.path).map((row) => [row, entryOf(facts(row), this.who, counts)]);
  }

  #write(rows: readonly unknown[]): void {
    if (rows.length === 0) return rmSync(this.path, { force: true });
    const draft = `${this.path}.tmp`;
    writeFileSync(draft, `${JSON.stringify(rows)}\n`, { mode: 0o600, flush: true });
    renameSync(draft, this.path);
  }
}

function hash(text: string, length: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, length);
}

/** What stands in a spool file. One that nobody can read is kept for people to look at. */
function rowsIn(path: string): unknown[] {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, 'utf8');
  try {
    return list(JSON.parse(text));
  } catch {
    note(`${path} holds no messages and is put aside`);
    renameSync(path, `${path}.broken-${Date.now()}`);
    return [];
  }
}

/** A rename, also to another disk: there the copy is whole before the original goes. */
function moved(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if (facts(error)['code'] !== 'EXDEV') throw error;
    const taken = `${from}.taken.${process.pid}`;
    renameSync(from, taken);
    writeFileSync(to, readFileSync(taken), { mode: 0o600, flush: true });
    rmSync(taken, { force: true });
  }
}

/** When a process started, where the system tells: a number alone may be another's by now. */
function startOf(pid: number): string | null {
  try {
    return (
      readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')[19] ?? null
    );
  } catch {
    return null;
  }
}

function isProcess(pid: number, start: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (facts(error)['code'] !== 'EPERM') return false;
  }
  const now = startOf(pid);
  return now === null || start === 'x' || now === start;
}

function entryOf(raw: Facts, who: Identity, counts: Map<string, number>): Entry | null {
  const { from_alias: from, content } = raw;
  if (typeof from !== 'string' || typeof content !== 'string') return null;
  const given = word(raw['message_id']) ?? '';
  const id = PLAIN_ID.test(given) ? given : madeId(raw, counts);
  // Only a plain alias may stand in a command.
  const hint = NAME.test(from) ? `\n(To answer: c2c send ${from} "…")` : '';
  return { id, from, content, text: `${envelope(raw, id, who)}${hint}` };
}

/** One that stands whole in a mark. */
const PLAIN_ID = /^[\x21-\x7e]{1,128}$/;
const MADE = 'local-';

/** For a message that came without a good one. Equal messages are told apart by their order. */
function madeId(raw: Facts, counts: Map<string, number>): string {
  const words = JSON.stringify([raw['from_alias'], raw['to_alias'], raw['ts'], raw['content']]);
  const place = counts.get(words) ?? 0;
  counts.set(words, place + 1);
  return `${MADE}${hash(`${place}${words}`, 24)}`;
}

function marker(id: string): string {
  return `message_id="${attribute(id)}"`;
}

/** Is this text of a session that message? Only what its opening mark says counts: bodies may quote each other. */
function isRecordOf(id: string, text: string): boolean {
  return text.startsWith('<c2c ') && text.slice(0, text.indexOf('>')).includes(marker(id));
}

function envelope(raw: Facts, id: string, who: Identity): string {
  const [to = '', room] = (word(raw['to_alias']) ?? who.alias ?? who.sessionId).split('#', 2);
  const ts =
    typeof raw['ts'] === 'number' && raw['ts'] > 0 && raw['ts'] < 8e12
      ? new Date(raw['ts'] * 1000).toISOString()
      : undefined;
  const redelivered = raw['redelivered'] === true ? 'true' : undefined;
  const said = Object.entries({
    event: 'message',
    from: String(raw['from_alias']),
    alias: to,
    to,
    room,
    ts,
    redelivered,
  })
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}="${attribute(value)}"`]))
    .join(' ');
  // In its body nothing may look like the end of a message, or like the beginning of another; nor does anything there stay unseen.
  const body = String(raw['content']).replaceAll('\r\n', '\n').replace(UNSEEN, codeOf).replace(MARK, '&lt;');
  return `<c2c ${said} ${marker(id)}>\n${body}\n</c2c>`;
}

/** Controls, and what hides or turns letters; but not the joiners that scripts and emoji need. */
const UNSEEN = /(?!\t|\n|\u200c|\u200d|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
/** Our mark's beginning; blanks and joiners do not hide it. */
const GAP = '(?:\\s|\\u200c|\\u200d|\\ufe0f)*';
const MARK = new RegExp(`<(?=${['', '/?', 'c', '2', 'c'].join(GAP)})`, 'gi');

function codeOf(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

function attribute(value: string): string {
  const plain = value.slice(0, 200).replace(/[\p{Cc}\p{Cf}]/gu, ' ');
  return plain.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

// ------------------------------------------------------------------------------------------------- permissions and questions

interface Asked {
  kind: 'permission' | 'question';
  id: string;
  session: string;
  /** For the state stream, of a permission. */
  details: { id: string; title: string; type: string };
  question: Question | null;
  /** How many questions it has; only a single one can be answered from afar. */
  count: number;
  /** For people: what exactly is asked. */
  words: string;
}

function askedBy({ type, properties: said = {} }: OpenCodeEvent): Asked | null {
  const [id, session] = [word(said['id']), word(said['sessionID'])];
  if (!id || !session) return null;
  if (type === 'question.asked') return questionOf(id, session, list(said['questions']).map(facts));
  // Before 1.1 a permission had a type and a title; now it has one word for both.
  const kind = line(said['permission'] ?? said['type']) || 'unknown';
  const title = line(said['title'] ?? said['permission']) || kind;
  const command = word(facts(said['metadata'])['command']) ?? '';
  const patterns = [said['patterns'] ?? said['pattern']].flat().filter((one) => typeof one === 'string');
  const words = [`${kind}: ${title}`, ...new Set([...patterns, command].filter(Boolean))].join('\n');
  return { kind: 'permission', id, session, details: { id, title, type: kind }, question: null, count: 1, words };
}

function questionOf(id: string, session: string, questions: Facts[]): Asked {
  const [first = {}] = questions;
  const text = (word(first['question']) ?? '').slice(0, TEXT_LIMIT);
  const options = list(first['options'])
    .map((one) => line(typeof one === 'string' ? one : facts(one)['label']))
    .slice(0, 50);
  const question = { id, text, header: line(first['header']), options };
  const words = [text, ...options.map((option, at) => `${at + 1}. ${option}`)].join('\n');
  const details = { id, title: 'question', type: 'question' };
  return { kind: 'question', id, session, details, question, count: questions.length, words };
}

type Reply = { kind: 'permission' | 'question'; id: string; answer: string };

/** What somebody wrote instead of a message. Whether it counts is not said here. */
function replyIn(content: string): Reply | null {
  const permission = /^permission:([\w-]{1,128}):(approve-once|approve-always|reject)$/.exec(content.trim());
  if (permission) return { kind: 'permission', id: permission[1] ?? '', answer: permission[2] ?? '' };
  const question = /^question:([\w-]{1,128}):(?:answer:([\s\S]+)|(reject))$/.exec(content.trim());
  return question ? { kind: 'question', id: question[1] ?? '', answer: question[2] ?? '' } : null;
}

/** Everything that OpenCode asks its user, and the only way in which we ever answer: a supervisor whom the user named by hand. */
class Questions {
  readonly #open = new Map<string, Asked>();

  constructor(
    readonly who: Identity,
    readonly client: Client,
  ) {}

  open(session: string): Asked[] {
    return [...this.#open.values()].filter((asked) => asked.session === session);
  }

  /** True if it was not open before. */
  ask(asked: Asked): boolean {
    const isNew = !this.#open.has(asked.id);
    this.#open.set(asked.id, asked);
    return isNew;
  }

  close(id: string | undefined): void {
    if (id) this.#open.delete(id);
  }

  /** A session that is idle, or gone, asks nothing any more. */
  closeAll(session: string): void {
    for (const { id } of this.open(session)) this.#open.delete(id);
  }

  /** Tells the person at the screen, and those whom the user has named. */
  async tell(asked: Asked): Promise<void> {
    const what = asked.kind === 'permission' ? `asks for permission: ${asked.details.title}` : 'asks a question';
    this.toast(`OpenCode ${what}`, 'warning');
    const supervisors = await this.#supervisors();
    if (supervisors.length === 0 || !this.#open.has(asked.id)) return;
    const { kind, id } = asked;
    await call(this.who, ['open-pending-reply', id, '--kind', kind, '--supervisors', supervisors.join(',')]);
    const me = this.who.alias ?? this.who.sessionId;
    const answers =
      kind === 'permission' ? ['approve-once', 'approve-always', 'reject'] : ['answer:<number or text>', 'reject'];
    for (const supervisor of supervisors) {
      const text = [
        `OpenCode session ${this.who.sessionId} ${what}`,
        asked.words.slice(0, TEXT_LIMIT).replaceAll('\0', ' '),
        'To answer, type one of these in a terminal of your own:',
        ...answers.map((answer) => `c2c send ${me} "${kind}:${id}:${answer}" --from ${supervisor}`),
      ].join('\n');
      await call(this.who, ['send', supervisor, text]).catch((error: unknown) => note(`telling ${supervisor}`, error));
    }
  }

  /** A word to the person at the screen. There may be none, and nothing waits for it. */
  toast(message: string, variant: 'info' | 'warning' = 'info'): void {
    const shown = (async () => this.client.tui?.showToast({ body: { title: 'c2c', message, variant } }))();
    shown.catch((error: unknown) => note('a toast', error));
  }

  /**
   * True if the message was an answer that counts, and was given to OpenCode. Everything else is mail. That somebody may answer is
   * decided by `c2c` alone, from what the user has written down; without a clear yes nobody may.
   */
  async take(from: string, content: string): Promise<boolean> {
    const reply = replyIn(content);
    const asked = reply && this.#open.get(reply.id);
    if (!reply || !asked || asked.kind !== reply.kind || !NAME.test(from)) return false;
    if (reply.kind === 'question' && reply.answer !== '' && asked.count !== 1) return false;
    if (!(await this.#counts(reply.id, from))) return false;
    const answer = await inTime(
      reply.kind === 'permission' ? this.#permit(asked, reply.answer) : this.#answer(asked, reply.answer),
    );
    if (answer?.error !== undefined && answer.error !== null)
      throw new Error(`OpenCode refused the answer to ${reply.id}`);
    note(`${reply.id}: ${reply.kind === 'permission' ? reply.answer : 'answered'} by ${from}`);
    this.close(reply.id);
    return true;
  }

  async #counts(id: string, from: string): Promise<boolean> {
    try {
      return (await answerOf(this.who, ['check-pending-reply', id, from]))['valid'] === true;
    } catch (error) {
      note(`checking whether ${from} may answer ${id}`, error);
      return false;
    }
  }

  #permit(asked: Asked, answer: string): Promise<Answer> {
    const response = answer === 'approve-once' ? 'once' : answer === 'approve-always' ? 'always' : 'reject';
    const path = { id: asked.session, permissionID: asked.id };
    return (
      this.client.postSessionIdPermissionsPermissionId?.({ path, body: { response } }) ??
      this.#post(`/permission/${asked.id}/reply`, { reply: response })
    );
  }

  /** An empty answer is a rejection; a number is the place of an option. */
  #answer(asked: Asked, answer: string): Promise<Answer> {
    if (answer === '') return this.#post(`/question/${asked.id}/reject`, {});
    const option = /^\d+$/.test(answer.trim()) ? asked.question?.options[Number(answer) - 1] : undefined;
    return this.#post(`/question/${asked.id}/reply`, { answers: [[option ?? answer.trim()]] });
  }

  async #post(url: string, body: Facts): Promise<Answer> {
    if (!this.client._client) throw new Error('this OpenCode has no such call');
    return this.client._client.post({ url, body, headers: { 'Content-Type': 'application/json' } });
  }

  /** Named by the user's own hand; nobody by default. Whether they count is still asked for every answer. */
  async #supervisors(): Promise<string[]> {
    const said = await answerOf(this.who, ['repo', 'show']);
    const named = [said['supervisors'], said['permission_supervisors']].flatMap(list);
    return named.filter((one): one is string => typeof one === 'string' && NAME.test(one));
  }
}

// --------------------------------------------------------------------------------------------------------------------- the mail

/** The session into which mail comes. */
interface Root {
  readonly id: string | null;
  readonly isIdle: boolean;
  /** OpenCode does not know it any more. */
  isGone(): void;
}

/** Brings mail into the root session, and proves it. */
class Mail {
  readonly spool: Spool;
  /** Which agent and which model the user works with: mail must not switch them. */
  manner: Facts = {};
  readonly #awaited = new Map<string, () => void>();
  /** Messages of ours in the session that no answer has followed yet, by the session's own ids. */
  readonly #unanswered = new Map<string, { isRepeated: boolean }>();
  readonly #failures = new Map<string, number>();
  #isRunning = false;
  #isWanted = false;
  /** No second session is begun before this time. */
  #begunUntil: number | null = null;

  constructor(
    readonly who: Identity,
    readonly client: Client,
    readonly questions: Questions,
    readonly root: Root,
  ) {
    this.spool = new Spool(who);
  }

  get #isOver(): boolean {
    return this.who.over.signal.aborted;
  }

  /** Looks for mail, unless that is being done; then once more after it. */
  look(): void {
    this.#isWanted = true;
    if (!this.#isRunning) void this.#rounds();
  }

  /** The session's record has this text now. */
  recorded(text: string, messageId: string): void {
    for (const [id, resolve] of this.#awaited) {
      if (!isRecordOf(id, text)) continue;
      // Here and not later: its answer may be the next event.
      if (!this.#unanswered.has(messageId)) this.#unanswered.set(messageId, { isRepeated: false });
      resolve();
    }
  }

  /** An answer was begun, to this message and to all before it. Ids of OpenCode grow with time. */
  answered(messageId: string): void {
    for (const id of this.#unanswered.keys()) if (id <= messageId) this.#unanswered.delete(id);
  }

  /** The next session has a user of its own ways, and nothing of ours in it. */
  forgetSession(): void {
    this.manner = {};
    this.#unanswered.clear();
  }

  /**
   * After an abort or a rejection OpenCode is idle and never answers what came in meanwhile. An empty prompt makes it look again.
   * It is given once for each message.
   */
  async lookAgain(): Promise<void> {
    const { id } = this.root;
    if (id === null || this.#unrepeated().length === 0) return;
    // A turn may be about to begin by itself.
    await pause(wait('SETTLE_MS'));
    const waiting = this.#unrepeated();
    if (waiting.length === 0 || !this.root.isIdle || this.root.id !== id || this.#isOver) return;
    for (const one of waiting) one.isRepeated = true;
    await inTime(this.client.session.promptAsync({ path: { id }, body: { ...this.manner, parts: [] } }));
  }

  #unrepeated(): { isRepeated: boolean }[] {
    return [...this.#unanswered.values()].filter((one) => !one.isRepeated);
  }

  async #rounds(): Promise<void> {
    this.#isRunning = true;
    while (this.#isWanted && !this.#isOver) {
      this.#isWanted = false;
      try {
        await this.#round();
      } catch (error) {
        note('mail', error);
      }
    }
    // In the same turn: who asks between the last look and this would not be heard.
    this.#isRunning = false;
  }

  async #round(): Promise<void> {
    if (this.root.id === null && !isFreshWindow()) return;
    this.spool.open();
    await this.#drain();
    if (this.root.id === null) return this.#begin();
    try {
      // Answers to what OpenCode asks go first: mail waits for them.
      for (const entry of this.spool.waiting()) if (await this.#isReply(entry)) this.spool.seen(entry.id);
      for (const entry of this.#inOrder(this.spool.waiting())) await this.#handOver(entry);
    } finally {
      // After our end the file is our successor's, who may be draining into it. What is proven is known from the journal.
      if (!this.#isOver) this.spool.clear();
    }
  }

  /** Mail for a window that shows no session yet begins one there. OpenCode then tells of it, and it gets the mail. */
  async #begin(): Promise<void> {
    const raw = this.client._client;
    if (!raw || this.spool.waiting().length === 0 || (this.#begunUntil ?? 0) > performance.now()) return;
    this.#begunUntil = performance.now() + wait('ANSWER_MS');
    const call = (url: string, body: Facts): Promise<Answer> => {
      return raw.post({ url, body, headers: { 'Content-Type': 'application/json' } });
    };
    const id = word(facts((await inTime(call('/session', {})))?.data)['id']);
    // A window that has not drawn yet does not hear it, and says nothing. After a while its user chooses.
    for (let times = 0; id && times < SHOW_TIMES && !this.#isOver; times += 1) {
      await inTime(call('/tui/select-session', { sessionID: id }));
      if (process.uptime() > DRAWN_S) return;
      await pause(SHOW_MS);
    }
  }

  /** If `c2c` cannot be asked, what it gave us before is still there. */
  async #drain(): Promise<void> {
    try {
      await call(this.who, ['oc-plugin', 'drain-inbox-to-spool', '--spool-path', this.spool.path, '--json']);
    } catch (error) {
      note('drain', error);
    }
  }

  async #isReply(entry: Entry): Promise<boolean> {
    try {
      return await this.questions.take(entry.from, entry.content);
    } catch (error) {
      note('an answer', error);
      return false;
    }
  }

  /** As they came; but what failed three times lets the others pass. */
  #inOrder(entries: Entry[]): Entry[] {
    const isStuck = ({ id }: Entry): boolean => (this.#failures.get(id) ?? 0) >= 3;
    return [...entries.filter((entry) => !isStuck(entry)), ...entries.filter(isStuck)];
  }

  /** Brings one message into the session, or leaves it where it is. Whatever cannot be known is an error, and it waits. */
  async #handOver(entry: Entry): Promise<void> {
    const { id } = entry;
    const session = this.root.id;
    // While OpenCode waits for its user it would take a message and, after a "no", never answer it.
    if (this.#isOver || session === null || this.questions.open(session).length > 0) return;
    try {
      const wasTaken = await this.#wasTaken(id);
      if (!wasTaken && this.#isOver) return;
      if (!wasTaken) await this.#offer(entry, session);
      this.spool.seen(id);
      this.#failures.delete(id);
    } catch (error) {
      this.#failures.set(id, (this.#failures.get(id) ?? 0) + 1);
      throw error;
    }
  }

  /** Was it taken when it was offered before, by us or by somebody who died? */
  async #wasTaken(id: string): Promise<boolean> {
    const before = this.spool.known(id);
    if (!before) return false;
    if (await this.#isInSession(id, before.session)) return true;
    // Accepted and not there yet: OpenCode may still be about to write it down.
    if (Date.now() - before.at < wait('PATIENCE_MS'))
      throw new Error(`${id} was accepted but is not in the session yet`);
    return false;
  }

  /** Hands it over and waits for the proof. Without one it is an error, and the next time the session is asked first. */
  async #offer({ id, text }: Entry, session: string): Promise<void> {
    const proof = this.#proof(id);
    try {
      this.spool.offered(id, session);
      const body = { ...this.manner, parts: [{ type: 'text', text }] };
      const answer = await inTime(this.client.session.promptAsync({ path: { id: session }, body }));
      if (answer?.error !== undefined && answer.error !== null) {
        const status = answer.response?.status ?? 0;
        if (status >= 400 && status < 500) this.spool.forget(id);
        if (status === 404 && this.root.id === session) this.root.isGone();
        throw new Error(`OpenCode refused ${id} with ${status}`);
      }
      if (!(await proof) && !(await this.#isInSession(id, session)))
        throw new Error(`${id} was accepted but is not in the session`);
    } finally {
      this.#awaited.delete(id);
    }
  }

  /** True when the session's events show it; false if they did not in time. */
  #proof(id: string): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), wait('PROOF_MS'));
      timer.unref();
      this.#awaited.set(id, () => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  /** Asks the session itself. A session that is gone has nothing; one that cannot be asked is an error. */
  async #isInSession(id: string, session: string): Promise<boolean> {
    const answer = await inTime(this.client.session.messages({ path: { id: session } }));
    if (answer?.response?.status === 404) return false;
    if (!Array.isArray(answer?.data)) throw new Error(`session ${session} cannot be asked about ${id}`);
    const messages = answer.data.map(facts);
    const found = messages.find(
      (message) =>
        facts(message['info'])['role'] === 'user' &&
        list(message['parts']).some((part) => isRecordOf(id, word(facts(part)['text']) ?? '')),
    );
    const messageId = word(facts(found?.['info'])['id']);
    const isAnswered = messages.some((one) => messageId && (word(facts(one['info'])['parentID']) ?? '') >= messageId);
    if (messageId && !isAnswered && session === this.root.id) this.#unanswered.set(messageId, { isRepeated: false });
    return found !== undefined;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

/** OpenCode's answer, or an error: who waits for ever brings no more mail. */
function inTime<T>(answer: Promise<T>): Promise<T> {
  const late = pause(wait('ANSWER_MS')).then((): never => {
    throw new Error('OpenCode does not answer');
  });
  return Promise.race([answer, late]);
}

// ------------------------------------------------------------------------------------------------------------------ the root

/** Reads OpenCode's events: which session is the root, what it is doing, what it asks. One event after the other. */
class Watch implements Root {
  readonly published: Published;
  readonly questions: Questions;
  readonly mail: Mail;
  #queue: Promise<void> = Promise.resolve();

  constructor(
    who: Identity,
    readonly client: Client,
  ) {
    this.published = new Published(who);
    this.questions = new Questions(who, client);
    this.mail = new Mail(who, client, this.questions, this);
  }

  get id(): string | null {
    return this.published.state.root_opencode_session_id;
  }

  get isIdle(): boolean {
    return this.published.state.agent.is_idle === true;
  }

  /** OpenCode waits for nobody here. */
  take(event: OpenCodeEvent): void {
    this.#queue = this.#queue.then(() => this.#handle(event)).catch((error: unknown) => note('an event', error));
  }

  async #handle(event: OpenCodeEvent): Promise<void> {
    const said = facts(event.properties);
    const info = facts(said['info']);
    const session =
      word(said['sessionID']) ??
      word(info['sessionID']) ??
      word(facts(said['part'])['sessionID']) ??
      word(info['id']) ??
      '';
    switch (event.type) {
      case 'session.created':
        return this.#created(session, info);
      case 'session.idle':
        return this.#idle(session);
      case 'session.deleted':
        return this.#deleted(session);
      case 'permission.asked':
      case 'permission.updated':
      case 'question.asked':
        return this.#asked(event);
      case 'permission.replied':
      case 'question.replied':
      case 'question.rejected':
        return this.#replied(session, word(said['requestID']) ?? word(said['permissionID']));
      default:
        if (session === this.id) this.#work(event.type, said, info);
    }
  }

  #created(session: string, info: Facts): void {
    if (session === '' || word(info['parentID'])) return;
    if (this.id !== null) return this.questions.toast('mail still comes into the first session');
    const rest = { root_opencode_session_id: session, tui_focus: PROMPT };
    this.#step('session.created', { session_id: session }, {}, rest);
    this.mail.look();
  }

  async #idle(session: string): Promise<void> {
    // Whatever it still asked was taken back: by an abort, an error, its time.
    this.questions.closeAll(session);
    if (session !== (this.id ?? (await this.#lateRoot(session)))) return;
    if (this.published.state.pendingQuestion) this.published.question(null, PROMPT);
    const idle = { is_idle: true, turn_count: this.published.state.agent.turn_count + 1 };
    this.#step('session.idle', { session_id: session }, idle, { root_opencode_session_id: session, tui_focus: PROMPT });
    this.mail.look();
    void this.mail.lookAgain().catch((error: unknown) => note('an empty prompt', error));
  }

  /** We came late and saw no beginning: a session without a parent will do. One of which nobody knows is not taken. */
  async #lateRoot(session: string): Promise<string | null> {
    if (session === '') return null;
    const answer = await inTime(this.client.session.get({ path: { id: session } }));
    const found = facts(answer?.data);
    return word(found['id']) === session && !word(found['parentID']) ? session : null;
  }

  #deleted(session: string): void {
    this.questions.closeAll(session);
    if (session === this.id) this.isGone();
  }

  isGone(): void {
    const { state } = this.published;
    state.root_opencode_session_id = null;
    state.agent.is_idle = null;
    this.mail.forgetSession();
    this.published.question(null, { ty: 'unknown', details: null });
  }

  #asked(event: OpenCodeEvent): void {
    const asked = askedBy(event);
    if (!asked) return;
    const isNew = this.questions.ask(asked);
    if (asked.session === this.id) this.#publish(event.type, asked);
    if (isNew) void this.questions.tell(asked).catch((error: unknown) => note(`telling of ${asked.id}`, error));
  }

  #publish(type: string, asked: Asked): void {
    if (asked.kind === 'permission') {
      this.#step(type, asked.details, { is_idle: false }, { tui_focus: { ty: 'permission', details: asked.details } });
    } else if (this.published.state.pendingQuestion === null) {
      this.published.question(asked.question, { ty: 'question', details: null });
    }
  }

  #replied(session: string, id: string | undefined): void {
    this.questions.close(id);
    if (session !== this.id) return;
    const open = this.questions.open(session);
    const question = open.find((asked) => asked.kind === 'question')?.question ?? null;
    const permission = open.find((asked) => asked.kind === 'permission');
    const focus: State['tui_focus'] = question
      ? { ty: 'question', details: null }
      : permission
        ? { ty: 'permission', details: permission.details }
        : PROMPT;
    if (this.published.state.pendingQuestion?.id === id) this.published.question(question, focus);
    else this.published.patch({ tui_focus: focus });
    if (open.length === 0) this.mail.look();
  }

  /** What is no step, but tells of the root session's work. */
  #work(type: string, said: Facts, info: Facts): void {
    const part = facts(said['part']);
    if (type === 'message.part.updated' && part['type'] === 'text') {
      this.mail.recorded(word(part['text']) ?? '', word(part['messageID']) ?? '');
    } else if (type === 'session.status' && facts(said['status'])['type'] !== 'idle') {
      if (this.published.state.agent.is_idle !== false) this.published.patch({ agent: { is_idle: false } });
    } else if (type === 'message.updated') {
      this.#message(info);
    }
  }

  #message(info: Facts): void {
    if (info['role'] === 'assistant') this.mail.answered(word(info['parentID']) ?? '');
    const model = { ...facts(info['model']), ...info };
    const [provider_id, model_id] = [word(model['providerID']), word(model['modelID'])];
    if (info['role'] === 'user') {
      const [agent, variant] = [word(info['agent']), word(model['variant'])];
      this.mail.manner = {
        ...(agent && { agent }),
        ...(variant && { variant }),
        ...(provider_id && model_id && { model: { providerID: provider_id, modelID: model_id } }),
      };
    }
    const { agent } = this.published.state;
    if (!provider_id || !model_id || (provider_id === agent.provider_id && model_id === agent.model_id)) return;
    this.published.patch({ agent: { provider_id, model_id } });
  }

  /** One of the four events that count as a step. */
  #step(event_type: string, details: Facts, agent: Partial<State['agent']>, rest: Patch): void {
    const at = new Date().toISOString();
    const step_count = this.published.state.agent.step_count + 1;
    this.published.patch({ ...rest, agent: { ...agent, step_count, last_step: { event_type, at, details } } });
  }
}

const PROMPT: State['tui_focus'] = { ty: 'prompt', details: null };

// ---------------------------------------------------------------------------------------------------------------- the plugin

interface Running {
  url: string;
  stop(): void;
}

/** Who serves which folder, over all copies of this file that OpenCode has loaded: one for each folder. */
function running(): Map<string, Running> {
  const place = globalThis as unknown as Record<symbol, Map<string, Running> | undefined>;
  const key = Symbol.for('c2c.opencode.plugin');
  const known = place[key];
  if (known) return known;
  const all = new Map<string, Running>();
  process.once('exit', () => all.forEach((one) => one.stop()));
  return (place[key] = all);
}

/** The user's copy leaves a project to the project's own, whichever program's that is. */
function isSpare(url: string, input: Input): boolean {
  if (!/\/\.config\/opencode\/plugins?\/[^/]+$/.test(url)) return false;
  const folders = projectFolders(input).flatMap((one) =>
    ['plugin', 'plugins'].map((name) => join(one, '.opencode', name)),
  );
  return folders.some((folder) => existsSync(join(folder, 'c2c.ts')));
}

function start(who: Identity, client: Client): { watch: Watch; stop: () => void } {
  const watch = new Watch(who, client);
  const { published, questions, mail } = watch;
  published.state.root_opencode_session_id = who.root;
  const sayOnce = once(() => questions.toast('mail is waiting for the first session'));
  const monitor = new Lasting(who, ['monitor', '--alias', who.sessionId], (child) => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (!text.includes('\u{1F4EC}')) return;
      if (watch.id === null) sayOnce();
      mail.look();
    });
    // What came while nobody listened, before its start and during it.
    mail.look();
    setTimeout(() => mail.look(), wait('LISTEN_MS')).unref();
  });
  const timers = [
    setInterval(() => mail.look(), wait('POLL_INTERVAL_MS')),
    setInterval(() => published.patch({}), HEARTBEAT_MS),
  ];
  for (const timer of timers) timer.unref();
  const stop = once(() => {
    for (const timer of timers) clearInterval(timer);
    who.over.abort();
    monitor.stop();
    published.stop();
  });
  // After OpenCode has gone on with its own start.
  setTimeout(() => {
    guarded('writer', () => published.start());
    void enlist(who).finally(() => guarded('monitor', () => monitor.start()));
  }, 0).unref();
  return { watch, stop };
}

/** Makes our alias known, if we have one. A session that is known already stays what it is. */
async function enlist(who: Identity): Promise<void> {
  if (!who.alias) return;
  await call(who, ['register', '--alias', who.alias, '--session-id', who.sessionId, '--json']).catch((error: unknown) =>
    note('register', error),
  );
}

/** Whether this is a window of OpenCode that was not told which session to show, and what to say first. */
function isFreshWindow(): boolean {
  try {
    const [program = '', ...words] = readFileSync('/proc/self/cmdline', 'utf8').split('\0').slice(0, -1);
    const isTold = words.some((word) => /^(-s|-c|--session|--continue|--fork|--prompt)(=|$)/.test(word));
    return basename(program) === 'opencode' && !NO_WINDOW.test(words[0] ?? '') && !isTold;
  } catch {
    // Not on this system.
    return false;
  }
}

export default async function c2c(input: Input): Promise<Hooks> {
  try {
    startedIn = process.env['HOME'] || homedir();
    const { client, directory } = input;
    const url = import.meta.url;
    const who = identityOf(input);
    if (!who || isSpare(url, input)) return {};
    const before = running().get(directory);
    if (before && before.url !== url) return {};
    before?.stop();
    const { watch, stop } = start(who, client);
    const mine = { url, stop };
    running().set(directory, mine);
    return {
      event: async ({ event }) => watch.take(event),
      dispose: async () => {
        stop();
        if (running().get(directory) === mine) running().delete(directory);
      },
    };
  } catch (error) {
    note('start', error);
    return {};
  }
}
