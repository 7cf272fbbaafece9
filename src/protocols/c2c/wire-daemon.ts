import { whyUnfit } from '../../clients/kimi/wire.ts';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { FLAG, TEXT, command } from '../../core/command.ts';
import type { Values } from '../../core/command.ts';
import { Refusal } from '../../core/refusal.ts';
import { daemonsFolder, readLoopOrder, writeWhole } from './loop-files.ts';
import type { LoopOrder } from './loop-files.ts';
import { endLoop, logOf, runHere, runInBackground } from './loop-process.ts';
import { lookOnce, whoRuns } from './loop.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';

const ACTS = ['start', 'stop', 'status', 'restart', 'list', 'run'] as const;
type Act = (typeof ACTS)[number];

const OPTIONS = {
  json: JSON_FLAG,
  'session-id': SESSION_ID,
  alias: TEXT,
  'broker-root': TEXT,
  'work-dir': TEXT,
  command: TEXT,
  interval: TEXT,
  once: FLAG,
  loop: FLAG,
  daemon: FLAG,
  pidfile: TEXT,
  timeout: TEXT,
} as const;
type Given = Values<typeof OPTIONS>;

/** `c2c wire-daemon`: controls the bridge that delivers mail to `kimi --wire`. spec: c2c#wire */
const wireDaemonCommand = command({
  usage: 'wire-daemon start|stop|status|restart|list|run [<session id>] [--command <kimi>] [--interval <s>] [--json]',
  options: OPTIONS,
  words: [0, 2],
  async run(c2c: C2c, values, [word, named]) {
    const given: Given = named === undefined ? values : { ...values, 'session-id': named };
    const act = actFrom(word, given);
    await DO[act](c2c, given);
  },
});

const DO: Record<Act, (c2c: C2c, given: Given) => Promise<void>> = {
  start,
  stop,
  status,
  restart,
  list,
  run,
};

/** The subcommand. Without one the options decide, as in the original's bridge. */
function actFrom(word: string | undefined, { once, loop, daemon }: Given): Act {
  if (word === undefined && daemon) return 'start';
  if (word === undefined && (once || loop)) return 'run';
  const act = ACTS.find((one) => one === word);
  if (act) return act;
  throw new Refusal('invalid_request', `give a subcommand: c2c wire-daemon ${ACTS.join('|')}`);
}

async function start(c2c: C2c, given: Given): Promise<void> {
  const wanted = wantedFrom(c2c, given);
  clearStale(c2c, wanted.session);
  await refuseUnfit(c2c, wanted);
  const { notice, already, log } = await runInBackground(wanted, c2c.env);
  const own = pidFile(c2c, wanted.session);
  const pidfile = given.pidfile ?? own;
  if (pidfile !== own) writeWhole(pidfile, `${notice.pid}\n`);
  const told = { ok: true, session_id: wanted.session, already_running: already, pid: notice.pid, pidfile, log };
  if (given.json) return c2c.sayJson(told);
  c2c.say(`${already ? 'runs already' : 'started'}: ${wanted.session} (pid ${notice.pid}), log: ${log}`);
}

/** Refuses a kimi without `--wire` now, instead of an error in the bridge's log. */
async function refuseUnfit(c2c: C2c, { options }: LoopOrder): Promise<void> {
  const because = await whyUnfit({
    command: [options.command ?? 'kimi'],
    workDir: options.work_dir ?? c2c.cwd,
    env: c2c.env,
  });
  if (because !== null) throw new Refusal('not_in_this_version', because);
}

async function stop(c2c: C2c, given: Given): Promise<void> {
  const session = sessionFrom(c2c, given);
  const { was } = await endLoop(c2c.env, { kind: 'wire', session });
  clearStale(c2c, session);
  const told = { ok: true, session_id: session, status: was ? 'stopped' : 'not running', pid: was?.pid ?? null };
  if (given.json) return c2c.sayJson(told);
  c2c.say(`${session}: ${told.status}`);
}

async function restart(c2c: C2c, given: Given): Promise<void> {
  const session = sessionFrom(c2c, given);
  await endLoop(c2c.env, { kind: 'wire', session });
  await start(c2c, { ...given, 'session-id': session });
}

async function status(c2c: C2c, given: Given): Promise<void> {
  const told = stateOf(c2c, sessionFrom(c2c, given));
  if (!told.running) process.exitCode = 3;
  if (given.json) return c2c.sayJson(told);
  sayState(c2c, told);
}

async function list(c2c: C2c, given: Given): Promise<void> {
  const folder = daemonsFolder(c2c.env);
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const sessions = new Set(names.flatMap((name) => /^(.+)\.(pid|log)$/.exec(name)?.[1] ?? []));
  const told = [...sessions].sort().map((session) => stateOf(c2c, session));
  if (given.json) return c2c.sayJson(told);
  if (told.length === 0) c2c.say('no wire bridge was ever started here');
  for (const one of told) sayState(c2c, one);
}

async function run(c2c: C2c, given: Given): Promise<void> {
  const wanted = wantedFrom(c2c, given);
  clearStale(c2c, wanted.session);
  if (!given.once) {
    await runHere(wanted, c2c);
    return;
  }
  const { count, because } = await lookOnce(wanted, c2c);
  if (because !== null && !given.json) throw new Refusal('busy', `${because}; the mail waits`);
  if (because !== null) process.exitCode = 1;
  const told = { ok: because === null, delivered: count, ...(because !== null && { error: because }) };
  if (given.json) return c2c.sayJson(told);
  c2c.say(count === 0 ? 'nothing waits' : `delivered ${count}`);
}

interface State {
  session_id: string;
  running: boolean;
  pid: number | null;
  pidfile: string;
  since?: string;
  log: string;
}

function stateOf(c2c: C2c, session: string): State {
  clearStale(c2c, session);
  const notice = whoRuns(c2c.env, { kind: 'wire', session });
  return {
    session_id: session,
    running: notice !== null,
    pid: notice?.pid ?? null,
    pidfile: pidFile(c2c, session),
    ...(notice && { since: notice.since }),
    log: logOf(c2c.env, { kind: 'wire', session }),
  };
}

function sayState(c2c: C2c, { session_id, running, pid, since, log }: State): void {
  c2c.say(running ? `${session_id}: runs (pid ${pid}, since ${since}), log: ${log}` : `${session_id}: does not run`);
}

/** Removes the pid file if the bridge does not run: the pid may belong to another process by now. */
function clearStale(c2c: C2c, session: string): void {
  if (!whoRuns(c2c.env, { kind: 'wire', session })) rmSync(pidFile(c2c, session), { force: true });
}

function pidFile(c2c: C2c, session: string): string {
  return `${daemonsFolder(c2c.env)}/${session}.pid`;
}

function sessionFrom(c2c: C2c, given: Given): string {
  return c2c.session(given['session-id']);
}

/** The order from the given options, with those of the last start as defaults: a restart keeps its options. */
function wantedFrom(c2c: C2c, given: Given): LoopOrder {
  const session = sessionFrom(c2c, given);
  const before = remembered(c2c, session);
  const interval = given.interval === undefined ? undefined : Number(given.interval) * 1000;
  if (interval !== undefined && !(interval > 0))
    throw new Refusal('invalid_request', '--interval takes a number of seconds');
  const alias = given.alias ?? before?.options.alias;
  const program = given.command ?? before?.options.command ?? 'kimi';
  // Resolve the program now: the daemon that runs the bridge may have another PATH.
  const command = Bun.which(program, { PATH: c2c.env['PATH'] ?? '', cwd: c2c.cwd }) ?? program;
  const wanted: LoopOrder = {
    kind: 'wire',
    session,
    client: 'kimi',
    broker_root: given['broker-root'] ?? before?.broker_root ?? c2c.root,
    options: {
      work_dir: given['work-dir'] ?? before?.options.work_dir ?? c2c.cwd,
      ...(alias !== undefined && { alias }),
      command,
      ...(interval !== undefined && { interval_ms: Math.round(interval) }),
    },
  };
  writeWhole(rememberedPath(c2c, session), `${JSON.stringify(wanted)}\n`);
  return wanted;
}

function rememberedPath(c2c: C2c, session: string): string {
  return `${daemonsFolder(c2c.env)}/options/${session}.json`;
}

function remembered(c2c: C2c, session: string): LoopOrder | null {
  return readLoopOrder(`${daemonsFolder(c2c.env)}/options`, session);
}

export const commands = {
  'wire-daemon': wireDaemonCommand,
};
