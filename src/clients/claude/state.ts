import { readdir, readFile } from 'node:fs/promises';
import type { SessionStatus } from '../../core/ports/session.ts';
import { isProcessAlive, startOf } from '../../platform/process.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import type { Activity, ClientState, StateReader } from '../../sessions/client-state.ts';
import { saidFromNowOn } from './evidence.ts';
import type { ReadComposer, Screen } from '../../sessions/terminal.ts';

/** ~/.claude/sessions/<pid>.json, as far as it is read here. Claude Code 2.1.325 keeps it for every running session. */
export interface ClaudeSession {
  pid: number;
  sessionId: string;
  cwd: string;
  kind: string;
  /** ms */
  startedAt?: number;
  procStart?: string;
  status?: string;
  waitingFor?: string;
  statusUpdatedAt?: number;
  updatedAt?: number;
  /** `session:@window.%pane` where it runs in tmux. */
  tmux?: string;
  /** Where it takes messages of other programs. */
  messagingSocketPath?: string;
}

/** Any other word is work that is not known, and so nothing is typed. */
export const STATUS: Record<string, SessionStatus> = { idle: 'idle', waiting: 'waiting' };

/** Any other word is not known. */
const STATES: Record<string, Activity> = { idle: 'idle', busy: 'busy', waiting: 'dialog' };

/**
 * What Claude Code says of one session in its own register.
 *
 * It is fresh as long as the process that wrote it runs: the register is a state that Claude Code keeps up to date, not an event
 * that grows old. The process must be the one that is meant, by its number and the time of its start; a number that was given away
 * again says nothing. A session that has no state yet is starting.
 */
export class ClaudeStateReader implements StateReader {
  constructor(
    /** `~/.claude`, or what CLAUDE_CONFIG_DIR says. */
    readonly folder: string,
    readonly session: string,
    /** Claude Code has names of its own for its sessions. One that we started is known by its process. */
    readonly pid?: number,
  ) {}

  async latest(): Promise<ClientState | null> {
    const found = await this.#registered();
    if (!found) return null;
    const { status, waitingFor, pid } = found;
    const state = status === undefined ? 'starting' : (STATES[status] ?? 'unknown');
    const detail = [status, waitingFor].filter(Boolean).join(': ');
    return {
      state,
      at: found.statusUpdatedAt ?? found.updatedAt ?? 0,
      source: 'registry',
      pid,
      ...(detail && { detail }),
    };
  }

  /** Its transcript: seen on a machine with too much to do, the register slept through whole turns of some seconds. */
  async listen(): Promise<(text: string) => Promise<ClientState | null>> {
    const session = (await this.#registered())?.sessionId ?? this.session;
    const isSaid = saidFromNowOn([this.folder], session);
    return async (text) => (isSaid(text) ? { state: 'busy', at: Date.now(), source: 'transcript' } : null);
  }

  async #registered(): Promise<ClaudeSession | undefined> {
    const all = (await claudeSessions(this.folder)).filter(({ kind }) => kind === 'interactive');
    return all.find(({ pid }) => pid === this.pid) ?? all.find(({ sessionId }) => sessionId === this.session);
  }
}

/** Whether Claude Code runs a session, in a terminal or not. */
export async function claudeRuns(folder: string, session: string): Promise<boolean> {
  return (await claudeSessions(folder)).some(({ sessionId }) => sessionId === session);
}

/** All sessions that Claude Code says it runs, and whose processes do run. */
export async function claudeSessions(folder: string): Promise<ClaudeSession[]> {
  const names = await readdir(`${folder}/sessions`).catch(() => []);
  const read = names
    .filter((name) => /^\d+\.json$/.test(name))
    .map((name) => readSession(`${folder}/sessions/${name}`));
  return (await Promise.all(read)).filter((session) => session !== null);
}

/** So old may be what a registry says between two changes of its folder: a client that was killed changes nothing there. */
const REGISTRY_MS = 500;

/** The registry of one folder, read once for all sessions that are followed in this process, and again after each change. */
export class FollowedRegistry {
  static readonly #all = new Map<string, FollowedRegistry>();
  readonly #followers = new Set<() => void>();
  readonly #watch = new FolderWatch(() => this.#changed());
  #read: Promise<ClaudeSession[]> | null = null;
  #readAt = 0;

  private constructor(readonly folder: string) {}

  static follow(folder: string, changed: () => void): FollowedRegistry {
    const registry = this.#all.get(folder) ?? new FollowedRegistry(folder);
    this.#all.set(folder, registry);
    registry.#followers.add(changed);
    return registry;
  }

  leave(changed: () => void): void {
    this.#followers.delete(changed);
    if (this.#followers.size > 0) return;
    FollowedRegistry.#all.delete(this.folder);
    this.#watch.close();
  }

  sessions(): Promise<ClaudeSession[]> {
    const now = performance.now();
    if (this.#read && now - this.#readAt < REGISTRY_MS) return this.#read;
    // Before the read: what changes during it is read again.
    this.#watch.set([`${this.folder}/sessions`]);
    this.#readAt = now;
    this.#read = claudeSessions(this.folder);
    return this.#read;
  }

  #changed(): void {
    this.#read = null;
    for (const changed of this.#followers) changed();
  }
}

async function readSession(path: string): Promise<ClaudeSession | null> {
  try {
    const value = JSON.parse(await readFile(path, 'utf8')) as ClaudeSession;
    const isWhole =
      Number.isInteger(value.pid) && typeof value.sessionId === 'string' && typeof value.kind === 'string';
    return isWhole && runs(value) ? value : null;
  } catch {
    // Gone, or being written: the next look will tell.
    return null;
  }
}

/** Whether the process of an entry runs, and is not another one with its number. */
export function runs({ pid, procStart }: Pick<ClaudeSession, 'pid' | 'procStart'>): boolean {
  if (!isProcessAlive(pid)) return false;
  const started = startOf(pid);
  return started === null || procStart === undefined || started === procStart;
}

/**
 * Claude Code 2.1: the composer is a row that begins with `❯`, between two rules. What was said before begins so too, but has no
 * rules around it, and a question has its `❯` further right. The cursor is where the next letter would be.
 */
export const claudeComposer: ReadComposer = ({ lines, bright, cursor }) => {
  const isRule = (row: number): boolean => /^─{8}/.test(lines[row] ?? '');
  const row = lines.findLastIndex((line, at) => line.startsWith('❯') && isRule(at - 1));
  if (row < 0) return lines.some((line) => QUESTION.test(line)) ? 'dialog' : 'unknown';
  if (lines.slice(row + 1).some((line) => /\besc to interrupt\b/i.test(line))) return 'busy';
  if (lines.slice(row).some((line) => QUESTION.test(line))) return 'dialog';
  // The cursor lies on the first letter of a hint, and is drawn bright.
  const typed = (bright[row] ?? '').slice(1).trim();
  const isHint = typed.length <= 1 && (lines[row] ?? '').slice(1).trim().length > 1;
  const atStart = cursor.row === row && cursor.column === 2;
  return isRule(row + 1) && atStart && (typed === '' || isHint) ? 'empty' : 'draft';
};

/** Whether the composer holds this text and nothing else. Blanks do not count: a composer breaks lines where it likes. */
export function claudeHolds({ lines }: Screen, text: string): boolean {
  const isRule = (line: string | undefined): boolean => /^─{8}/.test(line ?? '');
  const row = lines.findLastIndex((line, at) => line.startsWith('❯') && isRule(lines[at - 1]));
  const end = lines.findIndex((line, at) => at > row && isRule(line));
  if (row < 0 || end < 0) return false;
  const plain = (shown: string): string => shown.replaceAll(/\s+/g, '');
  return plain(lines.slice(row, end).join('').slice(1)) === plain(text);
}

const QUESTION = /^\s+❯ \d+\. |Do you want to |\bEsc to cancel\b|\bEnter to (select|confirm)\b/;
