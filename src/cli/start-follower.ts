import type { Env } from '../core/env.ts';
import type { AgentName } from '../core/names.ts';
import { isShared } from '../delivery/client-bindings.ts';
import { SessionNames } from '../delivery/session-names.ts';
import { daemonNotice } from '../platform/daemon-lock.ts';
import { parleyHome } from '../platform/env.ts';
import { signalTo } from '../platform/process.ts';
import { ownCommand } from '../platform/program.ts';

/** `running`: it runs. `forbidden`: PARLEY_NO_DAEMON is set. Otherwise why it does not run, in one line. */
export type FollowerStart = 'running' | 'forbidden' | { trouble: string };

/** Starts the process that gives running sessions their mail, if it does not run yet. It ends by itself when it has no more work. */
export async function startFollower(env: Env): Promise<FollowerStart> {
  const started = spawnFollower(env, 'pipe');
  if (typeof started === 'string') return started;
  const said = await new Response(started.stderr).text();
  if ((await started.exited) === 0) return 'running';
  const why = said.trim().split('\n').at(-1) ?? '';
  return { trouble: why.replace(/^(parley|error): /, '') || 'it said nothing' };
}

/** The same for a caller that cannot wait. `isNeeded` is asked only if the process does not run and may be started. */
export function requestFollower(env: Env, isNeeded: () => boolean = () => true): void {
  if (runState(env) !== null || !isNeeded()) return;
  const started = spawnFollower(env, 'ignore');
  if (typeof started !== 'string') started.unref();
}

/** The same for sessions that may read one of these copies: only the daemon hands mail to them and reads the proof. */
export function requestFollowerFor(env: Env, copies: readonly { mailbox: AgentName }[]): void {
  const names = new SessionNames(parleyHome(env));
  const isNeeded = (mailbox: AgentName): boolean =>
    names.isRunning(mailbox) || names.hasHook(mailbox) || isShared(names.home, mailbox);
  requestFollower(env, () => copies.some(({ mailbox }) => isNeeded(mailbox)));
}

/** Whether there is nothing to start: it runs, or it is forbidden. */
function runState(env: Env): 'running' | 'forbidden' | null {
  if (env['PARLEY_NO_DAEMON'] === '1') return 'forbidden';
  const isRunning = daemonNotice(`${parleyHome(env)}/daemon`)?.doors.some(({ name }) => name === 'follow');
  return isRunning ? 'running' : null;
}

/** It serves every session, so it gets nothing that belongs to the one that starts it: no name, no token of its client. */
const KEPT =
  /^(HOME|PATH|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|TMUX_TMPDIR|XDG_\w+|CLAUDE_CONFIG_DIR|CODEX_HOME|KIMI_CODE_HOME|PARLEY_HOME|BACKCHANNEL_HOME|C2C_\w*ROOT|BUN_\w+)$/;

function spawnFollower<Err extends 'pipe' | 'ignore'>(env: Env, stderr: Err) {
  const state = runState(env);
  if (state !== null) return state;
  return Bun.spawn([...ownCommand(), 'up', '--ends-when-idle', '--detach'], {
    argv0: 'parley',
    env: Object.fromEntries(Object.entries(env).filter(([name]) => KEPT.test(name))),
    cwd: '/',
    stdio: ['ignore', 'ignore', stderr],
  });
}

const END_MS = 30_000;

/** Ends a daemon that does nothing but follow, and returns when it has ended. A daemon that does more is left alone. */
export async function endFollower(env: Env): Promise<void> {
  const path = `${parleyHome(env)}/daemon`;
  const notice = daemonNotice(path);
  if (!notice || notice.doors.length === 0 || notice.doors.some(({ name }) => name !== 'follow')) return;
  signalTo(notice.pid, 'SIGTERM');
  for (const end = Date.now() + END_MS; Date.now() < end; await Bun.sleep(20)) {
    if (daemonNotice(path)?.holder !== notice.holder) return;
  }
}
