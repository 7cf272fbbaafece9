import { dirname } from 'node:path';
import { Wakeup } from '../../core/wait.ts';
import type { MessageId } from '../../core/names.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import type { Evidence } from '../../core/receipt.ts';
import { endOfLines, FolderWatch } from '../../sessions/follow.ts';
import { RemoteError, RPC } from '../../wire/jsonrpc.ts';
import { mentionsAny, RolloutProof } from './proof.ts';
import { isThreadFree } from './rpc.ts';
import type { CodexDaemon, Thread } from './rpc.ts';

/** After a session has been idle for this long, its record will not mention a message any more. */
export const SILENT_MS = 10_000;
/** A thread that has been unloaded for this long does not return in the same state. */
const GONE_MS = 3000;
/** Poll interval, in case a file event is lost or the folder of the record does not exist yet. */
const LOOK_MS = 250;

/** The state of one parcel in this attempt. */
interface Sent {
  id: MessageId;
  /** The turn that the parcel began or joined. Unknown for a queued parcel, and for one that Codex had before. */
  turn?: string;
  /** The queue id of a parcel that gets a turn of its own. */
  queued?: string;
}

/**
 * Hands mail to one loaded thread of Codex 0.166, through the daemon. `turn/start` with the id of the message begins a turn in an idle session;
 * in a busy one the message joins the turn after the running tool call. A message that needs a turn of its own goes into the queue of the
 * thread, and so do the messages after it: Codex begins a turn with each when it is idle.
 *
 * Nothing is sent while a dialog is open. Codex would accept the message without harm to the dialog, but if the user says no, the turn ends and
 * Codex forgets the waiting messages. The same happens if the user interrupts a turn: then the record has the end of the turn without the
 * message, so nothing went in.
 *
 * Codex treats the same id twice as two messages. So a message that is already in its record or queue is not sent again.
 */
export class TurnWay implements Way {
  readonly name = 'rpc';

  constructor(
    readonly daemon: CodexDaemon,
    readonly thread: string,
    /** Does a window show the thread? Without one, Codex would work unseen. */
    readonly hasWindow: () => boolean,
    readonly silentMs = SILENT_MS,
  ) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    if (!(await this.daemon.connect())) return left('the daemon of Codex does not run', true);
    const path = this.#loaded()?.path;
    if (path === undefined || path === null) return left('Codex has closed this conversation', true);
    const ids = parcels.map(({ id }) => id);
    const record = new RolloutProof(path, mentionsAny(path, ids) ? 0 : endOfLines(path), ids);
    const changes = new Changes(this.daemon, this.thread, path);
    try {
      const sent: Sent[] = [];
      let isQueued = false;
      for (const parcel of parcels) {
        // A message after one with its own turn would join that turn, so it goes into the queue, in order.
        isQueued ||= parcel.ownTurn ?? false;
        const said = await this.#hand({ ...parcel, ownTurn: isQueued }, record, changes, signal);
        if ('outcome' in said && sent.length === 0) return said;
        if ('outcome' in said)
          return await this.#stopped(sent, record, said.outcome === 'left' ? said.because : UNKNOWN);
        sent.push(said);
      }
      return await this.#proven(sent, record, changes, signal);
    } finally {
      changes.close();
    }
  }

  /** Hands over one parcel, unless Codex has it. */
  async #hand(parcel: Parcel, record: RolloutProof, changes: Changes, signal: AbortSignal): Promise<Sent | Attempt> {
    for (; ; await changes.next(signal)) {
      if (signal.aborted) return left(STOPPED, true);
      const thread = this.#loaded();
      if (!thread) return left('Codex has closed this conversation', true);
      if (!this.hasWindow()) return left('the window of Codex is closed', true);
      if (record.read().of(parcel.id) !== null) return { id: parcel.id };
      if (thread.status === 'waitingOnApproval' || thread.status === 'waitingOnUserInput') continue;
      changes.restart();
      try {
        return await this.#give(parcel, signal);
      } catch (error) {
        // Codex takes no prompts during a compaction or review: try again after it.
        if (error instanceof RemoteError && /NotSteerable/i.test(error.message)) continue;
        // For example, the text is too long.
        if (error instanceof RemoteError) return left(error.message, error.code !== RPC.params);
        // Codex may have the message: only its record can tell.
        return record.read().of(parcel.id) ? { id: parcel.id } : this.#offered(UNKNOWN);
      }
    }
  }

  async #give({ id, text, ownTurn = false }: Parcel, signal: AbortSignal): Promise<Sent | Attempt> {
    const queued = await this.daemon.queued(this.thread, id);
    if (queued !== null) return { id, queued };
    if (signal.aborted) return left(STOPPED, true);
    if (ownTurn) return { id, queued: await this.daemon.enqueue(this.thread, id, text) };
    return { id, turn: await this.daemon.prompt(this.thread, id, text) };
  }

  /** Waits until the record proves that the model was given all parcels, or until no further proof can come. */
  async #proven(sent: readonly Sent[], record: RolloutProof, changes: Changes, signal: AbortSignal): Promise<Attempt> {
    for (;;) {
      record.read();
      const open = sent.filter(({ id }) => !isShown(record, id));
      if (open.length === 0) return this.#shown(sent, record);
      if (signal.aborted) return this.#stopped(sent, record, 'Parley was stopped before Codex proved anything');
      const isForgotten = open.every(
        ({ id, turn }) => turn !== undefined && record.wasInterrupted(turn) && !record.of(id),
      );
      if (isForgotten && open.length === sent.length)
        return left('the user interrupted Codex before the model had the message', true);
      if (isForgotten) return this.#offered('the user interrupted Codex before the model had all messages');
      if (changes.goneMs > GONE_MS) return this.#offered('Codex ended before its record proved anything');
      if (changes.freeMs > this.silentMs)
        return this.#offered('Codex is idle, and its record does not prove that the model had the message');
      if (changes.freeMs > 0) for (const one of open) await this.#begin(one, record);
      await changes.next(signal);
    }
  }

  /** Begins a queued message, because Codex does not begin it after an interrupt. */
  async #begin({ id, queued }: Sent, record: RolloutProof): Promise<void> {
    if (queued !== undefined && record.of(id) === null) await this.daemon.begin(this.thread, queued).catch(() => false);
  }

  /** Removes the messages that are still queued. `left` only if all are removed and none is in the record; else `offered`. */
  async #stopped(sent: readonly Sent[], record: RolloutProof, because: string): Promise<Attempt> {
    let isAllOut = true;
    for (const { id, queued } of sent) isAllOut = (await this.#takenBack(id, queued)) && isAllOut;
    record.read();
    return isAllOut && sent.every(({ id }) => record.of(id) === null) ? left(because, true) : this.#offered(because);
  }

  async #takenBack(id: MessageId, queued: string | undefined): Promise<boolean> {
    if (queued === undefined) return false;
    try {
      return (await this.daemon.queued(this.thread, id)) === queued && (await this.daemon.dequeue(this.thread, queued));
    } catch {
      return false;
    }
  }

  #shown(sent: readonly Sent[], record: RolloutProof): Attempt {
    const proofs = sent.flatMap(({ id }) => record.of(id) ?? []);
    const last = proofs.flatMap((proof) => (proof !== 'unknown' && 'evidence' in proof ? [proof.evidence] : [])).at(-1);
    return { outcome: 'taken', step: 'shown', evidence: this.#evidence(last ?? {}) };
  }

  #offered(because: string): Attempt {
    return { outcome: 'offered', evidence: this.#evidence({ because }) };
  }

  #evidence(more: Evidence): Evidence {
    return { way: this.name, client: 'codex', session: this.thread, ...more };
  }

  #loaded(): Thread | null {
    return this.daemon.threads.get(this.thread) ?? null;
  }
}

const STOPPED = 'Parley was stopped before it sent the message';
const UNKNOWN = 'Codex did not answer, so it is unknown whether it has the message';

/** Waits for changes of a thread or its record, and measures how long the thread has been idle or unloaded. */
class Changes {
  readonly #folders: FolderWatch;
  readonly #ignore: () => void;
  readonly #wakeup = new Wakeup();
  #freeSince: number | null = null;
  #goneSince: number | null = null;

  constructor(
    readonly daemon: CodexDaemon,
    readonly thread: string,
    readonly path: string,
  ) {
    this.#folders = new FolderWatch(() => this.#wakeup.notify());
    this.#ignore = daemon.listen((changed) => {
      if (changed !== null && changed !== thread) return;
      this.#look();
      this.#wakeup.notify();
    });
    this.#look();
  }

  /** For how long the thread has been idle; 0 while it is not. */
  get freeMs(): number {
    return this.#freeSince === null ? 0 : performance.now() - this.#freeSince;
  }

  get goneMs(): number {
    return this.#goneSince === null ? 0 : performance.now() - this.#goneSince;
  }

  /** Starts both measurements again. */
  restart(): void {
    this.#freeSince = this.#goneSince = null;
    this.#look();
  }

  async next(signal: AbortSignal): Promise<void> {
    this.#folders.set([dirname(this.path)]);
    await this.#wakeup.nextWithin(LOOK_MS, signal);
    this.#look();
  }

  close(): void {
    this.#ignore();
    this.#folders.close();
  }

  #look(): void {
    const thread = this.daemon.threads.get(this.thread);
    const now = performance.now();
    this.#goneSince = thread ? null : (this.#goneSince ?? now);
    this.#freeSince = thread && isThreadFree(thread) ? (this.#freeSince ?? now) : null;
  }
}

function isShown(record: RolloutProof, id: MessageId): boolean {
  const proof = record.of(id);
  return proof !== null && proof !== 'unknown' && proof.step === 'shown';
}

function left(because: string, retry: boolean): Attempt {
  return { outcome: 'left', because, retry };
}
