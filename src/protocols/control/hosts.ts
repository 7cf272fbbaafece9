import type { Env } from '../../core/env.ts';
import { HostUnreachable } from '../../core/ports/session.ts';
import type { Log } from '../../core/service.ts';
import { VERSION } from '../../platform/program.ts';
import { SshProcess } from '../../sessions/ssh.ts';
import { isRecord, JsonRpcPeer, RPC } from '../../wire/jsonrpc.ts';
import { LineReader } from '../../wire/lines.ts';
import type { ControlFile, HostEntry } from './config.ts';
import { ERRORS } from './phrases.ts';

/** The version of the protocol, which must be the same on both sides. spec: control#drive */
export const DRIVE_PROTOCOL = 1;

/** A host that does not answer within this time is unreachable. spec: control#hosts */
const ANSWER_MS = 5000;
/** Pauses between attempts double up to a limit. A request for a session of the host ends a pause. */
const FIRST_PAUSE_MS = 1000;
const LAST_PAUSE_MS = 60_000;
/** A connection that no session needs is closed after this time. */
const LINGER_MS = 5000;
/** The longest line: a client's record since a place may be long. */
const LINE_LIMIT = 256 * 1024 * 1024;

export interface HostsDeps {
  config: Pick<ControlFile, 'read'>;
  env: Env;
  log: Log;
}

/** Called when a session may have changed; with null: every session of the host. */
export type HostListener = (session: string | null) => void;

/** The user's other hosts, with one connection each, made at first use. */
export class Hosts {
  readonly #links = new Map<string, HostLink>();
  readonly #listeners = new Map<string, Set<HostListener>>();

  constructor(readonly deps: HostsDeps) {}

  /** The connection to a host, with its current settings. Throws HostUnreachable. */
  async peer(host: string): Promise<JsonRpcPeer> {
    const { hosts } = this.deps.config.read();
    const entry = Object.hasOwn(hosts, host) ? hosts[host] : undefined;
    if (!entry) throw new HostUnreachable(ERRORS.noHost);
    const open = this.#links.get(host);
    if (open && JSON.stringify(open.entry) === JSON.stringify(entry)) return open.peer();
    open?.close();
    const tell: HostListener = (session) => this.#listeners.get(host)?.forEach((hear) => hear(session));
    const link = new HostLink(host, entry, this.deps, tell);
    this.#links.set(host, link);
    return link.peer();
  }

  /** Listens to a host. The connection is closed after the last listener has left. */
  listen(host: string, hear: HostListener): () => void {
    const listeners = this.#listeners.get(host) ?? new Set();
    this.#listeners.set(host, listeners.add(hear));
    return () => {
      listeners.delete(hear);
      // Wait: if a driver's settings change, the next driver listens at once.
      if (listeners.size === 0) setTimeout(() => this.#leave(host), LINGER_MS).unref();
    };
  }

  #leave(host: string): void {
    if (this.#listeners.get(host)?.size) return;
    this.#links.get(host)?.close();
    this.#links.delete(host);
  }

  /** A caller needs this host: ends a pause between attempts. */
  want(host: string): void {
    this.#links.get(host)?.want();
  }

  close(): void {
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }
}

/**
 * The connection to one host: `parley ccc drive` there, over ssh.
 *
 * It connects at first use, and again after the connection was lost. A caller waits for an attempt under way or through a pause, but only
 * until the trouble is `ANSWER_MS` old. After that a caller gets the last reason at once.
 */
class HostLink {
  #peer: JsonRpcPeer | null = null;
  #ssh: SshProcess | null = null;
  #attempt: Promise<void> | null = null;
  #failures = 0;
  #failedAt = 0;
  /** No attempt before this time. */
  #notBefore = 0;
  #troubleSince: number | null = null;
  #because = '';
  #isClosed = false;

  constructor(
    readonly host: string,
    readonly entry: HostEntry,
    readonly deps: Pick<HostsDeps, 'env' | 'log'>,
    readonly tell: HostListener,
  ) {}

  /** The connection, when it is there. Throws HostUnreachable. */
  async peer(): Promise<JsonRpcPeer> {
    while (!this.#peer) {
      if (this.#isClosed) throw new HostUnreachable('host unreachable: the connection was closed');
      const now = performance.now();
      this.#troubleSince ??= now;
      const pause = this.#notBefore - now;
      if (!this.#attempt && pause > 0) {
        const left = this.#troubleSince + ANSWER_MS - now;
        if (left <= 0) throw new HostUnreachable(`host unreachable: ${this.#because}`);
        await Bun.sleep(Math.min(pause, left, 100));
      } else await (this.#attempt ??= this.#connect().finally(() => (this.#attempt = null)));
    }
    return this.#peer;
  }

  /** Ends a pause, but never two in a row: a host may count failed attempts. */
  want(): void {
    this.#notBefore = Math.min(this.#notBefore, this.#failedAt + FIRST_PAUSE_MS);
  }

  close(): void {
    this.#isClosed = true;
    this.#ssh?.end();
    this.#lost('the connection was closed');
  }

  async #connect(): Promise<void> {
    const { address, command } = this.entry;
    if (address === '' || address.startsWith('-')) return this.#failed('its address in ~/.ccc.json is not valid');
    const ended = Promise.withResolvers<string>();
    const lines = new LineReader(LINE_LIMIT, {
      receive: (line) => peer.receive(line),
      tooLong: () => ssh?.end(),
    });
    const ssh = SshProcess.start(
      { address, command: `${command || 'parley'} ccc drive`, env: this.deps.env },
      { receive: (chunk) => lines.push(chunk), ended: ended.resolve },
    );
    if (!ssh) return this.#failed('there is no ssh on this machine; install OpenSSH');
    this.#ssh = ssh;
    const peer: JsonRpcPeer = new JsonRpcPeer((frame) => ssh.write(`${frame}\n`), {
      request: ({ id }) => peer.fail(id, { code: RPC.method, message: 'nothing is served here' }),
      notification: ({ method, params }) => {
        if (method === 'changed') this.tell(String(params['session']));
      },
      // The host's shell may print something before our program does.
      broken() {},
    });
    const hello = peer.request('hello', {}, { ms: ANSWER_MS }).answer.catch(() => 'no answer');
    const first = await Promise.race([hello, ended.promise.then((because) => ({ because }))]);
    const wrong = wrongHello(first);
    if (wrong !== null || this.#isClosed) {
      ssh.end();
      peer.close();
      return this.#failed(wrong ?? 'the connection was closed');
    }
    this.#peer = peer;
    this.#failures = 0;
    this.#troubleSince = null;
    this.#because = '';
    this.deps.log('host_open', { host: this.host });
    void ended.promise.then((because) => this.#lost(because));
    this.tell(null);
  }

  #failed(because: string): void {
    if (because !== this.#because) this.deps.log('host_trouble', { host: this.host, because });
    this.#because = because;
    this.#failedAt = performance.now();
    this.#notBefore = this.#failedAt + Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, LAST_PAUSE_MS);
    this.#failures += 1;
  }

  #lost(because: string): void {
    const peer = this.#peer;
    if (!peer) return;
    this.#peer = null;
    this.#ssh = null;
    this.#troubleSince = performance.now();
    this.#failed(because);
    peer.close();
    this.tell(null);
  }
}

/** Why we cannot work with the program at the other end; null if we can. */
function wrongHello(answer: unknown): string | null {
  if (answer === 'no answer') return `no answer within ${ANSWER_MS / 1000} s`;
  if (isRecord(answer) && typeof answer['because'] === 'string') return answer['because'];
  if (isRecord(answer) && answer['protocol'] === DRIVE_PROTOCOL) return null;
  return `another version of Parley is installed there; install ${VERSION}`;
}
