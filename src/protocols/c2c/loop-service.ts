import { rmSync } from 'node:fs';
import type { Log, Service } from '../../core/service.ts';
import { allLoopOrders, loopsFolder, watchLoopOrders } from './loop-files.ts';
import type { LoopOrder } from './loop-files.ts';
import { startLoop, whoRuns } from './loop.ts';
import type { LoopPlace, RunningLoop } from './loop.ts';

/** The pause before a failed loop is started again. It doubles with each failure in a row, up to the longest. */
const PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 300_000;

/** Runs a loop for every order in the folder, and follows changes of the folder. Nothing connects to this service. */
export const loops: Service = {
  async open(context, _values, log) {
    const folder = loopsFolder(context.env);
    const reconciler = new Reconciler(context, folder, log);
    const watcher = watchLoopOrders(folder, () => reconciler.wake());
    reconciler.wake();
    return {
      name: 'loops',
      address: folder,
      about: ['one loop per session, as ordered by `c2c start`, `c2c wire-daemon` and `c2c-deliver-inbox`'],
      warnings: [],
      renew: () => reconciler.wake(),
      async close(telling) {
        watcher.close();
        telling('turns and pastes under way');
        await reconciler.close();
      },
    };
  },

  /** The service has no socket. Its process runs, so it answers. */
  async answers(address) {
    return address !== '';
  },

  async details(address, env) {
    return allLoopOrders(address).map((wanted) => {
      const notice = whoRuns(env, wanted);
      const where = wanted.terminal ? ` in ${wanted.terminal}` : '';
      return `${wanted.kind} ${wanted.session} (${wanted.client}${where})  ${notice ? `runs, pid ${notice.pid}` : 'does not run'}`;
    });
  },
};

/** Starts and stops loops until the running ones match the orders, one round after the other. */
class Reconciler {
  readonly #running = new Map<string, { text: string; loop: RunningLoop }>();
  /** Failed loops, and when they may start again. */
  readonly #resting = new Map<string, { text: string; until: number; pause: number }>();
  #rounds: Promise<void> = Promise.resolve();
  #isScheduled = false;
  #closed = false;

  constructor(
    readonly place: LoopPlace,
    readonly folder: string,
    readonly log: Log,
  ) {}

  wake(): void {
    if (this.#isScheduled || this.#closed) return;
    this.#isScheduled = true;
    this.#rounds = this.#next(this.#rounds);
  }

  async #next(before: Promise<void>): Promise<void> {
    await before;
    this.#isScheduled = false;
    if (!this.#closed) await this.#reconcile();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#rounds;
    await Promise.all([...this.#running.values()].map(({ loop }) => loop.stop()));
  }

  async #reconcile(): Promise<void> {
    const wanted = new Map(allLoopOrders(this.folder).map((one) => [one.session, one]));
    const ends = [...this.#running].filter(([session, { text }]) => textOf(wanted.get(session)) !== text);
    await Promise.all(ends.map(([, { loop }]) => loop.stop()));
    for (const [session, one] of wanted) {
      const resting = this.#resting.get(session);
      const rests = resting && resting.text === textOf(one) && resting.until > Date.now();
      if (!this.#running.has(session) && !rests) await this.#start(one);
    }
  }

  async #start(wanted: LoopOrder): Promise<void> {
    const { session } = wanted;
    const text = textOf(wanted);
    try {
      const loop = await startLoop(wanted, this.place, this.log);
      this.#running.set(session, { text, loop });
      void loop.ended.then((because) => this.#ended(wanted, loop, because));
    } catch (error) {
      this.#rest(session, text);
      this.log('loop_failed', { session, why: error instanceof Error ? error.message : String(error) });
    }
  }

  #ended(wanted: LoopOrder, loop: RunningLoop, because: string): void {
    const { session } = wanted;
    if (this.#running.get(session)?.loop !== loop) return;
    this.#running.delete(session);
    if (because === 'told to stop') return;
    // The client has ended: remove the order, unless a restart has changed it meanwhile.
    const still = allLoopOrders(this.folder).find((one) => one.session === session);
    if (because === 'watched_pid_exited' && textOf(still) === textOf(wanted)) {
      rmSync(`${this.folder}/${session}.json`, { force: true });
    } else this.#rest(session, textOf(wanted));
  }

  #rest(session: string, text: string): void {
    const before = this.#resting.get(session);
    const pause = before?.text === text ? Math.min(before.pause * 2, LONGEST_PAUSE_MS) : PAUSE_MS;
    this.#resting.set(session, { text, until: Date.now() + pause, pause });
  }
}

function textOf(wanted: LoopOrder | undefined): string {
  return JSON.stringify(wanted ?? null);
}
