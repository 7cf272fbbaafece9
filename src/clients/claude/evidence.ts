import { closeSync, openSync, readSync, statSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { transcriptOf } from './transcript.ts';
import type { Parcel } from '../../core/ports/way-in.ts';
import type { Evidence } from '../../core/receipt.ts';

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
    const written = new WrittenSince(this.folders, this.session);
    const stop = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
    while (!stop.aborted) {
      const { path, lines: all } = written.look();
      const lines = all.filter(isSaid);
      if (path && parcels.every(({ id }) => lines.some((line) => line.includes(`message_id=\\"${id}\\"`))))
        return { transcript: path, session: this.session };
      await change(path, stop);
    }
    return null;
  }
}

/** Tells whether the transcript of a Claude session shows, in what is written from now on, that its user said this. */
export function saidFromNowOn(folders: readonly string[], session: string): (text: string) => boolean {
  const written = new WrittenSince(folders, session);
  return (text) => {
    const wanted = text.trim();
    return written.look().lines.some((line) => userSaid(line)?.trim() === wanted);
  };
}

/** What a transcript has more than when this was made. One that is begun later is read whole. */
class WrittenSince {
  readonly #before: number;

  constructor(
    readonly folders: readonly string[],
    readonly session: string,
  ) {
    const path = transcriptOf(folders, session);
    this.#before = path ? (statSync(path, { throwIfNoEntry: false })?.size ?? 0) : 0;
  }

  look(): { path: string | null; lines: string[] } {
    const path = transcriptOf(this.folders, this.session);
    return { path, lines: path ? textAfter(path, this.#before).split('\n') : [] };
  }
}

/** The text of an entry that is a user's; a queue's, a model's and a line that is only half there have none. */
function userSaid(line: string): string | null {
  if (!line.includes('"type":"user"')) return null;
  try {
    const { type, message } = JSON.parse(line) as { type?: string; message?: { content?: unknown } };
    if (type !== 'user') return null;
    const content = message?.content;
    if (typeof content === 'string') return content;
    const parts = (Array.isArray(content) ? content : []) as { type?: string; text?: string }[];
    return parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
  } catch {
    return null;
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
