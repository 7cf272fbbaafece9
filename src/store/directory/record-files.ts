import { lstatSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { isTooDeep } from '../../core/message.ts';
import { AgentName } from '../../core/names.ts';
import { codeOf, explained, ifThere, isMissing, isNoPlainFile } from '../../core/disk.ts';
import { locked } from '../../platform/lock-file.ts';
import { readPlain } from '../../platform/files.ts';
import { Refusal } from '../../core/refusal.ts';
import { AgentRecord } from '../../core/ports/directory.ts';
import { refuseUnreadable } from './rules.ts';

/** Other programs write a record in place: an unreadable one that changed this recently may be half written. */
const HALF_WRITTEN_MS = 300;
const PAUSE_MS = 2;

/** The text of a record, on disk under a name of its own. */
export interface FlushedDraft {
  text: string;
  path: string;
}

/** The time (ms) of the last marked change, before and after one. */
export interface ChangeMark {
  before: number;
  after: number;
}

/**
 * The records of a home as files, `agents/<name>.json`, shared with other Backchannel programs. Each is replaced as a whole.
 */
export class RecordFiles {
  readonly folder: string;
  #drafts = 0;

  constructor(readonly root: string) {
    this.folder = `${root}/agents`;
  }

  path(name: AgentName): string {
    return `${this.folder}/${name}.json`;
  }

  read(name: AgentName): AgentRecord | null {
    return this.whole(name)?.record ?? null;
  }

  /** A record and its text, from one read. Null: there is none, or it cannot be read. */
  whole(name: AgentName): { record: AgentRecord; text: string } | null {
    try {
      for (const end = performance.now() + HALF_WRITTEN_MS; ; Bun.sleepSync(PAUSE_MS)) {
        const text = this.text(name);
        const record = recordFrom(name, text);
        if (record) return { record, text };
        if (performance.now() > end || !this.#isYoung(name)) return null;
      }
    } catch {
      return null;
    }
  }

  #isYoung(name: AgentName): boolean {
    return Math.abs(Date.now() - statSync(this.path(name)).mtimeMs) < HALF_WRITTEN_MS;
  }

  text(name: AgentName): string {
    return readPlain(this.path(name), 'follow').toString('utf8');
  }

  /** The names of all records, readable or not. Files with other names are ignored. */
  names(): AgentName[] {
    try {
      return readdirSync(this.folder)
        .map(nameOf)
        .filter((name) => name !== null);
    } catch (error) {
      if (isMissing(error)) return [];
      throw explained(error, this.folder, 'nobody can be looked up');
    }
  }

  all(): AgentRecord[] {
    return this.names()
      .map((name) => this.read(name))
      .filter((record) => record !== null);
  }

  /** Null: there is none. Empty: it cannot be read. Undefined: the system cannot tell now. */
  textIfAny(name: AgentName): string | null | undefined {
    try {
      return this.text(name);
    } catch (error) {
      if (isMissing(error)) return this.isThere(name) ? '' : null;
      return isNoPlainFile(error) || isForbidden(error) ? '' : undefined;
    }
  }

  /** Includes unreadable ones, such as a dead link. */
  isThere(name: AgentName): boolean {
    return ifThere(() => lstatSync(this.path(name))) !== null;
  }

  /** Runs `act` under the lock: no other Parley process changes records meanwhile. */
  locked<T>(act: () => T): T {
    try {
      this.makeFolder();
      return locked(this.#lock, act);
    } catch (error) {
      throw explained(error, this.root, 'nothing was changed');
    }
  }

  get #lock(): string {
    return `${this.root}/agents.lock`;
  }

  /** Marks, under the lock, that subscriptions, roles or names changed, so that caches need not wait for a file event. */
  markChange(): ChangeMark {
    const before = statSync(this.#lock).mtimeMs;
    const time = Math.max(Date.now(), Math.floor(before) + 1) / 1000;
    utimesSync(this.#lock, time, time);
    return { before, after: this.lastChange() };
  }

  /** The time of the last marked change. */
  lastChange(): number {
    return ifThere(() => statSync(this.#lock))?.mtimeMs ?? 0;
  }

  makeFolder(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
  }

  /** Replaces the record under the lock, with this draft if it is the same text, else with one that it flushes while this thread waits. */
  write(name: AgentName, text: string, draft?: FlushedDraft): void {
    if (draft?.text === text) return renameSync(draft.path, this.path(name));
    const path = this.#draftPath(name);
    try {
      writeFileSync(path, text, { mode: 0o600, flush: true });
      renameSync(path, this.path(name));
    } catch (error) {
      rmSync(path, { force: true });
      throw error;
    }
  }

  /**
   * Runs `act` with a draft of this text, which is flushed while the thread does other work. After a disk error there is no draft: `act`
   * meets the same error, and reports it.
   */
  async withDraft<T>(name: AgentName, text: string, act: (draft?: FlushedDraft) => T): Promise<T> {
    const path = this.#draftPath(name);
    try {
      const isFlushed = await this.#flush(path, text);
      return act(isFlushed ? { text, path } : undefined);
    } finally {
      rmSync(path, { force: true });
    }
  }

  async #flush(path: string, text: string): Promise<boolean> {
    try {
      this.makeFolder();
      await writeFile(path, text, { mode: 0o600, flush: true });
      return true;
    } catch {
      return false;
    }
  }

  /** Several drafts of one record may be on their way at once. */
  #draftPath(name: AgentName): string {
    this.#drafts += 1;
    return `${this.folder}/.${name}.${process.pid}.${this.#drafts}`;
  }

  /** The record, for a change. Refuses an unreadable one and leaves it alone. */
  wholeOrRefuse(name: AgentName): { record: AgentRecord; text: string } {
    const whole = this.whole(name);
    if (whole) return whole;
    if (this.isThere(name)) throw refuseUnreadable(this.path(name));
    throw new Refusal('not_found', `no agent is called ${name}`);
  }

  remove(name: AgentName): void {
    this.locked(() => rmSync(this.path(name), { force: true }));
  }
}

/** The agent's name in the name of a file in `agents/`. */
export function nameOf(file: string): AgentName | null {
  if (!file.endsWith('.json')) return null;
  const name = AgentName.safeParse(file.slice(0, -5));
  return name.success ? name.data : null;
}

function isForbidden(error: unknown): boolean {
  return ['EACCES', 'EPERM'].includes(codeOf(error) ?? '');
}

/** Parses a record. It must be readable and carry its own name. */
export function recordFrom(name: AgentName, text: string): AgentRecord | null {
  try {
    const value: unknown = JSON.parse(text);
    const record = isTooDeep(value) ? null : AgentRecord.safeParse(value);
    return record?.success && record.data.name === name ? record.data : null;
  } catch {
    return null;
  }
}

/** When the agent was last seen, in ms. */
export function seenAt({ lastSeen }: Pick<AgentRecord, 'lastSeen'>): number {
  return Date.parse(lastSeen) || 0;
}

/** `lastSeen` is rewritten at most this often: a send should not write a second file. */
const SEEN_MS = 60_000;

export function seenLately(record: Pick<AgentRecord, 'lastSeen'>, now: number): boolean {
  return Math.abs(now - seenAt(record)) < SEEN_MS;
}
