// `opencode serve` as a test uses it: sessions, prompts and events over its HTTP interface.
import { within } from '../../support/within.ts';
import { opens } from './opened.ts';

/** An event of OpenCode, as plugins get it too. */
export interface OpenCodeEvent {
  type: string;
  properties: Record<string, unknown>;
}

export class OpenCodeServer {
  /** Everything that happened in the project since the start. */
  readonly events: OpenCodeEvent[] = [];
  readonly #stop = new AbortController();
  #listening: Promise<void> = Promise.resolve();

  constructor(
    readonly url: string,
    readonly child: Bun.Subprocess,
    readonly deadline: number,
  ) {}

  /** The first request loads the project and its plugins; several at once on a cold server can hang it. */
  async warm(): Promise<void> {
    await this.call('GET', '/session/status');
    const response = await fetch(`${this.url}/event`, { signal: this.#stop.signal });
    this.#listening = this.#listen(response);
  }

  async call<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(this.deadline),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} gave ${response.status}: ${text}`);
    return (text === '' ? null : JSON.parse(text)) as T;
  }

  async session(title = 'a session of the test'): Promise<OpenCodeSession> {
    const { id } = await this.call<{ id: string }>('POST', '/session', { title });
    return new OpenCodeSession(this, id);
  }

  /** The first event for which this holds, now or within the deadline. */
  async event(holds: (event: OpenCodeEvent) => boolean, ms = this.deadline): Promise<OpenCodeEvent> {
    await within(ms, async () => this.events.some(holds));
    return this.events.find(holds) as OpenCodeEvent;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.child.kill();
    await Promise.all([this.child.exited, this.#listening]);
  }

  async #listen(response: Response): Promise<void> {
    const decoder = new TextDecoder();
    let rest = '';
    try {
      for await (const bytes of response.body ?? []) {
        const lines = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines)
          if (line.startsWith('data: ')) this.events.push(JSON.parse(line.slice(6)) as OpenCodeEvent);
      }
    } catch {
      // The server ended, or the test did.
    }
  }
}

export class OpenCodeSession {
  constructor(
    readonly server: OpenCodeServer,
    readonly id: string,
  ) {}

  /** Gives a prompt; the answer is not waited for. */
  async prompt(text: string): Promise<void> {
    await this.server.call('POST', `/session/${this.id}/prompt_async`, { parts: [{ type: 'text', text }] });
  }

  /** Waits until the session is idle for the n-th time since its start. */
  async idle(times = 1): Promise<void> {
    const isMine = (event: OpenCodeEvent) => event.type === 'session.idle' && event.properties['sessionID'] === this.id;
    await within(this.server.deadline, async () => this.server.events.filter(isMine).length >= times);
  }
}

export async function startServer(
  command: string[],
  cwd: string,
  env: Record<string, string>,
  deadline: number,
): Promise<OpenCodeServer> {
  const child = Bun.spawn([...command, '--hostname', '127.0.0.1', '--port', String(freePort())], {
    cwd,
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
  });
  const server = opens(new OpenCodeServer(await addressOf(child.stdout), child, deadline));
  await server.warm();
  return server;
}

/** Not OpenCode's usual port: plugins of a TUI that listens nowhere are told that one. */
function freePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
  probe.stop(true);
  return probe.port;
}

/** The server says where it listens, and then no more. */
async function addressOf(out: ReadableStream<Uint8Array>): Promise<string> {
  let said = '';
  for await (const bytes of out) {
    said += new TextDecoder().decode(bytes);
    const [address] = /http:\/\/127\.0\.0\.1:\d+/.exec(said) ?? [];
    if (address) return address;
  }
  throw new Error(`opencode serve ended and said: ${said}`);
}
