import type { Env } from '../../core/env.ts';
import { startInBackground } from '../../platform/background.ts';
import { daemonNotice } from '../../platform/daemon-lock.ts';
import type { DaemonNotice } from '../../platform/daemon-lock.ts';
import { parleyHome } from '../../platform/env.ts';
import { servingLog } from '../../platform/log.ts';
import { serveUntilSignal } from '../../platform/serve.ts';
import { Refusal } from '../../core/refusal.ts';
import { isHolderAlive } from '../../platform/holder.ts';
import { loopsFolder, removeLoopOrder, writeLoopOrder } from './loop-files.ts';
import type { LoopOrder } from './loop-files.ts';
import { lockPathOf, startLoop, whoRuns } from './loop.ts';
import type { LoopPlace } from './loop.ts';

/** Limits for a loop to start and to end. A running turn is cancelled at the end, which takes a while. */
const START_MS = 15_000;
const STOP_MS = 20_000;
/** The reasons of a normal end. */
const NORMAL_ENDS = ['told to stop', 'watched_pid_exited'];

/** The daemon that runs loops (`parley up --with loops`); null if there is none. */
function daemonWithLoops(env: Env): DaemonNotice | null {
  const notice = daemonNotice(`${parleyHome(env)}/daemon`);
  return notice?.doors.some(({ name }) => name === 'loops') ? notice : null;
}

/** Starts the loop of a session in the background: in a daemon that runs loops, else in a process of its own. Returns who runs it. */
export async function runInBackground(
  wanted: LoopOrder,
  env: Env,
): Promise<{ notice: DaemonNotice; already: boolean; log: string }> {
  const log = logOf(env, wanted);
  const there = whoRuns(env, wanted);
  if (there) return { notice: there, already: true, log };
  const daemon = daemonWithLoops(env);
  if (daemon) {
    writeLoopOrder(loopsFolder(env), wanted);
    const notice = await until(START_MS, () => whoRuns(env, wanted));
    if (notice) return { notice, already: false, log: `${parleyHome(env)}/daemon.log` };
    removeLoopOrder(loopsFolder(env), wanted.session);
    throw new Refusal('storage_failed', `the daemon did not start the loop; see ${parleyHome(env)}/daemon.log`);
  }
  return { notice: await detached(wanted, env, log), already: false, log };
}

async function detached(wanted: LoopOrder, env: Env, log: string): Promise<DaemonNotice> {
  const started = await startInBackground({
    words: ['c2c', 'deliver-inbox', '--run', JSON.stringify(wanted)],
    env,
    cwd: wanted.options.work_dir ?? process.cwd(),
    log,
    startMs: START_MS,
    ready(pid) {
      const notice = whoRuns(env, wanted);
      return notice?.pid === pid && notice.doors.length > 0 ? notice : null;
    },
  });
  // Another process may have started the loop first.
  const notice = started.ready ?? (started.isLate ? null : whoRuns(env, wanted));
  if (notice) return notice;
  const said = started.ready === null ? started.said : '';
  throw new Refusal('storage_failed', said || `the loop did not start; see ${log}`);
}

/** Runs the loop of a session in this process until a signal, or until its client has ended. */
export async function runHere(wanted: LoopOrder, place: LoopPlace): Promise<string> {
  const log = servingLog({ json: false, verbose: false });
  let because = 'told to stop';
  const noteEnd = async (ended: Promise<string>): Promise<void> => {
    because = await ended;
    // When the loop ends by itself, end this process in the same way as by a signal.
    process.kill(process.pid, 'SIGTERM');
  };
  const open = async () => {
    const loop = await startLoop(wanted, place, log);
    void noteEnd(loop.ended);
    return [{ name: wanted.kind, address: '', about: [], warnings: [], renew() {}, close: async () => loop.stop() }];
  };
  await serveUntilSignal(
    open,
    () => {},
    () => {},
  );
  if (!NORMAL_ENDS.includes(because)) throw new Refusal('storage_failed', because);
  return because;
}

/** Ends the loop of a session. `was`: the process that ran it. */
export async function endLoop(
  env: Env,
  wanted: Pick<LoopOrder, 'kind' | 'session'>,
): Promise<{ was: DaemonNotice | null }> {
  const was = whoRuns(env, wanted);
  removeLoopOrder(loopsFolder(env), wanted.session);
  if (!was) return { was };
  // A daemon ends the loop by itself when its order is gone; the daemon itself must not be ended.
  const isAlone = was.pid !== daemonNotice(`${parleyHome(env)}/daemon`)?.pid;
  if (isAlone) process.kill(was.pid, 'SIGTERM');
  const isGone = (): true | null => {
    if (whoRuns(env, wanted)?.holder === was.holder) return null;
    return isAlone && isHolderAlive(was.holder) ? null : true;
  };
  if (await until(STOP_MS, isGone)) return { was };
  throw new Refusal('already_claimed', `pid ${was.pid} has not ended yet; end it with: kill ${was.pid}`);
}

export function logOf(env: Env, wanted: Pick<LoopOrder, 'kind' | 'session'>): string {
  return `${lockPathOf(env, wanted)}.log`;
}

async function until<T>(ms: number, look: () => T | null): Promise<T | null> {
  for (const end = Date.now() + ms; Date.now() < end; await Bun.sleep(10)) {
    const found = look();
    if (found !== null) return found;
  }
  return null;
}
