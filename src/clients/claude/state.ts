import { readdir, readFile } from 'node:fs/promises';
import type { SessionStatus } from '../../core/ports/session.ts';
import { isProcessAlive, startOf } from '../../platform/process.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import type { Activity, ClientState, StateReader } from '../../sessions/client-state.ts';
import { newPromptCheck } from './evidence.ts';
import type { ReadComposer, Screen } from '../../sessions/terminal.ts';

/** The fields that Parley reads of `~/.claude/sessions/<pid>.json`. Claude Code 2.1.325 has this file for each running session. */
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
  /** The socket on which the client takes messages of other programs. */
  messagingSocketPath?: string;
}

/** Any other status counts as `active`, so nothing is typed. */
export const STATUS: Record<string, SessionStatus> = { idle: 'idle', waiting: 'waiting' };

/** Any other status is `unknown`. */
const STATES: Record<string, Activity> = { idle: 'idle', busy: 'busy', waiting: 'dialog' };

/**
 * The state of one session in the registry of Claude Code.
 *
 * An entry is valid as long as the process that wrote it runs, because Claude Code updates it at each change. The process is identified by
 * pid and start time, since a pid can be reused. A session without a status is starting.
 */
export class ClaudeStateReader implements StateReader {
  constructor(
    /** `~/.claude`, or CLAUDE_CONFIG_DIR. */
    readonly folder: string,
    readonly session: string,
    /** The process of a session that we started. Claude Code gives sessions ids of its own. */
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

  /** Reads the transcript: on an overloaded machine the registry was seen to miss whole turns of some seconds. */
  async listen(): Promise<(text: string) => Promise<ClientState | null>> {
    const session = (await this.#registered())?.sessionId ?? this.session;
    const isSaid = newPromptCheck([this.folder], session);
    return async (text) => (isSaid(text) ? { state: 'busy', at: Date.now(), source: 'transcript' } : null);
  }

  async #registered(): Promise<ClaudeSession | undefined> {
    const all = (await claudeSessions(this.folder)).filter(({ kind }) => kind === 'interactive');
    return all.find(({ pid }) => pid === this.pid) ?? all.find(({ sessionId }) => sessionId === this.session);
  }
}

/** Does Claude Code run this session, in a terminal or without one? */
export async function claudeRuns(folder: string, session: string): Promise<boolean> {
  return (await claudeSessions(folder)).some(({ sessionId }) => sessionId === session);
}

/** All sessions in the registry whose processes run. */
export async function claudeSessions(folder: string): Promise<ClaudeSession[]> {
  const names = await readdir(`${folder}/sessions`).catch(() => []);
  const read = names
    .filter((name) => /^\d+\.json$/.test(name))
    .map((name) => readSession(`${folder}/sessions/${name}`));
  return (await Promise.all(read)).filter((session) => session !== null);
}

/** How long a read of the registry is reused if its folder does not change. A killed client changes nothing there. */
const REGISTRY_MS = 500;

/** The registry of one folder. All followers in this process share one read, which is repeated after each change. */
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
    // Watch before the read, so that a change during it leads to another read.
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
    // Deleted or half written: the next look decides.
    return null;
  }
}

/** Does the process of an entry run? A later process with the same pid does not count. */
export function runs({ pid, procStart }: Pick<ClaudeSession, 'pid' | 'procStart'>): boolean {
  if (!isProcessAlive(pid)) return false;
  const started = startOf(pid);
  return started === null || procStart === undefined || started === procStart;
}

/**
 * The composer of Claude Code 2.1 is a row that begins with `❯`, between two horizontal rules. Earlier prompts also begin with `❯`, but have no
 * rules around them, and a question has its `❯` further right. The cursor is where the next letter would go.
 */
export const claudeComposer: ReadComposer = ({ lines, bright, cursor }) => {
  const isRule = (row: number): boolean => /^─{8}/.test(lines[row] ?? '');
  const row = lines.findLastIndex((line, at) => line.startsWith('❯') && isRule(at - 1));
  if (row < 0) return lines.some((line) => QUESTION.test(line)) ? 'dialog' : 'unknown';
  if (lines.slice(row + 1).some((line) => /\besc to interrupt\b/i.test(line))) return 'busy';
  if (lines.slice(row).some((line) => QUESTION.test(line))) return 'dialog';
  // The cursor is on the first letter of a hint, which is therefore drawn bright.
  const typed = (bright[row] ?? '').slice(1).trim();
  const isHint = typed.length <= 1 && (lines[row] ?? '').slice(1).trim().length > 1;
  const atStart = cursor.row === row && cursor.column === 2;
  return isRule(row + 1) && atStart && (typed === '' || isHint) ? 'empty' : 'draft';
};

/** Does the composer hold exactly this text? Ignores whitespace, because the composer wraps lines. */
export function claudeHolds({ lines }: Screen, text: string): boolean {
  const isRule = (line: string | undefined): boolean => /^─{8}/.test(line ?? '');
  const row = lines.findLastIndex((line, at) => line.startsWith('❯') && isRule(lines[at - 1]));
  const end = lines.findIndex((line, at) => at > row && isRule(line));
  if (row < 0 || end < 0) return false;
  const plain = (shown: string): string => shown.replaceAll(/\s+/g, '');
  return plain(lines.slice(row, end).join('').slice(1)) === plain(text);
}

const QUESTION = /^\s+❯ \d+\. |Do you want to |\bEsc to cancel\b|\bEnter to (select|confirm)\b/;
