import { lstatSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { MessageId } from '../../core/names.ts';
import type { LiveSession } from '../../core/ports/live-session.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import { FolderWatch, linesFrom } from '../../sessions/follow.ts';
import { WriteQueue } from '../../wire/connection.ts';
import type { PeerInbox, PeerStatus, PeerReport } from './peer-inbox.ts';
import { isAtRest, isQueuedIn, ProofReader, shownBy } from './proof.ts';
import { peerIdOf, placeNaming } from './transcript-search.ts';
import { type ClaudeSession, claudeSessions, FollowedRegistry, runs } from './state.ts';
import { transcriptOf } from './transcript.ts';

/** Poll interval, in case a file event is lost, and because a killed client writes nothing. */
const LOOK_MS = 500;
/** How long to wait for the client's reaction to the first message, before the others are written: the user should get one question, not many. */
const FIRST_MS = 10_000;
/** Delay before the last look after the client has ended: its last lines may just have been written. */
const LAST_LOOK_MS = 200;
export const DENIED = 'the user of Claude Code declined it';
const SETTING = '"crossSessionInbound" in ~/.claude/settings.json';

export interface PeerSocketOptions {
  /** `~/.claude`, or CLAUDE_CONFIG_DIR. */
  folder: string;
  session: LiveSession;
  inbox: PeerInbox;
}

/**
 * Writes to the messaging socket of a running Claude Code: one line of JSON per message. A message wakes an idle session; a busy one gets it
 * after the running tool call. Open dialogs and drafts are not affected.
 *
 * States of an attempt:
 * - Nothing was written: `left`.
 * - Written: the attempt waits until the transcript proves that the model was given all messages. It ends earlier if the client reports that
 *   it kept one back, if the session ends, or if the client is idle and has recorded nothing of a message.
 * No message is written twice to one session. A message that the client holds for its user, or that is in its transcript or queue, is not
 * written again.
 */
export class PeerSocketWay implements Way {
  readonly name = 'socket';

  constructor(readonly options: PeerSocketOptions) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    const { folder, session, inbox } = this.options;
    const live = (await claudeSessions(folder)).find((one) => isSame(one, session));
    if (!live) return left('this session does not run in Claude Code any more', true);
    if (live.status === undefined) return left('Claude Code is starting', true);
    const socket = live.messagingSocketPath;
    const problem = socketProblem(socket);
    if (socket === undefined || problem !== null) return left(problem ?? '', false);
    // The user may still let in a held message, and must not be asked again about a declined one.
    for (const { id } of parcels) {
      const status = inbox.reportOn(peerIdOf(id), processKey(live.pid, live.procStart))?.status;
      if (status === 'held') return unknown(session.id, REASONS.held.because);
      if (status === 'denied') return parcels.length === 1 ? DECLINED : left(REASONS.denied.because, true);
      if (status === 'expired') return left(REASONS.expired.because, false);
    }
    const address = await inbox.pathIn(dirname(socket)).catch((error: Error) => error);
    if (address instanceof Error)
      return left(`Parley cannot open a socket for the client's reports: ${address.message}`, false);
    if (signal.aborted) return left('Parley was stopped before it wrote anything', true);
    const handover = new Handover(this.options, live, parcels, signal);
    try {
      const left = await handover.write(socket, address);
      return left ?? (await handover.proven());
    } finally {
      handover.close();
    }
  }
}

/** One attempt to hand parcels to one client. */
class Handover {
  readonly #registry: FollowedRegistry;
  readonly #watch: FolderWatch;
  readonly #unfollow: () => void;
  readonly #changed = (): void => {
    this.#isChanged = true;
    this.#wake();
  };
  readonly #client: string;
  readonly #reader: ProofReader;
  /** The client's reports from earlier attempts. */
  readonly #before: ReadonlyMap<MessageId, PeerReport | undefined>;
  #isChanged = false;
  #wake: () => void = () => {};
  #path: string | null;
  #offset: number;
  #writtenAt = 0;

  constructor(
    readonly options: PeerSocketOptions,
    public live: ClaudeSession,
    readonly parcels: readonly Parcel[],
    readonly signal: AbortSignal,
  ) {
    const { folder, session, inbox } = options;
    const texts = new Map(parcels.map((parcel) => [parcel.id, contentOf(parcel)]));
    this.#reader = new ProofReader([...texts.keys()], texts);
    this.#path = transcriptOf([folder], session.id);
    this.#client = processKey(live.pid, live.procStart);
    this.#before = new Map(parcels.map(({ id }) => [id, inbox.reportOn(peerIdOf(id), this.#client)]));
    this.#offset = this.#path === null ? 0 : placeNaming(this.#path, [...texts.keys()]);
    this.#registry = FollowedRegistry.follow(folder, this.#changed);
    this.#watch = new FolderWatch(this.#changed);
    this.#unfollow = inbox.follow(this.#changed);
    signal.addEventListener('abort', this.#changed);
  }

  close(): void {
    this.#registry.leave(this.#changed);
    this.#watch.close();
    this.#unfollow();
    this.signal.removeEventListener('abort', this.#changed);
  }

  /** Writes the parcels that the client does not have. Returns a result only if nothing was written. */
  async write(socket: string, address: string): Promise<Attempt | null> {
    const { inbox, session } = this.options;
    await this.#look();
    const fresh = this.parcels.filter(({ id }) => this.#before.get(id)?.status !== 'delivered' && !this.#isIn(id));
    if (fresh.length === 0) return null;
    // Another process may have this pid by now.
    if (!runs(this.live)) return left('Claude Code has ended', true);
    const connection = await PeerConnection.open(socket);
    if (!connection) return left('Claude Code does not answer on its messaging socket', true);
    try {
      for (const [n, parcel] of fresh.entries()) {
        while (!this.signal.aborted) {
          const ms = inbox.mayWrite(this.#client);
          if (ms === 0) break;
          await this.#change(ms);
        }
        if (this.signal.aborted || !connection.isOpen) break;
        this.#writtenAt = Date.now();
        inbox.expectReport(peerIdOf(parcel.id), this.#client);
        connection.push(
          JSON.stringify({
            type: 'user',
            message: { role: 'user', content: contentOf(parcel) },
            priority: 'next',
            from: `uds:${address}`,
            msg_id: peerIdOf(parcel.id),
            session_id: session.id,
          }),
        );
        if (n === 0 && fresh.length > 1 && (await this.#isRefused(parcel))) break;
      }
      await connection.flushed;
    } finally {
      connection.close();
    }
    if (this.#writtenAt > 0 || fresh.length < this.parcels.length) return null;
    return left('Parley was stopped before it wrote anything', true);
  }

  /** Waits until the record proves all parcels, or until no further proof can come. */
  async proven(): Promise<Attempt> {
    for (;;) {
      await this.#look();
      const shown = this.#shown();
      if (shown) return shown;
      const refused = this.#refused();
      if (refused) return refused;
      if (this.signal.aborted) return this.#unknown('Parley was stopped while it waited for proof');
      if (!isSame(this.live, this.options.session) || !runs(this.live)) {
        await Bun.sleep(LAST_LOOK_MS);
        await this.#look();
        return this.#shown() ?? this.#unknown('the session ended before its record showed the message');
      }
      const isSilent = this.parcels.some(({ id }) => !this.#isIn(id));
      if (isSilent && isAtRest(this.live, this.#path, this.#writtenAt))
        return this.#unknown('Claude Code is idle, and its record does not show the message');
      await this.#change(LOOK_MS);
    }
  }

  #shown(): Attempt | null {
    const last = this.parcels.findLast(({ id }) => this.#reader.of(id).answer);
    if (this.#path === null || !last || this.parcels.some(({ id }) => !this.#reader.of(id).answer)) return null;
    const evidence = { way: 'socket', session: this.live.sessionId, ...shownBy(this.#path, this.#reader, last.id) };
    return { outcome: 'taken', step: 'shown', evidence };
  }

  /**
   * The result if the client refused a parcel; null if it refused none. If it took others, the outcome counts as unknown for all, so that none
   * is handed over again.
   */
  #refused(): Attempt | null {
    const [first] = this.parcels.flatMap(({ id }) => this.#refusalOf(id) ?? []);
    if (!first) return null;
    const took = this.parcels.filter(({ id }) => this.#isIn(id));
    const { because, retry } = REASONS[first.status];
    if (first.status === 'held') return this.#unknown(because);
    if (first.status === 'denied' && this.parcels.length === 1) return DECLINED;
    if (took.length === 0) return left(`${because}${first.detail && ` (${first.detail})`}`, retry);
    const isDecided = took.every(({ id }) => this.#reader.of(id).answer);
    return isDecided ? this.#unknown(`of ${this.parcels.length} messages it took ${took.length}: ${because}`) : null;
  }

  #refusalOf(id: MessageId): { status: Refused; detail: string } | null {
    const report = this.options.inbox.reportOn(peerIdOf(id), this.#client);
    if (!report || report.status === 'delivered' || report === this.#before.get(id)) return null;
    return { status: report.status, detail: report.detail };
  }

  #unknown(because: string): Attempt {
    return unknown(this.options.session.id, because);
  }

  /** Does the client have this message, in its queue or in the conversation? */
  #isIn(id: MessageId): boolean {
    const { queued } = this.#reader.of(id);
    return this.#reader.placeOf(id) !== null || (queued !== undefined && isQueuedIn(this.live, queued));
  }

  /** Waits for the client's reaction to this parcel, at most `FIRST_MS`. */
  async #isRefused({ id }: Parcel): Promise<boolean> {
    const until = Date.now() + FIRST_MS;
    while (!this.signal.aborted && Date.now() < until) {
      await this.#look();
      if (this.#refusalOf(id)) return true;
      if (this.#isIn(id) || !runs(this.live)) return false;
      await this.#change(LOOK_MS);
    }
    return false;
  }

  /** Reads the registry, and the new lines of the transcript. */
  async #look(): Promise<void> {
    const { folder, session } = this.options;
    const { pid, procStart } = this.live;
    this.#isChanged = false;
    const all = await this.#registry.sessions();
    this.live = all.find((one) => one.pid === pid && one.procStart === procStart) ?? this.live;
    this.#path ??= transcriptOf([folder], session.id);
    if (this.#path === null) return;
    this.#watch.set([dirname(this.#path)]);
    for (const line of linesFrom(this.#path, this.#offset)) {
      this.#reader.take(line);
      this.#offset = line.to;
    }
  }

  /** Returns when something may have changed, at the latest after `ms`. */
  async #change(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, ms);
    if (this.#isChanged || this.signal.aborted) resolve();
    this.#isChanged = false;
    await promise;
    clearTimeout(timer);
  }
}

type Refused = Exclude<PeerStatus, 'delivered'>;

function unknown(session: string, because: string): Attempt {
  return { outcome: 'offered', evidence: { way: 'socket', session, because } };
}

const REASONS: Record<Refused, { because: string; retry: boolean }> = {
  held: {
    because: `Claude Code holds it until its user lets it in, in its window, or always: parley install claude --inbound allow ("crossSessionInbound")`,
    retry: false,
  },
  denied: { because: DENIED, retry: false },
  expired: { because: 'Claude Code held it, and its user did not let it in', retry: false },
  refused: {
    because: `Claude Code takes no messages in this session; its user can change that with ${SETTING}`,
    retry: false,
  },
  dropped: { because: 'Claude Code dropped it', retry: true },
};

const DECLINED: Attempt = { outcome: 'left', because: DENIED, retry: false, isDeclined: true };

/**
 * The text of a message, in a frame with the sender's name. Without this frame Claude Code shows the message as if its user had typed it. The
 * frame has no address, because an answer to our socket would reach nobody, and no permission mode, because only the user may allow more.
 * The window shows only the first line, so a short body moves there, in quotes after the sender's name; proof.ts recognizes that line.
 * spec: hook#fence
 */
function contentOf({ text, from = 'parley', shortBody }: Parcel): string {
  const name = /^[A-Za-z0-9._-]{1,64}$/.test(from) ? from : 'parley';
  const line = `\n${shortBody}\n`;
  // The first line separates the sender's words from ours only if the body has no such quotes and the name is a real one.
  const isMoved = shortBody !== undefined && name === from && !/[“”]/.test(shortBody) && text.includes(line);
  const whole = isMoved
    ? `@${name} wrote: “${shortBody}”\n${text.replace(line, () => '\n(the first line above)\n')}`
    : text;
  const body = whole.replaceAll(/<(?=\/?cross-session-message)/gi, '< ');
  return `<cross-session-message from-name="${name}">\n${body}\n</cross-session-message>`;
}

/** Why Parley must not write to this socket, or null. No other user may be able to replace the socket. */
export function socketProblem(path: string | undefined): string | null {
  if (path === undefined) return 'this Claude Code has no messaging socket';
  // On other systems Claude Code asks for a key that Parley must not read.
  if (process.platform !== 'linux') return "Parley uses Claude Code's messaging socket only on Linux";
  const user = process.getuid?.();
  const socket = lstatSync(path, { throwIfNoEntry: false });
  const folder = statSync(dirname(path), { throwIfNoEntry: false });
  if (!socket?.isSocket() || !folder) return `${path} is not a socket`;
  if (socket.uid !== user || folder.uid !== user) return `${path} belongs to another user`;
  return (folder.mode & 0o022) === 0 ? null : `other users can write into ${dirname(path)}; remove their permission`;
}

/** Identifies a client by its process. The inbox keeps its rate limits and reports under this key. */
export function processKey(pid: number, start: string | undefined): string {
  return `${pid} ${start}`;
}

/** Is this entry the same client with the same conversation? */
function isSame({ pid, procStart, sessionId, kind }: ClaudeSession, { id, pid: meant, start }: LiveSession): boolean {
  return kind === 'interactive' && sessionId === id && pid === meant && procStart === start;
}

/** A connection to a client's messaging socket. The client sends nothing on it. */
class PeerConnection {
  readonly #ended = Promise.withResolvers<void>();
  isOpen = true;

  private constructor(
    readonly socket: Bun.Socket,
    readonly queue: WriteQueue,
  ) {}

  /** Null if nothing accepts the connection. */
  static async open(path: string): Promise<PeerConnection | null> {
    let connection: PeerConnection | null = null;
    const end = (): void => connection?.close();
    try {
      const socket = await Bun.connect({
        unix: path,
        socket: { data() {}, drain: () => connection?.queue.drain(), close: end, error: end },
      });
      connection = new PeerConnection(socket, new WriteQueue((bytes) => socket.write(bytes)));
      return connection;
    } catch {
      return null;
    }
  }

  push(line: string): void {
    this.queue.push(line);
  }

  /** Resolves when everything is written or the connection has ended. */
  get flushed(): Promise<void> {
    this.queue.whenEmpty(() => this.#ended.resolve());
    return this.#ended.promise;
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.socket.end();
    this.#ended.resolve();
  }
}

const left = (because: string, retry: boolean): Attempt => ({ outcome: 'left', because, retry });
