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

/** An idle session whose record says nothing for this long says nothing more. */
export const SILENT_MS = 10_000;
/** A thread that is gone for this long does not come back as it was. */
const GONE_MS = 3000;
/** In case a file event was lost, or the folder of the record is only being made. */
const LOOK_MS = 250;

/** What became of one parcel in this attempt. */
interface Sent {
  id: MessageId;
  /** The turn that Codex began with it, or put it into. Unknown for one in the queue, and for one that was there before. */
  turn?: string;
  /** Its place in the queue of the thread, for one that gets a turn of its own. */
  queued?: string;
}

/**
 * Mail for one loaded thread of Codex 0.166, by its daemon. `turn/start` with the id of the message begins a turn in an idle session; in a
 * busy one the message joins the turn after the running tool call. A message that needs a turn of its own goes into the queue of the
 * thread, and so does what is handed over behind it: Codex begins a turn with each when it is idle.
 *
 * While a dialog is open nothing is sent. Codex would take it and touch nothing, but if its user says no, the turn ends and Codex forgets
 * what waited for it. The same happens if the user interrupts a turn: then the record has the end of that turn without the message, so
 * nothing went in.
 *
 * Codex takes the same id twice as two messages. So whatever its record or its queue has already is not sent again, only waited for.
 */
export class TurnWay implements Way {
  readonly name = 'rpc';

  constructor(
    readonly daemon: CodexDaemon,
    readonly thread: string,
    /** Whether a window shows the thread. Without one, Codex would work unseen. */
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
        // What came behind a turn of its own would join it: that follows in the queue, in order.
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
        // A compaction or a review takes no prompts: after it Codex will.
        if (error instanceof RemoteError && /NotSteerable/i.test(error.message)) continue;
        // For instance the text is too long.
        if (error instanceof RemoteError) return left(error.message, error.code !== RPC.params);
        // It may have it: only its record can tell.
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

  /** Waits until the record proves that the model had all of it, or until it is known that it will not. */
  async #proven(sent: readonly Sent[], record: RolloutProof, changes: Changes, signal: AbortSignal): Promise<Attempt> {
    for (;;) {
      record.read();
      const open = sent.filter(({ id }) => !isShown(record, id));
      if (open.length === 0) return this.#shown(sent, record);
      if (signal.aborted) return this.#stopped(sent, record, 'it was stopped before anything was proven');
      const isForgotten = open.every(
        ({ id, turn }) => turn !== undefined && record.wasInterrupted(turn) && !record.of(id),
      );
      if (isForgotten && open.length === sent.length)
        return left('its user interrupted Codex before the model had it', true);
      if (isForgotten) return this.#offered('its user interrupted Codex before the model had all of it');
      if (changes.goneMs > GONE_MS) return this.#offered('Codex ended before anything was proven');
      if (changes.freeMs > this.silentMs)
        return this.#offered('Codex is idle, and its record does not say that the model had it');
      if (changes.freeMs > 0) for (const one of open) await this.#begin(one, record);
      await changes.next(signal);
    }
  }

  /** Codex begins what is in its queue by itself, but not after an interrupt. */
  async #begin({ id, queued }: Sent, record: RolloutProof): Promise<void> {
    if (queued !== undefined && record.of(id) === null) await this.daemon.begin(this.thread, queued).catch(() => false);
  }

  /** Takes back what is still in the queue. Only if nothing else went in, nothing went in at all. */
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

const STOPPED = 'it was stopped before it went in';
const UNKNOWN = 'Codex did not answer; whether it has it is unknown';

/** Tells when a thread or its record may have changed, and for how long it has been idle or gone. */
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

  /** For how long it has been idle without a break; 0 while it is not. */
  get freeMs(): number {
    return this.#freeSince === null ? 0 : performance.now() - this.#freeSince;
  }

  get goneMs(): number {
    return this.#goneSince === null ? 0 : performance.now() - this.#goneSince;
  }

  /** Counts from now on. */
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
