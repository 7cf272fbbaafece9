import { opens } from '../../clients/support/opened.ts';
import type { Caller } from '../../support/caller.ts';
import type { McpClient, Told } from '../../support/mcp.ts';
import { within } from '../../support/within.ts';
import type { Brand, PeerMachine } from './peer.ts';

/** Longer than anything here takes, on a busy machine too. */
const PATIENCE_MS = 120_000;

/** Many senders and many readers of one mailbox. A message is known by its body, which no other has. */
export class Pool {
  readonly #taken: { body: string; by: Brand | 'a caller' }[] = [];
  readonly #loops: Promise<void>[] = [];
  #isOpen = true;
  #failure: unknown;
  #sent = 0;

  constructor(
    readonly machine: PeerMachine,
    readonly mailbox: string,
  ) {
    opens({ close: () => this.#end() });
  }

  /** A session that asks for its mail again and again, as an agent does. */
  async reads(brand: Brand): Promise<void> {
    const session = await this.machine.tools(brand, { as: this.mailbox });
    this.#loop(async () => {
      const { text } = await patiently(brand, () => session.call('bch_inbox'));
      if (text !== 'inbox empty') this.#took(brand, JSON.parse(text) as { body: string }[]);
    });
  }

  /** One that takes its mail from a relay. */
  takes(caller: Caller): void {
    this.#loop(async () => {
      for (const { id } of await caller.inbox()) {
        const message = await caller.take(id);
        if (message) this.#took('a caller', [message]);
      }
    });
  }

  /** `bch watch`, which takes what comes. */
  watches(brand: Brand): void {
    const watch = this.machine.begin(brand, ['watch'], { as: this.mailbox });
    let read = 0;
    this.#loop(async (isLast) => {
      // It may have taken what it has not told yet.
      if (isLast) await watch.stop();
      const end = watch.out.lastIndexOf('\n') + 1;
      const lines = watch.out.slice(read, end).split('\n').slice(0, -1);
      read = end;
      this.#took(
        brand,
        lines.map((line) => ({ body: line.slice(line.indexOf('): ') + 3) })),
      );
      await Bun.sleep(5);
    });
  }

  /** So many messages by one session of this agent. Returns what they say. */
  async sends(brand: Brand, as: string, count: number): Promise<string[]> {
    const session: McpClient = await this.machine.tools(brand, { as });
    const bodies = this.#bodies(count);
    for (const body of bodies)
      await patiently(brand, () => session.call('bch_send', { target: `@${this.mailbox}`, body }));
    return bodies;
  }

  /** The same by way of a relay. */
  async writes(caller: Caller, count: number): Promise<string[]> {
    const bodies = this.#bodies(count);
    for (const body of bodies) await caller.send(`@${this.mailbox}`, body);
    return bodies;
  }

  /** What was taken by all together, once that is so many; more than once if it was. */
  async taken(count: number): Promise<string[]> {
    await within(PATIENCE_MS, async () => this.#taken.length >= count || this.#failure !== undefined);
    await this.#end();
    return this.#taken.map(({ body }) => body).toSorted();
  }

  takenBy(brand: Brand): number {
    return this.#taken.filter(({ by }) => by === brand).length;
  }

  #bodies(count: number): string[] {
    return Array.from({ length: count }, () => `message ${(this.#sent += 1)}`);
  }

  #took(by: Brand | 'a caller', messages: { body: string }[]): void {
    this.#taken.push(...messages.map(({ body }) => ({ body, by })));
  }

  #loop(turn: (isLast: boolean) => Promise<void>): void {
    const loop = async (): Promise<void> => {
      // One turn more after the end: somebody may hold what has not been counted yet.
      for (let isLast = false; !isLast;) {
        isLast = !this.#isOpen;
        await turn(isLast);
      }
    };
    this.#loops.push(loop().catch((error: unknown) => void (this.#failure ??= error)));
  }

  async #end(): Promise<void> {
    this.#isOpen = false;
    await Promise.all(this.#loops);
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** The original may fail over a record that another of its own kind is just writing; it has done nothing then. Ours must not fail. */
async function patiently(brand: Brand, ask: () => Promise<Told>): Promise<Told> {
  for (;;) {
    const told = await ask();
    if (!told.isError) return told;
    if (brand === 'ours' || !/JSON/.test(told.text)) throw new Error(`${brand}: ${told.text}`);
  }
}
