import * as v from 'valibot';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import type { Env } from '../core/env.ts';
import { AgentName } from '../core/names.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import { Refusal } from '../core/refusal.ts';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import { startedByClient } from '../platform/authority.ts';
import { replaceFile } from '../platform/files.ts';
import { locked } from '../platform/lock-file.ts';
import { commandLine, isProcessAlive, parentOf, startOf } from '../platform/process.ts';
import { HookSessionFolder, namesIn } from './hook-session.ts';

/** The number of earlier session ids that a name keeps. */
const KEPT_IDS = 20;
const MAX_FOLDER_CHARACTERS = 40;

/**
 * Variables with which a client tells the programs of its model which session they belong to. Needed for Codex, which runs all sessions in one
 * process.
 */
const SESSION_VARIABLES = [
  ['CODEX_THREAD_ID', 'codex'],
  ['CLAUDE_CODE_SESSION_ID', 'claude'],
] as const;

/** A name for the sessions of one client in one folder. It is never given to another folder. */
const NamedSession = new Schema(() =>
  v.object({
    v: v.literal(1),
    name: AgentName.inner,
    client: v.string(),
    folder: v.string(),
    /** The process that has the name now, or had it last. 0: the client does not say which. */
    pid: v.number(),
    start: v.nullable(v.string()),
    startedAt: v.string(),
    /** The client's own id of the session that this process has; null until it is known. */
    session: v.nullable(v.string()),
    /** The ids of sessions that had the name before, the newest last. */
    earlier: v.array(v.string()),
    /** The session was begun for a window that does not show it yet. The client may still ask its user whether to begin. */
    isOpening: v.exactOptional(v.literal(true)),
    /** The name was asked for (`--as`): its sessions do not share the mailbox of their client. */
    isChosen: v.exactOptional(v.literal(true)),
  }),
);
export type NamedSession = Described<typeof NamedSession>;

/** A session whose hook or tools run now. */
export interface ActingSession {
  client: string;
  folder: string;
  /** The client's process; 0 if it is not known, or has many sessions. */
  pid: number;
  /** The client's own id of the session, if it is known. */
  session: string | null;
}

/** The names of sessions, `names/<name>.json` in the home. */
export class SessionNames {
  constructor(readonly home: string) {}

  all(): NamedSession[] {
    return filesIn(`${this.home}/names`).flatMap((file) => this.#read(file) ?? []);
  }

  /**
   * Gives a name to the client that is about to run as this process: the name that was asked for (`wanted`), else the one that the same
   * conversation had (`before`), else the first free name of this client and folder (`claude.api`, `claude.api.2`). `isTaken` says which names
   * belong to other agents.
   */
  take(
    asked: {
      client: string;
      folder: string;
      pid: number;
      wanted?: AgentName | undefined;
      before?: AgentName | undefined;
    },
    isTaken: (name: AgentName) => boolean,
  ): NamedSession {
    const { client, folder, pid, wanted, before: had } = asked;
    return this.#locked((known) => {
      const name = wanted ?? had ?? firstFreeName(client, folder, known, isTaken, hasLiveProcess);
      const before = known.find((one) => one.name === name);
      if (before && hasLiveProcess(before) && before.pid !== pid)
        throw new Refusal(
          'already_claimed',
          `@${name} is a running session (${before.client} in ${before.folder}, pid ${before.pid}); leave out --as, or choose another name`,
        );
      const isChosen = wanted !== undefined || (had !== undefined && before?.isChosen === true);
      return this.#begin({ client, folder, pid, session: null }, name, before, isChosen);
    });
  }

  /** The name of an acting session, found by its process, else by its id. */
  of(acting: ActingSession): NamedSession | undefined {
    return findName(acting, this.all());
  }

  /**
   * Gives a name to a session that was started without `parley run`: the name that it has, else the name that it had before it was resumed, else
   * the first free name of its client and folder. A name is free if its last session has ended, as `isRunning` says.
   */
  give(
    acting: ActingSession,
    isTaken: (name: AgentName) => boolean,
    isRunning: (one: NamedSession) => boolean = hasLiveProcess,
  ): NamedSession {
    const { client, folder, session } = acting;
    return this.#locked((known) => {
      const own = findName(acting, known);
      if (own && session !== null) return this.#bound(own, session);
      if (own) return own;
      const had = (one: NamedSession): boolean => session !== null && [...one.earlier, one.session].includes(session);
      // The same session, but another process has it now, or its process was not known when it got its name.
      const isSame = (one: NamedSession): boolean => one.session === session && !hasLiveProcess(one);
      const before = known.find((one) => one.client === client && had(one) && (isSame(one) || !isRunning(one)));
      const name = before?.name ?? firstFreeName(client, folder, known, isTaken, isRunning);
      const last = before ?? known.find((one) => one.name === name);
      return this.#begin({ ...acting, folder: before?.folder ?? folder }, name, last, before?.isChosen);
    });
  }

  /** Changes the names, one process at a time. */
  #locked<T>(change: (known: NamedSession[]) => T): T {
    mkdirSync(`${this.home}/names`, { recursive: true, mode: 0o700 });
    return locked(`${this.home}/names.lock`, () => change(this.all()));
  }

  /** Passes a name from its last session to this one. */
  #begin(acting: ActingSession, name: AgentName, before?: NamedSession, isChosen = false): NamedSession {
    const { client, folder, pid, session } = acting;
    const startedAt = new Date().toISOString();
    const had = [...(before?.earlier ?? []), ...(before?.session ? [before.session] : [])];
    const earlier = had.filter((id) => id !== session).slice(-KEPT_IDS);
    const start = startOf(pid);
    const own: NamedSession = { v: 1, name, client, folder, pid, start, startedAt, session, earlier };
    const begun: NamedSession = { ...own, ...(isChosen && { isChosen }) };
    this.#write(begun);
    return begun;
  }

  #bound(known: NamedSession, session: string, state: Pick<NamedSession, 'isOpening'> = {}): NamedSession {
    const before = [...known.earlier, ...(known.session ? [known.session] : [])];
    const earlier = [...new Set(before)].filter((id) => id !== session).slice(-KEPT_IDS);
    const bound = { ...known, session, earlier, ...state };
    this.#write(bound);
    return bound;
  }

  /** Notes that this session of the client has the name. A session that is opening has no name for `nameOf` until `opened` is called. */
  bind(name: AgentName, session: string, state: Pick<NamedSession, 'isOpening'> = {}): void {
    locked(`${this.home}/names.lock`, () => {
      const known = this.#read(`${name}.json`);
      if (known && known.session !== session) this.#bound(known, session, state);
    });
  }

  /** Ends the opening: the window of this process shows the session that was begun for it, or never will. */
  opened(name: AgentName, pid: number): void {
    locked(`${this.home}/names.lock`, () => {
      const known = this.#read(`${name}.json`);
      if (!known?.isOpening || known.pid !== pid) return;
      const { isOpening: _, ...open } = known;
      this.#write(open);
    });
  }

  /** The name of the session whose client started this process, and how it was found; null: no session did. */
  above(env: Env): { name: AgentName; from: string } | null {
    const named = this.all();
    for (let pid = process.ppid; pid > 1 && !hasManySessions(commandLine(pid)); pid = parentOf(pid)) {
      const [only, ...others] = named.filter((one) => one.pid === pid && hasLiveProcess(one));
      // A person's own shell below a named process belongs to no session.
      if (only && others.length === 0)
        return startedByClient(env) === null ? null : { name: only.name, from: `${only.client}, pid ${pid}` };
    }
    for (const [variable, client] of SESSION_VARIABLES) {
      const one = env[variable] && named.find((known) => known.client === client && known.session === env[variable]);
      if (one) return { name: one.name, from: variable };
    }
    return null;
  }

  /** Whether a session with this name runs. */
  isRunning(name: AgentName): boolean {
    const named = this.#read(`${name}.json`);
    return named !== null && hasLiveProcess(named);
  }

  /** When a session of this name was last seen, Unix ms: now, if it runs. Null: no session has had this name. */
  lastSeen(name: AgentName, now: number): { at: number; client: string; folder: string } | null {
    const named = this.#read(`${name}.json`);
    if (!named) return null;
    const { client, folder, session } = named;
    const places = [`names/${name}.json`, ...(session === null ? [] : [`sessions/${session}`])];
    const times = places.map((path) => statSync(`${this.home}/${path}`, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    return { at: hasLiveProcess(named) ? now : Math.max(...times), client, folder };
  }

  /** Whether the hook of a client has served this mailbox. */
  hasHook(name: AgentName): boolean {
    const ids = namesIn(`${this.home}/sessions`);
    return ids.some((id) => HookSessionFolder.open(this.home, id)?.binding()?.agent === name);
  }

  /** The name of a running session, found by its process, its id, or its hook's binding. Null: it has no name, or is opening. */
  nameOf(live: LiveSession, named = this.all()): AgentName | null {
    const running = named.filter((one) => one.client === live.client && hasLiveProcess(one));
    const found = running.find(({ pid }) => pid === live.pid) ?? running.find(({ session }) => session === live.id);
    const name = found?.name ?? this.#hookName(live);
    const isLive = (one: NamedSession): boolean => one.pid === live.pid || one.session === live.id || one.name === name;
    return running.some((one) => one.isOpening && isLive(one)) ? null : name;
  }

  /** The name that the session's hook bound. Not used if it is uncertain which conversation a window shows. */
  #hookName({ id, isUncertain }: LiveSession): AgentName | null {
    return isUncertain ? null : (HookSessionFolder.open(this.home, id)?.binding()?.agent ?? null);
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

function findName(
  { client, folder, pid, session }: ActingSession,
  known: readonly NamedSession[],
): NamedSession | undefined {
  const own = known.filter((one) => one.client === client);
  if (pid > 0) return own.find((one) => one.pid === pid && hasLiveProcess(one));
  const isWaiting = (one: NamedSession): boolean =>
    one.session === null && one.folder === folder && hasLiveProcess(one);
  return session === null ? undefined : (own.find((one) => one.session === session) ?? own.find(isWaiting));
}

function firstFreeName(
  client: string,
  folder: string,
  known: readonly NamedSession[],
  isTaken: (name: AgentName) => boolean,
  isRunning: (one: NamedSession) => boolean,
): AgentName {
  for (let number = 1; ; number += 1) {
    const name = AgentName.parse(`${client}.${folderPart(folder)}${number > 1 ? `.${number}` : ''}`);
    const before = known.find((one) => one.name === name);
    if (before ? before.client === client && before.folder === folder && !isRunning(before) : !isTaken(name))
      return name;
  }
}

/** Whether this is the daemon of Codex. It runs the tools of all windows, so the window that started it says nothing about the session. */
function hasManySessions(words: readonly string[]): boolean {
  return words.includes('app-server');
}

/** Whether the process that has the name still runs. */
export function hasLiveProcess({ pid, start }: Pick<NamedSession, 'pid' | 'start'>): boolean {
  return isProcessAlive(pid) && (start === null || startOf(pid) === start);
}

/** Whether the last session of a name is there: its process runs, or a window shows it. `all` null: the running sessions are not known. */
export function isShown(one: NamedSession, all: readonly LiveSession[] | null): boolean {
  if (hasLiveProcess(one)) return true;
  return one.session !== null && (all?.some(({ id }) => id === one.session) ?? one.pid === 0);
}

/** The name of a folder as part of a session's name: lower-case ASCII. */
function folderPart(folder: string): string {
  const last = folder.split('/').findLast(Boolean) ?? '';
  const plain = last
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '');
  return plain.slice(0, MAX_FOLDER_CHARACTERS) || 'home';
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((file) => file.endsWith('.json'));
  } catch {
    return [];
  }
}
