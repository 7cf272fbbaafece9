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
import { hasLiveProcess } from './session-names.ts';

type Doing = Pick<LiveSession, 'status' | 'waitingFor'>;

/** A process that was killed changes no file. */
const TICK_MS = 2000;
/** A client writes many lines in a turn. */
const RECORD_MS = 50;
const ASK_MS = 2000;
/** Also one that cannot be reached: it may have typed before. */
const MAY_HAVE_TYPED: ReadonlySet<HolderAnswer['typed']> = new Set(['entered', 'stranded', 'unreached']);
/** Records that are read on from where the last look ended. */
const MOST_READERS = 200;

/** An entry bears the time at which something was said, and is written a little later. */
export const LATE_MS = 5000;

/** The record of one conversation. */
export interface RecordFile {
  id: string;
  /** Of the project. */
  folder: string;
  path: string;
}

/** What the record of a conversation says the client does now. */
export interface RecordedState {
  /** When the turn began that has not ended yet; null if none is open. */
  turnSince: number | null;
  waitingFor: string | null;
  /** When something of a turn was last written down. */
  at: number;
}

/** A record that is read on at each look. */
export interface FollowedRecord {
  path: string;
  look(): RecordedState;
  /** Where this message first came into the conversation; null if it did not. */
  placeOf(id: MessageId): number | null;
}

/** Reads a record for one message. Each call reads on. */
export interface ProofReader {
  /** `isAtRest`: the client does nothing, so the last turn has ended. Null if the record does not have the message. */
  read(isAtRest: boolean): Exclude<RecordedProof, { step: 'none' }> | null;
  /** The conversation lost the message, or may have, before the model was known to have it. */
  readonly isLost: boolean;
  /** The conversation has the message, so the next request has it, also if another process goes on with it. */
  readonly isKept: boolean;
}

/** What a client whose terminal is held writes down about its conversations. */
export interface HeldRecords {
  client: string;
  isClient: WindowOptions['isClient'];
  /** It was never used here. */
  readonly isEmpty: boolean;
  /** Its settings start Parley's server. */
  readonly hasTools: boolean;
  find(id: string): RecordFile | null;
  /** The conversations of a folder, the oldest first. */
  inFolder(folder: string): RecordFile[];
  /** The folders that change when a conversation begins in this folder. */
  watched(folder: string): string[];
  follow(path: string): FollowedRecord;
  /** A reader of what was written after this time (Unix ms). */
  reader(record: FollowedRecord, id: MessageId, since: number): ProofReader;
  /** Its record does not say where a turn ends: it is at rest if it has written nothing for so long, and its screen shows no work. */
  restMs: number;
  /** Its sessions that no window shows. */
  served?: ServedSessions;
}

/** The sessions of a client that a server of it has. */
export interface ServedSessions {
  list(): Promise<LiveSession[]>;
  readonly records: readonly string[];
  way(session: LiveSession, proof: (id: MessageId, since: number) => Promise<RecordedProof>): Way | null;
  has(id: string): boolean;
  /** Whether the server cannot have this message any more; null if it has no such session. */
  isOver(session: LiveSession, id: MessageId): Promise<boolean | null>;
}

/**
 * The running sessions of a client that takes mail from no other program. Its record of a conversation says what it does, and proves what
 * it was given. Mail is typed only where `parley run` holds the terminal. To a window that a person opened, hooks bring it: nothing is
 * typed into a terminal that is not ours.
 *
 * Nothing says which conversation such a window has. If it is the only one in its folder, it is the one that was written last since it runs.
 */
export class HeldLive implements LiveSessions {
  readonly #held: HeldSessions;
  readonly #stops = new Set<() => void>();
  readonly #readers = new Map<string, ProofReader>();
  readonly #followed = new Map<string, FollowedRecord>();
  /** The last attempt at each holder: one types after the other. */
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
    const folders = new FolderWatch(() => (soon ??= setTimeout(() => ((soon = undefined), changed()), RECORD_MS)));
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
    // Nothing tells that a client has come to rest.
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

  /** None while nothing may be typed: then mail waits for a hook, or for an empty composer, whichever comes first. */
  ways(session: LiveSession): readonly Way[] {
    const onServer = this.records.served?.way(session, (id, since) => this.proof(session, id, since));
    if (onServer) return [onServer];
    const held = this.#holderOf(session);
    if (held?.seen !== 'empty' || this.#doing(held).status !== 'idle') return [];
    const { holder } = held;
    return [
      new HeldWay({
        sessions: this.#held,
        holder,
        inTurn: (act) => this.#inTurn(holder.pid, act),
        has: (id) => this.#has(session, id),
        proof: (id, since) => this.proof(session, id, since),
        recordFolders: () => this.#recordFolders([session]),
      }),
    ];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    const found = this.#recorded(session, id, since);
    if (found?.proof.step === 'shown') return found.proof;
    const held = this.#holderOf(session);
    if (!held) {
      // Who is known and gone cannot show it any more; of others nothing is known. What the conversation has, a client that goes on with it shows.
      const isGone = session.pid !== undefined && !hasLiveProcess({ pid: session.pid, start: session.start ?? null });
      const isKept = found?.isKept === true;
      const goesOn =
        isKept &&
        (this.records.served?.has(found.session) || this.#sessions().some((one) => one.session === found.session));
      if (isGone && !goesOn) return { step: 'none', isOver: true };
      const isOver = (!found || found.isLost) && (await this.records.served?.isOver(session, id)) === true;
      // It may have come into the record meanwhile.
      const now = isOver && !found ? this.#recorded(session, id, since) : found;
      return now && !(now.isLost && isOver) ? now.proof : { step: 'none', isOver };
    }
    // A turn that goes on may still answer a request that had it.
    if (found?.isLost && this.#doing(held).status === 'idle') return { step: 'none', isOver: true };
    if (found) return found.proof;
    const said = await askHolder(this.#held.socketOf(held), { typed: id }, ASK_MS);
    const isOver = said !== null && !MAY_HAVE_TYPED.has(said.typed);
    // It may have come into the record meanwhile.
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
      // It may have none before its first prompt.
      id: session ?? `${this.records.client}-${holder.pid}-${holder.start ?? ''}`,
      folder,
      pid: holder.pid,
      ...(holder.start !== null && { start: holder.start }),
      ...this.#doing(held),
      mailComes: whenMailComes(held, this.#doing(held)),
      ...(!this.records.hasTools && { hasNoTools: true }),
    };
  }

  #doing({ seen, session, startedAt: since }: HeldSession): Doing {
    if (seen === 'starting') return { status: 'starting' };
    if (seen === 'dialog') return { status: 'waiting', waitingFor: 'dialog open' };
    const doing = this.#recordedDoing(session, since);
    return doing.status === 'idle' && seen === 'busy' ? { status: 'active' } : doing;
  }

  /** A turn that another process left open has ended with it. */
  #recordedDoing(session: string | null, since: number): Doing {
    const path = session === null ? null : (this.records.find(session)?.path ?? null);
    const { turnSince, waitingFor, at } = path === null ? NOTHING : this.#follow(path).look();
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
      const doing = this.#recordedDoing(last.id, since);
      const mailComes = doing.status === 'idle' ? {} : { mailComes: AFTER_TURN };
      return [{ client: records.client, id: last.id, folder, ...process, ...doing, ...mailComes }];
    });
  }

  #follow(path: string): FollowedRecord {
    const record = this.#followed.get(path) ?? this.records.follow(path);
    this.#followed.set(path, record);
    for (const oldest of this.#followed.keys()) if (this.#followed.size > MOST_READERS) this.#followed.delete(oldest);
    return record;
  }

  /** Looks in its own conversation and in those of its folder: a client without one begins one with the message. */
  #recorded(session: LiveSession, id: MessageId, since: number) {
    const own = this.records.find(session.id);
    const others = this.records
      .inFolder(session.folder)
      .filter((one) => one.id !== session.id && writtenAt(one) >= since - LATE_MS);
    const held = this.#holderOf(session);
    const isAtRest = held !== null && this.#doing(held).status === 'idle';
    const found = [...(own ? [own] : []), ...others].flatMap(({ id: conversation, path }) => {
      const reader = this.#reader(path, id, since);
      const proof = reader.read(isAtRest);
      return proof ? [{ session: conversation, proof, isLost: reader.isLost, isKept: reader.isKept }] : [];
    });
    return found.find(({ proof }) => proof.step === 'shown') ?? found[0] ?? null;
  }

  /** Whether its conversation has the message already: it was given before, and the client was killed or started again since. */
  #has({ id: session }: LiveSession, id: MessageId): boolean {
    const path = this.records.find(session)?.path;
    const reader = path === undefined || this.#follow(path).placeOf(id) === null ? null : this.#reader(path, id, 0);
    return reader !== null && reader.read(false) !== null && reader.isKept;
  }

  #reader(path: string, id: MessageId, since: number): ProofReader {
    const key = JSON.stringify([path, id, since]);
    const reader = this.#readers.get(key) ?? this.records.reader(this.#follow(path), id, since);
    this.#readers.delete(key);
    this.#readers.set(key, reader);
    for (const oldest of this.#readers.keys()) if (this.#readers.size > MOST_READERS) this.#readers.delete(oldest);
    return reader;
  }

  /** Where the conversations of these sessions are written down, and where a new one is announced. */
  #recordFolders(sessions: readonly Pick<LiveSession, 'id' | 'folder'>[]): string[] {
    const paths = sessions.flatMap(({ id }) => this.records.find(id)?.path ?? []);
    return [...sessions.flatMap(({ folder }) => this.records.watched(folder)), ...paths.map(dirname)];
  }

  #inTurn<T>(holder: number, act: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(holder) ?? Promise.resolve()).then(act, act);
    this.#turns.set(holder, turn);
    void turn.catch(() => null).then(() => this.#turns.get(holder) === turn && this.#turns.delete(holder));
    return turn;
  }
}

const AFTER_TURN = 'at the end of its turn';

/** Nothing is typed while it works, asks something, or has a draft. */
function whenMailComes({ seen }: HeldSession, { status }: Doing): string {
  if (status === 'starting') return 'when it has started';
  if (status === 'idle') return seen === 'empty' ? 'now' : 'when its composer is empty';
  return status === 'waiting' ? 'when its user has answered and its turn is over' : AFTER_TURN;
}

const NOTHING: RecordedState = { turnSince: null, waitingFor: null, at: 0 };

/** When something was last written down of a conversation. */
export function writtenAt({ path }: Pick<RecordFile, 'path'>): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
