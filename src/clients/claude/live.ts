import type { MessageId } from '../../core/names.ts';
import type { LiveSession, LiveSessions, RecordedProof } from '../../core/ports/live-session.ts';
import type { Way } from '../../core/ports/way-in.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { PeerInbox } from './peer-inbox.ts';
import { PeerSocketWay } from './peer-socket.ts';
import { peerIdOf, proofInTranscript } from './proof.ts';
import { type ClaudeSession, claudeSessions, FollowedRegistry, STATUS } from './state.ts';
import { transcriptOf } from './transcript.ts';

/** A client that was killed changes nothing in the registry, and a first transcript makes a folder that nobody watches yet. */
const LOOK_MS = 1000;

/** The sessions of Claude Code that run in a terminal. The registry says what each does, the transcript what its model was given. */
export class ClaudeLiveSessions implements LiveSessions {
  readonly #inbox = new PeerInbox();
  readonly #stops = new Set<() => void>();

  constructor(
    /** `~/.claude`, or what CLAUDE_CONFIG_DIR says. */
    readonly folder: string,
  ) {}

  async list(): Promise<LiveSession[]> {
    return (await claudeSessions(this.folder)).filter(isInteractive).map(asLive);
  }

  watch(changed: () => void): () => void {
    const transcripts = new FolderWatch(changed);
    const registry = FollowedRegistry.follow(this.folder, changed);
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
      this.#stops.delete(stop);
    };
    this.#stops.add(stop);
    void look();
    return stop;
  }

  ways(session: LiveSession): readonly Way[] {
    return [new PeerSocketWay({ folder: this.folder, session, inbox: this.#inbox })];
  }

  async proof(session: LiveSession, id: MessageId, since: number): Promise<RecordedProof> {
    const live = (await claudeSessions(this.folder)).filter(isInteractive).find((one) => one.sessionId === session.id);
    // Its user has not decided yet.
    if (live && this.#inbox.reportOn(peerIdOf(id))?.status === 'held')
      return { step: 'accepted', evidence: { session: session.id, held: true } };
    const isSame = live?.pid === session.pid && live?.procStart === session.start;
    return proofInTranscript(transcriptOf([this.folder], session.id), id, { since, live: isSame ? live : undefined });
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    await this.#inbox.close();
  }

  #folderOf({ sessionId }: ClaudeSession): string | null {
    const path = transcriptOf([this.folder], sessionId);
    return path && path.slice(0, path.lastIndexOf('/'));
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
