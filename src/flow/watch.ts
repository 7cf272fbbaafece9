import type { MessageId } from '../protocol/names.ts';
import type { Waiting } from '../storage/spool/spool.ts';
import { isSelected } from './deliver.ts';
import type { Selection } from './deliver.ts';
import type { Who } from './workspace.ts';

/** How often a watcher looks by itself: copies come back by time, or because their reader died, without any arrival. */
const LOOK_MS = 5000;
/** What was passed over is judged again this often: a copy can be raised or mended meanwhile. */
const FORGET_MS = 60_000;

export interface Watching {
  selection: Selection;
  /** Leave everything where it is: each message is handed on once, however often it is seen. */
  peek: boolean;
  /** What is done with one message. May answer after how many ms it wants to see that message again. */
  handle: (waiting: Waiting) => Promise<number | null>;
  stop: AbortSignal;
}

/**
 * Waits for mail and hands each message on, oldest first, one after the other, until told to stop. What waited before comes
 * first. If `handle` throws, the watch ends with that error.
 */
export async function watch(who: Who, watching: Watching): Promise<void> {
  const watcher = new Watcher(who, watching);
  try {
    await watcher.run();
  } finally {
    watcher.close();
  }
}

class Watcher {
  readonly #bell = new Bell();
  readonly #timers: Timer[];
  #again: Timer | undefined;
  #againAt = Infinity;
  /** Handed on in peek mode: never again in this process. */
  readonly #shown = new Set<MessageId>();
  /** Seen and not asked for. */
  #passed = new Set<MessageId>();
  #healNow = false;
  readonly #arrivals: { close(): void };

  constructor(
    readonly who: Who,
    readonly watching: Watching,
  ) {
    this.#arrivals = who.home.spool.watch(who.name, () => this.#bell.ring());
    this.#timers = [setInterval(() => this.#lookAround(), LOOK_MS), setInterval(() => this.#passed.clear(), FORGET_MS)];
    watching.stop.addEventListener('abort', () => this.#bell.ring(), { once: true });
  }

  async run(): Promise<void> {
    while (!this.watching.stop.aborted) {
      if (this.#healNow) await this.who.home.spool.heal();
      this.#healNow = false;
      await this.#look();
      if (!this.watching.stop.aborted) await this.#bell.next();
    }
  }

  close(): void {
    this.#arrivals.close();
    for (const timer of [...this.#timers, this.#again]) clearTimeout(timer);
  }

  #lookAround(): void {
    this.#healNow = true;
    this.#bell.ring();
  }

  async #look(): Promise<void> {
    for (const { id } of await this.#news()) {
      // The local backends never really wait: without this no signal would be heard before all is done.
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (this.watching.stop.aborted) return;
      const one = await this.who.home.spool.read(this.who.name, id);
      if (!one) continue;
      if (this.watching.peek) this.#shown.add(id);
      const againMs = await this.watching.handle(one);
      if (againMs !== null) this.#lookAgainIn(againMs);
    }
  }

  /**
   * What is asked for and was not handed on before, oldest first. Where nothing came since, this costs two listings, however
   * much waits. Bodies are not kept: there may be very many.
   */
  async #news(): Promise<{ id: MessageId; ts: string }[]> {
    const { name, home } = this.who;
    const ids = await home.spool.ids(name);
    this.#passed = this.#passed.intersection(new Set(ids));
    const unseen = ids.filter((id) => !this.#passed.has(id) && !this.#shown.has(id));
    if (unseen.length === 0) return [];
    await home.spool.adopt(name);
    const news: { id: MessageId; ts: string }[] = [];
    for (const id of unseen) {
      const one = await home.spool.read(name, id);
      if (one && isSelected(one, this.watching.selection)) news.push({ id, ts: one.message.ts });
      else if (one) this.#passed.add(id);
    }
    return news.sort((a, b) => (a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0));
  }

  /** One timer, for the earliest of all: the look that it brings asks for the next. */
  #lookAgainIn(ms: number): void {
    const at = Date.now() + ms;
    if (at >= this.#againAt) return;
    this.#againAt = at;
    clearTimeout(this.#again);
    this.#again = setTimeout(() => {
      this.#againAt = Infinity;
      this.#bell.ring();
    }, ms + 1);
  }
}

type Timer = ReturnType<typeof setTimeout>;

/** Rung any number of times, it is heard once. */
class Bell {
  #rung = false;
  #hear = (): void => {};

  ring(): void {
    this.#rung = true;
    this.#hear();
  }

  /** Waits for the next ring, or for none if there was one since the last time. */
  async next(): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        this.#hear = resolve;
      });
    }
    this.#rung = false;
  }
}
