import type { Env } from '../../core/env.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import { isRecord, JsonRpcPeer } from '../../wire/jsonrpc.ts';
import type { Params } from '../../wire/jsonrpc.ts';
import { readLines } from '../../wire/lines.ts';

const CALL_MS = 15_000;
const QUEUE_MS = 15_000;
const END_MS = 3000;
const LINE_BYTES = 4 * 1024 * 1024;
/** Errors of Codex 0.166, and Clap's exit code for an unknown command: in these cases nothing was queued. */
const REFUSED = /No active session found|failed to read thread/;
const USAGE_EXIT = 2;

export interface CodexPlace {
  program: string;
  cwd: string;
  env: Env;
}

/** A `codex app-server` process for a few calls, with or without the daemon. It loads no conversation by itself. Callers must close it. */
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
    // The end of the process ends every waiting call.
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
 * Begins a conversation that a window can resume before the first prompt, with or without the daemon. Normally Codex creates the id and the
 * record of a conversation with the first prompt; if the conversation is named through the server, it has both at once (seen with 0.166).
 * Null if this Codex cannot do it.
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
 * Sends a prompt by `codex queue`. Codex begins it when it is idle, also in a window without the daemon, before the first prompt of a window,
 * and after an open dialog. The composer is not touched. Each call makes a new prompt, so no call is repeated.
 */
export class QueueWay implements Way {
  readonly name = 'rpc';

  constructor(
    readonly place: CodexPlace,
    readonly thread: string,
    /** Called before the prompt is sent. */
    readonly before: () => void,
  ) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return { outcome: 'left', because: 'there is nothing to hand over', retry: false };
    if (signal.aborted) return { outcome: 'left', because: 'Parley was stopped before it sent anything', retry: true };
    this.before();
    const text = parcels.map((parcel) => parcel.text).join('\n');
    const child = this.#queue(text);
    if (typeof child === 'string') return { outcome: 'left', because: child, retry: true };
    const [said, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
    const evidence = { way: this.name, by: 'codex queue', session: this.thread };
    if (code === 0) return { outcome: 'offered', evidence };
    const because = `codex queue: ${/^error: .*/im.exec(said)?.[0].slice(0, 200) ?? `exit ${code}`}`;
    if (code === USAGE_EXIT || REFUSED.test(said)) return { outcome: 'left', because, retry: true };
    // Codex may have taken the prompt before the command failed or was ended. A second call would make a second prompt.
    return { outcome: 'offered', evidence: { ...evidence, entered: 'unknown', because } };
  }

  /** The running process, or why it could not be started. */
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
