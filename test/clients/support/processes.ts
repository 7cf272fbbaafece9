// The processes that live in a test's home: a client starts helpers of its own, and none may outlive the test.
import { readdirSync, readFileSync } from 'node:fs';
import { within } from '../../support/within.ts';

/** Names the test run in the environment of everything that it starts. */
export const RUN = 'PARLEY_TEST_RUN';

/** The ids of all processes whose HOME is this folder. Only Linux tells; elsewhere the list is empty. */
export function processesOf(home: string): number[] {
  return processes((environment) => environment.includes(`HOME=${home}`));
}

/** What a test run left behind that was itself killed. */
export function leftovers(): number[] {
  return processes((environment) => {
    const run = environment.find((entry) => entry.startsWith(`${RUN}=`));
    return run !== undefined && !isRunning(Number(run.slice(RUN.length + 1)));
  });
}

function processes(areMeant: (environment: string[]) => boolean): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && areMeant(environmentOf(name)))
    .map(Number);
}

function environmentOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  } catch {
    // Gone meanwhile, or somebody else's.
    return [];
  }
}

/** Ends these processes at once and waits until they are gone. */
export async function endAll(pids: readonly number[]): Promise<void> {
  for (const pid of pids) signal(pid, 'SIGKILL');
  await within(10_000, async () => !pids.some(isRunning));
}

/** So many looks in a row find a process at rest, so far apart. */
const [LOOKS, LOOK_MS] = [10, 50];

/** Waits until these processes rest: none of their threads has anything to do, or waits for a core. */
export async function atRest(pids: readonly number[], ms: number): Promise<void> {
  let seen = 0;
  await within(ms, async () => {
    await Bun.sleep(LOOK_MS);
    seen = pids.every(isResting) ? seen + 1 : 0;
    return seen >= LOOKS;
  });
}

function isResting(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).every((thread) => {
    try {
      return /\) [SI] /.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'));
    } catch {
      // The thread has ended.
      return true;
    }
  });
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It ended by itself.
  }
}

/** A process that ended but was not waited for yet is not running. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
