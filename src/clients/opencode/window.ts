import * as v from 'valibot';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { hasLiveProcess } from '../../delivery/session-names.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import type { QuestionApi } from './questions.ts';
import { NoServer } from '../loopback.ts';
import { NotTaken } from './server.ts';

/** Time for an answer of our plugin, ms. OpenCode may be in its first turn, on a busy machine. */
const ANSWER_MS = 30_000;
/** Time for an answer that other sessions wait for, ms. */
const QUICK_MS = 1000;

/** The file that our plugin (plugins/opencode/parley.ts) writes about a window of OpenCode. */
const WindowFile = new Schema(() =>
  v.object({
    v: v.literal(1),
    pid: v.number(),
    start: v.nullable(v.string()),
    /** The process of `parley run`, if that started this window. */
    runBy: v.exactOptional(v.number()),
    folder: v.string(),
    socket: v.string(),
    /** The folder of OpenCode's record. */
    data: v.string(),
    /** The session that the window shows; null if it shows none yet. */
    session: v.nullable(v.string()),
    isBusy: v.boolean(),
    /** What the window asks its user. */
    asks: v.nullable(v.picklist(['permission', 'question'])),
    /** The compaction after which the plugin waits for the messages that are still owed. */
    compaction: v.exactOptional(v.string()),
  }),
);
export type OpenCodeWindow = Described<typeof WindowFile>;

/** The folder with one file per window. Only the user can read it. */
export function windowFolder(home: string): string {
  return `${home}/opencode`;
}

/** The running windows. Removes the files of killed ones. */
export function openCodeWindows(home: string): OpenCodeWindow[] {
  const folder = windowFolder(home);
  return namesIn(folder).flatMap((name) => {
    const window = read(`${folder}/${name}`);
    if (!window) return [];
    if (hasLiveProcess(window)) return [window];
    for (const path of [`${folder}/${name}`, window.socket]) rmSync(path, { force: true });
    return [];
  });
}

/** Is the window idle, without an open question? */
export function isWindowFree({ isBusy, asks }: OpenCodeWindow): boolean {
  return !isBusy && asks === null;
}

/** The plugin does not answer, because its window is closed. */
export class WindowGone extends Error {
  override readonly name = 'WindowGone';
}

/** Calls the plugin of a window; returns the HTTP status and the body. */
export async function callWindow(
  { socket }: Pick<OpenCodeWindow, 'socket'>,
  path: string,
  { body, signal, ms = ANSWER_MS }: { body?: object; signal?: AbortSignal; ms?: number } = {},
): Promise<{ status: number; said: unknown }> {
  const limit = AbortSignal.timeout(ms);
  let response: Response;
  try {
    response = await fetch(`http://opencode${path}`, {
      unix: socket,
      method: body ? 'POST' : 'GET',
      ...(body && { body: JSON.stringify(body) }),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (/^(ConnectionRefused|ECONNREFUSED|ENOENT|FailedToOpenSocket)$/.test(code))
      throw new WindowGone('the window of OpenCode is closed');
    throw new Error(limit.aborted ? `OpenCode did not answer within ${ms / 1000} s` : String(error), { cause: error });
  }
  const text = await response.text();
  return { status: response.status, said: text === '' ? null : (JSON.parse(text) as unknown) };
}

const APPROVING_OFF =
  'the plugin in this window passes on no answer to a permission; answer it there, or set "control_may_approve": true in ~/.ccc.json';

/** The part of OpenCode's API that the plugin passes on. */
export function windowApi(window: OpenCodeWindow): QuestionApi {
  const call = async (path: string, body?: object): Promise<unknown> => {
    const { status, said } = await callWindow(window, path, { ...(body && { body }) }).catch((error: unknown) => {
      throw error instanceof WindowGone ? new NoServer(error.message) : error;
    });
    if (status < 300) return said;
    if (status === 403) throw new NoServer(APPROVING_OFF);
    const because = `OpenCode answered ${status}: ${JSON.stringify(said)?.slice(0, 200)}`;
    throw status < 500 ? new NotTaken(because) : new Error(because);
  };
  return { get: (path) => call(path), post: call };
}

/**
 * May OpenCode still record this message? True if the plugin of its window has given the message, and the session has not been idle for
 * `silentMs` since. Null if the plugin does not answer.
 */
export async function hasTaken(window: OpenCodeWindow, ending: string, silentMs: number): Promise<boolean | null> {
  try {
    const { said } = await callWindow(window, '/has', { body: { ending, silentMs }, ms: QUICK_MS });
    return isRecord(said) && typeof said['has'] === 'boolean' ? said['has'] : null;
  } catch {
    return null;
  }
}

function read(path: string): OpenCodeWindow | null {
  try {
    const window = WindowFile.safeParse(JSON.parse(readFileSync(path, 'utf8')));
    return window.success ? window.data : null;
  } catch {
    return null;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+\.json$/.test(name));
  } catch {
    return [];
  }
}
