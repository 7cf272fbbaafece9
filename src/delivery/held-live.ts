import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Env } from '../core/env.ts';
import type { MessageId } from '../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../core/ports/live-session.ts';
import type { Way } from '../core/ports/way-in.ts';
import { parleyHome } from '../platform/env.ts';
import { startedAt, startOf } from '../platform/process.ts';
import { clientWindows } from '../sessions/client-window.ts';
import type { WindowOptions } from '../sessions/client-window.ts';
import { FolderWatch } from '../sessions/follow.ts';
import { askHolder, HeldSessions } from './held-session.ts';
import type { HeldSession, HolderAnswer } from './held-session.ts';
import { HeldWay } from './held-way.ts';
import type { MessageRecord } from './held-way.ts';
import { hasLiveProcess } from './session-names.ts';

type Activity = Pick<LiveSession, 'status' | 'waitingFor'>;

/** Sessions are also listed at this interval: a process that was killed changes no file. */
const TICK_MS = 2000;
/** Changes of records are collected for this long: a client writes many lines in a turn. */
const COLLECT_MS = 50;
/** How long a holder may take to say whether it typed a message. */
const ASK_MS = 2000;
/** Answers after which the text may be in the client. A holder that cannot be reached may have typed before. */
const MAY_HAVE_TYPED: ReadonlySet<HolderAnswer['typed']> = new Set(['entered', 'stranded', 'unreached']);
/** The most readers that are kept, each with its place in a record. */
const MAX_READERS = 200;

/** An entry of a record has the time at which something was said. It may be written this much later. */
export const LATE_MS = 5000;

/** The record of one conversation. */
export interface RecordFile {
  id: string;
  /** The folder of the project. */
  folder: string;
  path: string;
}

/** What the client does now, by the record of a conversation. */
export interface RecordedState {
  /** When the open turn began; null if no turn is open. */
  turnSince: number | null;
  waitingFor: string | null;
  /** When the client last wrote something about a turn. */
  at: number;
}

/** A record whose new entries are read at each look. */
export interface FollowedRecord {
  path: string;
  look(): RecordedState;
  /** Where this message first came into the conversation; null if it did not. */
  placeOf(id: MessageId): number | null;
}

/** Searches a record for one message. Each call reads on from where the last one ended. */
export interface HeldProof {
  /** `isAtRest`: the client is idle, so its last turn has ended. Null if the record does not have the message. */
  read(isAtRest: boolean): Exclude<RecordedProof, { step: 'none' }> | null;
  /** The conversation lost the message, or may have lost it, before the model was known to have it. */
  readonly isLost: boolean;
  /** The conversation has the message. So its next request has it, also if another process continues the conversation. */
  readonly isKept: boolean;
}

/** The records that such a client keeps of its conversations, and what its settings say. */
export interface HeldRecords {
  client: string;
  isClient: WindowOptions['isClient'];
  /** The client was never used here. */
  readonly isEmpty: boolean;
  /** The client's settings start Parley's MCP server. */
  readonly hasTools: boolean;
  find(id: string): RecordFile | null;
  /** The conversations of a folder, the oldest first. */
  inFolder(folder: string): RecordFile[];
  /** The folders that change when a conversation begins in this folder. */
  watched(folder: string): string[];
  follow(path: string): FollowedRecord;
  /** Makes a reader that searches for a message from this time on (Unix ms). */
  reader(record: FollowedRecord, id: MessageId, since: number): HeldProof;
  /**
   * For a client whose record does not say where a turn ends: it is idle if it has written nothing for this long and its screen shows no
   * work. 0: the record says where a turn ends.
   */
  restMs: number;
  /** The sessions of the client's own server, which no window shows. */
  served?: ServedSessions;
}

/** The sessions that a server of the client runs. */
export interface ServedSessions {
  list(): Promise<LiveSession[]>;
  readonly records: readonly string[];
  way(session: LiveSession, record: MessageRecord): Way | null;
  has(id: string): boolean;
  /** Whether the server cannot have this message any more; null if it has no such session. */
  isOver(session: LiveSession, id: MessageId): Promise<boolean | null>;
}

/**
 * The running sessions of a client that takes mail from no other program. The client's record of a conversation says what it does, and
 * proves what it was given. Mail is typed only where `parley run` holds the terminal. A window that a person opened gets its mail by hooks:
 * Parley types into no terminal that it does not hold.
 *
 * Nothing says which conversation a window shows that a person opened. If it is the only such window in its folder, it is taken to show the
 * conversation that was written last since the window was opened.
 */
export class HeldLive implements LiveSessions {
  readonly #held: HeldSessions;
  readonly #stops = new Set<() => void>();
  readonly #readers = new Map<string, HeldProof>();
  readonly #followed = new Map<string, FollowedRecord>();
  /** By holder: the end of the last attempt in its queue. One attempt types at a time. */
  readonly #turns = new Map<number, Promise<unknown>>();

  constructor(
    env: Env,
    readonly records: HeldRecords,
    readonly scan = clientWindows,
  ) {
    this.#held = new HeldSessions(parleyHome(env));
  }

  async list(): Promise<LiveSession[]> {
    const held = this.#sessions();
    return [
      ...held.map((one) => this.#asLive(one)),
      ...this.#openedByHand(held),
      ...((await this.records.served?.list()) ?? []),
    ];
  }

  watch(changed: () => void): () => void {
    let soon: ReturnType<typeof setTimeout> | undefined;
    const folders = new FolderWatch(() => (soon ??= setTimeout(() => ((soon = undefined), changed()), COLLECT_MS)));
    let seen = '';
    const look = (): void => {
      const held = this.#sessions();
      const all = [...held.map((one) => this.#asLive(one)), ...this.#openedByHand(held)];
      const served = this.records.served?.records ?? [];
      folders.set([...new Set([this.#held.folder, ...this.#recordFolders(all), ...served.map(dirname)])]);
      const now = JSON.stringify([held, all]);
      if (now !== seen) changed();
      seen = now;
    };
    look();
    // No event says that a client has become idle.
    const timer = setInterval(look, this.records.restMs || TICK_MS);
    const stop = (): void => {
      clearInterval(timer);
      clearTimeout(soon);
      folders.close();
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    return stop;
  }

  /** Empty while nothing may be typed: then mail waits for a hook or for an empty composer, whichever comes first. */
  ways(session: LiveSession): readonly Way[] {
    const record: MessageRecord = {
      has: (id) => this.#has(session, id),
      proof: (id, since) => this.proof(session, id, since),
    };
    const onServer = this.records.served?.way(session, record);
    if (onServer) return [onServer];
    const held = this.#holderOf(session);
    if (held?.seen !== 'empty' || this.#activityOf(held).status !== 'idle') return [];
    const { holder } = held;
    return [
      new HeldWay({
        sessions: this.#held,
        holder,
        inTurn: (act) => this.#queued(holder.pid, act),
        ...record,
        recordFolders: () => this.#recordFolders([session]),
      }),
    ];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    const found = this.#recorded(session, id, since);
    if (found?.proof.step === 'shown') return found.proof;
    const held = this.#holderOf(session);
    if (!held) {
      // A process that has ended cannot show the message. But if its conversation has the message, a client that continues it does.
      const hasEnded = session.pid !== undefined && !hasLiveProcess({ pid: session.pid, start: session.start ?? null });
      const isKept = found?.isKept === true;
      const isContinued =
        isKept &&
        (this.records.served?.has(found.session) || this.#sessions().some((one) => one.session === found.session));
      if (hasEnded && !isContinued) return { step: 'none', isOver: true };
      const isOver = (!found || found.isLost) && (await this.records.served?.isOver(session, id)) === true;
      // The message may have come into the record while the server was asked.
      const now = isOver && !found ? this.#recorded(session, id, since) : found;
      return now && !(now.isLost && isOver) ? now.proof : { step: 'none', isOver };
    }
    // An open turn may still have a request with the message.
    if (found?.isLost && this.#activityOf(held).status === 'idle') return { step: 'none', isOver: true };
    if (found) return found.proof;
    const said = await askHolder(this.#held.socketOf(held), { typed: id }, ASK_MS);
    const isOver = said !== null && !MAY_HAVE_TYPED.has(said.typed);
    // The message may have come into the record while the holder was asked.
    return this.#recorded(session, id, since)?.proof ?? { step: 'none', isOver };
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
  }

  #sessions(): HeldSession[] {
    return this.#held.all().filter(({ client }) => client === this.records.client);
  }

  #holderOf({ pid, start }: LiveSession): HeldSession | null {
    return pid === undefined ? null : this.#held.of(pid, start);
  }

  #asLive(held: HeldSession): LiveSession {
    const { holder, folder, session } = held;
    return {
      client: this.records.client,
      // A session may have no id before its first prompt.
      id: session ?? `${this.records.client}-${holder.pid}-${holder.start ?? ''}`,
      folder,
      pid: holder.pid,
      ...(holder.start !== null && { start: holder.start }),
      ...this.#activityOf(held),
      mailComes: whenMailComes(held, this.#activityOf(held)),
      ...(!this.records.hasTools && { hasNoTools: true }),
    };
  }

  #activityOf({ seen, session, startedAt: since }: HeldSession): Activity {
    if (seen === 'starting') return { status: 'starting' };
    if (seen === 'dialog') return { status: 'waiting', waitingFor: 'dialog open' };
    const activity = this.#recordedActivity(session, since);
    return activity.status === 'idle' && seen === 'busy' ? { status: 'active' } : activity;
  }

  /** By the record only. A turn that began before this process has ended with the process that began it. */
  #recordedActivity(session: string | null, since: number): Activity {
    const path = session === null ? null : (this.records.find(session)?.path ?? null);
    const { turnSince, waitingFor, at } = path === null ? NO_STATE : this.#follow(path).look();
    if (at >= since && Date.now() - at < this.records.restMs) return { status: 'active' };
    if (turnSince === null || turnSince < since) return { status: 'idle' };
    return waitingFor === null ? { status: 'active' } : { status: 'waiting', waitingFor };
  }

  #openedByHand(held: readonly HeldSession[]): LiveSession[] {
    const { records } = this;
    if (records.isEmpty) return [];
    const ours = new Set(held.map(({ program }) => program.pid));
    const windows = this.scan(records.isClient)?.filter(({ pid }) => !ours.has(pid)) ?? [];
    return windows.flatMap(({ pid, folder }) => {
      const since = startedAt(pid) ?? 0;
      const isOnly = windows.filter((one) => one.folder === folder).length === 1;
      const isUnsure = held.some((one) => one.folder === folder && one.session === null);
      const free = records.inFolder(folder).filter(({ id }) => !held.some(({ session }) => session === id));
      const [last] = free.filter((one) => writtenAt(one) >= since).toSorted((a, b) => writtenAt(b) - writtenAt(a));
      if (!last || !isOnly || isUnsure) return [];
      const start = startOf(pid);
      const process = { pid, ...(start !== null && { start }) };
      const activity = this.#recordedActivity(last.id, since);
      const mailComes = activity.status === 'idle' ? {} : { mailComes: AFTER_TURN };
      return [{ client: records.client, id: last.id, folder, ...process, ...activity, ...mailComes }];
    });
  }

  #follow(path: string): FollowedRecord {
    const record = this.#followed.get(path) ?? this.records.follow(path);
    this.#followed.set(path, record);
    for (const oldest of this.#followed.keys()) if (this.#followed.size > MAX_READERS) this.#followed.delete(oldest);
    return record;
  }

  /** Searches the session's own conversation and the others of its folder: a session without one begins it with the message. */
  #recorded(session: LiveSession, id: MessageId, since: number) {
    const own = this.records.find(session.id);
    const others = this.records
      .inFolder(session.folder)
      .filter((one) => one.id !== session.id && writtenAt(one) >= since - LATE_MS);
    const held = this.#holderOf(session);
    const isAtRest = held !== null && this.#activityOf(held).status === 'idle';
    const found = [...(own ? [own] : []), ...others].flatMap(({ id: conversation, path }) => {
      const reader = this.#reader(path, id, since);
      const proof = reader.read(isAtRest);
      return proof ? [{ session: conversation, proof, isLost: reader.isLost, isKept: reader.isKept }] : [];
    });
    return found.find(({ proof }) => proof.step === 'shown') ?? found[0] ?? null;
  }

  /** Whether the session's conversation has the message already, because it was given before the client was killed or restarted. */
  #has({ id: session }: LiveSession, id: MessageId): boolean {
    const path = this.records.find(session)?.path;
    const reader = path === undefined || this.#follow(path).placeOf(id) === null ? null : this.#reader(path, id, 0);
    return reader !== null && reader.read(false) !== null && reader.isKept;
  }

  #reader(path: string, id: MessageId, since: number): HeldProof {
    const key = JSON.stringify([path, id, since]);
    const reader = this.#readers.get(key) ?? this.records.reader(this.#follow(path), id, since);
    this.#readers.delete(key);
    this.#readers.set(key, reader);
    for (const oldest of this.#readers.keys()) if (this.#readers.size > MAX_READERS) this.#readers.delete(oldest);
    return reader;
  }

  /** The folders with the records of these sessions, and those where a new conversation appears. */
  #recordFolders(sessions: readonly Pick<LiveSession, 'id' | 'folder'>[]): string[] {
    const paths = sessions.flatMap(({ id }) => this.records.find(id)?.path ?? []);
    return [...sessions.flatMap(({ folder }) => this.records.watched(folder)), ...paths.map(dirname)];
  }

  #queued<T>(holder: number, act: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(holder) ?? Promise.resolve()).then(act, act);
    this.#turns.set(holder, turn);
    void turn.catch(() => null).then(() => this.#turns.get(holder) === turn && this.#turns.delete(holder));
    return turn;
  }
}

const AFTER_TURN = 'at the end of its turn';

/** When mail reaches a held session, in words for people: nothing is typed while the client works, asks something, or has a draft. */
function whenMailComes({ seen }: HeldSession, { status }: Activity): string {
  if (status === 'starting') return 'when it has started';
  if (status === 'idle') return seen === 'empty' ? 'now' : 'when its composer is empty';
  return status === 'waiting' ? 'when its user has answered and its turn is over' : AFTER_TURN;
}

const NO_STATE: RecordedState = { turnSince: null, waitingFor: null, at: 0 };

/** When the record of a conversation last changed, Unix ms; 0 if there is none. */
export function writtenAt({ path }: Pick<RecordFile, 'path'>): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
