import type {
  Bind,
  Capabilities,
  OpenSet,
  Progress,
  ProtocolVersion,
  Quieter,
  ToolArguments,
  ToolName,
  Turn,
} from './shapes.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Copy } from '../../core/ports/journal.ts';
import { bindSession, giveBack, restoreHeld } from './restore.ts';
import { BackgroundTasks, ConversationOrder } from './tasks.ts';
import { LIMITS } from './context.ts';
import type { HostDeps, HostContext, HostPeer } from './context.ts';
import { ChatPeople } from './frames.ts';
import { keepProgress, linesAround } from './digest.ts';
import { askQuieter, Runner } from './runner.ts';
import { HostSession } from './session.ts';
import { openSet, showProgress, TOOL_CALLS } from './tools.ts';
import { Surfaces } from './surface.ts';
import { Deadlines } from './deadlines.ts';
import { onTurn } from './turns.ts';

/** The attention host, independent of any transport: sessions of harnesses, surfaces, and one home between them. */
export class Host {
  readonly context: HostContext;
  /** The connected surfaces. */
  readonly surface: Surfaces;
  readonly #runners = new Map<string, Runner>();
  readonly #time: Deadlines;
  /** Binds of one session run one after the other, so the second sees the result of the first. */
  readonly #binding: ConversationOrder;

  constructor(deps: HostDeps) {
    this.context = {
      deps,
      limits: { ...LIMITS, ...deps.limits },
      tasks: new BackgroundTasks(deps),
      people: new ChatPeople(deps),
      typingSince: (item) => this.surface.typingSince(item),
      progressAround: (session, since) => linesAround(session, this.#sessions(), since),
      surfaceOf: (name) => this.surface.of(name),
      stored: (copies) => this.#stored(copies),
    };
    this.surface = new Surfaces(this.context, () => this.#runners.values());
    this.#time = new Deadlines(this.context, this.#runners);
    this.#binding = new ConversationOrder(deps);
  }

  /** Restores the sessions of an earlier host, and starts the deadlines. */
  async start(): Promise<void> {
    const { home } = this.context.deps;
    for (const record of await home.journal.sessions()) {
      if (this.#runners.has(record.id)) continue;
      const whos = [];
      for (const name of record.identities) if (await home.directory.get(name)) whos.push({ name, home });
      await this.#restore(new HostSession(this.context, record, whos));
    }
    this.#time.start();
  }

  /** Takes no new work and finishes the work under way. Held copies stay held, and the next host finds them. */
  async close(): Promise<void> {
    this.#time.close();
    this.surface.close();
    for (const runner of this.#runners.values()) runner.close();
    await this.context.tasks.close();
  }

  async bind(
    wire: HostPeer,
    capabilities: Capabilities,
    version: ProtocolVersion,
    request: Bind,
  ): Promise<{ sessionId: string; token: string; warnings: string[] }> {
    return this.#binding.run(request.sessionId, undefined, () => this.#bind(wire, capabilities, version, request));
  }

  async #bind(
    wire: HostPeer,
    capabilities: Capabilities,
    version: ProtocolVersion,
    request: Bind,
  ): Promise<{ sessionId: string; token: string; warnings: string[] }> {
    const { record, whos, token, warnings, before } = await bindSession(this.context.deps, request);
    const known = this.#runners.get(record.id);
    const left = (before?.identities ?? []).filter((name) => !record.identities.includes(name));
    // If another process has served this session meanwhile, our memory of it may be wrong.
    const isAlone = known && (known.session.link !== null || known.session.record.seen === before?.seen);
    const isCurrent = isAlone && left.length === 0;
    if (known && !isCurrent) known.close();
    const runner = isCurrent ? known : await this.#restore(new HostSession(this.context, record, whos));
    for (const name of left) await giveBack(runner.session, { name, home: this.context.deps.home });
    runner.session.record = record;
    runner.session.whos = whos;
    runner.attach({ wire, capabilities, version, wantsAll: request.deliver === 'all' });
    await runner.session.renew();
    this.context.deps.log('host.bound', { session: record.id, mailboxes: whos.length });
    return { sessionId: record.id, token, warnings };
  }

  /** The connection ended. Another one can continue its sessions. */
  gone(wire: HostPeer): void {
    for (const runner of this.#runners.values()) if (runner.session.link?.wire === wire) this.#parted(runner);
    this.surface.gone(wire);
  }

  async turn(wire: HostPeer, turn: Turn): Promise<void> {
    await onTurn(this.#on(wire, turn.sessionId), turn);
  }

  /** The model's context was reset: send the rules again. */
  contextReset(wire: HostPeer, sessionId: string): void {
    this.#on(wire, sessionId).session.rules = 'needed';
  }

  async call<Name extends ToolName>(
    wire: HostPeer,
    sessionId: string | undefined,
    tool: Name,
    args: ToolArguments<Name>,
  ): Promise<unknown> {
    return TOOL_CALLS[tool](this.#on(wire, sessionId), args);
  }

  /** A harness asks for a quieter mode for one event, with its reason. */
  async quieter(wire: HostPeer, request: Quieter): Promise<unknown> {
    return askQuieter(this.#on(wire, request.sessionId), request);
  }

  /** What the agents of a session owe, or what they wait for. spec: host#open-set */
  async openSet(wire: HostPeer, which: 'owed' | 'blocking', { sessionId, limit }: OpenSet): Promise<unknown> {
    const { session } = this.#on(wire, sessionId);
    return openSet(session.whos, which, limit);
  }

  progress(wire: HostPeer, progress: Progress): void {
    const { session } = this.#on(wire, progress.sessionId);
    keepProgress(session, { ...progress, at: this.context.deps.now() });
    this.context.tasks.run('show progress', () => showProgress(this.context, session, progress, this.surface.all()));
  }

  /** A session of this connection. Without an id, its only session. */
  #on(wire: HostPeer, id: string | undefined): Runner {
    const mine = [...this.#runners.values()].filter(({ session }) => session.link?.wire === wire);
    const found = id === undefined && mine.length === 1 ? mine[0] : mine.find(({ session }) => session.id === id);
    if (found) return found;
    throw new Refusal(
      'not_found',
      id === undefined
        ? 'name the sessionId: this connection has none or several'
        : `no session ${id} is bound here; bind it first`,
    );
  }

  #parted(runner: Runner): void {
    const { session } = runner;
    runner.detach();
    session.record = { ...session.record, seen: this.context.deps.now() };
    this.context.tasks.run('part', () => this.context.deps.home.journal.saveSession(session.record));
  }

  async #restore(session: HostSession): Promise<Runner> {
    const runner = new Runner(this.context, session);
    this.#runners.set(session.id, runner);
    await restoreHeld(session);
    return runner;
  }

  #stored(copies?: readonly Copy[]): void {
    const names = copies && new Set(copies.map(({ mailbox }) => mailbox));
    for (const runner of this.#runners.values()) {
      if (!names || runner.session.whos.some(({ name }) => names.has(name))) runner.ring();
    }
    this.surface.ring();
  }

  *#sessions(): Iterable<HostSession> {
    for (const { session } of this.#runners.values()) yield session;
  }
}
