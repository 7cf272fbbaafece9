import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Env } from '../../core/env.ts';
import type { LiveSession } from '../../core/ports/live-session.ts';
import { realPath } from '../../platform/files.ts';
import { parentOf, startOf, ttyOf } from '../../platform/process.ts';
import { onPath } from '../../platform/search-path.ts';
import type { clientWindows, ClientProcess } from '../../sessions/client-window.ts';
import { codexHome } from './rpc.ts';
import { isCodexWindow } from './state.ts';

/** A window of Codex (its TUI). `folder` is its working folder. */
export interface CodexWindow extends ClientProcess {
  /** The local ports on which the window listens. Each thread that it begins or resumes has one of them. */
  ports: readonly number[];
  /** The threads that the window runs itself, newest first. Only a window without the daemon has any. */
  threads: readonly string[];
}

/** The windows of Codex that use this home; null if the system cannot list them. */
export function codexWindows(home: string, scan: typeof clientWindows): CodexWindow[] | null {
  const windows = scan(isCodexWindow)?.filter((window) => usesHome(window, home)) ?? null;
  return windows?.map((window) => ({ ...window, folder: workFolder(window), ...opened(window.pid, home) })) ?? null;
}

/** When Codex last loaded this thread (ms), by its lock, which the daemon or a window without it creates then. 0 if it is not loaded. */
export function loadedAt(home: string, thread: string): number {
  return statSync(`${home}/${LOCKS}/${thread}.lock`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

const LOCKS = 'thread-writer-locks';

/** Is any thread of this home loaded? Costs one directory listing. */
export function hasLoadedThreads(home: string): boolean {
  return (
    existsSync(`${home}/${LOCKS}`) && readdirSync(`${home}/${LOCKS}`).some((name) => /^[0-9a-f-]{36}\.lock$/.test(name))
  );
}

/** The executable of a window; if an update has removed it, the `codex` on the user's PATH. */
export function programOf(window: CodexWindow | undefined, env: Env): string {
  const file = window && linkAt(`/proc/${window.pid}/exe`);
  return file && existsSync(file) ? file : (onPath('codex', env) ?? 'codex');
}

function usesHome({ pid, words }: ClientProcess, home: string): boolean {
  if (words.some((word) => /^--remote(=|$)/.test(word))) return false;
  try {
    const env = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    const valueOf = (name: string): string | undefined =>
      env.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
    const its = codexHome({ HOME: valueOf('HOME'), CODEX_HOME: valueOf('CODEX_HOME') });
    return realPath(its) === realPath(home);
  } catch {
    return false;
  }
}

/** Reads ports and threads from the open files of a window. */
function opened(pid: number, home: string): Pick<CodexWindow, 'ports' | 'threads'> {
  const files = openFiles(pid);
  const locks = files.flatMap((file) => LOCK.exec(file)?.[1] ?? []);
  const sockets = new Set(files.flatMap((file) => /^socket:\[(\d+)\]$/.exec(file)?.[1] ?? []));
  const threads = locks.toSorted((a, b) => loadedAt(home, b) - loadedAt(home, a));
  return { ports: listening(pid, sockets), threads };
}

const LOCK = new RegExp(`/${LOCKS}/([0-9a-f-]{36})\\.lock$`);

function openFiles(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => linkAt(`/proc/${pid}/fd/${fd}`) ?? []);
  } catch {
    // The process ended meanwhile.
    return [];
  }
}

function linkAt(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

/** The ports on which these sockets listen on 127.0.0.1. */
function listening(pid: number, sockets: ReadonlySet<string>): number[] {
  try {
    const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').split('\n');
    return lines.flatMap((line) => {
      const [, address = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
      const isOurs = state === LISTENS && address.startsWith('0100007F:') && sockets.has(inode);
      return isOurs ? [Number.parseInt(address.slice('0100007F:'.length), 16)] : [];
    });
  } catch {
    return [];
  }
}

const LISTENS = '0A';

/** The working folder of a window: that of `--cd`, else the one in which it was started. */
function workFolder({ folder, words }: ClientProcess): string {
  const at = words.findIndex((word) => /^(-C|--cd)(=|$)/.test(word));
  const word = words[at] ?? '';
  const named = word.includes('=') ? word.slice(word.indexOf('=') + 1) : words[at + 1];
  return at < 0 || !named ? folder : realPath(resolve(folder, named));
}

/** The process that was started in the terminal: the npm script if it started the window, else the window. */
export function processOf(window: ClientProcess): Pick<LiveSession, 'pid' | 'start'> {
  const parent = parentOf(window.pid);
  const pid = ttyOf(parent) === window.tty && isLauncher(parent) ? parent : window.pid;
  const start = startOf(pid);
  return { pid, ...(start !== null && { start }) };
}

function isLauncher(pid: number): boolean {
  try {
    const [, script = ''] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return /\/codex(\.js)?$/.test(script);
  } catch {
    return false;
  }
}
