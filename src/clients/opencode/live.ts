import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../../core/ports/live-session.ts';
import type { Parcel, Way } from '../../core/ports/way-in.ts';
import { hasLiveProcess } from '../../delivery/session-names.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { startOf } from '../../platform/process.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { OpeningWay, PluginWay, PLUGIN_SILENT_MS } from './plugin-way.ts';
import { openCodeProof } from './proof.ts';
import { endingOf, OpenCodeRecord } from './record.ts';
import { callWindow, hasTaken, isWindowFree, openCodeWindows, windowFolder } from './window.ts';
import type { OpenCodeWindow } from './window.ts';

/** Poll interval: nothing reports that a window was closed. */
const TICK_MS = 2000;
/** Changes of the record are collected for this long, because all OpenCodes of a user often write into one file. */
const RECORD_MS = 100;
/** How long a window that did not answer is not asked again. It may be stopped, and all other sessions wait for its answer. */
const DEAF_MS = 10_000;
const OWED_MS = 2000;
export const WAITING_FOR = { permission: 'permission prompt', question: 'input needed' } as const;

/**
 * The running sessions of OpenCode 1.18: for each window with our plugin, the session that it shows. A window that shows no session yet has an
 * id made by Parley until mail or its user begins a session.
 */
export class OpenCodeLive implements LiveSessions {
  readonly #home: string;
  readonly #stops = new Set<() => void>();
  readonly #records = new Map<string, OpenCodeRecord>();
  /** For each window that did not answer, by its socket: the time until which it is not asked. */
  readonly #deaf = new Map<string, number>();

  constructor(
    readonly env: Env,
    readonly silentMs = PLUGIN_SILENT_MS,
  ) {
    this.#home = parleyHome(env);
  }

  async list(): Promise<LiveSession[]> {
    return this.#windows().map((window) => ({
      client: 'opencode',
      id: idOf(window),
      folder: window.folder,
      ...processOf(window),
      ...stateOf(window),
      ...(window.compaction !== undefined && { compaction: window.compaction }),
    }));
  }

  watch(changed: () => void): () => void {
    let soon: ReturnType<typeof setTimeout> | undefined;
    const records = new FolderWatch(() => (soon ??= setTimeout(() => ((soon = undefined), changed()), RECORD_MS)));
    let seen = '';
    const look = (): void => {
      windows.set([windowFolder(this.#home)]);
      const now = this.#windows();
      records.set([...new Set(now.map(({ data }) => data))]);
      const picture = JSON.stringify(now);
      if (picture !== seen) changed();
      seen = picture;
    };
    const windows = new FolderWatch(look);
    look();
    const timer = setInterval(look, TICK_MS);
    const stop = (): void => {
      clearInterval(timer);
      clearTimeout(soon);
      for (const one of [windows, records]) one.close();
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    return stop;
  }

  ways({ id }: LiveSession): readonly Way[] {
    const find = (): OpenCodeWindow | null => this.#windows().find((one) => idOf(one) === id) ?? null;
    const window = find();
    if (!window) return [];
    if (window.session === null) return [new OpeningWay(window)];
    const record = this.#record(window.data);
    const folders = [windowFolder(this.#home), window.data];
    return [
      new PluginWay(id, { window: find, proof: (one) => openCodeProof(record, id, one), folders }, this.silentMs),
    ];
  }

  async proof(session: LiveSession, id: MessageId): Promise<RecordedProof> {
    const window = this.#windows().find((one) => processOf(one).pid === session.pid);
    const hasEnded =
      !window && session.pid !== undefined && !hasLiveProcess({ pid: session.pid, start: session.start ?? null });
    const record = this.#record(window?.data ?? this.#usualData());
    const recorded = () => openCodeProof(record, session.id, id);
    let found = recorded();
    const isKnown = found === null && window ? await this.#hasTaken(window, id) : null;
    // The record may have got the message meanwhile.
    found ??= recorded();
    if (found === null) return { step: 'none', isOver: hasEnded || isKnown === false };
    if (found.step === 'unreadable') return { step: 'none', isOver: false };
    // A replaced message is in no later request, so it may be given again, but not within a turn.
    const isIdle = window?.session === session.id && isWindowFree(window);
    if (found.step === 'replaced') return { step: 'none', isOver: hasEnded || isIdle };
    // A message that the model was not given stays in the conversation. A window that opens the session again continues with it.
    if (found.step === 'accepted' && hasEnded) return { step: 'none', isOver: true };
    if (found.step === 'shown') return found;
    return { step: 'accepted', evidence: found.evidence };
  }

  async showAgain({ id, compaction }: LiveSession, parcels: readonly Parcel[]): Promise<void> {
    const window = this.#windows().find((one) => idOf(one) === id);
    if (!window) return;
    const mail = parcels.map((parcel) => ({ ending: endingOf(parcel.id), text: parcel.text }));
    if (this.#isDeaf(window)) throw new Error('OpenCode did not answer in time; Parley asks it again in a few seconds');
    const { status, said } = await callWindow(window, '/owed', { body: { compaction, mail }, ms: OWED_MS }).catch(
      (error: unknown) => {
        this.#deaf.set(window.socket, performance.now() + DEAF_MS);
        throw error;
      },
    );
    if (status >= 300) throw new Error(`OpenCode answered ${status}: ${JSON.stringify(said)}`);
  }

  async #hasTaken(window: OpenCodeWindow, id: MessageId): Promise<boolean | null> {
    if (this.#isDeaf(window)) return null;
    const answer = await hasTaken(window, endingOf(id), this.silentMs);
    if (answer === null) this.#deaf.set(window.socket, performance.now() + DEAF_MS);
    else this.#deaf.delete(window.socket);
    return answer;
  }

  #isDeaf({ socket }: OpenCodeWindow): boolean {
    return (this.#deaf.get(socket) ?? 0) > performance.now();
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    for (const record of this.#records.values()) record.close();
  }

  #windows(): OpenCodeWindow[] {
    return openCodeWindows(this.#home);
  }

  #record(data: string): OpenCodeRecord {
    const record = this.#records.get(data) ?? new OpenCodeRecord(`${data}/opencode.db`);
    this.#records.set(data, record);
    return record;
  }

  #usualData(): string {
    return `${this.env['XDG_DATA_HOME'] || `${userHome(this.env)}/.local/share`}/opencode`;
  }
}

function idOf({ session, pid, start }: OpenCodeWindow): string {
  return session ?? `window-${pid}-${start ?? 0}`;
}

function stateOf({ asks, isBusy }: OpenCodeWindow): Pick<LiveSession, 'status' | 'waitingFor'> {
  if (asks !== null) return { status: 'waiting', waitingFor: WAITING_FOR[asks] };
  return { status: isBusy ? 'active' : 'idle' };
}

/** The process to which the name of the session is bound. */
function processOf({ pid: own, start: its, runBy }: OpenCodeWindow): Pick<LiveSession, 'pid' | 'start'> {
  const [pid, start] = runBy === undefined ? [own, its] : [runBy, startOf(runBy)];
  return { pid, ...(start !== null && { start }) };
}
