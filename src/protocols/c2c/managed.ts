import type { Env } from '../../core/env.ts';
import { readAlias, readSessionId } from './shapes.ts';
import { mkdirSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { newThread } from '../../clients/codex/queue.ts';
import { rolloutOf } from '../../clients/codex/rollout.ts';
import { codexHome } from '../../clients/codex/rpc.ts';
import { isUuid } from '../../clients/launch.ts';
import { ifThere } from '../../core/disk.ts';
import { isObject } from './files.ts';
import { jsonValue } from './json-list.ts';
import { FLAG, TEXT, command } from '../../core/command.ts';
import { startInBackground } from '../../platform/background.ts';
import { servingLog } from '../../platform/log.ts';
import { Refusal } from '../../core/refusal.ts';
import { HeldTerminal } from '../../sessions/pass-through.ts';
import { OwnPty } from '../../sessions/pty.ts';
import { holdLock } from '../../platform/lock-file.ts';
import {
  commandOf,
  EXEC_SCRIPT,
  dropPid,
  endTmux,
  instanceEnvironment,
  folderOf,
  isUp,
  writeInstance,
  readInstance,
  loopFor,
  instanceCalled,
  readInstanceName,
  registerInstance,
  startInTmux,
  processStartOf,
} from './instance.ts';
import type { Instance, LaunchPlan } from './instance.ts';
import { endLoop, runInBackground } from './loop-process.ts';
import { startLoop } from './loop.ts';
import { forgetSigns } from './terminal-loop.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';

/** Limit for a client to end by itself. */
const END_MS = 5000;
/** Limit for OpenCode to list its sessions. */
const ASK_MS = 20_000;

/** Starts a client in a terminal of ours, under its alias, and starts its loop. Of two starts at once one wins. spec: c2c#instances */
async function bringUp(c2c: C2c, plan: LaunchPlan): Promise<Instance> {
  const folder = folderOf(c2c.env, plan.name);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const turn = holdLock(`${folder}/start.lock`);
  if (!turn) throw new Refusal('already_claimed', `another process is starting ${plan.name}; see \`c2c instances\``);
  try {
    return await start(c2c, plan);
  } finally {
    turn.release();
  }
}

async function start(c2c: C2c, wanted: LaunchPlan): Promise<Instance> {
  await refuseUnknownSession(c2c.env, wanted);
  const plan = await withThread(c2c.env, wanted);
  const before = readInstance(c2c.env, plan.name);
  if (before && isUp(before)) {
    throw new Refusal(
      'name_taken',
      `${plan.name} runs already (pid ${before.pid}); stop it first: c2c stop ${plan.name}`,
    );
  }
  await refuseTaken(c2c.at(plan.broker_root), plan);
  if (plan.pty) return startInPty(c2c, plan);
  forgetSigns({ session: plan.session_id, broker_root: plan.broker_root }, c2c.env);
  const { socket, path, session, pane, pid } = await startInTmux({
    ...plan,
    command: commandOf(plan, c2c.env),
    env: instanceEnvironment(c2c.env, plan),
  });
  const instance: Instance = {
    ...plan,
    started_at: Date.now() / 1000,
    terminal: `tmux@${path.includes(':') ? socket : path}:${pane}`,
    tmux: { socket, session },
    pid,
    pid_start: processStartOf(pid),
  };
  try {
    if (!isUp(instance)) throw endedAtOnce(c2c.env, instance);
    await registerInstance(c2c, instance);
    await restartLoop(c2c.env, instance);
  } catch (error) {
    const ended = isUp(instance) ? null : endedAtOnce(c2c.env, instance);
    await bringDown(c2c.env, instance, 0);
    throw ended ?? error;
  }
  return instance;
}

/** Creates the conversation of a new Codex before Codex starts, so that mail can reach it before its first prompt. spec: c2c#managed-codex */
async function withThread(env: Env, plan: LaunchPlan): Promise<LaunchPlan> {
  const { client, conversation, cwd, alias, command } = plan;
  if (client !== 'codex' || conversation !== undefined) return plan;
  const [program = '', first = '-'] = command;
  const isCodex = /^codex(\.js)?$/.test(basename(ifThere(() => realpathSync(program)) ?? ''));
  const isOther = !first.startsWith('-') || command.some((word) => word.startsWith('--remote'));
  const thread = isCodex && !isOther ? await newThread({ program, cwd, env }, alias) : null;
  return thread === null ? plan : { ...plan, conversation: thread };
}

/** OpenCode exits seconds after its start if it does not know the session. So ask it first; without a clear answer, start it anyway. */
async function refuseUnknownSession(env: Env, { client, conversation, cwd, command: [program = ''] }: LaunchPlan) {
  if (client !== 'opencode' || conversation === undefined) return;
  const words = [program, 'session', 'list', '--format', 'json', '-n', '1000000'];
  const said = await outputOf(words, { cwd, env });
  if (said === null) return;
  const known = said.trim() === '' ? [] : jsonValue(said);
  if (!Array.isArray(known)) return;
  if (known.some((one) => isObject(one) && one['id'] === conversation)) return;
  throw new Refusal('not_found', `session ${conversation} was not found in this folder; see \`opencode session list\``);
}

/** The whole output of a program; null if it cannot be started, fails or takes too long. */
async function outputOf(words: string[], place: { cwd: string; env: Env }): Promise<string | null> {
  try {
    const asked = Bun.spawn(words, { ...place, stdin: 'ignore', stderr: 'ignore', timeout: ASK_MS });
    const said = await new Response(asked.stdout).text();
    return (await asked.exited) === 0 ? said : null;
  } catch {
    return null;
  }
}

/** The refusal for a client that ended immediately. Its output is lost with its terminal, so it names the command to run by hand. */
function endedAtOnce(env: Env, instance: Instance): Refusal {
  const command = commandOf(instance, env).join(' ');
  return new Refusal('unreachable', `the client ended at once; run it by hand to see why: ${command}`);
}

/** Refuses the alias of another running session, and the alias of a supervisor. */
async function refuseTaken(c2c: C2c, { alias, session_id }: LaunchPlan): Promise<void> {
  c2c.refuseSupervisor(alias, 'serve');
  const holder = await c2c.broker.byAlias(alias);
  if (holder?.alive !== true || holder.row.session_id === session_id) return;
  throw new Refusal(
    'name_taken',
    `"${alias}" is the alias of a running session (${holder.row.session_id}, pid ${holder.row.pid ?? 'unknown'}); choose another with --alias`,
  );
}

/** Ends the loop of the client's old terminal, and starts one for its new terminal. */
async function restartLoop(env: Env, instance: Instance): Promise<void> {
  if (instance.loop === 'none') return;
  const wanted = loopFor(instance);
  await endLoop(env, wanted);
  await runInBackground(wanted, env);
}

/** Ends a client and its loop: first by SIGTERM, then by SIGKILL. True if the client ran until now. */
async function bringDown(env: Env, instance: Instance, patienceMs = END_MS): Promise<boolean> {
  const ran = isUp(instance);
  if (instance.loop !== 'none') await endLoop(env, loopFor(instance));
  if (isUp(instance)) {
    process.kill(instance.pid, 'SIGTERM');
    for (const end = Date.now() + patienceMs; isUp(instance) && Date.now() < end;) await Bun.sleep(10);
    if (isUp(instance)) process.kill(instance.pid, 'SIGKILL');
    for (const end = Date.now() + END_MS; isUp(instance) && Date.now() < end;) await Bun.sleep(10);
  }
  if (instance.tmux) await endTmux(instance.tmux, env);
  dropPid(env, instance.name);
  return ran;
}

/** The clients that can be started, with their programs. OpenCode has no wake loop: its plugin delivers mail, so a wake would be a second one. */
const CLIENTS: Record<string, { program: string; loop: LaunchPlan['loop'] }> = {
  claude: { program: 'claude', loop: 'wake' },
  codex: { program: 'codex', loop: 'wake' },
  opencode: { program: 'opencode', loop: 'none' },
  kimi: { program: 'kimi', loop: 'wake' },
};

/** `c2c start <client>`: starts a managed session, in a tmux session of its own. spec: c2c#instances */
const startCommand = command({
  usage:
    'start claude|codex|opencode|kimi [-n <name>] [-s <conversation of the client>] [-m <model>] [--alias <alias>] [--bin <program>] [--auto-join <room,…>] [--wake|--no-wake] [--pty] [--json] [-- <arguments of the client>]',
  options: {
    name: { ...TEXT, short: 'n' },
    alias: TEXT,
    'session-id': SESSION_ID,
    model: { ...TEXT, short: 'm' },
    bin: TEXT,
    'auto-join': TEXT,
    pty: FLAG,
    // Internal: the plan of a session whose terminal this process shall hold.
    hold: TEXT,
    wake: FLAG,
    'no-wake': FLAG,
    json: JSON_FLAG,
  },
  words: [1, 1000],
  async run(c2c: C2c, values, [client = '', ...args]) {
    if (values.hold !== undefined) return hold(c2c, JSON.parse(values.hold) as LaunchPlan);
    const plan = planFor(c2c, client, args, values);
    if (values.pty && process.stdin.isTTY && process.stdout.isTTY) {
      await refuseTaken(c2c, plan);
      return hold(c2c, await withThread(c2c.env, plan));
    }
    const instance = await bringUp(c2c, plan);
    const { name, session_id, alias, pid, terminal, tmux } = instance;
    const attach = tmux && `tmux -L ${tmux.socket} attach -t ${tmux.session}`;
    const told = { ok: true, name, client, session_id, alias, pid, terminal, loop: plan.loop };
    if (values.json) return c2c.sayJson({ ...told, ...(attach && { attach }) });
    c2c.say(`started ${name} as ${alias} (pid ${pid})${attach ? `; look at it with: ${attach}` : ` in ${terminal}`}`);
  },
});

type Values = {
  [K in 'name' | 'alias' | 'session-id' | 'model' | 'bin' | 'auto-join']?: string;
} & { pty?: boolean; wake?: boolean; 'no-wake'?: boolean };

function planFor(c2c: C2c, client: string, args: string[], values: Values): LaunchPlan {
  if (c2c.env['C2C_INSTANCE_NAME'])
    throw new Refusal('invalid_request', 'this is a managed session; start another one from a terminal outside it');
  const kind = Object.hasOwn(CLIENTS, client) ? CLIENTS[client] : undefined;
  if (!kind) {
    const shown = client.replace(/\p{Cc}/gu, '?').slice(0, 40);
    throw new Refusal('invalid_request', `no client is called "${shown}"; there is ${Object.keys(CLIENTS).join(', ')}`);
  }
  const name = readInstanceName(values.name ?? values.alias ?? `${client}-${crypto.randomUUID().slice(0, 6)}`);
  const before = readInstance(c2c.env, name);
  const model = values.model === undefined ? [] : ['--model', modelFor(client, values.model)];
  const program = values.bin ?? kind.program;
  const path = Bun.which(program, { PATH: c2c.env['PATH'] ?? '', cwd: c2c.cwd });
  if (!path)
    throw new Refusal('not_found', `${program} is not installed here; install it, or give its path with --bin`);
  return {
    name,
    client,
    session_id: before?.session_id ?? name,
    alias: readAlias(values.alias ?? before?.alias ?? name),
    broker_root: c2c.root,
    cwd: c2c.cwd,
    command: [path, ...model, ...args],
    created_at: before?.created_at ?? Date.now() / 1000,
    loop: values['no-wake'] ? 'none' : values.wake ? 'wake' : kind.loop,
    ...(values.pty && { pty: true }),
    ...(values['auto-join'] !== undefined && { rooms: values['auto-join'] }),
    ...(values['session-id'] !== undefined && { conversation: readSessionId(values['session-id']) }),
  };
}

/** The model in the form of its client. The original takes `provider:model`; only OpenCode needs the provider. */
function modelFor(client: string, text: string): string {
  const [, provider, model = ''] = /^(?:([^:/]+)[:/])?(.*)$/s.exec(text.trim()) ?? [];
  const wrong = model === '' ? 'empty model' : client === 'opencode' && !provider ? 'write provider:model' : null;
  if (wrong) throw new Refusal('invalid_request', `invalid --model for client '${client}': ${wrong}`);
  if (client === 'opencode') return `${provider}/${model}`;
  return text.includes(':') ? model : text.trim();
}

/** `c2c stop <name>`: ends a managed session and its loop. Keeps its alias and its mail. spec: c2c#instances */
const stopCommand = command({
  usage: 'stop <name> [--json]',
  options: { json: JSON_FLAG },
  words: [1, 1],
  async run(c2c: C2c, { json }, [text = '']) {
    const instance = instanceCalled(c2c.env, text);
    if (c2c.env['C2C_INSTANCE_NAME'] === instance.name)
      throw new Refusal('invalid_request', 'a session cannot stop itself; stop it from a terminal outside it');
    const status = (await bringDown(c2c.env, instance)) ? 'stopped' : 'not running';
    if (json) return c2c.sayJson({ ok: true, name: instance.name, status });
    c2c.say(`${instance.name}: ${status}`);
  },
});

/** `c2c restart <name>`: restarts the client under the same alias and session id, with its loop. spec: c2c#instances */
const restartCommand = command({
  usage: 'restart <name> [--timeout <s>] [--json]',
  options: { json: JSON_FLAG, timeout: TEXT },
  words: [1, 1],
  async run(c2c: C2c, { json, timeout = '5' }, [text = '']) {
    const patience = Number(timeout) * 1000;
    if (!(patience >= 0)) throw new Refusal('invalid_request', '--timeout takes a number of seconds');
    const before = instanceCalled(c2c.env, text);
    await bringDown(c2c.env, before, patience);
    const { name, session_id, alias, pid, terminal } = await bringUp(c2c, planOf(c2c.env, before));
    if (json) return c2c.sayJson({ ok: true, name, session_id, alias, pid, terminal });
    c2c.say(`restarted ${name} as ${alias} (pid ${pid})`);
  },
});

/** The plan that an instance was started with, without its process. Leaves out a Codex conversation without a record: it cannot be resumed. */
function planOf(env: Env, instance: Instance): LaunchPlan {
  const {
    tmux: _tmux,
    holder: _holder,
    pid: _pid,
    pid_start: _start,
    terminal: _terminal,
    started_at: _at,
    ...plan
  } = instance;
  const { client, conversation = '' } = plan;
  const isLost = client === 'codex' && isUuid(conversation) && rolloutOf(codexHome(env), conversation) === null;
  return isLost ? { ...plan, conversation: undefined } : plan;
}

const START_MS = 15_000;

/** Starts a background process that holds a terminal with the client in it, and runs its loop. */
async function startInPty(c2c: C2c, plan: LaunchPlan): Promise<Instance> {
  const log = `${folderOf(c2c.env, plan.name)}/holder.log`;
  const started = await startInBackground({
    words: ['c2c', 'start', '--hold', JSON.stringify(plan), plan.client],
    env: c2c.env,
    cwd: plan.cwd,
    log,
    startMs: START_MS,
    ready(pid) {
      const instance = readInstance(c2c.env, plan.name);
      return instance?.holder === pid && isUp(instance) ? instance : null;
    },
  });
  if (started.ready) return started.ready;
  throw new Refusal('unreachable', started.said || `the client did not start; see ${log}`);
}

/**
 * Holds the terminal of a client in this process until the client or this process ends. If this process has a terminal itself, its user sees the
 * client there and types to it directly.
 */
export async function hold(c2c: C2c, plan: LaunchPlan): Promise<void> {
  const isSeen = process.stdin.isTTY && process.stdout.isTTY;
  const env = { ...instanceEnvironment(c2c.env, plan) };
  forgetSigns({ session: plan.session_id, broker_root: plan.broker_root }, c2c.env);
  const command = ['/bin/sh', '-c', EXEC_SCRIPT, 'sh', ...commandOf(plan, c2c.env)];
  const held = isSeen ? new HeldTerminal(command, { cwd: plan.cwd, env, drew() {} }) : null;
  const pty = held?.pty ?? new OwnPty(command, { cwd: plan.cwd, env, width: 120, height: 40 });
  const leave = (): void => void pty.close();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, leave);
  const instance: Instance = {
    ...plan,
    started_at: Date.now() / 1000,
    terminal: pty.name,
    holder: process.pid,
    pid: pty.pid,
    pid_start: processStartOf(pty.pid),
  };
  const log = isSeen ? () => {} : servingLog({ json: false, verbose: false });
  try {
    await registerInstance(c2c, { ...instance, holder: undefined });
    const loop = plan.loop === 'none' ? null : await startLoop(loopFor(instance), c2c, log, pty);
    // Write the holder only now: the process that waits for it may then rely on the loop.
    writeInstance(c2c.env, instance);
    // When the client or its loop ends, end the other, too.
    await Promise.race([pty.exited, ...(loop ? [loop.ended] : [])]);
    await loop?.stop();
  } finally {
    await pty.close();
    await held?.ended();
  }
}

export const commands = {
  start: startCommand,
  stop: stopCommand,
  restart: restartCommand,
};
