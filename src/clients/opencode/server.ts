import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isRecord } from '../../wire/jsonrpc.ts';
import { callLoopback, NoServer } from '../loopback.ts';

/** Time for an answer. A server that gets several calls at once while it starts can hang. */
const ANSWER_MS = 5000;
/** Time to create a conversation: a server that has just started is slow with the first one. */
const CREATE_MS = 60_000;
const USER = 'opencode';

export type ServerState = 'idle' | 'active' | 'permission' | 'question';

/** OpenCode answered with a refusal. */
export class NotTaken extends Error {
  override readonly name = 'NotTaken';
}

/**
 * The HTTP server of the OpenCode that we started for one session, on a loopback port, with a password. Port and password are in a file that only
 * the user can read. A shell reads the file for OpenCode, because all users can see the arguments of a command. A later run of Parley finds
 * the server by this file. OpenCode takes the password only from its environment, so the tools that it starts have it, too.
 *
 * After OpenCode has ended, another user's program may get the port. Parley sends nothing to it.
 */
export class OpenCodeServer {
  constructor(
    readonly file: string,
    readonly uid = process.getuid?.(),
  ) {}

  /** Chooses a port and a password for an OpenCode that will be started; returns the command to start it with. */
  prepare(command: readonly string[]): string[] {
    const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
    const { port } = probe;
    probe.stop(true);
    const password = Buffer.from(crypto.getRandomValues(new Uint8Array(24))).toString('hex');
    mkdirSync(this.file.slice(0, this.file.lastIndexOf('/')), { recursive: true, mode: 0o700 });
    rmSync(this.file, { force: true });
    const lines = [`# The server of OpenCode in this session, for Parley.`, `PORT=${port}`, `PASSWORD=${password}`];
    writeFileSync(this.file, `${lines.join('\n')}\n`, { mode: 0o600 });
    chmodSync(this.file, 0o600);
    const script = `. "$0"; export OPENCODE_SERVER_PASSWORD="$PASSWORD" OPENCODE_SERVER_USERNAME=${USER}; unset PORT PASSWORD; exec "$@"`;
    return ['sh', '-c', script, this.file, ...command, '--port', String(port), '--hostname', '127.0.0.1'];
  }

  /** Call after OpenCode has ended: deletes the file. */
  forget(): void {
    rmSync(this.file, { force: true });
  }

  /** The state of a conversation. A question of its subagents counts as its own. */
  async state(conversation: string | null): Promise<ServerState> {
    const statuses = await this.call('GET', '/session/status');
    if (
      !isRecord(statuses) ||
      !Object.values(statuses).every((one) => isRecord(one) && typeof one['type'] === 'string')
    )
      throw new NoServer('another program listens there');
    const status = conversation === null ? undefined : statuses[conversation];
    if (!isRecord(status) || status['type'] === 'idle') return 'idle';
    const isAsked = async (path: string): Promise<boolean> => {
      const asked = await this.call('GET', path);
      return Array.isArray(asked) && asked.length > 0;
    };
    if (await isAsked('/permission')) return 'permission';
    return (await isAsked('/question')) ? 'question' : 'active';
  }

  /** Begins a conversation. */
  async create(): Promise<string> {
    const made = await this.call('POST', '/session', {}, { ms: CREATE_MS });
    if (isRecord(made) && typeof made['id'] === 'string') return made['id'];
    throw new Error('OpenCode began a conversation, but its answer has no id');
  }

  /** Asks the window to show this conversation. A starting window may miss that, which does no harm. */
  async show(conversation: string): Promise<void> {
    await this.call('POST', '/tui/select-session', { sessionID: conversation }).catch(() => {});
  }

  /**
   * Gives OpenCode a prompt as a message with this id. OpenCode has it when this returns, or some time later. The text part has an id of its own,
   * because OpenCode would otherwise add the text again if the same message is given twice.
   */
  async prompt(conversation: string, messageID: string, text: string, signal: AbortSignal): Promise<void> {
    const parts = [{ id: messageID.replace('msg_', 'prt_'), type: 'text', text }];
    await this.call('POST', `/session/${conversation}/prompt_async`, { messageID, parts }, { signal });
  }

  /** One call of its API. */
  async call(method: string, path: string, body?: object, more: { signal?: AbortSignal; ms?: number } = {}) {
    const { port, password } = this.#address();
    const authorization = `Basic ${btoa(`${USER}:${password}`)}`;
    const { signal, ms = ANSWER_MS } = more;
    const response = await callLoopback({
      program: 'OpenCode',
      port,
      path,
      method,
      authorization,
      body,
      ms,
      signal,
      uid: this.uid,
    });
    if (response.status === 401) throw new NoServer('another program listens there');
    const said = await response.text();
    if (!response.ok) {
      const because = `OpenCode answered ${response.status}: ${said.slice(0, 200)}`;
      throw response.status < 500 ? new NotTaken(because) : new Error(because);
    }
    return said === '' ? null : (JSON.parse(said) as unknown);
  }

  #address(): { port: number; password: string } {
    try {
      const text = readFileSync(this.file, 'utf8');
      const [, port] = /^PORT=(\d+)$/m.exec(text) ?? [];
      const [, password] = /^PASSWORD=(\w+)$/m.exec(text) ?? [];
      if (port !== undefined && password !== undefined) return { port: Number(port), password };
    } catch {
      // We never started one.
    }
    throw new NoServer('Parley did not start this OpenCode');
  }
}
