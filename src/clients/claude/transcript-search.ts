import { closeSync, openSync, readSync, statSync } from 'node:fs';
import type { MessageId } from '../../core/names.ts';
import { idInFence } from '../../delivery/fit.ts';
import { endOfLines, linesFrom } from '../../sessions/follow.ts';
import { uuidFor } from './transcript.ts';

/** Transcripts are searched in steps of this many bytes. */
const STEP = 1024 * 1024;
/** More than the bytes of the longest id: steps overlap by this. */
const LONGEST_NAME = 1024;
/** A line has the time of its event, and is written a little later. */
const LATE_MS = 5000;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

// Finds where to begin reading a transcript about a message. Transcripts are long, so everything before that place is searched but not parsed.

/** The id under which Claude Code gets a message. It drops ids that are not UUIDs. */
export function peerIdOf(id: MessageId): string {
  return UUID.test(id) ? id : uuidFor(`parley ${id}`);
}

/** Where to begin reading about messages that were handed over at `since` (Unix ms), or earlier to a client that was killed. */
export function placeOfMail(path: string, ids: readonly MessageId[], since: number): number {
  const recent = placeBefore(path, since - LATE_MS);
  return recent === 0 ? 0 : Math.min(recent, placeNaming(path, ids));
}

/** A place in a transcript before which all lines are older than this time. */
export function placeBefore(path: string, time: number): number {
  for (let from = bytesOf(path) - STEP; from > 0; from -= STEP) {
    for (const line of linesFrom(path, from)) {
      // The first line may be cut. Of the others, only the kinds in TIMED have the time at which they were written.
      const [, at] = line.from > from ? (TIMED.exec(line.text) ?? []) : [];
      if (at !== undefined && Date.parse(at) < time) return line.from;
      if (at !== undefined || line.to > from + STEP) break;
    }
  }
  return 0;
}

/** The offset of the first line that names one of these messages, or the end of the transcript. Searches bytes, because transcripts are long. */
export function placeNaming(path: string, ids: readonly MessageId[]): number {
  // The id in a fence and the peer id may begin alike.
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
