import type { Env } from '../../core/env.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import { isRecord, JsonRpcPeer } from '../../wire/jsonrpc.ts';
import type { Params } from '../../wire/jsonrpc.ts';
import { readLines } from '../../wire/lines.ts';

const CALL_MS = 15_000;
const QUEUE_MS = 15_000;
const END_MS = 3000;
const LINE_BYTES = 4 * 1024 * 1024;
/** What 0.166 says, and Clap's exit code for a command that it does not know: nothing was queued. */
const REFUSED = /No active session found|failed to read thread/;
const USAGE_EXIT = 2;

export interface CodexPlace {
  program: string;
  cwd: string;
  env: Env;
}

/** A server of Codex for a few calls, with or without the daemon. It loads no conversation by itself. Close it. */
export class AppServer {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'ignore'>;
  readonly #peer: JsonRpcPeer;

  constructor({ program, cwd, env }: CodexPlace) {
    const child = Bun.spawn([program, 'app-server'], { cwd, env, stdio: ['pipe', 'pipe', 'ignore'] });
    const peer = new JsonRpcPeer(
      (frame) => void child.stdin.write(`${frame}\n`),
      { request() {}, notification() {}, broken() {} },
      'optional',
    );
    const read = readLines(child.stdout, LINE_BYTES, { receive: (bytes) => peer.receive(bytes), tooLong() {} });
    // Its end is the end of every call that waits.
    void read.finally(() => peer.close());
    [this.#child, this.#peer] = [child, peer];
  }

  async greet(): Promise<void> {
    await this.call('initialize', {
      clientInfo: { name: 'codex-tui', title: null, version: '0' },
      capabilities: { experimentalApi: true },
    });
    this.#peer.notify('initialized', {});
  }

  /** Throws RemoteError if Codex refuses. */
  async call(method: string, params: Params): Promise<Params> {
    const { answer } = this.#peer.request(method, params, { ms: CALL_MS });
    void this.#child.stdin.flush();
    const result = await answer;
    return isRecord(result) ? result : {};
  }

  async close(): Promise<void> {
    this.#child.kill();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), END_MS);
    await this.#child.exited.finally(() => clearTimeout(timer));
  }
}

/**
 * Begins a conversation that a window can resume before it had a prompt, with or without the daemon. Codex gives a new one its id and its
 * record only with the first prompt; named over its server, it has both at once. Seen with 0.166. Null if this Codex cannot do it.
 */
export async function newThread(place: CodexPlace, name: string): Promise<string | null> {
  const server = new AppServer(place);
  try {
    await server.greet();
    const { thread } = await server.call('thread/start', { cwd: place.cwd, threadSource: 'user' });
    const id = isRecord(thread) ? thread['id'] : undefined;
    if (typeof id !== 'string') return null;
    await server.call('thread/name/set', { threadId: id, name });
    return id;
  } catch {
    return null;
  } finally {
    await server.close();
  }
}

/**
 * A prompt by `codex queue`, which Codex takes up when it is idle: also in a window without the daemon, in one that had no prompt yet, and
 * after an open dialog. The composer is not touched. Each call is a prompt of its own, so one is tried once.
 */
export class QueueWay implements Way {
  readonly name = 'rpc';

  constructor(
    readonly place: CodexPlace,
    readonly thread: string,
    /** Called before Codex has it. */
    readonly before: () => void,
  ) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return { outcome: 'left', because: 'there is nothing to hand over', retry: false };
    if (signal.aborted) return { outcome: 'left', because: 'it was stopped before', retry: true };
    this.before();
    const text = parcels.map((parcel) => parcel.text).join('\n');
    const child = this.#queue(text);
    if (typeof child === 'string') return { outcome: 'left', because: child, retry: true };
    const [said, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
    const evidence = { way: this.name, by: 'codex queue', session: this.thread };
    if (code === 0) return { outcome: 'offered', evidence };
    const because = `codex queue: ${/^error: .*/im.exec(said)?.[0].slice(0, 200) ?? `exit ${code}`}`;
    if (code === USAGE_EXIT || REFUSED.test(said)) return { outcome: 'left', because, retry: true };
    // Codex may have taken it before it failed or was ended: a second call would be a second prompt.
    return { outcome: 'offered', evidence: { ...evidence, entered: 'unknown', because } };
  }

  /** The running call, or why there is none. */
  #queue(text: string): Bun.Subprocess<'ignore', 'ignore', 'pipe'> | string {
    const { program, cwd, env } = this.place;
    try {
      return Bun.spawn([program, 'queue', '--thread', this.thread, '--message', text], {
        cwd,
        env,
        stdio: ['ignore', 'ignore', 'pipe'],
        timeout: QUEUE_MS,
      });
    } catch (error) {
      return `codex queue: ${String(error)}`;
    }
  }
}
