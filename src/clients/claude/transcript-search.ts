import { closeSync, openSync, readSync, statSync } from 'node:fs';
import type { MessageId } from '../../core/names.ts';
import { idInFence } from '../../delivery/fit.ts';
import { endOfLines, linesFrom } from '../../sessions/follow.ts';
import { uuidFor } from './transcript.ts';

/** A transcript is searched backwards in steps of this. */
const STEP = 1024 * 1024;
/** Bytes of the longest id, and more. */
const LONGEST_NAME = 1024;
/** Lines bear the time at which something happened, and are written a little later. */
const LATE_MS = 5000;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// Where to begin to read a transcript about a message. Transcripts are long: what is before that place is searched, and not read.

/** A message's id as Claude Code keeps it: it drops an id that is no UUID. */
export function peerIdOf(id: MessageId): string {
  return UUID.test(id) ? id : uuidFor(`parley ${id}`);
}

/** Where to begin to read about messages that were handed over at this time (Unix ms), or before that to a client that was killed. */
export function placeOfMail(path: string, ids: readonly MessageId[], since: number): number {
  const recent = placeBefore(path, since - LATE_MS);
  return recent === 0 ? 0 : Math.min(recent, placeNaming(path, ids));
}

/** A place in a transcript before which everything is older than this. */
export function placeBefore(path: string, time: number): number {
  for (let from = bytesOf(path) - STEP; from > 0; from -= STEP) {
    for (const line of linesFrom(path, from)) {
      // The first one may be the end of a line. Of the others only these bear the time at which they were written.
      const [, at] = line.from > from ? (TIMED.exec(line.text) ?? []) : [];
      if (at !== undefined && Date.parse(at) < time) return line.from;
      if (at !== undefined || line.to > from + STEP) break;
    }
  }
  return 0;
}

/** The first line of a transcript that names one of these messages; its end if there is none. Reads no line: transcripts are long. */
export function placeNaming(path: string, ids: readonly MessageId[]): number {
  // The id in a fence and the one that the client keeps may begin alike.
  const names = [...new Set(ids.flatMap((id) => [idInFence(id), peerIdOf(id).slice(0, 8)]))];
  const end = endOfLines(path);
  const fd = end > 0 ? openSync(path, 'r') : null;
  if (fd === null) return end;
  try {
    const buffer = Buffer.alloc(STEP + LONGEST_NAME);
    for (let [at, line] = [0, 0]; at < end; at += STEP) {
      const bytes = buffer.subarray(0, readSync(fd, buffer, 0, buffer.length, at));
      const found = names.map((name) => bytes.indexOf(name)).filter((place) => place >= 0);
      const before = bytes.lastIndexOf('\n', found.length > 0 ? Math.min(...found) : STEP - 1);
      if (before >= 0) line = at + before + 1;
      if (found.length > 0) return line;
    }
    return end;
  } finally {
    closeSync(fd);
  }
}

const TIMED = /^\{"type":"(?:api-request|queue-operation)",.{0,300}?"timestamp":"([^"]+)"/;

export function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
