import { Machine } from './bch.ts';
import { OriginalRelay } from './original-relay.ts';
import type { OriginalOptions, Stored } from './original-relay.ts';
import type { Run } from './program.ts';
import { RelayProcess } from './relay-process.ts';
import { Wire } from './wire.ts';

/** The agent bob at a relay, who speaks plain HTTP. */
export class Peer {
  private constructor(
    readonly url: string,
    readonly token: string,
  ) {}

  static async at(url: string, roomToken: string): Promise<Peer> {
    const answer = await fetch(`${url}/v1/register`, {
      method: 'POST',
      headers: { authorization: `Bearer ${roomToken}` },
      body: JSON.stringify({ name: 'bob' }),
    });
    return new Peer(url, ((await answer.json()) as { token: string }).token);
  }

  async send(to: string, body: string, fields: Partial<Stored> = {}): Promise<Stored> {
    return this.#ask<Stored>('/v1/send', { to, body, ...fields });
  }

  async inbox(): Promise<Stored[]> {
    return this.#ask<Stored[]>('/v1/inbox/bob');
  }

  async bodies(): Promise<string[]> {
    return (await this.inbox()).map(({ body }) => body);
  }

  async take(id: string): Promise<Stored | null> {
    return (await this.#ask<{ message: Stored | null }>('/v1/take', { id })).message;
  }

  async #ask<T>(path: string, body?: unknown): Promise<T> {
    const answer = await fetch(`${this.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${this.token}` },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return (await answer.json()) as T;
  }
}

/** A machine whose agent ann is at a relay, over a wire that can be broken. Bob is there too, without any program of ours. */
export class FarMachine extends Machine {
  private constructor(
    readonly wire: Wire,
    readonly peer: Peer,
    readonly stop: () => Promise<unknown>,
  ) {
    super();
  }

  /** At a relay of the original. */
  static async atOriginal(
    dialect: 'bch' | 'parley',
    options: OriginalOptions = {},
  ): Promise<FarMachine & { relay: OriginalRelay }> {
    const relay = new OriginalRelay({ roomToken: 'room', ...options });
    const wire = await new Wire(() => relay.port).up();
    const machine = new FarMachine(wire, await Peer.at(relay.url, 'room'), () => relay.stop());
    return Object.assign(await machine.#join(dialect), { relay });
  }

  /** At a relay of ours, which runs as a process of its own. */
  static async atOurs(dialect: 'bch' | 'parley'): Promise<FarMachine & { relay: RelayProcess }> {
    const relay = await new RelayProcess(undefined, ['--token', 'room']).start();
    const wire = await new Wire(() => Number(new URL(relay.url).port)).up();
    const machine = new FarMachine(wire, await Peer.at(relay.url, 'room'), async () => {
      relay.kill('SIGTERM');
      await relay.ended;
    });
    return Object.assign(await machine.#join(dialect), { relay });
  }

  async #join(dialect: 'bch' | 'parley'): Promise<this> {
    const joined = await this.run(dialect, ['init', 'ann', '--url', this.wire.url, '--token', 'room']);
    if (joined.code !== 0) throw new Error(joined.err);
    return this;
  }

  async run(dialect: 'bch' | 'parley', args: string[], env: Record<string, string> = {}): Promise<Run> {
    const running = this.start(dialect, args, { env });
    await running.ended();
    return running.run();
  }

  async parley(...args: string[]): Promise<Run> {
    return this.run('parley', args);
  }

  /** What `parley …` prints. It must succeed. */
  async tells(...args: string[]): Promise<string> {
    const { out, err, code } = await this.parley(...args);
    if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  async json<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.tells(...args, '--json')) as T;
  }

  async close(): Promise<void> {
    await this.wire.down();
    await this.stop();
  }
}
