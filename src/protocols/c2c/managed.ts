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
  EXEC,
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
  startOrGone,
} from './instance.ts';
import type { Instance, LaunchPlan } from './instance.ts';
import { endLoop, runInBackground } from './loop-process.ts';
import { startLoop } from './loop.ts';
import { forgetSigns } from './terminal-loop.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';

/** How long a client may take to end by itself. */
const END_MS = 5000;
/** How long OpenCode may take to list its sessions. */
const ASK_MS = 20_000;

/** Starts a client in a terminal of ours, under its alias, and arms its loop. Of two at once one wins. spec: c2c#instances */
async function bringUp(c2c: C2c, plan: LaunchPlan): Promise<Instance> {
  const folder = folderOf(c2c.env, plan.name);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const turn = holdLock(`${folder}/start.lock`);
  if (!turn) throw new Refusal('already_claimed', `${plan.name} is just being started; see \`c2c instances\``);
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
    pid_start: startOrGone(pid),
  };
  try {
    if (!isUp(instance)) throw endedAtOnce(c2c.env, instance);
    await registerInstance(c2c, instance);
    await arm(c2c.env, instance);
  } catch (error) {
    const ended = isUp(instance) ? null : endedAtOnce(c2c.env, instance);
    await bringDown(c2c.env, instance, 0);
    throw ended ?? error;
  }
  return instance;
}

/** A Codex that begins a conversation is told which one: so it can be reached before its first prompt. spec: c2c#managed-codex */
async function withThread(env: Env, plan: LaunchPlan): Promise<LaunchPlan> {
  const { client, conversation, cwd, alias, command } = plan;
  if (client !== 'codex' || conversation !== undefined) return plan;
  const [program = '', first = '-'] = command;
  const isCodex = /^codex(\.js)?$/.test(basename(ifThere(() => realpathSync(program)) ?? ''));
  const isOther = !first.startsWith('-') || command.some((word) => word.startsWith('--remote'));
  const thread = isCodex && !isOther ? await newThread({ program, cwd, env }, alias) : null;
  return thread === null ? plan : { ...plan, conversation: thread };
}

/** OpenCode ends at a session that it does not know, seconds after it was started. So it is asked first; without a clear answer it is started. */
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

/** What a program prints, to its end; null if it cannot be started, fails or takes too long. */
async function outputOf(words: string[], place: { cwd: string; env: Env }): Promise<string | null> {
  try {
    const asked = Bun.spawn(words, { ...place, stdin: 'ignore', stderr: 'ignore', timeout: ASK_MS });
    const said = await new Response(asked.stdout).text();
    return (await asked.exited) === 0 ? said : null;
  } catch {
    return null;
  }
}

/** Its last words went with its terminal: only the user can make it say them again. */
function endedAtOnce(env: Env, instance: Instance): Refusal {
  const command = commandOf(instance, env).join(' ');
  return new Refusal('unreachable', `the client ended at once; run it by hand to see why: ${command}`);
}

/** An alias of another session that runs is not started twice, and a session is never a supervisor. */
async function refuseTaken(c2c: C2c, { alias, session_id }: LaunchPlan): Promise<void> {
  c2c.refuseSupervisor(alias, 'serve');
  const holder = await c2c.broker.called(alias);
  if (holder?.alive !== true || holder.row.session_id === session_id) return;
  throw new Refusal(
    'name_taken',
    `"${alias}" is the alias of a session that runs (${holder.row.session_id}, pid ${holder.row.pid ?? 'unknown'}); choose another with --alias`,
  );
}

/** The loop follows the client: it is ended where it was and begun where the client is now. */
async function arm(env: Env, instance: Instance): Promise<void> {
  if (instance.loop === 'none') return;
  const wanted = loopFor(instance);
  await endLoop(env, wanted);
  await runInBackground(wanted, env);
}

/** Ends a client and its loop: politely first. True if it ran until now. */
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

/** The clients that can be started, with their programs. OpenCode is reached by its plugin; a wake beside it would come twice. */
const CLIENTS: Record<string, { program: string; loop: LaunchPlan['loop'] }> = {
  claude: { program: 'claude', loop: 'wake' },
  codex: { program: 'codex', loop: 'wake' },
  opencode: { program: 'opencode', loop: 'none' },
  kimi: { program: 'kimi', loop: 'wake' },
};

/** `c2c start <client>`: a session that we keep, in a tmux session of its own. spec: c2c#instances */
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
    // A terminal held by a process of its own, as we start it ourselves.
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
    throw new Refusal(
      'invalid_request',
      'this is a managed session itself; start another from a terminal outside of it',
    );
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
  if (!path) throw new Refusal('not_found', `${program} is not installed here; say where it is with --bin`);
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

/** The model as its client writes it. The original writes `provider:model`; only OpenCode needs the provider. */
function modelFor(client: string, text: string): string {
  const [, provider, model = ''] = /^(?:([^:/]+)[:/])?(.*)$/s.exec(text.trim()) ?? [];
  const wrong = model === '' ? 'empty model' : client === 'opencode' && !provider ? 'write provider:model' : null;
  if (wrong) throw new Refusal('invalid_request', `invalid --model for client '${client}': ${wrong}`);
  if (client === 'opencode') return `${provider}/${model}`;
  return text.includes(':') ? model : text.trim();
}

/** `c2c stop <name>`: ends a session that we keep, with its loop. Its alias and its mail stay. spec: c2c#instances */
const stopCommand = command({
  usage: 'stop <name> [--json]',
  options: { json: JSON_FLAG },
  words: [1, 1],
  async run(c2c: C2c, { json }, [text = '']) {
    const instance = instanceCalled(c2c.env, text);
    if (c2c.env['C2C_INSTANCE_NAME'] === instance.name)
      throw new Refusal('invalid_request', 'that is this very session; stop it from a terminal outside of it');
    const status = (await bringDown(c2c.env, instance)) ? 'stopped' : 'not running';
    if (json) return c2c.sayJson({ ok: true, name: instance.name, status });
    c2c.say(`${instance.name}: ${status}`);
  },
});

/** `c2c restart <name>`: the same client under the same alias and session id; its loop follows it. spec: c2c#instances */
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

/** What it was started with, without what ran of it. A conversation of Codex without a record cannot be resumed. */
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

/** Starts a client in a terminal that a process of ours holds in the background, together with its loop. Nobody looks at it. */
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
 * Holds the terminal of a client in this process until one of the two ends. If this process has a terminal itself, its user
 * sees the client and types to it directly.
 */
export async function hold(c2c: C2c, plan: LaunchPlan): Promise<void> {
  const isSeen = process.stdin.isTTY && process.stdout.isTTY;
  const env = { ...instanceEnvironment(c2c.env, plan) };
  forgetSigns({ session: plan.session_id, broker_root: plan.broker_root }, c2c.env);
  const command = ['/bin/sh', '-c', EXEC, 'sh', ...commandOf(plan, c2c.env)];
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
    pid_start: startOrGone(pty.pid),
  };
  const log = isSeen ? () => {} : servingLog({ json: false, verbose: false });
  try {
    await registerInstance(c2c, { ...instance, holder: undefined });
    const loop = plan.loop === 'none' ? null : await startLoop(loopFor(instance), c2c, log, pty);
    // Only now: a process that waits for it may rely on its loop.
    writeInstance(c2c.env, instance);
    // Either can be ended for itself; then the other goes, too.
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
