import * as v from 'valibot';
import { claudeFolder } from '../../clients/claude/settings.ts';
import type { Env } from '../../core/env.ts';
import { readJsonFile } from './files.ts';
import { isC2cSessionId } from './shapes.ts';
import type { Ancestor } from '../../platform/process.ts';
import { ancestors, isClient, isProcessAlive } from '../../platform/process.ts';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { userHome } from '../../platform/env.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { TmuxServer } from '../../sessions/tmux.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { ifThere } from '../../core/disk.ts';
import { platform } from '../../platform/os.ts';
import { instancesFolder, writeWhole } from './loop-files.ts';
import type { LoopOrder } from './loop-files.ts';
import type { C2c } from './workspace.ts';

/** A session that `c2c start` manages: how it is started, and its process. spec: c2c#instances */
export const Instance = new Schema(() =>
  v.object({
    name: v.string(),
    client: v.string(),
    session_id: v.string(),
    alias: v.string(),
    broker_root: v.string(),
    cwd: v.string(),
    command: v.array(v.string()),
    created_at: v.number(),
    started_at: v.number(),
    /** `tmux@<path of the server>:%<pane>`, or `pty <pid>` if a process of ours (`holder`) holds the terminal. */
    terminal: v.string(),
    pty: v.optional(v.boolean()),
    holder: v.optional(v.number()),
    /** The tmux session, for people who attach to it. */
    tmux: v.optional(v.object({ socket: v.string(), session: v.string() })),
    pid: v.number(),
    /** The start time of the process: proves that this pid is still the same process. */
    pid_start: v.string(),
    loop: v.picklist(['wake', 'none']),
    rooms: v.optional(v.string()),
    /** The conversation of the client that it continues. */
    conversation: v.optional(v.string()),
  }),
);
export type Instance = Described<typeof Instance>;

/** A session that the original c2c manages in the same folder. We list it, but only the original starts and stops it. */
const OtherInstance = new Schema(() =>
  v.object({
    name: v.string(),
    client: v.string(),
    session_id: v.string(),
    alias: v.string(),
    broker_root: v.optional(v.string(), ''),
    created_at: v.optional(v.number(), 0),
  }),
);
export type OtherInstance = Described<typeof OtherInstance> & { pid: number | null };

export function folderOf(env: Env, name: string): string {
  return `${instancesFolder(env)}/${name}`;
}

/** Checks the name of an instance, which becomes the name of a folder. */
export function readInstanceName(text: string): string {
  if (isC2cSessionId(text)) return text;
  const shown = text.replace(/\p{Cc}/gu, '?').slice(0, 80);
  throw new Refusal(
    'invalid_request',
    `"${shown}" is not a valid name; use 1 to 128 letters, digits, . _ - and no dot in front`,
  );
}

export function writeInstance(env: Env, instance: Instance): void {
  const folder = folderOf(env, instance.name);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeWhole(`${folder}/config.json`, `${JSON.stringify(instance, null, 2)}\n`);
  writeWhole(`${folder}/expected-cwd`, `${instance.cwd}\n`);
  writeWhole(`${folder}/outer.pid`, `${instance.pid}\n`);
  if (instance.tmux) writeWhole(`${folder}/tmux.json`, `${JSON.stringify(instance.tmux)}\n`);
}

export function readInstance(env: Env, name: string): Instance | null {
  return configOf(env, name, Instance);
}

function configOf<T extends { name: string }>(
  env: Env,
  name: string,
  schema: { safeParse(value: unknown): { success: true; data: T } | { success: false } },
): T | null {
  const read = schema.safeParse(readJsonFile(`${folderOf(env, name)}/config.json`));
  return read.success && read.data.name === name ? read.data : null;
}

export function instanceCalled(env: Env, text: string): Instance {
  const instance = readInstance(env, readInstanceName(text));
  if (instance) return instance;
  if (otherInstances(env).some(({ name }) => name === text))
    throw new Refusal('not_yours', `${text} was started by the original c2c; end it there, then start it here`);
  const names = allInstances(env).map(({ name }) => name);
  const there = names.length > 0 ? `there is ${names.slice(0, 10).join(', ')}` : 'start one with c2c start <client>';
  throw new Refusal('not_found', `no instance is called "${text}"; ${there}`);
}

export function allInstances(env: Env): Instance[] {
  return instanceNames(env).flatMap((name) => readInstance(env, name) ?? []);
}

/** The instances of the original c2c. `pid`: the process that it recorded, if that runs. */
export function otherInstances(env: Env): OtherInstance[] {
  return instanceNames(env).flatMap((name) => {
    const other = readInstance(env, name) ? null : configOf(env, name, OtherInstance);
    if (!other) return [];
    const noted = Number(ifThere(() => readFileSync(`${folderOf(env, name)}/outer.pid`, 'utf8')) ?? Number.NaN);
    return { ...other, pid: noted > 0 && isProcessAlive(noted) ? noted : null };
  });
}

function instanceNames(env: Env): string[] {
  const folder = instancesFolder(env);
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}

/** The instance with this session id; null if there is none. */
export function instanceOf(env: Env, sessionId: string): Instance | null {
  return allInstances(env).find(({ session_id }) => session_id === sessionId) ?? null;
}

/**
 * The managed session whose client started this process (a hook or an MCP server); null if there is none. The environment proves nothing: one
 * daemon of Codex serves all its windows with the environment of the first, and MCP servers get none. So `c2c start` runs Codex without the
 * daemon and records its process: two sessions in one folder are two processes. spec: c2c#managed-codex
 */
export function instanceAbove(env: Env): Instance | null {
  const running = allInstances(env).filter(isUp);
  if (running.length === 0) return null;
  const chain = ownClientChain();
  return running.find(({ pid }) => chain.includes(pid)) ?? null;
}

/** Whether the process of this instance still runs. Another process may have its pid by now. */
export function isUp({ pid, pid_start }: Pick<Instance, 'pid' | 'pid_start'>): boolean {
  const start = platform.processStart(pid);
  return start !== null && (start === pid_start || start === 'unknown' || pid_start === 'unknown');
}

export function processStartOf(pid: number): string {
  return platform.processStart(pid) ?? 'gone';
}

export function dropPid(env: Env, name: string): void {
  rmSync(`${folderOf(env, name)}/outer.pid`, { force: true });
}

/** Programs that run a client's script. */
const INTERPRETERS = /^(node|bun|deno|python[\d.]*|(ba|da|z|k)?sh)$/;

/**
 * The pids from our parent up to the client that started us, and further up until the next client. So a process in a client that runs inside
 * another client belongs only to the nearer one.
 */
function ownClientChain(): number[] {
  const chain: number[] = [];
  let [client, below]: (Ancestor | undefined)[] = [];
  for (const one of ancestors()) {
    if (isClient(one)) {
      // npm's script and the program that it started count as one client.
      if (client && !(client === below && isScript(one))) break;
      client = one;
    }
    chain.push(one.pid);
    below = one;
  }
  return chain;
}

function isScript({ words: [program = ''] }: Ancestor): boolean {
  return INTERPRETERS.test(program.split('/').at(-1) ?? '');
}

/** Managed sessions have a tmux server of their own, so that the user's own sessions never end with it. */
const SOCKET = 'c2c';
/** Limit for a tmux command, long enough for the start of a server. */
const TMUX_MS = 20_000;
/** Variables that tmux sets by itself. */
const NOT_OURS = ['TMUX', 'TMUX_PANE', 'TERM', 'TERM_PROGRAM', 'TERM_PROGRAM_VERSION', 'PWD', 'OLDPWD', 'SHLVL', '_'];
/** Starts the client with its own pid in a variable: `exec` keeps the pid of the shell. */
export const EXEC_SCRIPT = 'C2C_MCP_CLIENT_PID=$$; export C2C_MCP_CLIENT_PID; exec "$@"';

interface TmuxSession {
  socket: string;
  /** The path of its server's socket, which works from any environment. */
  path: string;
  session: string;
  pane: string;
  pid: number;
}

function tmuxSocket(env: Env): string {
  const named = env['C2C_TMUX_SOCKET'] || SOCKET;
  if (/^[A-Za-z0-9._-]+$/.test(named)) return named;
  throw new Refusal('bad_config', 'C2C_TMUX_SOCKET takes letters, digits, . _ -');
}

/** Starts a program in a detached tmux session, with exactly this environment. */
export async function startInTmux(order: {
  env: Env;
  cwd: string;
  name: string;
  command: readonly string[];
}): Promise<TmuxSession> {
  const { env, cwd, name, command } = order;
  const socket = tmuxSocket(env);
  if (!Bun.which('tmux', { PATH: env['PATH'] ?? '' }))
    throw new Refusal('unreachable', 'tmux is not installed here; install it, or start it with --pty');
  // Dots and colons have a meaning in a tmux target.
  const session = name.replaceAll(/[.:]/g, '_');
  const clean = Object.fromEntries(
    Object.entries(env).filter(([key, value]) => value !== undefined && !NOT_OURS.includes(key)),
  );
  // Put only the names on the command line, because other users can read it; tmux takes the values from its client's environment.
  const names = Object.keys(clean).filter((key) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(key));
  const settings = ['start-server', ';', 'set-option', '-g', 'update-environment', names.join(' '), ';'];
  const shape = ['new-session', '-d', '-s', session, '-x', '200', '-y', '50', '-c', cwd];
  const told = ['-P', '-F', '#{pane_id} #{pane_pid} #{socket_path}'];
  const words = [...settings, ...shape, ...told, '/bin/sh', '-c', EXEC_SCRIPT, 'sh', ...command];
  const said = await new TmuxServer({ socket, env: clean, answerMs: TMUX_MS }).create(words);
  const [, pane = '', pid = '', path = ''] = /^(%\d+) (\d+) (.*)$/.exec(said.trim()) ?? [];
  if (pane === '') throw new Refusal('unreachable', `tmux started nothing: ${said.slice(0, 200)}`);
  return { socket, path, session, pane, pid: Number(pid) };
}

/** Ends a session with what still runs in it. One that is gone already is no error. */
export async function endTmux({ socket, session }: Pick<TmuxSession, 'socket' | 'session'>, env: Env): Promise<void> {
  await new TmuxServer({ socket, env }).run(['kill-session', '-t', `=${session}`]).catch(() => 'it is gone');
}

/** What is known of a session before it is started. */
export type LaunchPlan = Omit<Instance, 'started_at' | 'terminal' | 'holder' | 'tmux' | 'pid' | 'pid_start'>;

/**
 * The command that starts the client. Codex is started without the daemon that its windows share, because the daemon would run the hooks and
 * shells of this session outside our process, with the environment of another window. spec: c2c#managed-codex
 */
export function commandOf({ client, command: [program = '', ...args], conversation }: LaunchPlan, env: Env): string[] {
  const isSaid = args.some((word) => word === '--no-daemon' || word.startsWith('--remote'));
  const apart = client === 'codex' && !isSaid ? ['--no-daemon'] : [];
  return [program, ...(conversation ? resumeWords(client, conversation, env) : []), ...apart, ...args];
}

/** The arguments with which a client continues a conversation. Claude Code begins a new one if it does not know the id. */
function resumeWords(client: string, id: string, env: Env): string[] {
  if (client === 'codex') return ['resume', id];
  if (client === 'opencode' || client === 'kimi') return ['--session', id];
  const isNew = /^[0-9a-f-]{36}$/i.test(id) && !hasTranscript(env, id);
  return [isNew ? '--session-id' : '--resume', id];
}

function hasTranscript(env: Env, id: string): boolean {
  const projects = `${claudeFolder({ home: userHome(env), env })}/projects`;
  return (ifThere(() => readdirSync(projects)) ?? []).some((project) =>
    existsSync(`${projects}/${project}/${id}.jsonl`),
  );
}

/** Records the instance, and registers its alias with its process. */
export async function registerInstance(c2c: C2c, instance: Instance): Promise<void> {
  writeInstance(c2c.env, instance);
  const { session_id: sessionId, alias, client: clientType, pid } = instance;
  await c2c.at(instance.broker_root).broker.register({ sessionId, alias: alias as AgentName, pid, clientType });
}

export function instanceEnvironment(env: Env, plan: LaunchPlan): Env {
  return {
    ...env,
    C2C_MCP_SESSION_ID: plan.session_id,
    C2C_MCP_AUTO_REGISTER_ALIAS: plan.alias,
    C2C_INSTANCE_NAME: plan.name,
    C2C_MCP_BROKER_ROOT: plan.broker_root,
    C2C_MCP_CLIENT_TYPE: plan.client,
    ...(plan.rooms !== undefined && { C2C_MCP_AUTO_JOIN_ROOMS: plan.rooms }),
    // Lets the plugin prompt this session before its user does.
    ...(plan.client === 'opencode' && plan.conversation && { C2C_OPENCODE_SESSION_ID: plan.conversation }),
  };
}

export function loopFor(instance: Instance): LoopOrder {
  const { name, client, session_id, terminal, broker_root, pid, alias, cwd, conversation, command } = instance;
  const codex = client === 'codex' && conversation !== undefined && { thread: conversation, command: command[0] };
  return {
    kind: 'wake',
    session: session_id,
    client,
    terminal,
    broker_root,
    pid,
    options: { alias, work_dir: cwd, instance: name, ...codex },
  };
}
