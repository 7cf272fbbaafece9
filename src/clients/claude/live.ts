import { readdirSync, readFileSync } from 'node:fs';
import type { MessageId } from '../../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../../core/ports/live-session.ts';
import type { Way } from '../../core/ports/way-in.ts';
import { isProcessAlive } from '../../platform/process.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { PeerInbox, type PeerReport } from './peer-inbox.ts';
import { DENIED, processKey, PeerSocketWay, socketProblem } from './peer-socket.ts';
import { proofInRecord, type ProofOptions, RecordedMessage } from './proof.ts';
import { peerIdOf } from './transcript-search.ts';
import { type ClaudeSession, claudeSessions, FollowedRegistry, runs, STATUS } from './state.ts';
import { transcriptOf } from './transcript.ts';

/** Poll interval: a killed client changes nothing in the registry, and a first transcript creates a folder that is not watched yet. */
const LOOK_MS = 1000;
/** How long a session keeps its last known entry while its new one is half written. */
const HALF_MS = 30_000;
/** The most records that are kept open to be read incrementally. */
const MOST_RECORDS = 200;

/** The sessions of Claude Code that run in a terminal. The registry has their status, the transcript proves what their models were given. */
export class ClaudeLiveSessions implements LiveSessions {
  readonly #inbox = new PeerInbox();
  /** The entries of the last `list`, each with the time at which it was last complete (ms). */
  #seen: ReadonlyMap<number, { entry: ClaudeSession; at: number }> = new Map();
  readonly #stops = new Set<() => void>();
  readonly #records = new Map<string, RecordedMessage>();

  constructor(
    /** `~/.claude`, or CLAUDE_CONFIG_DIR. */
    readonly folder: string,
  ) {}

  async list(): Promise<LiveSession[]> {
    const whole = (await claudeSessions(this.folder)).filter(isInteractive);
    const now = performance.now();
    // Claude Code writes an entry in place. While it is half written, the session keeps its last entry.
    const half = [...this.#seen.values()].filter(
      ({ entry, at }) =>
        now - at < HALF_MS &&
        !whole.some(({ pid }) => pid === entry.pid) &&
        entryOf(this.folder, entry.pid) === 'half' &&
        runs(entry),
    );
    this.#seen = new Map([...whole.map((entry) => ({ entry, at: now })), ...half].map((one) => [one.entry.pid, one]));
    return [...this.#seen.values()].map(({ entry }) => asLive(entry));
  }

  watch(changed: () => void): () => void {
    const transcripts = new FolderWatch(changed);
    const registry = FollowedRegistry.follow(this.folder, changed);
    const unfollow = this.#inbox.follow(changed);
    const seen = new Set<string>();
    let isOver = false;
    const look = async (): Promise<void> => {
      const live = (await registry.sessions()).filter(isInteractive);
      if (isOver) return;
      transcripts.set([...new Set(live.flatMap((one) => this.#folderOf(one) ?? []))]);
      const now = live.map(({ pid, procStart, sessionId }) => `${pid} ${procStart} ${sessionId}`);
      const isSame = now.length === seen.size && now.every((one) => seen.has(one));
      seen.clear();
      for (const one of now) seen.add(one);
      if (!isSame) changed();
    };
    const timer = setInterval(() => void look(), LOOK_MS);
    const stop = (): void => {
      isOver = true;
      clearInterval(timer);
      transcripts.close();
      registry.leave(changed);
      unfollow();
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    void look();
    return stop;
  }

  ways(session: LiveSession): readonly Way[] {
    const entry = session.pid === undefined ? null : entryOf(this.folder, session.pid);
    if (typeof entry !== 'object' || socketProblem(entry?.messagingSocketPath) !== null) return [];
    return [new PeerSocketWay({ folder: this.folder, session, inbox: this.#inbox })];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    const { pid, start } = session;
    const client = await this.#clientOf(session);
    // After /clear the client has a new conversation, and may have taken the message into that one.
    const sessions = [...new Set([session.id, typeof client === 'object' ? client.sessionId : session.id])];
    const isReported = since >= this.#inbox.since;
    const proofs = sessions.map((one) => {
      const isLeft = typeof client === 'object' && client.sessionId !== one;
      const record = this.#recordOf(one, id, session, since);
      return proofInRecord(record, { client: isLeft ? 'ended' : client, since, isReported });
    });
    const shown = proofs.find(({ step }) => step === 'shown');
    if (shown) return shown;
    const report = this.#inbox.reportOn(peerIdOf(id), pid === undefined ? undefined : processKey(pid, start));
    const reported = report && proofByReport(report, session, client === 'ended');
    if (reported) return reported;
    const isOver = proofs.every((proof) => proof.step === 'none' && proof.isOver);
    return proofs.find(({ step }) => step !== 'none') ?? { step: 'none', isOver };
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    await this.#inbox.close();
  }

  /** The client that a message was handed to: found by its process or, if that is not known, by the session. */
  async #clientOf({ id, pid, start }: LiveSession): Promise<ProofOptions['client']> {
    if (pid !== undefined && !runs({ pid, ...(start !== undefined && { procStart: start }) })) return 'ended';
    const all = (await claudeSessions(this.folder)).filter(isInteractive);
    const found = all.find((one) => (pid === undefined ? one.sessionId === id : one.pid === pid));
    return found ?? (pid === undefined && !mayRun(this.folder, id) ? 'ended' : 'unknown');
  }

  #recordOf(session: string, id: MessageId, { pid, start }: LiveSession, since: number): RecordedMessage | null {
    const path = transcriptOf([this.folder], session);
    if (path === null) return null;
    const key = JSON.stringify([path, id, since, pid, start]);
    const record = this.#records.get(key) ?? new RecordedMessage(path, id, since);
    this.#records.delete(key);
    this.#records.set(key, record);
    for (const oldest of this.#records.keys()) if (this.#records.size > MOST_RECORDS) this.#records.delete(oldest);
    return record;
  }

  #folderOf({ sessionId }: ClaudeSession): string | null {
    const path = transcriptOf([this.folder], sessionId);
    return path && path.slice(0, path.lastIndexOf('/'));
  }
}

/** The proof in a client's report. Null if the transcript must decide. */
function proofByReport({ status }: PeerReport, { id }: LiveSession, hasEnded: boolean): RecordedProof | null {
  if (status === 'denied') return { step: 'declined', because: DENIED };
  if (status === 'delivered' || (status === 'held' && hasEnded)) return null;
  // The user has not decided yet.
  if (status === 'held') return { step: 'accepted', evidence: { session: id, held: true } };
  return { step: 'none', isOver: true };
}

/** May a running client have this session? A half written entry counts as yes, because Claude Code writes entries in place. */
function mayRun(folder: string, session: string): boolean {
  const pids = namesIn(`${folder}/sessions`).flatMap((name) => Number(/^(\d+)\.json$/.exec(name)?.[1] ?? 0) || []);
  return pids.filter(isProcessAlive).some((pid) => {
    const entry = entryOf(folder, pid);
    return entry === 'half' || (entry?.sessionId === session && isInteractive(entry) && runs(entry));
  });
}

function entryOf(folder: string, pid: number): ClaudeSession | 'half' | null {
  let text: string;
  try {
    text = readFileSync(`${folder}/sessions/${pid}.json`, 'utf8');
  } catch {
    return null;
  }
  try {
    return JSON.parse(text) as ClaudeSession | null;
  } catch {
    return 'half';
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isInteractive({ kind }: ClaudeSession): boolean {
  return kind === 'interactive';
}

function asLive({ sessionId, cwd, pid, procStart, status, waitingFor }: ClaudeSession): LiveSession {
  const known = status === undefined ? 'starting' : (STATUS[status] ?? 'active');
  return {
    client: 'claude',
    id: sessionId,
    folder: cwd,
    pid,
    ...(procStart !== undefined && { start: procStart }),
    status: known,
    ...(known === 'waiting' && waitingFor && { waitingFor }),
  };
}
