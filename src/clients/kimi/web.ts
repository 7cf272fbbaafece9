import * as v from 'valibot';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { SessionState } from '../../core/ports/session.ts';
import { type Described, Schema } from '../../core/schema.ts';
import { realPath } from '../../platform/files.ts';
import { hasRunSince, startOf } from '../../platform/process.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { callLoopback, NoServer } from '../loopback.ts';
import { isKimi } from './state.ts';

const ANSWER_MS = 5000;
/** Limit for calls that change something: a server that has just started is slow. */
const SLOW_MS = 60_000;
/** The most sessions that the server lists at once. */
const PAGE = 100;
const WAITING_FOR = { approval: 'permission prompt', question: 'input needed' } as const;

/** `server/instances/<id>.json`: each server rewrites its file every 10 s. Times are Unix ms. */
const Instance = new Schema(() =>
  v.object({ pid: v.number(), host: v.string(), port: v.number(), heartbeat_at: v.number() }),
);

const Loaded = new Schema(() =>
  v.object({
    id: v.string(),
    busy: v.boolean(),
    main_turn_active: v.optional(v.boolean(), false),
    pending_interaction: v.picklist(['none', 'approval', 'question']),
    metadata: v.object({ cwd: v.string() }),
    /** The model is empty before the session's first prompt, and while the server has not loaded the session. */
    agent_config: v.object({ model: v.string() }),
  }),
);
export type WebSession = Described<typeof Loaded>;

/** The server answered with an error of its own. */
export class WebRefusal extends Error {
  override readonly name = 'WebRefusal';

  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }

  /** A retry of the same request would be refused, too. */
  get isFinal(): boolean {
    return this.code === WEB_CODES.invalid || this.code === WEB_CODES.malformed;
  }

  /** The server failed inside, or its answer has no code of Kimi 2.1: it may have taken the request. */
  get isUnclear(): boolean {
    return !(this.code < WEB_CODES.internal);
  }
}

/** Error codes of Kimi 2.1. Nearly every answer has the HTTP status 200. */
export const WEB_CODES = {
  invalid: 40001,
  malformed: 40002,
  noSession: 40401,
  busy: 40901,
  promptInUse: 40927,
  /** This code, and every higher one, is a failure inside the server. */
  internal: 50000,
} as const;

/**
 * A `kimi web` of this user: an HTTP server on loopback that runs sessions of all folders. Its token is in a file that only its user can
 * read. After Kimi ends, a program of another user may listen on the same port: Parley sends nothing to it.
 */
export class KimiServer {
  constructor(
    readonly home: string,
    readonly pid: number,
    readonly port: number,
    readonly uid = process.getuid?.(),
  ) {}

  get start(): string | null {
    return startOf(this.pid);
  }

  /** One session, as the server knows it; null if there is none. This does not load the session. */
  async session(id: string): Promise<WebSession | null> {
    try {
      const parsed = Loaded.safeParse(await this.call('GET', `/sessions/${id}`));
      if (parsed.success && parsed.data.id === id) return parsed.data;
    } catch (error) {
      if (error instanceof WebRefusal && error.code === WEB_CODES.noSession) return null;
      throw error;
    }
    throw new Error('Kimi described the session in a form that Kimi 2.1 does not use');
  }

  /** The sessions that the server has loaded, the last used first. A session without a prompt is not listed. */
  async loaded(): Promise<WebSession[]> {
    const data = await this.call('GET', `/sessions?page_size=${PAGE}`);
    const items: unknown[] = isRecord(data) && Array.isArray(data['items']) ? data['items'] : [];
    const all = items.flatMap((item) => {
      const parsed = Loaded.safeParse(item);
      return parsed.success ? [parsed.data] : [];
    });
    return all.filter(isLoaded);
  }

  /** Calls the API and returns the answer. Many calls load the session that they name: check first that no other Kimi has it open. */
  async call(method: string, path: string, body?: object, more: { signal?: AbortSignal; ms?: number } = {}) {
    const isRead = method === 'GET';
    const response = await callLoopback({
      program: 'Kimi',
      port: this.port,
      path: `/api/v1${path}`,
      method,
      authorization: `Bearer ${tokenIn(this.home)}`,
      body: isRead ? undefined : (body ?? {}),
      ms: more.ms ?? (isRead ? ANSWER_MS : SLOW_MS),
      signal: more.signal,
      uid: this.uid,
    });
    const said: unknown = await response.json();
    const { code, msg, data } = isRecord(said) ? said : {};
    if (code !== 0) throw new WebRefusal(Number(code), `Kimi answered ${String(code)}: ${String(msg).slice(0, 200)}`);
    return data;
  }
}

/** The running servers of this user. */
export function kimiServers(home: string): KimiServer[] {
  const folder = `${home}/server/instances`;
  return filesIn(folder).flatMap((file) => {
    const parsed = Instance.safeParse(jsonIn(`${folder}/${file}`));
    if (!parsed.success) return [];
    const { pid, host, port, heartbeat_at } = parsed.data;
    const isHere = ['127.0.0.1', 'localhost', '0.0.0.0'].includes(host);
    // A killed server leaves its file, and a window of Kimi may get its pid.
    return isHere && hasRunSince(pid, heartbeat_at) && isKimi(wordsOf(pid)) ? [new KimiServer(home, pid, port)] : [];
  });
}

/** Whether a server other than `except` has loaded this session. Throws if a server does not answer, because it may have it. */
export async function isOnServer(home: string, id: string, except?: KimiServer): Promise<boolean> {
  for (const server of kimiServers(home)) {
    const session = server.pid === except?.pid ? null : await server.session(id).catch(nullIfGone);
    if (session && isLoaded(session)) return true;
  }
  return false;
}

function nullIfGone(error: unknown): null {
  if (error instanceof NoServer) return null;
  throw error;
}

/** Whether this process is a `kimi web`. */
export function isKimiServer(home: string, pid: number): boolean {
  return kimiServers(home).some((server) => server.pid === pid);
}

/** A test for windows of Kimi. Its servers have the same process name, and are no windows. */
export function isKimiWindow(home: string): (words: readonly string[], file: string, pid: number) => boolean {
  return (words, _file, pid) => isKimi(words) && !isKimiServer(home, pid);
}

/**
 * Returns a test: may another Kimi (a TUI, `kimi -p` or `kimi acp`) have a session of this folder open? Each of them opens only sessions of
 * its own folder, but nothing says which one. If a server continued a session that a TUI has open, neither would notice the other.
 * Without `/proc` the test is always true.
 */
export function otherKimis(home: string): (folder: string) => boolean {
  if (process.platform !== 'linux') return () => true;
  const servers = new Set(kimiServers(home).map(({ pid }) => pid));
  const pids = readdirSync('/proc').map(Number);
  const others = pids.filter((pid) => pid > 0 && !servers.has(pid) && isKimi(wordsOf(pid)));
  const folders = new Set(others.map(folderOf));
  return (folder) => folders.has(realPath(folder));
}

/** Whether another Kimi may have a session of this folder open. */
export function hasOtherKimi(home: string, folder: string): boolean {
  return otherKimis(home)(folder);
}

/** The state of a session on a server. */
export function webState({ busy, main_turn_active, pending_interaction: asks }: WebSession): SessionState {
  if (asks !== 'none') return { status: 'waiting', waitingFor: WAITING_FOR[asks] };
  return { status: busy || main_turn_active ? 'active' : 'idle' };
}

export function isLoaded(session: WebSession): boolean {
  return session.agent_config.model !== '' || webState(session).status !== 'idle';
}

function tokenIn(home: string): string {
  try {
    return readFileSync(`${home}/server.token`, 'utf8').trim();
  } catch (error) {
    throw new NoServer(`the token file of \`kimi web\` cannot be read`, { cause: error });
  }
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((file) => file.endsWith('.json'));
  } catch {
    return [];
  }
}

function jsonIn(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}

function wordsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

function folderOf(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return null;
  }
}
