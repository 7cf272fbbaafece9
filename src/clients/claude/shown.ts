import { closeSync, openSync, readSync, statSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { transcriptOf } from '../../delivery/transcript.ts';
import type { Parcel } from '../../delivery/way.ts';
import type { Evidence } from '../../protocol/receipt.ts';

/** How long a session may take to write down what it was told: one at work does so at its next step. */
const PATIENCE_MS = 20_000;
/** In case a file event was lost, or the transcript is only being begun. */
const LOOK_MS = 500;

/**
 * Waits until the transcript of a Claude session, which the client writes itself, shows these messages as what a channel said: then they
 * are part of what its model is given. Only what is written from now on counts. An id that merely occurs proves nothing (the model may
 * have looked into a file), nor does a line that says that something was put into the client's queue.
 */
export class ShownInTranscript {
  constructor(
    readonly folders: readonly string[],
    readonly session: string,
  ) {}

  async wait(parcels: readonly Parcel[], signal: AbortSignal, patienceMs = PATIENCE_MS): Promise<Evidence | null> {
    const before = this.#size();
    const stop = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
    while (!stop.aborted) {
      const path = transcriptOf(this.folders, this.session);
      const lines = path ? textAfter(path, before).split('\n').filter(isSaid) : [];
      if (path && parcels.every(({ id }) => lines.some((line) => line.includes(`message_id=\\"${id}\\"`))))
        return { transcript: path, session: this.session };
      await change(path, stop);
    }
    return null;
  }

  #size(): number {
    const path = transcriptOf(this.folders, this.session);
    return path ? (statSync(path, { throwIfNoEntry: false })?.size ?? 0) : 0;
  }
}

function isSaid(line: string): boolean {
  return line.includes('<channel ') && !line.includes('"type":"queue-operation"');
}

function textAfter(path: string, from: number): string {
  const fd = openSync(path, 'r');
  try {
    const size = statSync(path).size;
    const bytes = Buffer.alloc(Math.max(0, size - from));
    const read = readSync(fd, bytes, 0, bytes.length, from);
    return bytes.subarray(0, read).toString('utf8');
  } finally {
    closeSync(fd);
  }
}

/** Returns when the file may have changed, or after a while. */
async function change(path: string | null, stop: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const watcher = path ? watch(dirname(path), () => resolve()) : undefined;
  const timer = setTimeout(resolve, LOOK_MS);
  stop.addEventListener('abort', () => resolve(), { once: true });
  await promise;
  clearTimeout(timer);
  watcher?.close();
}
