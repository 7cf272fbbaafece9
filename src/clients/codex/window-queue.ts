import { dirname } from 'node:path';
import { Wakeup } from '../../core/wait.ts';
import type { MessageId } from '../../core/names.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import type { Evidence } from '../../core/receipt.ts';
import { endOfLines, FolderWatch } from '../../sessions/follow.ts';
import { isRecord, RemoteError } from '../../wire/jsonrpc.ts';
import { mentionsAny, RolloutProof } from './proof.ts';
import { AppServer } from './queue.ts';
import type { CodexPlace } from './queue.ts';
import { rolloutOf } from './rollout.ts';

/** In case a file event was lost. */
const LOOK_MS = 1000;

/**
 * Mail for a window that runs without the daemon, by the queue of its thread, as `codex queue` uses it. The window looks there every few
 * seconds and begins a turn with each message when it is idle; an open dialog and the composer are not touched. Codex queues nothing for a
 * thread without a record: the first prompt is its user's. The id of the message is in the queue and in the record, so nothing goes in
 * twice, and what the window has not begun can be taken back.
 */
export class WindowQueueWay implements Way {
  readonly name = 'queue';

  constructor(
    readonly place: CodexPlace,
    readonly home: string,
    readonly thread: string,
    readonly hasWindow: () => boolean,
  ) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    const path = rolloutOf(this.home, this.thread);
    if (path === null) return left('Codex queues nothing before the first prompt of its user', true);
    if (signal.aborted || !this.hasWindow()) return left('the window of Codex is closed', true);
    const ids = parcels.map(({ id }) => id);
    const record = new RolloutProof(path, mentionsAny(path, ids) ? 0 : endOfLines(path), ids);
    let isAdding = false;
    try {
      await queue(this.place, this.thread, async (items) => {
        for (const { id, text } of parcels) {
          if (record.read().of(id) !== null || (await items.has(id))) continue;
          isAdding = true;
          await items.add(id, text);
        }
      });
    } catch (error) {
      if (!isAdding) return left(wordsOf(error), true);
      if (await this.#takenBack(ids, record)) return left(wordsOf(error), true);
      return this.#offered(wordsOf(error));
    }
    return this.#proven(ids, record, signal);
  }

  async #proven(ids: readonly MessageId[], record: RolloutProof, signal: AbortSignal): Promise<Attempt> {
    const wakeup = new Wakeup();
    const folders = new FolderWatch(() => wakeup.notify());
    folders.set([dirname(record.path)]);
    try {
      for (;;) {
        const proofs = ids.flatMap((id) => record.read().of(id) ?? []);
        const shown = proofs.flatMap((proof) =>
          proof !== 'unknown' && proof.step === 'shown' ? [proof.evidence] : [],
        );
        if (shown.length === ids.length)
          return { outcome: 'taken', step: 'shown', evidence: this.#evidence(shown.at(-1) ?? {}) };
        if (signal.aborted || !this.hasWindow()) {
          const because = signal.aborted ? 'it was stopped before anything was proven' : 'the window of Codex ended';
          return (await this.#takenBack(ids, record)) ? left(because, true) : this.#offered(because);
        }
        await wakeup.nextWithin(LOOK_MS, signal);
      }
    } finally {
      folders.close();
      wakeup.close();
    }
  }

  /** True if nothing of it is in the queue any more, and nothing of it went in. */
  async #takenBack(ids: readonly MessageId[], record: RolloutProof): Promise<boolean> {
    const isOut = await takeBack(this.place, this.thread, ids);
    return isOut && ids.every((id) => record.read().of(id) === null);
  }

  #offered(because: string): Attempt {
    return { outcome: 'offered', evidence: this.#evidence({ because }) };
  }

  #evidence(more: Evidence): Evidence {
    return { way: this.name, client: 'codex', session: this.thread, ...more };
  }
}

/** Takes messages out of the queue of a thread. False if nobody knows whether they are out. */
export async function takeBack(place: CodexPlace, thread: string, ids: readonly MessageId[]): Promise<boolean> {
  try {
    await queue(place, thread, async (items) => {
      for (const id of ids) await items.remove(id);
    });
    return true;
  } catch {
    return false;
  }
}

interface QueueCalls {
  has(id: MessageId): Promise<boolean>;
  add(id: MessageId, text: string): Promise<void>;
  /** One that is not there stays away. */
  remove(id: MessageId): Promise<void>;
}

async function queue(place: CodexPlace, threadId: string, act: (items: QueueCalls) => Promise<void>): Promise<void> {
  const server = new AppServer(place);
  const found = async (id: MessageId): Promise<string | null> => {
    const { data } = await server.call('thread/queue/list', { threadId });
    const items: unknown[] = Array.isArray(data) ? data : [];
    const item = items.find((one) => isRecord(one) && one['clientUserMessageId'] === id);
    return isRecord(item) ? String(item['id']) : null;
  };
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
        if (queuedSubmissionId !== null) await server.call('thread/queue/delete', { threadId, queuedSubmissionId });
      },
    });
  } finally {
    await server.close();
  }
}

function wordsOf(error: unknown): string {
  return error instanceof RemoteError ? `Codex refused it: ${error.message}` : 'Codex did not answer';
}

function left(because: string, retry: boolean): Attempt {
  return { outcome: 'left', because, retry };
}
