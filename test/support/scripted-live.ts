import type { MessageId } from '../../src/core/names.ts';
import type {
  LiveSession,
  LiveSessions,
  MessageTurn,
  RecordedProof,
  ShownProof,
} from '../../src/core/ports/live-session.ts';
import type { Attempt, Parcel, Way } from '../../src/core/ports/way-in.ts';

/** The running sessions of a scripted client. */
export class ScriptedLive implements LiveSessions {
  readonly sessions = new Map<string, LiveSession>();
  /** The parcels that each session got, one for every handover. */
  readonly got = new Map<string, Parcel[]>();
  /** The messages in the record, by `<session> <id>`, with the time of the entry (ms). An entry older than a handover does not prove it. */
  readonly record = new Map<string, { at: number; turn?: MessageTurn }>();
  /** The messages that the client has but has not shown, by `<session> <id>`, and the reason. */
  readonly accepted = new Map<string, { trouble?: string; needsTurn?: true }>();
  /** `prove`: records a message at once. `silent`: takes it and records nothing. Otherwise the result of each attempt. */
  mode: 'prove' | 'silent' | Attempt = 'prove';
  /** A message that is recorded at once begins a turn. */
  beginsTurn = true;
  /** That turn ends at once, without an answer. */
  endsTurn = true;
  /** How often the sessions were listed. */
  lists = 0;
  /** The client can no longer have a message that its record does not show. */
  isOver = false;
  readonly #looks = new Map<string, number>();
  readonly #watchers = new Set<() => void>();

  constructor(
    readonly client: string,
    readonly now: () => number,
  ) {}

  add(id: string, more: Partial<LiveSession> = {}): this {
    this.sessions.set(id, { client: this.client, id, folder: '/src/api', status: 'idle', ...more });
    return this.changed();
  }

  changed(): this {
    for (const tell of this.#watchers) tell();
    return this;
  }

  texts(session: string): string[] {
    return (this.got.get(session) ?? []).map(({ text }) => text);
  }

  async list(): Promise<LiveSession[]> {
    this.lists += 1;
    return [...this.sessions.values()];
  }

  watch(tell: () => void): () => void {
    this.#watchers.add(tell);
    return () => void this.#watchers.delete(tell);
  }

  ways({ id: session }: LiveSession): readonly Way[] {
    return [{ name: 'socket', attempt: (parcels, signal) => Promise.resolve(this.#attempt(session, parcels, signal)) }];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    const shown = this.record.get(`${session.id} ${id}`);
    if (shown && shown.at >= since)
      return { step: 'shown', evidence: { record: 'scripted', offset: 1 }, ...(shown.turn && { turn: shown.turn }) };
    const accepted = this.accepted.get(`${session.id} ${id}`);
    if (accepted && session.status !== 'stopped') return { step: 'accepted', evidence: {}, ...accepted };
    return { step: 'none', isOver: this.isOver || session.status === 'stopped' };
  }

  /** Proof from the record for messages that a hook printed. */
  shownByHook(session: string, ids: readonly MessageId[]): Map<MessageId, ShownProof> {
    this.#looks.set(session, this.looks(session) + 1);
    const shown = ids.filter((id) => this.record.has(`${session} ${id}`));
    return new Map(shown.map((id) => [id, { step: 'shown', evidence: { record: 'scripted' } }]));
  }

  /** How often the record of a session was read for messages that a hook printed. */
  looks(session: string): number {
    return this.#looks.get(session) ?? 0;
  }

  /** Adds a message to the record now. */
  show(session: string, id: string, turn?: MessageTurn): this {
    this.record.set(`${session} ${id}`, { at: this.now(), ...(turn && { turn }) });
    return this.changed();
  }

  /** Makes the client have a message that it has not shown yet. */
  accept(session: string, id: string, trouble?: string, needsTurn = false): this {
    const said = { ...(trouble !== undefined && { trouble }), ...(needsTurn && ({ needsTurn } as const)) };
    this.accepted.set(`${session} ${id}`, said);
    return this.changed();
  }

  /** The parcels shown again after a compaction, by session. */
  readonly again = new Map<string, readonly Parcel[]>();

  async showAgain({ compaction: _over, ...session }: LiveSession, parcels: readonly Parcel[]): Promise<void> {
    this.again.set(session.id, parcels);
    this.sessions.set(session.id, session);
  }

  async close(): Promise<void> {}

  #turnOf(id: string): { turn?: MessageTurn } {
    if (!this.beginsTurn) return {};
    const turn = { id: `turn of ${id}` };
    return { turn: this.endsTurn ? { ...turn, end: { how: 'done', text: '' } } : turn };
  }

  #attempt(session: string, parcels: readonly Parcel[], signal: AbortSignal): Attempt {
    if (signal.aborted) return { outcome: 'left', because: 'it was stopped before', retry: true };
    if (typeof this.mode === 'object') return this.mode;
    this.got.set(session, [...(this.got.get(session) ?? []), ...parcels]);
    if (this.mode === 'silent') return { outcome: 'offered', evidence: {} };
    for (const { id } of parcels) this.record.set(`${session} ${id}`, { at: this.now(), ...this.#turnOf(id) });
    return { outcome: 'taken', step: 'shown', evidence: { record: 'scripted' } };
  }
}
