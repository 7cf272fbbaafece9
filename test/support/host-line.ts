import { HostConnection } from '../../src/protocols/c2a/server.ts';
import type { ChatDeliver } from '../../src/protocols/c2a/shapes.ts';
import type { TestHost } from './host.ts';
import { anInitialize } from './host-server.ts';
import type { Told } from './host-server.ts';

/** A harness or surface at the real server of a host, frame by frame, in the time of that host. */
export class HostLine {
  /** Every frame that it got. */
  readonly told: Told[] = [];
  readonly log: unknown[] = [];
  /** Answers every event as soon as it comes. */
  accepts = true;
  #count = 0;
  readonly #peer: HostConnection;

  constructor(readonly host: TestHost) {
    this.#peer = new HostConnection(
      { engine: host.host, version: '0.0.0', now: host.workspace.now, log: (...line) => this.log.push(line) },
      {
        write: (text) => {
          const frame = JSON.parse(text) as Told;
          this.told.push(frame);
          if (frame.method !== undefined && frame.id !== undefined && this.accepts) this.answer(frame);
          return true;
        },
        close: () => {},
        cut: () => {},
      },
    );
  }

  /** A harness with one session. */
  async bind(agent: string, fields: object = {}, capabilities?: object): Promise<this> {
    await this.done('initialize', anInitialize(capabilities && { capabilities }));
    await this.done('session/bind', { sessionId: agent, identities: [agent], ...fields });
    return this;
  }

  /** A chat called slack. */
  async surface(): Promise<this> {
    await this.done('initialize', anInitialize({ role: 'surface' }));
    await this.done('surface/bind', { platform: 'slack', workspaceId: 'T1' });
    return this;
  }

  async ask(method: string, params: object): Promise<Told> {
    this.#count += 1;
    const id = `q${this.#count}`;
    this.say({ id, method, params });
    await this.#peer.idle();
    await this.host.calm();
    const answer = this.told.find((one) => one.id === id && one.method === undefined);
    if (!answer) throw new Error(`no answer to ${method}`);
    return answer;
  }

  async done(method: string, params: object): Promise<Record<string, unknown>> {
    const { result, error } = await this.ask(method, params);
    if (error) throw new Error(`${method}: ${error.code} ${error.message} ${JSON.stringify(this.log)}`);
    return result ?? {};
  }

  say(frame: object): void {
    this.#peer.receive(JSON.stringify({ jsonrpc: '2.0', ...frame }));
  }

  /** Accepts an event, but not before the host has sent it completely. */
  answer({ id }: Told, result: object = {}): void {
    queueMicrotask(() => this.say({ id, result }));
  }

  /** The frames that brought events. */
  get frames(): Told[] {
    return this.told.filter(({ method }) => method === 'chat/deliver');
  }

  get events(): ChatDeliver[] {
    return this.frames.map(({ params }) => params as unknown as ChatDeliver);
  }

  get prompts(): string[] {
    return this.events.flatMap(({ prompt }) => prompt ?? []);
  }

  async listed(args: object = {}): Promise<Record<string, unknown>[]> {
    return (await this.done('chat.list_events', args))['events'] as Record<string, unknown>[];
  }
}
