import { mkdirSync } from 'node:fs';
import { Refusal } from '../../../protocol/refusal.ts';
import type { AgentName } from '../../../protocol/names.ts';
import { holdLock } from '../../../storage/lock-file.ts';
import { endLoop, runInBackground } from '../../loops/alone.ts';
import { forgetSigns } from '../../loops/signs.ts';
import type { Wanted } from '../../loops/wanted.ts';
import type { Env } from '../../env.ts';
import type { C2c } from './c2c.ts';
import { dropPid, folderOf, isUp, keep, known, startOf } from './instance.ts';
import type { Instance } from './instance.ts';
import { endTmux, startInTmux } from './tmux-session.ts';

/** How long a client may take to end by itself. */
const END_MS = 5000;

/** What is known of a session before it is started. */
export type Plan = Pick<
  Instance,
  | 'name'
  | 'client'
  | 'session_id'
  | 'alias'
  | 'broker_root'
  | 'cwd'
  | 'command'
  | 'created_at'
  | 'loop'
  | 'rooms'
  | 'pty'
>;

/** Starts a client in a terminal of ours, under its alias, and arms its loop. Of two at once one wins. spec: c2c#instances */
export async function bringUp(c2c: C2c, plan: Plan): Promise<Instance> {
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

async function start(c2c: C2c, plan: Plan): Promise<Instance> {
  const before = known(c2c.env, plan.name);
  if (before && isUp(before)) {
    throw new Refusal(
      'name_taken',
      `${plan.name} runs already (pid ${before.pid}); stop it first: c2c stop ${plan.name}`,
    );
  }
  await refuseTaken(c2c.at(plan.broker_root), plan);
  if (plan.pty) return (await import('./pty-holder.ts')).startInPty(c2c, plan);
  forgetSigns({ session: plan.session_id, broker_root: plan.broker_root }, c2c.env);
  const { socket, path, session, pane, pid } = await startInTmux({
    ...plan,
    command: commandOf(plan),
    env: environment(c2c.env, plan),
  });
  const instance: Instance = {
    ...plan,
    started_at: Date.now() / 1000,
    terminal: `tmux@${path.includes(':') ? socket : path}:${pane}`,
    tmux: { socket, session },
    pid,
    pid_start: startOf(pid),
  };
  try {
    refuseEnded(instance);
    await enlistAndKeep(c2c, instance);
    await arm(c2c.env, instance);
  } catch (error) {
    const ended = isUp(instance) ? null : endedAtOnce(instance);
    await bringDown(c2c.env, instance, 0);
    throw ended ?? error;
  }
  return instance;
}

function refuseEnded(instance: Instance): void {
  if (!isUp(instance)) throw endedAtOnce(instance);
}

/** Its last words went with its terminal: only the user can make it say them again. */
function endedAtOnce(instance: Instance): Refusal {
  const command = commandOf(instance).join(' ');
  return new Refusal('unreachable', `the client ended at once; run it by hand to see why: ${command}`);
}

/**
 * Codex runs without the daemon that its windows share. The daemon runs the hooks and shells of this session outside of our process, with
 * the environment of another window. spec: c2c#managed-codex
 */
export function commandOf({ client, command: [program = '', ...args] }: Plan): string[] {
  const isSaid = args.some((word) => word === '--no-daemon' || word.startsWith('--remote'));
  return [program, ...(client === 'codex' && !isSaid ? ['--no-daemon'] : []), ...args];
}

/** Writes down what runs, and registers its alias with its process. */
export async function enlistAndKeep(c2c: C2c, instance: Instance): Promise<void> {
  keep(c2c.env, instance);
  const { session_id: sessionId, alias, client: clientType, pid } = instance;
  await c2c.at(instance.broker_root).broker.register({ sessionId, alias: alias as AgentName, pid, clientType });
}

/** An alias of another session that runs is not started twice, and a session is never a supervisor. */
export async function refuseTaken(c2c: C2c, { alias, session_id }: Plan): Promise<void> {
  c2c.refuseSupervisor(alias, 'serve');
  const holder = await c2c.broker.called(alias);
  if (holder?.alive !== true || holder.row.session_id === session_id) return;
  throw new Refusal(
    'name_taken',
    `"${alias}" is the alias of a session that runs (${holder.row.session_id}, pid ${holder.row.pid ?? 'unknown'}); choose another with --alias`,
  );
}

export function environment(env: Env, plan: Plan): Env {
  return {
    ...env,
    C2C_MCP_SESSION_ID: plan.session_id,
    C2C_MCP_AUTO_REGISTER_ALIAS: plan.alias,
    C2C_INSTANCE_NAME: plan.name,
    C2C_MCP_BROKER_ROOT: plan.broker_root,
    C2C_MCP_CLIENT_TYPE: plan.client,
    ...(plan.rooms !== undefined && { C2C_MCP_AUTO_JOIN_ROOMS: plan.rooms }),
  };
}

/** The loop follows the client: it is ended where it was and begun where the client is now. */
async function arm(env: Env, instance: Instance): Promise<void> {
  if (instance.loop === 'none') return;
  const wanted = loopFor(instance);
  await endLoop(env, wanted);
  await runInBackground(wanted, env);
}

export function loopFor(instance: Instance): Wanted {
  const { name, client, session_id, terminal, broker_root, pid, alias, cwd } = instance;
  return {
    kind: 'wake',
    session: session_id,
    client,
    terminal,
    broker_root,
    pid,
    options: { alias, work_dir: cwd, instance: name },
  };
}

/** Ends a client and its loop: politely first. True if it ran until now. */
export async function bringDown(env: Env, instance: Instance, patienceMs = END_MS): Promise<boolean> {
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
