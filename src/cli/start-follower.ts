import type { Env } from '../core/env.ts';
import { daemonNotice } from '../platform/daemon-lock.ts';
import { parleyHome } from '../platform/env.ts';
import { ownCommand } from '../platform/program.ts';

/** `running`: it runs. `forbidden`: PARLEY_NO_DAEMON is set. Otherwise why it does not run, in one line. */
export type Follower = 'running' | 'forbidden' | { trouble: string };

/** Starts the process that gives running sessions their mail, if it does not run yet. It ends by itself when it has no more work. */
export async function startFollower(env: Env): Promise<Follower> {
  if (env['PARLEY_NO_DAEMON'] === '1') return 'forbidden';
  const isRunning = daemonNotice(`${parleyHome(env)}/daemon`)?.doors.some(({ name }) => name === 'follow');
  if (isRunning) return 'running';
  const started = Bun.spawn([...ownCommand(), 'up', '--with=follow', '--ends-when-idle', '--detach'], {
    argv0: 'parley',
    // It serves every session: it is nobody's.
    env: { ...env, PARLEY_AGENT: undefined },
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said = await new Response(started.stderr).text();
  if ((await started.exited) === 0) return 'running';
  const why = said.trim().split('\n').at(-1) ?? '';
  return { trouble: why.replace(/^(parley|error): /, '') || 'it said nothing' };
}
