import * as v from 'valibot';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { AgentName } from '../core/names.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import { Refusal } from '../core/refusal.ts';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import { replaceFile } from '../platform/files.ts';
import { locked } from '../platform/lock-file.ts';
import { isProcessAlive, startOf } from '../platform/process.ts';
import { HookSessionFolder, namesIn } from './hook-session.ts';

/** The last session ids of a name that are remembered. */
const KEPT_IDS = 20;
const LONGEST_PART = 40;

/** A name that was given to sessions of one client in one folder. It is never given to another folder. */
const NamedSession = new Schema(() =>
  v.object({
    v: v.literal(1),
    name: AgentName.inner,
    client: v.string(),
    folder: v.string(),
    /** The process that has it now, or had it last. */
    pid: v.number(),
    start: v.nullable(v.string()),
    startedAt: v.string(),
    /** The client's own id of the session that this process has; null until it is known. */
    session: v.nullable(v.string()),
    /** The ids of sessions that had the name before, the newest last. */
    earlier: v.array(v.string()),
    /** The session was begun for a window that does not show it yet: the client may still ask its user whether to begin at all. */
    isOpening: v.exactOptional(v.literal(true)),
  }),
);
export type NamedSession = Described<typeof NamedSession>;

/** Whose a session is: the names that `parley run` gave, `names/<name>.json` in the home. */
export class SessionNames {
  constructor(readonly home: string) {}

  all(): NamedSession[] {
    return filesIn(`${this.home}/names`).flatMap((file) => this.#read(file) ?? []);
  }

  /**
   * Gives a name to the client that is about to run as this process: the one that was asked for, else the first free one of this client
   * and folder (`claude.api`, `claude.api.2`). `isTaken` says which names belong to somebody else.
   */
  take(
    { client, folder, wanted, pid }: { client: string; folder: string; wanted?: AgentName | undefined; pid: number },
    isTaken: (name: AgentName) => boolean,
  ): NamedSession {
    mkdirSync(`${this.home}/names`, { recursive: true, mode: 0o700 });
    return locked(`${this.home}/names.lock`, () => {
      const known = new Map(this.all().map((one) => [one.name, one]));
      const name = wanted ?? this.#free(client, folder, known, isTaken);
      const before = known.get(name);
      if (before && hasLiveProcess(before) && before.pid !== pid)
        throw new Refusal(
          'already_claimed',
          `@${name} is a running session (${before.client} in ${before.folder}, pid ${before.pid}); leave out --as, or choose another name`,
        );
      const startedAt = new Date().toISOString();
      const earlier = [...(before?.earlier ?? []), ...(before?.session ? [before.session] : [])].slice(-KEPT_IDS);
      const start = startOf(pid);
      const taken: NamedSession = { v: 1, name, client, folder, pid, start, startedAt, session: null, earlier };
      this.#write(taken);
      return taken;
    });
  }

  /** Notes that this session of the client has the name. One that is opening gets no mail until `opened`, or until its process ends. */
  bind(name: AgentName, session: string, state: Pick<NamedSession, 'isOpening'> = {}): void {
    locked(`${this.home}/names.lock`, () => {
      const known = this.#read(`${name}.json`);
      if (!known || known.session === session) return;
      const before = [...known.earlier, ...(known.session ? [known.session] : [])];
      const earlier = [...new Set(before)].filter((id) => id !== session).slice(-KEPT_IDS);
      this.#write({ ...known, session, earlier, ...state });
    });
  }

  /** The window of this process shows the session that was begun for it, or never will. */
  opened(name: AgentName, pid: number): void {
    locked(`${this.home}/names.lock`, () => {
      const known = this.#read(`${name}.json`);
      if (!known?.isOpening || known.pid !== pid) return;
      const { isOpening: _, ...open } = known;
      this.#write(open);
    });
  }

  /** Whether a session that has this name runs. Costs a look where there is none. */
  isRunning(name: AgentName): boolean {
    const named = this.#read(`${name}.json`);
    return named !== null && hasLiveProcess(named);
  }

  /** Whether the hook of a client has served this mailbox. */
  hasHook(name: AgentName): boolean {
    const ids = namesIn(`${this.home}/sessions`);
    return ids.some((id) => HookSessionFolder.open(this.home, id)?.binding()?.agent === name);
  }

  /** The name of a running session: by its process, by its id, or as its hook bound it. Null: nobody's, or one that is opening. */
  nameOf(live: LiveSession, named = this.all()): AgentName | null {
    const running = named.filter((one) => one.client === live.client && hasLiveProcess(one));
    const found = running.find(({ pid }) => pid === live.pid) ?? running.find(({ session }) => session === live.id);
    const name = found?.name ?? this.#hookName(live);
    const isLive = (one: NamedSession): boolean => one.pid === live.pid || one.session === live.id || one.name === name;
    return running.some((one) => one.isOpening && isLive(one)) ? null : name;
  }

  /** Which of several conversations a window shows only a name tells. */
  #hookName({ id, isUncertain }: LiveSession): AgentName | null {
    return isUncertain ? null : (HookSessionFolder.open(this.home, id)?.binding()?.agent ?? null);
  }

  #free(
    client: string,
    folder: string,
    known: ReadonlyMap<string, NamedSession>,
    isTaken: (name: AgentName) => boolean,
  ): AgentName {
    for (let number = 1; ; number += 1) {
      const name = AgentName.parse(`${client}.${partOf(folder)}${number > 1 ? `.${number}` : ''}`);
      const before = known.get(name);
      if (before ? before.client === client && before.folder === folder && !hasLiveProcess(before) : !isTaken(name))
        return name;
    }
  }

  #read(file: string): NamedSession | null {
    try {
      const read = NamedSession.safeParse(JSON.parse(readFileSync(`${this.home}/names/${file}`, 'utf8')));
      return read.success ? read.data : null;
    } catch {
      return null;
    }
  }

  #write(named: NamedSession): void {
    replaceFile(`${this.home}/names/${named.name}.json`, `${JSON.stringify(named)}\n`, { flush: true });
  }
}

/** Whether the process that has the name still runs. */
export function hasLiveProcess({ pid, start }: Pick<NamedSession, 'pid' | 'start'>): boolean {
  return isProcessAlive(pid) && (start === null || startOf(pid) === start);
}

/** The last part of a path as a part of a name: lower-case ASCII. */
function partOf(folder: string): string {
  const last = folder.split('/').findLast(Boolean) ?? '';
  const plain = last
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '');
  return plain.slice(0, LONGEST_PART) || 'home';
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((file) => file.endsWith('.json'));
  } catch {
    return [];
  }
}
