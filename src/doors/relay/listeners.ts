import { Listener } from './listener.ts';
import type { Listening } from './listener.ts';

/** The signs of life are spread: ten thousand at one moment would hold up everybody else. */
const SHARES = 25;

/** An agent may listen in many sessions; without an end, one could use up the files of the host. */
const MOST_EACH = 100;

/** Every open stream, and the one clock of them all. */
export class Listeners {
  readonly #shares: Set<Listener>[] = Array.from({ length: SHARES }, () => new Set());
  #clock: ReturnType<typeof setInterval> | undefined;
  /** How many each token has opened. */
  readonly #each = new Map<string, number>();
  #turn = 0;
  #size = 0;
  /** How many were cut because they took nothing. */
  cut = 0;

  constructor(readonly keepaliveMs: number) {}

  get size(): number {
    return this.#size;
  }

  isFull(tokenHash: string): boolean {
    return (this.#each.get(tokenHash) ?? 0) >= MOST_EACH;
  }

  open(listening: Listening, onClose: (error?: unknown) => void): ReadableStream<Uint8Array> {
    // Its turn comes when the clock has gone round once.
    const share = this.#shares[(this.#turn + SHARES - 1) % SHARES];
    const cutOff = (): void => {
      this.cut += 1;
      listening.cut();
    };
    const listener = new Listener({ ...listening, cut: cutOff }, (one, error) => {
      share?.delete(one);
      this.#size -= 1;
      this.#count(listening.tokenHash, -1);
      this.#rest();
      onClose(error);
    });
    share?.add(listener);
    this.#size += 1;
    this.#count(listening.tokenHash, 1);
    this.#clock ??= setInterval(() => this.#tick(), this.keepaliveMs / SHARES);
    return listener.stream;
  }

  /** Ends every stream. Its readers come back to whoever answers then. */
  close(): void {
    for (const share of this.#shares) for (const listener of share) listener.close();
  }

  #tick(): void {
    const share = this.#shares[this.#turn];
    this.#turn = (this.#turn + 1) % SHARES;
    for (const listener of share ?? []) listener.keepAlive();
  }

  #count(tokenHash: string, more: number): void {
    const count = (this.#each.get(tokenHash) ?? 0) + more;
    if (count > 0) this.#each.set(tokenHash, count);
    else this.#each.delete(tokenHash);
  }

  #rest(): void {
    if (this.#size > 0) return;
    clearInterval(this.#clock);
    this.#clock = undefined;
  }
}
