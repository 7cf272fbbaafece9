import type { Engine } from '../../src/protocols/c2a/methods.ts';
import { HostConnection } from '../../src/protocols/c2a/server.ts';
import type { HostServerDeps } from '../../src/protocols/c2a/server.ts';
import type { HostPeer } from '../../src/protocols/c2a/context.ts';
import { ChatDeliver } from '../../src/protocols/c2a/shapes.ts';

/** Everything that a harness can do. */
export const EVERYTHING = {
  delivery: { ack: true, redelivery: true, idempotency: true },
  injection: { immediate: true, buffered: true, notify: true, tool_mailbox: true, digest: true, interrupt: true },
  chatTools: {
    readThread: true,
    sendMessage: true,
    react: true,
    reactionSignals: true,
    claim: true,
    defer: true,
    resolve: true,
  },
  utilities: { progress: true, cancellation: true, logging: true },
};

export function anInitialize(fields: object = {}): object {
  return {
    protocolVersion: '2026-06-02',
    clientInfo: { name: 'a test', version: '1' },
    capabilities: EVERYTHING,
    ...fields,
  };
}

/** An engine that records its calls and returns what the test sets. */
export class FakeEngine implements Engine {
  readonly asked: { what: string; with: unknown }[] = [];
  readonly wires: HostPeer[] = [];
  gones = 0;
  answer: (what: string, params: unknown) => unknown = () => ({});

  async bind(wire: HostPeer, _capabilities: unknown, _version: unknown, request: { sessionId: string }) {
    this.wires.push(wire);
    await this.#note('bind', request);
    return { sessionId: request.sessionId, token: 'a-token', warnings: [] };
  }
  gone(): void {
    this.gones += 1;
  }
  async turn(_wire: HostPeer, turn: unknown): Promise<void> {
    await this.#note('turn', turn);
  }
  async contextReset(_wire: HostPeer, sessionId: string): Promise<void> {
    await this.#note('contextReset', sessionId);
  }
  async call(_wire: HostPeer, sessionId: string | undefined, tool: string, args: unknown): Promise<unknown> {
    return this.#note(tool, { sessionId, args });
  }
  async progress(_wire: HostPeer, progress: unknown): Promise<void> {
    await this.#note('progress', progress);
  }
  quieter(_wire: HostPeer, request: unknown): Promise<unknown> {
    return this.#note('quieter', request);
  }
  openSet(_wire: HostPeer, which: string, request: unknown): Promise<unknown> {
    return this.#note(which, request);
  }
  surface = {
    bind: (wire: HostPeer, params: unknown): Promise<unknown> => {
      this.wires.push(wire);
      return this.#note('surface.bind', params);
    },
    post: (_wire: HostPeer, params: unknown): Promise<unknown> => this.#note('surface.post', params),
    edit: (_wire: HostPeer, params: unknown): Promise<unknown> => this.#note('surface.edit', params),
    delete: (_wire: HostPeer, params: unknown): Promise<unknown> => this.#note('surface.delete', params),
    react: (_wire: HostPeer, params: unknown): Promise<unknown> => this.#note('surface.react', params),
    typing: (_wire: HostPeer, params: unknown): Promise<unknown> => this.#note('surface.typing', params),
  };

  async #note(what: string, params: unknown): Promise<unknown> {
    this.asked.push({ what, with: params });
    return this.answer(what, params);
  }
}

export interface Told {
  jsonrpc: string;
  id?: string | number | null;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data?: Record<string, unknown> };
}

/** One end of an in-memory connection, with the frames in both directions. */
export class Talk {
  readonly engine = new FakeEngine();
  readonly told: Told[] = [];
  readonly log: { event: string; facts: object }[] = [];
  readonly peer: HostConnection;
  /** True while the other side reads nothing. */
  isStuck = false;
  ends: string[] = [];

  constructor(deps: Partial<HostServerDeps> = {}) {
    this.peer = new HostConnection(
      {
        engine: this.engine,
        version: '0.0.0',
        now: () => 0,
        log: (event, facts) => this.log.push({ event, facts }),
        ...deps,
      },
      {
        write: (frame) => {
          if (this.isStuck) return false;
          this.told.push(JSON.parse(frame) as Told);
          return true;
        },
        close: (why) => void this.ends.push(why),
        cut: () => void this.ends.push('cut'),
      },
    );
  }

  /** Sends one frame, and returns the frames that come back until every request is done. */
  async say(frame: unknown): Promise<Told[]> {
    const before = this.told.length;
    this.peer.receive(typeof frame === 'string' ? frame : JSON.stringify(frame));
    await this.peer.idle();
    return this.told.slice(before);
  }

  /** Sends a request and returns the answer. */
  async ask(method: string, params: object = {}, id: string | number = 'q'): Promise<Told> {
    const told = await this.say({ jsonrpc: '2.0', id, method, params });
    const [answer] = told.filter((one) => one.id === id);
    if (!answer) throw new Error(`no answer to ${method}`);
    return answer;
  }

  notify(method: string, params: object = {}): Promise<Told[]> {
    return this.say({ jsonrpc: '2.0', method, params });
  }

  async initialized(fields: object = {}): Promise<this> {
    const { error } = await this.ask('initialize', anInitialize(fields));
    if (error) throw new Error(error.message);
    return this;
  }

  /** The wire that the engine got when this peer bound a session. */
  async wire(): Promise<HostPeer> {
    const role = (await this.ask('session/bind', { sessionId: 'one', identities: ['bob'] })).error
      ? 'surface'
      : 'harness';
    if (role === 'surface') await this.ask('surface/bind', { platform: 'slack', workspaceId: 'T1' });
    const wire = this.engine.wires.at(-1);
    if (!wire) throw new Error('nobody was bound');
    return wire;
  }
}

/** An event as the engine hands it to a wire. */
export function anEvent(fields: object = {}): ChatDeliver {
  return ChatDeliver.parse({
    sessionId: 'one',
    eventId: 'evt_123',
    source: { platform: 'parley', workspaceId: 'home' },
    conversation: { id: 'C123', kind: 'dm', threadId: 'th_1' },
    author: { id: 'will', kind: 'human', displayName: 'Will' },
    target: { mentions: ['agent:bob'], recipient: 'agent:bob', directedness: 'to_me' },
    content: [{ type: 'text', text: 'Can you check whether the deploy is blocked?' }],
    timing: { createdAt: '2026-06-02T19:10:00Z', sequence: 42 },
    attention: { policy: 'must_respond', reason: 'direct_message', priority: 'normal', deadlineMs: 300_000 },
    injection: { mode: 'buffered', context: 'thread_window', role: 'user' },
    reliability: { attempt: 1, idempotencyKey: 'evt_123:bob' },
    ...fields,
  });
}
