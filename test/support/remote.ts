import { Machine } from './bch.ts';
import { Caller } from './caller.ts';
import { OriginalRelay } from './original-relay.ts';
import type { OriginalOptions } from './original-relay.ts';
import type { Run } from './program.ts';
import { RelayProcess } from './relay-process.ts';
import { Wire } from './wire.ts';

/** A machine whose agent ann is at a relay, over a wire that can be broken. Bob is there too, without any program of ours. */
export class RemoteMachine extends Machine {
  private constructor(
    readonly wire: Wire,
    readonly peer: Caller,
    readonly stop: () => Promise<unknown>,
  ) {
    super();
  }

  /** At a relay of the original. */
  static async atOriginal(
    dialect: 'bch' | 'parley',
    options: OriginalOptions = {},
  ): Promise<RemoteMachine & { relay: OriginalRelay }> {
    const relay = new OriginalRelay({ roomToken: 'room', ...options });
    const wire = await new Wire(() => relay.port).up();
    const machine = new RemoteMachine(wire, await Caller.register(relay.url, 'bob', 'room'), () => relay.stop());
    return Object.assign(await machine.#join(dialect), { relay });
  }

  /** At a relay of ours, which runs as a process of its own. */
  static async atOurs(dialect: 'bch' | 'parley'): Promise<RemoteMachine & { relay: RelayProcess }> {
    const relay = await new RelayProcess(undefined, ['--token', 'room']).start();
    const machine = await RemoteMachine.at(relay, dialect, async () => {
      relay.kill('SIGTERM');
      await relay.ended;
    });
    return Object.assign(machine, { relay });
  }

  /** At any relay that runs already. The token of its room is `room`. */
  static async at(
    relay: { url: string },
    dialect: 'bch' | 'parley',
    stop: () => Promise<unknown> = async () => {},
  ): Promise<RemoteMachine> {
    const wire = await new Wire(() => Number(new URL(relay.url).port)).up();
    const machine = new RemoteMachine(wire, await Caller.register(relay.url, 'bob', 'room'), stop);
    return machine.#join(dialect);
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
