import * as v from 'valibot';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { resolve } from 'node:path';
import type { Who } from '../core/mail/workspace.ts';
import { AgentName } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import { storageTrouble } from '../core/disk.ts';
import { isDead, newHolder } from '../platform/holder.ts';

/**
 * The agent and context whose mail a session of a client gets. `agent` null: the session has no identity yet, and gets no mail. `by` is the
 * client whose hook bound the session, or `init` if its agent did that itself.
 */
const Binding = new Schema(() =>
  v.object({ v: v.literal(1), by: v.string(), agent: v.nullable(AgentName.inner), match: v.string(), cwd: v.string() }),
);
export type Binding = Described<typeof Binding>;

/** The session answers a question, and other mail must not join that turn: until when (Unix ms), and the process that says so. */
const Answering = new Schema(() => v.object({ v: v.literal(1), until: v.number(), by: v.string() }));
const ANSWERING = 'answering.json';
/** The longest that other mail waits for the turn of a question. If it joined that turn, the answer could not be captured. */
export const ALONE_MS = 60_000;

const SECOND = 1_000_000_000n;
/** The step of a file system's clock, ns: two changes within one step can have the same time. */
const TICK = 25n * (SECOND / 1000n);
/** The wait for the next step is repeated this often: the clock may lag behind by one more step each time. */
const ATTEMPTS = 10;
/** Used instead of `TICK` where times are kept, or compared, in whole seconds. */
const COARSE = 2n * SECOND;
/** The `.lo` and `.hi` marks lie this far around a time, ns, because a file system may round the time that is set. */
const ROUNDING = 1000n;
/** Held copies are checked at least this often. */
export const LOOK_MS = 30_000;
const FORGOTTEN_MS = 30 * 24 * 60 * 60 * 1000;
/** The newest sessions are kept whatever the clock says: this many. */
const KEPT_SESSIONS = 200;

/** The searches that found nothing: of new/ for the agent, of new/ for a subagent, of quiet/ at the beginning of a turn. */
const MARKS = ['seen', 'sub', 'turn'] as const;
/** The prefix of the same marks for the mailbox that the session shares with others. */
const SHARED = 'group';
export type Mark = (typeof MARKS)[number] | `${typeof SHARED}.${(typeof MARKS)[number]}`;

/** The folder of one session of a client, which the hook's script reads (hook-script.ts). It can be deleted at any time. */
export abstract class SessionFolder {
  protected constructor(
    readonly folder: string,
    readonly id: string,
  ) {}

  /** Makes the script start us at the next event in any case: if we die, that event takes care of the mail that we held. */
  lookAtOnce(): void {
    ifStorable(() => rmSync(`${this.folder}/look`, { force: true }));
  }

  /** Makes a file or link beside its place and renames it: the script never reads half of it. */
  place(name: string, make: (path: string) => void): void {
    const draft = `${this.folder}/.${name.replace('/', '.')}.${process.pid}`;
    rmSync(draft, { force: true });
    make(draft);
    renameSync(draft, `${this.folder}/${name}`);
  }
}

/** Whether a client's id of its session can be the name of a folder. */
export function isSessionId(id: string | undefined): id is string {
  return id !== undefined && /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/.test(id);
}

/**
 * The folder of a session in Parley's home, `sessions/<id>/`. spec: hook#files
 *
 * - `session.json`: its binding.
 * - `box` and `group`: links to its own mailbox and to the one that it shares.
 * - `seen.*`, `sub.*`, `turn.*`, `group.*`, `look` and `now`: marks of which only the times count.
 * - `open/`: the texts that were printed and are not proven yet (hook-offered.ts).
 * - `answering.json`: there while the session answers a question (answers.ts).
 */
export class HookSessionFolder extends SessionFolder {
  private constructor(
    readonly home: string,
    id: string,
  ) {
    super(`${home}/sessions/${id}`, id);
  }

  /** Null if the client's id of its session cannot be the name of a folder. */
  static open(home: string, id: string | undefined): HookSessionFolder | null {
    return isSessionId(id) ? new HookSessionFolder(home, id) : null;
  }

  binding(): Binding | null {
    const binding = Binding.safeParse(jsonIn(`${this.folder}/session.json`));
    return binding.success ? binding.data : null;
  }

  /** If the disk refuses this, the session stays unbound: the script then starts the program at every event, and mail comes all the same. */
  bind(binding: Binding, mailbox: string): void {
    ifStorable(() => {
      for (const kind of MARKS)
        for (const mark of [kind, `${SHARED}.${kind}`]) rmSync(`${this.folder}/${mark}.hi`, { force: true });
      // Without new/ the script would take the session for unbound.
      mkdirSync(`${mailbox}/new`, { recursive: true, mode: 0o700 });
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      layReferences(this.home);
      this.place('session.json', (path) => writeFileSync(path, JSON.stringify(binding), { mode: 0o600 }));
      this.place('box', (path) => symlinkSync(mailbox, path));
    });
  }

  /** Sets the mailbox that the session reads besides its own; null: none. */
  share(mailbox: string | null): void {
    const link = `${this.folder}/${SHARED}`;
    if (linkAt(link) === mailbox) return;
    ifStorable(() => {
      for (const kind of MARKS) rmSync(`${link}.${kind}.hi`, { force: true });
      if (mailbox === null) return rmSync(link, { force: true });
      mkdirSync(`${mailbox}/new`, { recursive: true, mode: 0o700 });
      this.place(SHARED, (path) => symlinkSync(mailbox, path));
    });
  }

  /** Until this time (Unix ms) the session's hook shows only urgent mail, if this process still runs then. Null: the hook shows all mail again. */
  delayMail(until: number | null): void {
    ifStorable(() => {
      if (until === null) return rmSync(`${this.folder}/${ANSWERING}`, { force: true });
      // The folder may be missing: some clients run their first hook with the first prompt.
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      const mark = JSON.stringify({ v: 1, until, by: newHolder(false) });
      this.place(ANSWERING, (path) => writeFileSync(path, mark, { mode: 0o600 }));
    });
  }

  /** Whether the hook must leave mail that is not urgent for later. */
  isMailDelayed(now: number): boolean {
    const mark = Answering.safeParse(jsonIn(`${this.folder}/${ANSWERING}`));
    const left = mark.success ? mark.data.until - now : 0;
    return mark.success && left > 0 && left <= ALONE_MS && !isDead(mark.data.by);
  }

  /** Binds a session without an identity: the script starts us every half minute, in case it has one by then. */
  bindToNobody(by: string, cwd: string): void {
    const nobody = `${this.home}/sessions/.nobody`;
    this.bind({ v: 1, by, agent: null, match: '', cwd }, nobody);
    ifStorable(() => {
      rmSync(`${this.folder}/open`, { recursive: true, force: true });
      mkdirSync(`${nobody}/held`, { recursive: true, mode: 0o700 });
      writeFileSync(`${nobody}/held/identity.json`, '', { mode: 0o600 });
    });
    this.lookAgain(Date.now() + LOOK_MS);
  }

  /**
   * Notes that the folder holds only the files in `known`, and none of them is for this session. Notes it only if the folder's time is so old
   * that a later change must get another time. If that is a matter of milliseconds, it waits. Returns whether it was noted.
   */
  noteSeen(kind: Mark, folder: string, known: ReadonlySet<string>, fine: boolean): boolean {
    return ifStorable(() => this.#noteSeen(kind, folder, known, fine)) ?? false;
  }

  #noteSeen(kind: Mark, folder: string, known: ReadonlySet<string>, fine: boolean): boolean {
    // No mark is needed: the script itself sees that the folder is empty.
    if (!namesIn(folder).some((name) => name.endsWith('.json'))) return true;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const changed = timeOf(folder);
      const needed = fine && changed % SECOND !== 0n ? TICK : COARSE;
      const missing = needed - (this.#clock() - changed);
      if (missing > TICK) return false;
      if (missing > 0n) Bun.sleepSync(Number(missing / 1_000_000n) + 1);
      // The folder's time was old enough before its names are read, so a later change is not missed.
      else return this.#noteIfKnown(kind, folder, known, changed);
    }
    return false;
  }

  #noteIfKnown(kind: Mark, folder: string, known: ReadonlySet<string>, changed: bigint): boolean {
    if (namesIn(folder).some((name) => !known.has(name))) return false;
    this.#placeTime(`${kind}.lo`, changed - ROUNDING);
    this.#placeTime(`${kind}.hi`, changed + ROUNDING);
    return true;
  }

  /** Sets when held copies are checked next: at this time, at an earlier time that was set before, or in half a minute. */
  lookAgain(at: number): void {
    const known = statSync(`${this.folder}/look`, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
    const next = Math.floor(Math.min(at, known, Date.now() + LOOK_MS));
    ifStorable(() => this.#placeTime('look', BigInt(next) * 1_000_000n));
  }

  /** The time that the file system gives to a change now, ns. Its clock may differ from the machine's. */
  #clock(): bigint {
    writeFileSync(`${this.folder}/now`, '', { mode: 0o600 });
    return timeOf(`${this.folder}/now`);
  }

  #placeTime(name: string, time: bigint): void {
    this.place(name, (path) => setTime(path, time));
  }
}

/** The JSON value in a file; null if the file is missing or holds no JSON. */
function jsonIn(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}

/** Where a link leads; null if there is none. */
function linkAt(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

/** Runs a write that only saves starts of the program, so it may fail on a full or read-only disk. Undefined if it did. */
function ifStorable<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (storageTrouble(error) instanceof Refusal) return undefined;
    throw error;
  }
}

/** The folder of an agent's mailbox: loud copies wait in its new/, copies that a reader holds are in its held/. */
export function mailboxOf({ home, name }: Who): string {
  return resolve(home.root, 'spool', name);
}

/** Removes the folders of sessions that have been silent for a month. */
export function forgetOldSessions(home: string): void {
  const folders = namesIn(`${home}/sessions`).filter((name) => !name.startsWith('.'));
  for (const folder of oldOnes(folders.map((name) => `${home}/sessions/${name}`))) {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Removes the folders of the sessions that this client's hook bound. */
export function forgetSessionsOf(home: string, client: string): void {
  for (const name of namesIn(`${home}/sessions`))
    if (HookSessionFolder.open(home, name)?.binding()?.by === client)
      rmSync(`${home}/sessions/${name}`, { recursive: true, force: true });
}

/** The folders that have not changed for a month. The newest `KEPT_SESSIONS` are never among them: the clock may have jumped. */
export function oldOnes(folders: readonly string[]): string[] {
  const changed = folders.map((path) => ({ path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity }));
  const older = changed.toSorted((a, b) => b.at - a.at).slice(KEPT_SESSIONS);
  return older.filter(({ at }) => Date.now() - at > FORGOTTEN_MS).map(({ path }) => path);
}

/** The names in a folder; empty if the folder is missing. */
export function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

/** Writes two files whose times are a millisecond apart. A script that can tell these apart can tell times within a second apart. */
export function layReferences(home: string): void {
  mkdirSync(`${home}/sessions`, { recursive: true, mode: 0o700 });
  if (existsSync(`${home}/sessions/.late`)) return;
  setTime(`${home}/sessions/.early`, SECOND + 500_000_000n);
  setTime(`${home}/sessions/.late`, SECOND + 501_000_000n);
}

function setTime(path: string, time: bigint): void {
  closeSync(openSync(path, 'a', 0o600));
  utimesSync(path, Number(time) / 1e9, Number(time) / 1e9);
}

function timeOf(path: string): bigint {
  return statSync(path, { bigint: true }).mtimeNs;
}
