import { dirname } from 'node:path';
import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../../core/ports/live-session.ts';
import type { Way } from '../../core/ports/way-in.ts';
import { askHolder, HeldSessions } from '../../delivery/held-session.ts';
import type { HeldSession, HolderAnswer } from '../../delivery/held-session.ts';
import { HeldWay } from '../../delivery/held-way.ts';
import { hasLiveProcess } from '../../delivery/session-names.ts';
import { parleyHome } from '../../platform/env.ts';
import { startedAt, startOf } from '../../platform/process.ts';
import { clientWindows } from '../../sessions/client-window.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { hasServer } from '../launch.ts';
import { LATE_MS, WireProof, wirePlaceAt } from './proof.ts';
import { FollowedWire, kimiHome, KimiIndex, writtenAt } from './record.ts';
import { isKimiWindow } from './web.ts';
import { KimiWebSessions } from './web-way.ts';

type Doing = Pick<LiveSession, 'status' | 'waitingFor'>;

/** A process that was killed changes no file. */
const TICK_MS = 2000;
/** Kimi writes many lines in a turn. */
const RECORD_MS = 50;
const ASK_MS = 2000;
/** Also one that cannot be reached: it may have typed before. */
const MAY_HAVE_TYPED: ReadonlySet<HolderAnswer['typed']> = new Set(['entered', 'stranded', 'unreached']);
/** Records that are read on from where the last look ended. */
const MOST_READERS = 200;

/**
 * The running sessions of Kimi 2.1. `wire.jsonl` of a conversation says what it does, and proves what it was given. Mail is typed only where
 * `parley run` holds the terminal. To a window that a person opened, hooks bring it: nothing is typed into a terminal that is not ours. To a
 * session on `kimi web` it goes by the API of that server.
 *
 * Nothing says which conversation such a window has. If it is the only one in its folder, it is the one that was written last since it runs.
 */
export class KimiLive implements LiveSessions {
  readonly #held: HeldSessions;
  readonly #index: KimiIndex;
  readonly #web: KimiWebSessions;
  readonly #stops = new Set<() => void>();
  readonly #readers = new Map<string, WireProof>();
  readonly #wires = new Map<string, FollowedWire>();
  /** The last attempt at each holder: one types after the other. */
  readonly #turns = new Map<number, Promise<unknown>>();

  constructor(
    readonly env: Env,
    readonly scan = clientWindows,
  ) {
    this.#held = new HeldSessions(parleyHome(env));
    this.#index = new KimiIndex(kimiHome(env));
    this.#web = new KimiWebSessions(this.#index);
  }

  async list(): Promise<LiveSession[]> {
    const held = this.#sessions();
    return [...held.map((one) => this.#asLive(one)), ...this.#openedByHand(held), ...(await this.#web.list())];
  }

  watch(changed: () => void): () => void {
    let soon: ReturnType<typeof setTimeout> | undefined;
    const folders = new FolderWatch(() => (soon ??= setTimeout(() => ((soon = undefined), changed()), RECORD_MS)));
    let seen = '';
    const look = (): void => {
      const held = this.#sessions();
      const byHand = this.#openedByHand(held);
      const wires = [...byHand.flatMap(({ id }) => this.#index.find(id)?.wire ?? []), ...this.#web.records];
      folders.set([...new Set([this.#held.folder, ...this.#recordFolders(held), ...wires.map(dirname)])]);
      const now = JSON.stringify([held, byHand]);
      if (now !== seen) changed();
      seen = now;
    };
    look();
    const timer = setInterval(look, TICK_MS);
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
    const record = {
      has: (id: MessageId) => this.#has(session, id),
      proof: (id: MessageId, since: number) => this.proof(session, id, since),
    };
    const onServer = this.#web.way(session, record);
    if (onServer) return [onServer];
    const held = this.#holderOf(session);
    if (held?.seen !== 'empty' || this.#doing(held).status !== 'idle') return [];
    const { holder } = held;
    return [
      new HeldWay({
        sessions: this.#held,
        holder,
        inTurn: (act) => this.#inTurn(holder.pid, act),
        ...record,
        recordFolders: () => this.#recordFolders(this.#sessions()),
      }),
    ];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    const found = this.#recorded(session, id, since);
    if (found?.proof.step === 'shown') return found.proof;
    const held = this.#holderOf(session);
    if (!held) {
      // Who is known and gone cannot show it any more; of others nothing is known. What the conversation has, a Kimi that goes on with it shows.
      const isGone = session.pid !== undefined && !hasLiveProcess({ pid: session.pid, start: session.start ?? null });
      const isKept = found?.isKept === true;
      const goesOn =
        isKept && (this.#web.has(found.session) || this.#sessions().some((one) => one.session === found.session));
      if (isGone && !goesOn) return { step: 'none', isOver: true };
      const isOver = (!found || found.isLost) && (await this.#web.isOver(session, id)) === true;
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
    return this.#held.all().filter(({ client }) => client === 'kimi');
  }

  #holderOf({ pid, start }: LiveSession): HeldSession | null {
    return pid === undefined ? null : this.#held.of(pid, start);
  }

  #asLive(held: HeldSession): LiveSession {
    const { holder, folder, session } = held;
    return {
      client: 'kimi',
      // It has none before its first prompt.
      id: session ?? `kimi-${holder.pid}-${holder.start ?? ''}`,
      folder,
      pid: holder.pid,
      ...(holder.start !== null && { start: holder.start }),
      ...this.#doing(held),
      mailComes: whenMailComes(held, this.#doing(held)),
      ...(!hasServer(`${this.#index.home}/mcp.json`, 'kimi') && { hasNoTools: true }),
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
    const path = session === null ? null : (this.#index.find(session)?.wire ?? null);
    const { turnSince, waitingFor } = path === null ? { turnSince: null, waitingFor: null } : this.#wire(path).look();
    if (turnSince === null || turnSince < since) return { status: 'idle' };
    return waitingFor === null ? { status: 'active' } : { status: 'waiting', waitingFor };
  }

  #openedByHand(held: readonly HeldSession[]): LiveSession[] {
    if (this.#index.isEmpty) return [];
    const ours = new Set(held.map(({ program }) => program.pid));
    const windows = this.scan(isKimiWindow(this.#index.home))?.filter(({ pid }) => !ours.has(pid)) ?? [];
    return windows.flatMap(({ pid, folder }) => {
      const since = startedAt(pid) ?? 0;
      const isOnly = windows.filter((one) => one.folder === folder).length === 1;
      const isUnsure = held.some((one) => one.folder === folder && one.session === null);
      const free = this.#index.inFolder(folder).filter(({ id }) => !held.some(({ session }) => session === id));
      const [last] = free.filter((one) => writtenAt(one) >= since).toSorted((a, b) => writtenAt(b) - writtenAt(a));
      if (!last || !isOnly || isUnsure) return [];
      const start = startOf(pid);
      const process = { pid, ...(start !== null && { start }) };
      const doing = this.#recordedDoing(last.id, since);
      const mailComes = doing.status === 'idle' ? {} : { mailComes: AFTER_TURN };
      return [{ client: 'kimi', id: last.id, folder, ...process, ...doing, ...mailComes }];
    });
  }

  #wire(path: string): FollowedWire {
    const wire = this.#wires.get(path) ?? new FollowedWire(path);
    this.#wires.set(path, wire);
    for (const oldest of this.#wires.keys()) if (this.#wires.size > MOST_READERS) this.#wires.delete(oldest);
    return wire;
  }

  /** Looks in its own conversation and in those of its folder: a Kimi without one begins one with the message. */
  #recorded({ id: session, folder }: LiveSession, id: MessageId, since: number) {
    const own = this.#index.find(session);
    const others = this.#index
      .inFolder(folder)
      .filter((one) => one.id !== session && writtenAt(one) >= since - LATE_MS);
    const found = [...(own ? [own] : []), ...others].flatMap(({ id: conversation, wire }) => {
      const reader = this.#reader(wire, id, since);
      const proof = reader.read();
      return proof ? [{ session: conversation, proof, isLost: reader.isLost, isKept: reader.isKept }] : [];
    });
    return found.find(({ proof }) => proof.step === 'shown') ?? found[0] ?? null;
  }

  /** Whether its conversation has the message already: it was given before, and Kimi was killed or started again since. */
  #has({ id: session }: LiveSession, id: MessageId): boolean {
    const wire = this.#index.find(session)?.wire;
    const reader = wire === undefined || this.#wire(wire).placeOf(id) === null ? null : this.#reader(wire, id, 0);
    return reader !== null && reader.read() !== null && reader.isKept;
  }

  #reader(path: string, id: MessageId, since: number): WireProof {
    const key = JSON.stringify([path, id, since]);
    const from = (): number => this.#wire(path).placeOf(id) ?? wirePlaceAt(path, since - LATE_MS);
    const reader = this.#readers.get(key) ?? new WireProof(path, from(), id);
    this.#readers.delete(key);
    this.#readers.set(key, reader);
    for (const oldest of this.#readers.keys()) if (this.#readers.size > MOST_READERS) this.#readers.delete(oldest);
    return reader;
  }

  /** Where the conversations of these sessions are written down, and where a new one is announced. */
  #recordFolders(held: readonly HeldSession[]): string[] {
    const wires = held.flatMap(({ session }) => (session === null ? [] : (this.#index.find(session)?.wire ?? [])));
    return [this.#index.home, ...wires.map(dirname)];
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
