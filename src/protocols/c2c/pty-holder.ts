import { startInBackground } from '../../platform/background.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { OwnPty } from '../../sessions/pty.ts';
import { startLoop } from './loop.ts';
import { forgetSigns } from './terminal-loop.ts';
import { servingLog } from '../../platform/log.ts';
import type { C2c } from './workspace.ts';
import { folderOf, isUp, keep, known, startOf, commandOf, registerAndKeep, environment, loopFor } from './instance.ts';
import type { Instance, Plan } from './instance.ts';

const START_MS = 15_000;

/** Starts a client in a terminal that a process of ours holds in the background, together with its loop. Nobody looks at it. */
export async function startInPty(c2c: C2c, plan: Plan): Promise<Instance> {
  const log = `${folderOf(c2c.env, plan.name)}/holder.log`;
  const started = await startInBackground({
    words: ['c2c', 'start', '--hold', JSON.stringify(plan), plan.client],
    env: c2c.env,
    cwd: plan.cwd,
    log,
    startMs: START_MS,
    ready(pid) {
      const instance = known(c2c.env, plan.name);
      return instance?.holder === pid && isUp(instance) ? instance : null;
    },
  });
  if (started.ready) return started.ready;
  throw new Refusal('unreachable', started.said || `the client did not start; see ${log}`);
}

/**
 * Holds the terminal of a client in this process until one of the two ends. If this process has a terminal itself, its user
 * sees the client and types to it as if nobody stood between.
 */
export async function hold(c2c: C2c, plan: Plan): Promise<void> {
  const isSeen = process.stdin.isTTY && process.stdout.isTTY;
  const env = { ...environment(c2c.env, plan) };
  forgetSigns({ session: plan.session_id, broker_root: plan.broker_root }, c2c.env);
  const pty = new OwnPty(['/bin/sh', '-c', WITH_PID, 'sh', ...commandOf(plan)], {
    cwd: plan.cwd,
    env,
    width: process.stdout.columns || 120,
    height: process.stdout.rows || 40,
    ...(isSeen && { shown: (bytes: Uint8Array) => void process.stdout.write(bytes) }),
  });
  // From the first moment on: what is typed before would come to the client as other keys than were pressed.
  if (isSeen) passKeys(pty);
  const leave = (): void => void pty.close();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, leave);
  const instance: Instance = {
    ...plan,
    started_at: Date.now() / 1000,
    terminal: pty.name,
    holder: process.pid,
    pid: pty.pid,
    pid_start: startOf(pty.pid),
  };
  const log = isSeen ? () => {} : servingLog({ json: false, verbose: false });
  try {
    await registerAndKeep(c2c, { ...instance, holder: undefined });
    const loop = plan.loop === 'none' ? null : await startLoop(loopFor(instance), c2c, log, pty);
    // Only now: a process that waits for it may rely on its loop.
    keep(c2c.env, instance);
    // Either can be ended for itself; then the other goes, too.
    await Promise.race([pty.exited, ...(loop ? [loop.ended] : [])]);
    await loop?.stop();
  } finally {
    if (isSeen) process.stdin.setRawMode(false);
    await pty.close();
  }
}

const WITH_PID = 'C2C_MCP_CLIENT_PID=$$; export C2C_MCP_CLIENT_PID; exec "$@"';

function passKeys(pty: OwnPty): void {
  process.stdin.setRawMode(true);
  process.stdin.on('data', (keys: Buffer) => {
    try {
      pty.type(new Uint8Array(keys));
    } catch {
      // The client has just ended.
    }
  });
}
