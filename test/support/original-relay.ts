/** A message as the original stores it. */
export interface Stored {
  id: string;
  from: string;
  to: string;
  body: string;
  priority: string;
  scope?: string;
  thread?: string;
  refs?: string[];
  ts: string;
}

interface Agent {
  name: string;
  subscriptions: string[];
  createdAt: string;
  lastSeen: string;
}

interface Room {
  token: string | undefined;
  agents: Map<string, { record: Agent; token: string; inbox: Stored[]; listeners: Set<(message: Stored) => void> }>;
}

export interface OriginalOptions {
  roomToken?: string;
  adminToken?: string;
  /** How often an idle stream says something; the original waits for 25 s. */
  keepaliveMs?: number;
  port?: number;
}

/**
 * The relay of the original, as far as a client can see it: its routes, texts and statuses; no keys; take deletes; the headers
 * of a stream come with its first event. It keeps nothing on disk. See requirements/backchannel.md, B5 and B6.
 */
export class OriginalRelay {
  readonly requests: { method: string; path: string; headers: Headers; body: unknown }[] = [];
  readonly #rooms = new Map<string, Room>();
  readonly #server: Bun.Server<undefined>;

  constructor(readonly options: OriginalOptions = {}) {
    this.#rooms.set('default', { token: options.roomToken, agents: new Map() });
    this.#server = Bun.serve({
      port: options.port ?? 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: (request) => this.#answer(request),
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get port(): number {
    return this.#server.port ?? 0;
  }

  /** What waits for an agent. */
  inbox(name: string, room = 'default'): Stored[] {
    return this.#rooms.get(room)?.agents.get(name)?.inbox ?? [];
  }

  /** Somebody listens to this agent's stream. */
  hasListener(name: string, room = 'default'): boolean {
    return (this.#rooms.get(room)?.agents.get(name)?.listeners.size ?? 0) > 0;
  }

  /** Registers an agent that is somewhere else, and returns its token. */
  agent(name: string, subscriptions: string[] = [], room = 'default'): string {
    const now = new Date().toISOString();
    const token = `${name}-token`;
    const record = { name, subscriptions, createdAt: now, lastSeen: now };
    this.#rooms.get(room)?.agents.set(name, { record, token, inbox: [], listeners: new Set() });
    return token;
  }

  /** Leaves a message for an agent, as another agent there does. */
  leave(name: string, fields: Partial<Stored> = {}, room = 'default'): Stored {
    const message = {
      id: crypto.randomUUID(),
      from: 'eve',
      to: `@${name}`,
      body: 'hello',
      priority: 'normal',
      ts: later(),
      ...fields,
    };
    this.#deliver(room, name, message);
    return message;
  }

  /** Another session of this agent takes everything. */
  takeAll(name: string): void {
    this.inbox(name).length = 0;
  }

  asked(path: string): number {
    return this.requests.filter((request) => request.path === path).length;
  }

  /** Ends every stream, as a restart of the relay does. */
  async stop(): Promise<void> {
    await this.#server.stop(true);
  }

  #deliver(room: string, name: string, message: Stored): void {
    const agent = this.#rooms.get(room)?.agents.get(name);
    agent?.inbox.push(message);
    for (const listener of agent?.listeners ?? []) listener(message);
  }

  async #answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const text = await request.text();
    this.requests.push({ method: request.method, path, headers: request.headers, body: parsed(text) });
    try {
      return this.#route(request, path, text);
    } catch (error) {
      return no(400, error instanceof Error ? error.message : String(error));
    }
  }

  #route(request: Request, path: string, text: string): Response {
    const call = `${request.method} ${path}`;
    const token = request.headers.get('authorization')?.replace(/^Bearer\s+/i, '');
    const named = request.headers.get('x-backchannel-room')?.trim() ?? '';
    const id = /^[A-Za-z0-9_-]{1,64}$/.test(named) ? named : 'default';
    if (call === 'GET /v1/health') return Response.json({ ok: true, service: 'backchannel-relay' });
    if (call === 'POST /v1/rooms') return this.#makeRoom(token);
    const room = this.#rooms.get(id);
    if (call === 'POST /v1/register') return this.#register(id, room, token, JSON.parse(text) as { name: string });
    const me = [...(room?.agents.values() ?? [])].find((agent) => agent.token === token);
    if (!room || !me) return no(401, 'unauthorized — agent token required (get one via /v1/register)');
    const [, kind, owner] = /^GET \/v1\/(inbox|events)\/(.+)$/.exec(call) ?? [];
    if (kind && owner) {
      const name = decodeURIComponent(owner);
      if (name !== me.record.name) return no(403, `token is for "${me.record.name}", not "${name}"`);
      return kind === 'inbox' ? Response.json(me.inbox) : this.#events(me);
    }
    switch (call) {
      case 'GET /v1/agents':
        return Response.json(
          [...room.agents.values()].map(({ record }) => record).sort((a, b) => a.name.localeCompare(b.name)),
        );
      case 'GET /v1/channels':
        return Response.json(
          [...new Set([...room.agents.values()].flatMap(({ record }) => record.subscriptions))].sort(),
        );
      case 'POST /v1/subscribe':
      case 'POST /v1/unsubscribe': {
        const { channel } = JSON.parse(text) as { channel: string };
        const others = me.record.subscriptions.filter((one) => one !== channel);
        me.record.subscriptions = path.endsWith('/subscribe') ? [...others, channel] : others;
        return Response.json({ ok: true });
      }
      case 'POST /v1/send':
        return this.#send(id, room, me.record.name, JSON.parse(text) as Stored);
      case 'POST /v1/take': {
        const at = me.inbox.findIndex((message) => message.id === (JSON.parse(text) as { id?: string }).id);
        const [message = null] = at < 0 ? [] : me.inbox.splice(at, 1);
        return Response.json({ message });
      }
      default:
        return no(404, 'not found');
    }
  }

  #makeRoom(token: string | undefined): Response {
    const { adminToken } = this.options;
    if (adminToken && token !== adminToken) return no(401, 'room creation is restricted on this relay');
    const roomId = Buffer.from(crypto.getRandomValues(new Uint8Array(6))).toString('base64url');
    const roomToken = Buffer.from(crypto.getRandomValues(new Uint8Array(24))).toString('base64url');
    this.#rooms.set(roomId, { token: roomToken, agents: new Map() });
    return Response.json({ roomId, roomToken });
  }

  #register(id: string, room: Room | undefined, token: string | undefined, { name }: { name: string }): Response {
    if (!room) return no(404, `unknown room "${id}" — create one with \`bch room new\``);
    const known = room.agents.get(name);
    if (known) {
      if (known.token !== token)
        return no(409, `agent name "${name}" is registered — present its token to re-register`);
      return Response.json(known.record);
    }
    if (room.token !== undefined && room.token !== token)
      return no(401, 'unauthorized — registration requires the room token');
    if (!/^[a-z0-9][a-z0-9._-]*$/i.test(name))
      return no(400, `invalid agent name "${name}" (use letters, digits, . _ -)`);
    this.agent(name, [], id);
    const made = room.agents.get(name);
    if (made) made.token = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('hex');
    return Response.json({ ...made?.record, token: made?.token });
  }

  #send(id: string, room: Room, from: string, { to, body, priority, scope, thread, refs }: Stored): Response {
    const isChannel = to.startsWith('#');
    const readers = isChannel
      ? [...room.agents.values()].filter(({ record }) => record.subscriptions.includes(to) && record.name !== from)
      : [...room.agents.values()].filter(({ record }) => record.name === to.replace(/^@/, ''));
    const name = to.replace(/^@/, '');
    if (readers.length === 0 && isChannel)
      return no(400, `channel ${to} has no other subscribers — nothing to deliver`);
    if (readers.length === 0) return no(400, `unknown agent "${name}" — they must \`bch init ${name}\` first`);
    const message: Stored = {
      id: crypto.randomUUID(),
      from,
      to,
      body,
      priority: priority ?? 'normal',
      ...(scope && { scope }),
      ...(thread && { thread }),
      ...(refs?.length && { refs }),
      ts: later(),
    };
    for (const { record } of readers) this.#deliver(id, record.name, message);
    return Response.json(message);
  }

  /** Bun sends the headers of a stream with its first bytes: an idle one has none for 25 s. */
  #events({ inbox, listeners }: { inbox: Stored[]; listeners: Set<(message: Stored) => void> }): Response {
    let end = (): void => {};
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const encoder = new TextEncoder();
        const push = (text: string): void => {
          try {
            controller.enqueue(encoder.encode(text));
          } catch {
            end();
          }
        };
        const listener = (message: Stored): void => push(`data: ${JSON.stringify(message)}\n\n`);
        const timer = setInterval(() => push(': keepalive\n\n'), this.options.keepaliveMs ?? 25_000);
        end = () => {
          clearInterval(timer);
          listeners.delete(listener);
        };
        for (const message of inbox) listener(message);
        listeners.add(listener);
      },
      cancel: () => end(),
    });
    return new Response(stream, {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', connection: 'keep-alive' },
    });
  }
}

function no(status: number, error: string): Response {
  return Response.json({ error }, { status });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

let last = 0;
/** Now, and after the time before: within a millisecond nobody promises an order. */
function later(): string {
  last = Math.max(last + 1, Date.now());
  return new Date(last).toISOString();
}
