import { PROMPTS } from '../../src/protocols/c2a/prompt.ts';
import type { HostDeps, SurfaceShow, HostPeer } from '../../src/protocols/c2a/context.ts';
import { Host } from '../../src/protocols/c2a/host.ts';
import { send } from '../../src/core/mail/send.ts';
import type { Sent } from '../../src/core/mail/send.ts';
import { Bind, Capabilities, ChatDeliver, TOOLS } from '../../src/protocols/c2a/shapes.ts';
import type { ToolName } from '../../src/protocols/c2a/shapes.ts';
import { Draft } from '../../src/core/message.ts';
import { AgentName, MessageId } from '../../src/core/names.ts';
import { EVERYTHING } from './host-server.ts';
import { aWorkspace } from './workspace.ts';
import type { TestWorkspace } from './workspace.ts';

/** A connection that records what it gets, and accepts it unless the test says otherwise. */
export class FakeWire implements HostPeer {
  readonly delivered: ChatDeliver[] = [];
  readonly cancelled: { eventId: MessageId; reason: string }[] = [];
  readonly shown: SurfaceShow[] = [];
  accepts = true;
  /** The outcome of the next items to show; by default they are shown. */
  showing: (params: SurfaceShow) => Promise<void> = async () => {};
  #waiting: (() => void)[] = [];

  deliver(params: ChatDeliver): Promise<void> {
    this.delivered.push(ChatDeliver.parse(structuredClone(params)));
    if (this.accepts) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  cancel(eventId: MessageId, reason: string): void {
    this.cancelled.push({ eventId, reason });
  }

  async show(params: SurfaceShow): Promise<void> {
    this.shown.push(structuredClone(params));
    await this.showing(params);
  }

  /** Accepts everything that was sent so far. */
  acceptAll(): void {
    for (const accept of this.#waiting.splice(0)) accept();
  }

  /** Every text that the model got, in order. */
  get prompts(): string[] {
    return this.delivered.flatMap(({ prompt }) => (prompt === undefined ? [] : [prompt]));
  }

  /** The events that were sent, by their ids. */
  get ids(): string[] {
    return this.delivered.map(({ eventId }) => eventId);
  }

  get texts(): string[] {
    return this.delivered.map(({ content = [] }) =>
      content.map((part) => ('text' in part ? part.text : '')).join('\n'),
    );
  }
}

/** A host on a real home, whose time a test moves. */
export class TestHost {
  readonly host: Host;
  readonly logged: { event: string; facts: object }[] = [];
  #timers: { at: number; run: () => void }[] = [];
  #tokens = 0;

  constructor(
    readonly workspace: TestWorkspace,
    deps: Partial<HostDeps> = {},
  ) {
    this.host = new Host({
      workspace,
      home: workspace.own,
      now: workspace.now,
      after: (ms, run) => this.#after(ms, run),
      newToken: () => `a token that nobody can guess, number ${(this.#tokens += 1)}`,
      hash: (token) => `hash of ${token}`,
      log: (event, facts) => this.logged.push({ event, facts }),
      render: PROMPTS,
      ...deps,
    });
  }

  /** Runs everything that is due now. */
  async calm(): Promise<void> {
    for (let n = 0; n < 30; n += 1) await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** Moves the clock, and runs everything at the time at which it is due. */
  async pass(ms: number): Promise<void> {
    await this.calm();
    const until = this.workspace.now() + ms;
    for (;;) {
      this.#timers.sort((a, b) => a.at - b.at);
      const [next] = this.#timers;
      if (!next || next.at > until) break;
      this.#timers.shift();
      this.workspace.pass(Math.max(0, next.at - this.workspace.now()));
      next.run();
      await this.calm();
    }
    this.workspace.pass(until - this.workspace.now());
    await this.calm();
  }

  async bind(wire: HostPeer, identity: string | string[], fields: object = {}, capabilities: object = EVERYTHING) {
    const names = Array.isArray(identity) ? identity : [identity];
    const request = Bind.parse({ sessionId: names[0] ?? 'nobody', identities: names, ...fields });
    const bound = await this.host.bind(wire, Capabilities.parse(capabilities), '2026-08-11', request);
    await this.calm();
    return bound;
  }

  async send(from: string, to: string, body: string, fields: object = {}): Promise<Sent> {
    const sent = await send(this.workspace, AgentName.parse(from), Draft.parse({ to, body, ...fields }));
    await this.calm();
    return sent;
  }

  async call(wire: HostPeer, tool: ToolName, args: object, sessionId?: string): Promise<Record<string, unknown>> {
    const result = await this.host.call(wire, sessionId, tool, TOOLS[tool].parse(args));
    await this.calm();
    return result as Record<string, unknown>;
  }

  /** How a copy ended, or null. */
  async ended(mailbox: string, id: string): Promise<string | null> {
    return (await this.workspace.own.journal.copy(AgentName.parse(mailbox), MessageId.parse(id)))?.disposition ?? null;
  }

  #after(ms: number, run: () => void): { cancel(): void } {
    const timer = { at: this.workspace.now() + ms, run };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((one) => one !== timer)) };
  }
}

/** A host with these agents, and a person called will. */
export async function aHost(...names: string[]): Promise<TestHost> {
  const workspace = await aWorkspace(...names);
  await workspace.own.directory.register(AgentName.parse('will'), 'human');
  return new TestHost(workspace);
}
