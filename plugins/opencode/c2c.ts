// c2c for OpenCode: delivers waiting mail to the root session as user turns, and publishes the state of the session.
//
// One file without packages, for ~/.config/opencode/plugins/ or <project>/.opencode/plugins/. It has one export, because OpenCode calls
// every export of a plugin file as a plugin.
//
// The steps of a message, and what a crash leaves behind:
//   arrival   `c2c monitor` prints a line → drain. Also at start, at every idle, after a restart of the monitor, and twice a minute.
//   drain     `c2c oc-plugin drain-inbox-to-spool` moves waiting mail into this process's spool file; only messages in it count.
//   offer     one message after the other: recorded as offered, then promptAsync. An answer of 204 only means that it was accepted.
//   proof     the message's id is in the session's own record (seen in an event, or by a request). Only then it leaves the spool.
//   crash     the spool stays. The next plugin takes it over, asks OpenCode about the offered messages, and sends the others.
// It never answers a permission or a question by itself, only for a supervisor whom the user has named (see Questions).
// Errors are logged in ~/.local/share/c2c/opencode/plugin.log and never reach OpenCode.
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

/** An installer may put a path here. C2C_CLI_COMMAND overrides it. */
const COMMAND = 'c2c';
const HEARTBEAT_MS = 15_000;
/** A file that only grows is renamed at this size. */
const FILE_BYTES = 1_000_000;
const OUTPUT_LIMIT = 64_000_000;
const TEXT_LIMIT = 2000;
/** A window can be told which session to show only after it has drawn. By this time after its start (in seconds) it has. */
const DRAWN_S = 20;
const SHOW_MS = 1000;
const SHOW_TIMES = 20;
/** Commands of OpenCode that show no window of their own. */
const NO_WINDOW =
  /^(run|serve|web|acp|attach|auth|providers|models|upgrade|uninstall|export|import|session|mcp|agent|debug|github|pr|stats|db|plugin|plug|completion)$/;

/** Time limits. An environment variable C2C_PLUGIN_<name> overrides each. */
const WAITS = {
  CLI_TIMEOUT_MS: 5000,
  RESTART_MS: 1000,
  /** Until a started monitor notices new mail. */
  LISTEN_MS: 3000,
  POLL_INTERVAL_MS: 30_000,
  /** Until OpenCode must have answered a call. */
  ANSWER_MS: 30_000,
  /** Until a message that was accepted must be in the session's record. */
  PROOF_MS: 10_000,
  /** Until one that is still not there may be offered again. */
  PATIENCE_MS: 60_000,
  /** How long an idle session may take to begin its next turn by itself. */
  SETTLE_MS: 1500,
};

function wait(name: keyof typeof WAITS): number {
  return Number(process.env[`C2C_PLUGIN_${name}`]) || WAITS[name];
}

// The parts of OpenCode's client that are used here.
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
  /** The session that the program that started us has named, if any. */
  root: string | null;
  env: NodeJS.ProcessEnv;
  /** Aborts running calls when the plugin is stopped. */
  over: AbortController;
}

/** A text that is safe as a file name, and as a command argument that is no option. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

/** The folders whose `.opencode` counts: the repository's top and the current one. */
function projectFolders({ directory, worktree = '/' }: Input): string[] {
  return [...new Set([worktree, directory])].filter((folder) => folder !== '/');
}

/**
 * Our identity: from the environment, then the sidecar file of the instance, of the folder, of the repository. Null without a session id.
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
  // Our child processes must not get the password of OpenCode's server.
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

/** The home in which the plugin was started. Later files go there too. */
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

/** A line of JSON; an empty object if it is not valid. */
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

/** A text from outside as one short line. */
function line(value: unknown, limit = 200): string {
  return (typeof value === 'string' ? value : '').replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').slice(0, limit);
}

// ---------------------------------------------------------------------------------------------------- failures and children

/** Logs an error. Ignores a log that cannot be written. */
function note(what: string, error?: unknown): void {
  try {
    const path = join(share(), 'opencode', 'plugin.log');
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    setAside(path);
    const why = error === undefined ? undefined : line(error instanceof Error ? error.message : error, 500);
    const said = { ts: new Date().toISOString(), pid: process.pid, what, ...(why !== undefined && { why }) };
    appendFileSync(path, `${JSON.stringify(said)}\n`, { mode: 0o600 });
  } catch {
    // Nothing depends on the log.
  }
}

/** Renames a file that is too large. An earlier renamed one is replaced. */
function setAside(path: string): void {
  if (existsSync(path) && statSync(path).size > FILE_BYTES) renameSync(path, `${path}.old`);
}

/** Runs `act` and logs its failure. */
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
 * Runs one `c2c` command without a shell. A command that takes longer than five seconds or prints too much is killed with its children.
 * Does not wait for that, because a process that it left behind could hold its output open forever.
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

/** A command's output as JSON. An error does not quote output that is not JSON: it may be mail. */
async function answerOf(who: Identity, args: string[]): Promise<Facts> {
  const text = await call(who, [...args, '--json']);
  try {
    return facts(JSON.parse(text));
  } catch {
    throw new Error(`the answer of c2c ${args.slice(0, 2).join(' ')} is not JSON`);
  }
}

/** Kills a command with its process group. */
function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid) process.kill(-pid, 'SIGKILL');
  } catch {
    // It is gone already.
  }
}

/** A child that should always run. It is started again when it ends; the pause grows while it ends soon after each start. */
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
      // A pipe whose other end died emits an error; without a listener that would end OpenCode.
      for (const pipe of child.stdio) pipe?.on('error', () => {});
      child.stderr?.setEncoding('utf8').on('data', (text: string) => note(`c2c ${this.args.join(' ')} says`, text));
      this.started(child);
      // The timer must not keep OpenCode from ending.
      child.unref();
    } catch (error) {
      note(`c2c ${this.args.join(' ')} did not start`, error);
      again();
    }
  }

  /** Stops the child by a signal; with null by the end of its stdin, so that it can finish writing. */
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
/** The fields that a patch may change; not the process id and start time. */
interface Patch {
  root_opencode_session_id?: string | null;
  agent?: Partial<State['agent']>;
  tui_focus?: State['tui_focus'];
}

/** Keeps the state and streams it to a `c2c` writer process, if one runs: a snapshot for each new writer, then patches. */
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

  /** Sends a change. A merge never removes keys: if an object loses a key, sends the whole state. */
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

  /** Replaces the question, and sends the whole state. */
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

  /** A writer that does not read gets nothing until it does, and then the whole state: no events queue up in OpenCode. */
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
  /** The text for the model. */
  text: string;
}
type Known = { session: string; at: number; isSeen: boolean };

/** How many ids are remembered: a message may come twice if the process that moved it here was killed. */
const REMEMBERED = 10_000;

/**
 * Messages that were drained and are not proven to be in a session yet. Each process has its own spool file, so two OpenCodes on one
 * mailbox never deliver the same message. The file of a dead process is taken over by a rename, which only one process can win. All
 * processes share the journal: one line per offer and per proof.
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

  /** Makes the folder, and takes over the files of dead processes. */
  open(): void {
    if (!this.#isOpen) {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      this.#readJournal();
      // Messages that another c2c plugin has drained and not delivered.
      this.#adopt(join(this.who.directory, '.opencode', 'c2c-plugin-spool.json'));
      this.#isOpen = true;
    }
    for (const name of readdirSync(this.folder)) if (this.#isOrphan(name)) this.#adopt(join(this.folder, name));
  }

  /** The messages in the spool that are not proven to be in a session. */
  waiting(): Entry[] {
    return this.#pairs().flatMap(([, entry]) => (entry && !this.isSeen(entry.id) ? [entry] : []));
  }

  /** Removes only proven messages: a drain may have added others meanwhile. */
  clear(): void {
    const pairs = this.#pairs();
    const gone = pairs.flatMap(([, entry]) => (entry && this.isSeen(entry.id) ? [entry.id] : []));
    if (gone.length === 0) return;
    this.#write(pairs.flatMap(([row, entry]) => (entry && this.isSeen(entry.id) ? [] : [row])));
    // An id that was made from a message's text may come again with another message.
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

  /** Forgets an offer. */
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
        // A killed process may have left an incomplete last line.
        if (id === undefined) continue;
        if (row['gone'] === true) this.#known.delete(id);
        else this.#remember(id, { session, at, isSeen: row['isSeen'] === true });
      }
    }
  }

  /** Is this the file of a dead process, or one that we took over and did not finish? */
  #isOrphan(name: string): boolean {
    const [, pid, start] = /^spool\.(\d+)\.(\w+)(?:\.[\w-]+)?\.json$/.exec(name) ?? [];
    if (pid === undefined || start === undefined || name === basename(this.path)) return false;
    return `${pid}.${start}` === this.#me || !isProcess(Number(pid), start);
  }

  /** Renames a file to our name, merges it, then removes it. After a kill in between, the next process finds it under our name. */
  #adopt(path: string): void {
    const ours = join(this.folder, `spool.${this.#me}.${hash(path, 8)}.json`);
    try {
      moved(path, ours);
    } catch {
      // There is no such file, or another process was faster.
      return;
    }
    const there = rowsIn(this.path);
    const ids = new Set(there.map((row) => facts(row)['message_id']).filter(Boolean));
    this.#write([...rowsIn(ours).filter((row) => !ids.has(facts(row)['message_id'])), ...there]);
    rmSync(ours, { force: true });
    // The journal says which of them the other process had offered.
    this.#readJournal();
  }

  /** The rows of the file, each with its message, or null for any other row. */
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

/** The rows of a spool file. A file that is not valid is put aside for people to look at. */
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

/** A rename that also works to another disk: there it removes the original only after the copy is complete. */
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

/** When a process started, if the system tells: another process may have the same pid now. */
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
  // Only a plain alias is safe in a command.
  const hint = NAME.test(from) ? `\n(To answer: c2c send ${from} "…")` : '';
  return { id, from, content, text: `${envelope(raw, id, who)}${hint}` };
}

/** An id that needs no escapes in a marker. */
const PLAIN_ID = /^[\x21-\x7e]{1,128}$/;
const MADE = 'local-';

/** An id for a message without a usable one. Equal messages get different ids by their order. */
function madeId(raw: Facts, counts: Map<string, number>): string {
  const words = JSON.stringify([raw['from_alias'], raw['to_alias'], raw['ts'], raw['content']]);
  const place = counts.get(words) ?? 0;
  counts.set(words, place + 1);
  return `${MADE}${hash(`${place}${words}`, 24)}`;
}

function marker(id: string): string {
  return `message_id="${attribute(id)}"`;
}

/** Is this text of a session the message with that id? Checks only its opening mark, because bodies may quote each other. */
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
  // Escape everything in the body that looks like the end or beginning of a message, and every invisible character.
  const body = String(raw['content']).replaceAll('\r\n', '\n').replace(UNSEEN, codeOf).replace(MARK, '&lt;');
  return `<c2c ${said} ${marker(id)}>\n${body}\n</c2c>`;
}

/** Controls, and characters that hide or reverse text; but not the joiners that scripts and emoji need. */
const UNSEEN = /(?!\t|\n|\u200c|\u200d|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
/** The beginning of our mark, also with blanks and joiners in it. */
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
  /** The details of a permission for the state stream. */
  details: { id: string; title: string; type: string };
  question: Question | null;
  /** How many questions it has. Only a single one can be answered by a message. */
  count: number;
  /** The exact question, for people. */
  words: string;
}

function askedBy({ type, properties: said = {} }: OpenCodeEvent): Asked | null {
  const [id, session] = [word(said['id']), word(said['sessionID'])];
  if (!id || !session) return null;
  if (type === 'question.asked') return questionOf(id, session, list(said['questions']).map(facts));
  // Before 1.1 a permission had a type and a title; now it has one field for both.
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

/** A message that has the form of a reply. Whether it counts is checked elsewhere. */
function replyIn(content: string): Reply | null {
  const permission = /^permission:([\w-]{1,128}):(approve-once|approve-always|reject)$/.exec(content.trim());
  if (permission) return { kind: 'permission', id: permission[1] ?? '', answer: permission[2] ?? '' };
  const question = /^question:([\w-]{1,128}):(?:answer:([\s\S]+)|(reject))$/.exec(content.trim());
  return question ? { kind: 'question', id: question[1] ?? '', answer: question[2] ?? '' } : null;
}

/** What OpenCode asks its user. We answer only for a supervisor whom the user named by hand. */
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

  /** Closes every question of a session that is idle or gone. */
  closeAll(session: string): void {
    for (const { id } of this.open(session)) this.#open.delete(id);
  }

  /** Tells the person at the screen, and the supervisors whom the user has named. */
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

  /** Shows a short text at the screen, if there is one. Nothing waits for it. */
  toast(message: string, variant: 'info' | 'warning' = 'info'): void {
    const shown = (async () => this.client.tui?.showToast({ body: { title: 'c2c', message, variant } }))();
    shown.catch((error: unknown) => note('a toast', error));
  }

  /**
   * True if the message was a valid reply and was given to OpenCode. Every other message is mail. Only `c2c` decides who may reply, by the
   * user's configuration; without its clear yes nobody may.
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

  /** Answers a question. An empty answer rejects it; a number chooses an option. */
  #answer(asked: Asked, answer: string): Promise<Answer> {
    if (answer === '') return this.#post(`/question/${asked.id}/reject`, {});
    const option = /^\d+$/.test(answer.trim()) ? asked.question?.options[Number(answer) - 1] : undefined;
    return this.#post(`/question/${asked.id}/reply`, { answers: [[option ?? answer.trim()]] });
  }

  async #post(url: string, body: Facts): Promise<Answer> {
    if (!this.client._client) throw new Error('this version of OpenCode has no such call');
    return this.client._client.post({ url, body, headers: { 'Content-Type': 'application/json' } });
  }

  /** The supervisors that the user named by hand; nobody by default. `c2c` still checks every reply. */
  async #supervisors(): Promise<string[]> {
    const said = await answerOf(this.who, ['repo', 'show']);
    const named = [said['supervisors'], said['permission_supervisors']].flatMap(list);
    return named.filter((one): one is string => typeof one === 'string' && NAME.test(one));
  }
}

// --------------------------------------------------------------------------------------------------------------------- the mail

/** The session that gets the mail. */
interface Root {
  readonly id: string | null;
  readonly isIdle: boolean;
  /** Called when OpenCode no longer knows the session. */
  isGone(): void;
}

/** Delivers mail to the root session, and proves that it arrived. */
class Mail {
  readonly spool: Spool;
  /** The agent and model that the user works with: mail must not switch them. */
  manner: Facts = {};
  readonly #awaited = new Map<string, () => void>();
  /** Our messages in the session without a later answer, by the session's own ids. */
  readonly #unanswered = new Map<string, { isRepeated: boolean }>();
  readonly #failures = new Map<string, number>();
  #isRunning = false;
  #isWanted = false;
  /** Until this time, no second session is begun. */
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

  /** Looks for mail. If a look is under way, looks once more after it. */
  look(): void {
    this.#isWanted = true;
    if (!this.#isRunning) void this.#rounds();
  }

  /** The session's record has this text. */
  recorded(text: string, messageId: string): void {
    for (const [id, resolve] of this.#awaited) {
      if (!isRecordOf(id, text)) continue;
      // Before anything else: the answer may be the next event.
      if (!this.#unanswered.has(messageId)) this.#unanswered.set(messageId, { isRepeated: false });
      resolve();
    }
  }

  /** An answer to this message and all earlier ones began. OpenCode's ids grow with time. */
  answered(messageId: string): void {
    for (const id of this.#unanswered.keys()) if (id <= messageId) this.#unanswered.delete(id);
  }

  /** Forgets the agent and model, and our messages, of the last session. */
  forgetSession(): void {
    this.manner = {};
    this.#unanswered.clear();
  }

  /**
   * After an abort or a rejection OpenCode is idle and never answers messages that arrived meanwhile. An empty prompt makes it answer them.
   * Each message causes at most one.
   */
  async lookAgain(): Promise<void> {
    const { id } = this.root;
    if (id === null || this.#unrepeated().length === 0) return;
    // The next turn may begin by itself.
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
    // No await since the last check, so that no request is missed.
    this.#isRunning = false;
  }

  async #round(): Promise<void> {
    if (this.root.id === null && !isFreshWindow()) return;
    this.spool.open();
    await this.#drain();
    if (this.root.id === null) return this.#begin();
    try {
      // Replies to OpenCode's questions go first: mail waits for them.
      for (const entry of this.spool.waiting()) if (await this.#isReply(entry)) this.spool.seen(entry.id);
      for (const entry of this.#inOrder(this.spool.waiting())) await this.#handOver(entry);
    } finally {
      // After our end the file belongs to our successor, which may be draining into it. The journal knows the proven messages.
      if (!this.#isOver) this.spool.clear();
    }
  }

  /** Begins a session in a window that shows none, so that mail can be delivered. OpenCode's event about it makes it the root. */
  async #begin(): Promise<void> {
    const raw = this.client._client;
    if (!raw || this.spool.waiting().length === 0 || (this.#begunUntil ?? 0) > performance.now()) return;
    this.#begunUntil = performance.now() + wait('ANSWER_MS');
    const call = (url: string, body: Facts): Promise<Answer> => {
      return raw.post({ url, body, headers: { 'Content-Type': 'application/json' } });
    };
    const id = word(facts((await inTime(call('/session', {})))?.data)['id']);
    // If the user has begun another session meanwhile, that one gets the mail and stays in the window.
    const isWanted = (): boolean => !this.#isOver && (this.root.id === null || this.root.id === id);
    // A window that has not drawn yet ignores the call without an error. After several tries, leave the choice to the user.
    for (let times = 0; id && times < SHOW_TIMES && isWanted(); times += 1) {
      await inTime(call('/tui/select-session', { sessionID: id }));
      if (process.uptime() > DRAWN_S) return;
      await pause(SHOW_MS);
    }
  }

  /** Drains the mailbox. If that fails, the messages drained before are still in the spool. */
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

  /** In order of arrival; but messages that failed three times go last. */
  #inOrder(entries: Entry[]): Entry[] {
    const isStuck = ({ id }: Entry): boolean => (this.#failures.get(id) ?? 0) >= 3;
    return [...entries.filter((entry) => !isStuck(entry)), ...entries.filter(isStuck)];
  }

  /** Delivers one message to the session, or leaves it in the spool. If its state is unknown, throws, and the message waits. */
  async #handOver(entry: Entry): Promise<void> {
    const { id } = entry;
    const session = this.root.id;
    // While OpenCode waits for its user it would accept a message and, after a rejection, never answer it.
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

  /** Was an earlier offer, by us or a dead process, accepted? */
  async #wasTaken(id: string): Promise<boolean> {
    const before = this.spool.known(id);
    if (!before) return false;
    if (await this.#isInSession(id, before.session)) return true;
    // Accepted and not in the record yet: OpenCode may still write it.
    if (Date.now() - before.at < wait('PATIENCE_MS'))
      throw new Error(`${id} was accepted but is not in the session yet`);
    return false;
  }

  /** Offers a message and waits for the proof. Throws without one; the next attempt asks the session first. */
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

  /** True when the session's events show the message; false if they do not in time. */
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

  /** Asks the session whether it has the message. False if the session is gone. Throws if it cannot be asked. */
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

/** OpenCode's answer, or an error after a time limit: a call without an end would stop all mail. */
function inTime<T>(answer: Promise<T>): Promise<T> {
  const late = pause(wait('ANSWER_MS')).then((): never => {
    throw new Error('OpenCode does not answer');
  });
  return Promise.race([answer, late]);
}

// ------------------------------------------------------------------------------------------------------------------ the root

/** Handles OpenCode's events one after the other: which session is the root, what it does, what it asks. */
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

  /** Queues an event. OpenCode does not wait for it. */
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
    // Open questions of an idle session were withdrawn by an abort, an error or a time limit.
    this.questions.closeAll(session);
    if (session !== (this.id ?? (await this.#lateRoot(session)))) return;
    if (this.published.state.pendingQuestion) this.published.question(null, PROMPT);
    const idle = { is_idle: true, turn_count: this.published.state.agent.turn_count + 1 };
    this.#step('session.idle', { session_id: session }, idle, { root_opencode_session_id: session, tui_focus: PROMPT });
    this.mail.look();
    void this.mail.lookAgain().catch((error: unknown) => note('an empty prompt', error));
  }

  /** For a plugin that started after the session: takes a session that OpenCode knows and that has no parent. */
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

  /** Events about the root session's work that are not steps. */
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

/** The plugin that serves each folder, shared by all copies of this file that OpenCode has loaded. */
function running(): Map<string, Running> {
  const place = globalThis as unknown as Record<symbol, Map<string, Running> | undefined>;
  const key = Symbol.for('c2c.opencode.plugin');
  const known = place[key];
  if (known) return known;
  const all = new Map<string, Running>();
  process.once('exit', () => all.forEach((one) => one.stop()));
  return (place[key] = all);
}

/** Is this the user's copy in a project that has its own c2c plugin, of whichever program? Then this copy does nothing. */
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
    // Look for mail that arrived before the monitor listened.
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
  // Later, so that OpenCode's own start is not delayed.
  setTimeout(() => {
    guarded('writer', () => published.start());
    void enlist(who).finally(() => guarded('monitor', () => monitor.start()));
  }, 0).unref();
  return { watch, stop };
}

/** Registers our alias, if we have one. A session that is registered already is not changed. */
async function enlist(who: Identity): Promise<void> {
  if (!who.alias) return;
  await call(who, ['register', '--alias', who.alias, '--session-id', who.sessionId, '--json']).catch((error: unknown) =>
    note('register', error),
  );
}

/** Is this a window of OpenCode that was started without a session and without a prompt? */
function isFreshWindow(): boolean {
  try {
    const [program = '', ...words] = readFileSync('/proc/self/cmdline', 'utf8').split('\0').slice(0, -1);
    const isTold = words.some((word) => /^(-s|-c|--session|--continue|--fork|--prompt)(=|$)/.test(word));
    // If the value of an option looks like such a command, mail only waits until the first prompt.
    return basename(program) === 'opencode' && !words.some((word) => NO_WINDOW.test(word)) && !isTold;
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
