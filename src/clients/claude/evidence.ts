import { closeSync, openSync, readSync, statSync, watch } from 'node:fs';
import { dirname } from 'node:path';
import { transcriptOf } from './transcript.ts';
import type { Parcel } from '../../core/ports/way-in.ts';
import type { Evidence } from '../../core/receipt.ts';

/** Time for a session to record a message: a busy one does so at its next step. */
const PATIENCE_MS = 20_000;
/** Poll interval, in case a file event is lost or there is no transcript yet. */
const LOOK_MS = 500;

/**
 * Waits until the transcript of a Claude session has these messages as channel messages: then they are part of the model's input. The client
 * itself writes the transcript. Only lines that are written from now on count. Two things prove nothing: a line that only names the id (the
 * model may have read a file), and a line that puts the message into the client's queue.
 */
export class ShownInTranscript {
  constructor(
    readonly folders: readonly string[],
    readonly session: string,
  ) {}

  async wait(parcels: readonly Parcel[], signal: AbortSignal, patienceMs = PATIENCE_MS): Promise<Evidence | null> {
    const written = new NewLines(this.folders, this.session);
    const stop = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
    while (!stop.aborted) {
      const { path, lines: all } = written.read();
      const lines = all.filter(isFromChannel);
      if (path && parcels.every(({ id }) => lines.some((line) => line.includes(`message_id=\\"${id}\\"`))))
        return { transcript: path, session: this.session };
      await nextChange(path, stop);
    }
    return null;
  }
}

/** Returns a check: has the transcript, in the lines that are written from now on, this text as a user's prompt? */
export function newPromptCheck(folders: readonly string[], session: string): (text: string) => boolean {
  const written = new NewLines(folders, session);
  return (text) => {
    const wanted = text.trim();
    return written.read().lines.some((line) => userSaid(line)?.trim() === wanted);
  };
}

/** The lines that a transcript gets after construction. A transcript that does not exist yet is read from its beginning. */
class NewLines {
  readonly #before: number;

  constructor(
    readonly folders: readonly string[],
    readonly session: string,
  ) {
    const path = transcriptOf(folders, session);
    this.#before = path ? (statSync(path, { throwIfNoEntry: false })?.size ?? 0) : 0;
  }

  read(): { path: string | null; lines: string[] } {
    const path = transcriptOf(this.folders, this.session);
    return { path, lines: path ? textAfter(path, this.#before).split('\n') : [] };
  }
}

/** The text of a user's entry; null for any other entry and for an incomplete line. */
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

function isFromChannel(line: string): boolean {
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

/** Returns when the file may have changed, at the latest after `LOOK_MS`. */
async function nextChange(path: string | null, stop: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const watcher = path ? watch(dirname(path), () => resolve()) : undefined;
  const timer = setTimeout(resolve, LOOK_MS);
  stop.addEventListener('abort', () => resolve(), { once: true });
  await promise;
  clearTimeout(timer);
  watcher?.close();
}
