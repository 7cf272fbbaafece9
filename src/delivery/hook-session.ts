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
 * What a session of a client is bound to: whose mail it gets, and from which context; nobody's, if it has no identity yet. `by`
 * is the client whose hook bound it, or `init` if its agent did so itself.
 */
const Binding = new Schema(() =>
  v.object({ v: v.literal(1), by: v.string(), agent: v.nullable(AgentName.inner), match: v.string(), cwd: v.string() }),
);
export type Binding = Described<typeof Binding>;

/** The session answers a question, and other mail would keep its answer from its sender: until when (ms), and who says so. */
const Answering = new Schema(() => v.object({ v: v.literal(1), until: v.number(), by: v.string() }));
const ANSWERING = 'answering.json';
/** Limit for mail that waits for the end of a turn that a question began, ms. If it joined that turn, the question would get no answer. */
export const ALONE_MS = 60_000;

const SECOND = 1_000_000_000n;
/** A file system's clock may stand still this long: two changes within it can have the same time. */
const TICK = 25n * (SECOND / 1000n);
/** And after each wait it may still lag behind by a step of its own. */
const ATTEMPTS = 10;
/** The same as the tick where times are kept, or compared, in whole seconds. */
const COARSE = 2n * SECOND;
/** A bound holds however a time is rounded when it is set. */
const ROUNDING = 1000n;
/** How long held copies may go without a look. */
export const LOOK_MS = 30_000;
const FORGOTTEN_MS = 30 * 24 * 60 * 60 * 1000;
/** So many sessions are remembered whatever the clock says. */
const KEPT_SESSIONS = 200;

/** What was searched in vain: new/ for the agent, new/ for a subagent, quiet/ at the beginning of a turn. */
const MARKS = ['seen', 'sub', 'turn'] as const;
/** The same for the mailbox that the session shares with others. */
const SHARED = 'group';
export type Mark = (typeof MARKS)[number] | `${typeof SHARED}.${(typeof MARKS)[number]}`;

/** The folder of one session of a client, where the hook's script looks (hook-script.ts). It can be deleted at any time. */
export abstract class SessionFolder {
  protected constructor(
    readonly folder: string,
    readonly id: string,
  ) {}

  /** From now on the script does not wait: if we die, the next call sees to what we held. */
  lookAtOnce(): void {
    ifStorable(() => rmSync(`${this.folder}/look`, { force: true }));
  }

  /** Made beside and renamed into place: the script never meets a half-made one. */
  place(name: string, make: (path: string) => void): void {
    const draft = `${this.folder}/.${name.replace('/', '.')}.${process.pid}`;
    rmSync(draft, { force: true });
    make(draft);
    renameSync(draft, `${this.folder}/${name}`);
  }
}

/** Can a client's name for its session be a folder's? */
export function isSessionId(id: string | undefined): id is string {
  return id !== undefined && /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/.test(id);
}

/**
 * A session in Parley's home, `sessions/<id>/`: `session.json`; `box` and `group`, links to its mailbox and to the one that it shares;
 * `seen.*`, `sub.*`, `turn.*`, `group.*`, `look` and `now`, of which only the times count; `open/`, what was printed and is not proven
 * (hook-offered.ts); `answering.json`, while it answers a question (answers.ts). spec: hook#files
 */
export class HookSessionFolder extends SessionFolder {
  private constructor(
    readonly home: string,
    id: string,
  ) {
    super(`${home}/sessions/${id}`, id);
  }

  /** Null if a client's name for its session cannot be a folder's. */
  static open(home: string, id: string | undefined): HookSessionFolder | null {
    return isSessionId(id) ? new HookSessionFolder(home, id) : null;
  }

  binding(): Binding | null {
    const binding = Binding.safeParse(jsonIn(`${this.folder}/session.json`));
    return binding.success ? binding.data : null;
  }

  /** On a disk that refuses it the session stays as it was: its script starts the program at every event, and mail comes all the same. */
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

  /** The mailbox that the session reads besides its own; null: none. */
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

  /** Until this time (ms) its hook leaves mail that is not urgent to this process, if this process lives. Null: no longer. */
  keepMail(until: number | null): void {
    ifStorable(() => {
      if (until === null) return rmSync(`${this.folder}/${ANSWERING}`, { force: true });
      // A client may run its first hook only with the first prompt.
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      const mark = JSON.stringify({ v: 1, until, by: newHolder(false) });
      this.place(ANSWERING, (path) => writeFileSync(path, mark, { mode: 0o600 }));
    });
  }

  /** Whether mail that is not urgent is kept for later. */
  isMailKept(now: number): boolean {
    const mark = Answering.safeParse(jsonIn(`${this.folder}/${ANSWERING}`));
    const left = mark.success ? mark.data.until - now : 0;
    return mark.success && left > 0 && left <= ALONE_MS && !isDead(mark.data.by);
  }

  /** A session without an identity: its script looks again every half minute. */
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
   * Notes that `known` is everything in the folder and that none of it is for this session. It does so only when the folder's
   * time is so old that whatever comes after must get another one; if that is a matter of milliseconds it waits for it.
   */
  noteSeen(kind: Mark, folder: string, known: ReadonlySet<string>, fine: boolean): boolean {
    return ifStorable(() => this.#noteSeen(kind, folder, known, fine)) ?? false;
  }

  #noteSeen(kind: Mark, folder: string, known: ReadonlySet<string>, fine: boolean): boolean {
    // The script sees by itself that an empty folder holds nothing.
    if (!namesIn(folder).some((name) => name.endsWith('.json'))) return true;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const changed = timeOf(folder);
      const needed = fine && changed % SECOND !== 0n ? TICK : COARSE;
      const missing = needed - (this.#clock() - changed);
      if (missing > TICK) return false;
      if (missing > 0n) Bun.sleepSync(Number(missing / 1_000_000n) + 1);
      // The time was read before the folder is, and it was old enough by then.
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

  /** When held copies should be seen to, at the latest in half a minute; the earliest time counts until the next look. */
  lookAgain(at: number): void {
    const known = statSync(`${this.folder}/look`, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
    const next = Math.floor(Math.min(at, known, Date.now() + LOOK_MS));
    ifStorable(() => this.#placeTime('look', BigInt(next) * 1_000_000n));
  }

  /** The time that the file system would give a change now; its clock need not be ours. */
  #clock(): bigint {
    writeFileSync(`${this.folder}/now`, '', { mode: 0o600 });
    return timeOf(`${this.folder}/now`);
  }

  #placeTime(name: string, time: bigint): void {
    this.place(name, (path) => setTime(path, time));
  }
}

/** What a file says; null if it is not there or no JSON. */
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

/** What only saves a start of the program may fail. Undefined if it did. */
function ifStorable<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (storageTrouble(error) instanceof Refusal) return undefined;
    throw error;
  }
}

/** Where an agent's copies wait: the loud ones in new/, those in a reader's hand in held/. */
export function mailboxOf({ home, name }: Who): string {
  return resolve(home.root, 'spool', name);
}

/** Removes what sessions left behind that have said nothing for a month. */
export function forgetOldSessions(home: string): void {
  const folders = namesIn(`${home}/sessions`).filter((name) => !name.startsWith('.'));
  for (const folder of oldOnes(folders.map((name) => `${home}/sessions/${name}`))) {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Removes the sessions that the hook of this client bound. */
export function forgetSessionsOf(home: string, client: string): void {
  for (const name of namesIn(`${home}/sessions`))
    if (HookSessionFolder.open(home, name)?.binding()?.by === client)
      rmSync(`${home}/sessions/${name}`, { recursive: true, force: true });
}

/** Those of these folders that nothing has touched for a month. The newest stay whatever the clock says: it may have jumped. */
export function oldOnes(folders: readonly string[]): string[] {
  const changed = folders.map((path) => ({ path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity }));
  const older = changed.toSorted((a, b) => b.at - a.at).slice(KEPT_SESSIONS);
  return older.filter(({ at }) => Date.now() - at > FORGOTTEN_MS).map(({ path }) => path);
}

/** The names in a folder; none if it is not there. */
export function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

/** Two files a millisecond apart: a script that can tell them apart can tell ticks apart. */
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
