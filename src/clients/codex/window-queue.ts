import { dirname } from 'node:path';
import { Wakeup } from '../../core/wait.ts';
import type { MessageId } from '../../core/names.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import type { Evidence } from '../../core/receipt.ts';
import { endOfLines, FolderWatch } from '../../sessions/follow.ts';
import { RemoteError } from '../../wire/jsonrpc.ts';
import { mentionsAny, RolloutProof } from './proof.ts';
import { AppServer } from './queue.ts';
import type { CodexPlace } from './queue.ts';
import { rolloutOf } from './rollout.ts';
import { isUnknownThread, placeInQueue } from './rpc.ts';

/** Poll interval, in case a file event is lost. */
const LOOK_MS = 1000;
/** An idle window takes a message out of its queue within seconds. After this time Parley checks whether the message is still there. */
const FORGOTTEN_MS = 30_000;

/**
 * Hands mail to a window that runs without the daemon, through the queue of its thread, which `codex queue` also uses. The window polls the
 * queue every few seconds and begins a turn with each message when it is idle; open dialogs and the composer are not touched. Codex has no
 * queue for a thread without a record, so the user's first prompt must come first. The id of a message is in the queue and in the record, so
 * no message goes in twice, and a message that the window has not begun can be taken back.
 */
export class WindowQueueWay implements Way {
  readonly name = 'queue';

  constructor(
    readonly place: CodexPlace,
    readonly home: string,
    readonly thread: string,
    readonly hasWindow: () => boolean,
    readonly forgottenMs = FORGOTTEN_MS,
  ) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    const path = rolloutOf(this.home, this.thread);
    if (path === null) return left("Codex has no queue before its user's first prompt", true);
    if (signal.aborted || !this.hasWindow()) return left('the window of Codex is closed', true);
    const ids = parcels.map(({ id }) => id);
    const record = new RolloutProof(path, mentionsAny(path, ids) ? 0 : endOfLines(path), ids);
    /** The messages that are, or may be, in the queue. */
    const put: MessageId[] = [];
    try {
      await queue(this.place, this.thread, async (items) => {
        for (const { id, text } of parcels) {
          if (record.read().of(id) !== null) continue;
          if (!(await items.has(id)))
            await items.add(id, text).catch((error: unknown) => {
              if (!(error instanceof RemoteError)) put.push(id);
              throw error;
            });
          put.push(id);
        }
      });
    } catch (error) {
      return this.#stopped(put, record, wordsOf(error));
    }
    return this.#proven(put, record, signal);
  }

  async #proven(put: readonly MessageId[], record: RolloutProof, signal: AbortSignal): Promise<Attempt> {
    const { ids } = record;
    const wakeup = new Wakeup();
    const folders = new FolderWatch(() => wakeup.notify());
    folders.set([dirname(record.path)]);
    let [lookAt, missed] = [performance.now() + this.forgottenMs, 0];
    try {
      for (;;) {
        const proofs = ids.map((id) => record.read().of(id));
        const shown = proofs.flatMap((proof) =>
          proof !== null && proof !== 'unknown' && proof.step === 'shown' ? [proof.evidence] : [],
        );
        if (shown.length === ids.length)
          return { outcome: 'taken', step: 'shown', evidence: this.#evidence(shown.at(-1) ?? {}) };
        if (signal.aborted) return await this.#stopped(put, record, 'Parley was stopped before Codex proved anything');
        if (!this.hasWindow()) return await this.#stopped(put, record, 'the window of Codex ended');
        if (performance.now() >= lookAt) {
          // Two checks, because at the first one the message may be on its way from the queue into a turn.
          missed = (await this.#isMissing(record)) ? missed + 1 : 0;
          if (missed > 1)
            return ids.every((id) => record.of(id) === null) ? left(FORGOTTEN, false) : this.#offered(FORGOTTEN);
          lookAt = performance.now() + this.forgottenMs;
        }
        await wakeup.nextWithin(Math.min(LOOK_MS, this.forgottenMs), signal);
      }
    } finally {
      folders.close();
      wakeup.close();
    }
  }

  /** Is a message neither in the queue nor in the record, while no turn runs that could record it? */
  async #isMissing(record: RolloutProof): Promise<boolean> {
    const open = record.ids.filter((id) => record.of(id) === null);
    if (open.length === 0 || record.isInTurn) return false;
    let isQueued = false;
    try {
      await queue(this.place, this.thread, async (items) => {
        for (const id of open) isQueued ||= await items.has(id);
      });
    } catch {
      return false;
    }
    return !isQueued && !record.read().isInTurn && open.every((id) => record.of(id) === null);
  }

  /** Takes back the messages that are still queued. A message that is not may be in a turn that the record does not show yet. */
  async #stopped(put: readonly MessageId[], record: RolloutProof, because: string): Promise<Attempt> {
    const out = put.length === 0 ? [] : await takeBack(this.place, this.thread, put);
    const isIn = record.ids.some((id) => record.read().of(id) !== null);
    return out?.length === put.length && !isIn ? left(because, true) : this.#offered(because);
  }

  #offered(because: string): Attempt {
    return { outcome: 'offered', evidence: this.#evidence({ because }) };
  }

  #evidence(more: Evidence): Evidence {
    return { way: this.name, client: 'codex', session: this.thread, ...more };
  }
}

/** The user removed the message, or interrupted its turn before Codex recorded it. It is not queued again: the hook brings it. */
const FORGOTTEN = "the message is no longer in the queue of Codex; it comes with the user's next prompt";

/** Removes messages from the queue of a thread and returns the removed ids. Null if that is unknown. */
export async function takeBack(
  place: CodexPlace,
  thread: string,
  ids: readonly MessageId[],
  signal?: AbortSignal,
): Promise<MessageId[] | null> {
  const out: MessageId[] = [];
  const remove = async (items: QueueCalls): Promise<void> => {
    for (const id of ids) if (await items.remove(id)) out.push(id);
  };
  try {
    await queue(place, thread, remove, signal);
    return out;
  } catch (error) {
    return isUnknownThread(error) ? [] : null;
  }
}

interface QueueCalls {
  has(id: MessageId): Promise<boolean>;
  add(id: MessageId, text: string): Promise<void>;
  /** False if the message is not in the queue. */
  remove(id: MessageId): Promise<boolean>;
}

async function queue(
  place: CodexPlace,
  threadId: string,
  act: (items: QueueCalls) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const server = new AppServer(place);
  // Closing the server ends all waiting calls.
  const end = (): void => void server.close();
  signal?.addEventListener('abort', end);
  const found = async (id: MessageId): Promise<string | null> =>
    placeInQueue(await server.call('thread/queue/list', { threadId }), id);
  try {
    await server.greet();
    await act({
      has: async (id) => (await found(id)) !== null,
      async add(id, text) {
        const input = [{ type: 'text', text, text_elements: [] }];
        await server.call('thread/queue/add', { threadId, clientUserMessageId: id, input });
      },
      async remove(id) {
        const queuedSubmissionId = await found(id);
        if (queuedSubmissionId === null) return false;
        const { deleted } = await server.call('thread/queue/delete', { threadId, queuedSubmissionId });
        return deleted === true;
      },
    });
  } finally {
    signal?.removeEventListener('abort', end);
    await server.close();
  }
}

function wordsOf(error: unknown): string {
  return error instanceof RemoteError ? `Codex refused it: ${error.message}` : 'Codex did not answer';
}

function left(because: string, retry: boolean): Attempt {
  return { outcome: 'left', because, retry };
}
