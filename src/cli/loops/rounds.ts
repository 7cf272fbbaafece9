import type { Who } from '../../flow/desk.ts';

/** What comes back by time, or because its reader died, rings no bell: so a look is taken this often. */
const LOOK_MS = 5000;

/** A session's mailbox may change its name while a loop runs. */
type Mailbox = () => Promise<Who>;

/**
 * Calls `look` at once, then after every arrival and after as long as it asked for (null: for nothing), one at a time, until told to
 * stop. Nothing is polled in between but what rings no bell.
 */
export async function rounds(
  mailbox: Mailbox,
  look: (who: Who) => Promise<number | null>,
  stop: AbortSignal,
  aroundMs = LOOK_MS,
): Promise<void> {
  const bell = new Bell(stop);
  let who = await mailbox();
  let arrivals = who.home.spool.watch(who.name, () => bell.ring());
  const around = setInterval(() => bell.ring(true), Math.max(aroundMs, 10));
  try {
    while (!stop.aborted) {
      if (bell.wasRound()) {
        const now = await mailbox();
        if (now.name !== who.name) {
          arrivals.close();
          arrivals = now.home.spool.watch(now.name, () => bell.ring());
        }
        who = now;
        await who.home.spool.heal();
      }
      const againMs = await look(who);
      await bell.next(againMs);
    }
  } finally {
    clearInterval(around);
    arrivals.close();
  }
}

/** Rung any number of times, it is heard once. */
class Bell {
  #rung = false;
  #round = true;
  #hear = (): void => {};

  constructor(readonly stop: AbortSignal) {
    stop.addEventListener('abort', () => this.ring(), { once: true });
  }

  ring(round = false): void {
    this.#rung = true;
    this.#round ||= round;
    this.#hear();
  }

  /** Is it time for a look around? Asked once, it is answered once. */
  wasRound(): boolean {
    const was = this.#round;
    this.#round = false;
    return was;
  }

  async next(againMs: number | null): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#hear = resolve;
    if (this.#rung || this.stop.aborted) resolve();
    const timer = againMs === null ? undefined : setTimeout(resolve, againMs);
    await promise;
    clearTimeout(timer);
    this.#rung = false;
  }
}
