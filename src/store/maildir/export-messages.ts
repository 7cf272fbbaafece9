import type { AgentName, MessageId } from '../../core/names.ts';
import { codeOf } from '../../core/disk.ts';
import type { CopyNumber } from '../../core/ports/journal.ts';
import type { FolderDifferences } from './files.ts';

/** Messages from the main thread to the export worker. */
export type ExportRequest =
  | { do: 'open'; root: string }
  /** Export copies without a file, if there are any. The `idle` report that follows repeats `turn`. */
  | { do: 'export'; turn: number; isUrgent: boolean }
  | { do: 'look'; ticket: number; mailbox: AgentName }
  | { do: 'list'; ticket: number; folder: string }
  /** Report every arrival in this mailbox with a higher sequence number than `since`. */
  | { do: 'watch'; mailbox: AgentName; since: number }
  | { do: 'unwatch'; mailbox: AgentName }
  /** We move these into new/ ourselves: do not report them as arrivals. */
  | { do: 'expect'; mailbox: AgentName; ids: MessageId[] }
  | { do: 'close' };

/** Messages from the export worker to the main thread. */
export type Report =
  /** The first report. It belongs to no home. */
  | { say: 'loaded' }
  /** `handled` includes copies that a reader took before they had a file. */
  | { say: 'exported'; copies: CopyNumber[]; handled: number }
  /** Every copy is exported, except those that cannot be exported now. */
  | { say: 'idle'; turn: number }
  | { say: 'noticed'; mailbox: AgentName; changes: Changes }
  | { say: 'answer'; ticket: number; answer: unknown }
  | { say: 'failed'; ticket: number; trouble: ExportTrouble }
  | { say: 'trouble'; trouble: ExportTrouble }
  | { say: 'closed' };

/** A message with the number of its home. */
export type Addressed<T> = T & { home: number };

/** What other programs did in a mailbox. `arrived`: ids that came into new/ since the last look and were not expected. */
export interface Changes extends FolderDifferences {
  arrived: MessageId[];
}

/** An error as plain values: an `Error` loses its code between threads. */
export interface ExportTrouble {
  text: string;
  code: string | undefined;
}

export function troubleOf(error: unknown): ExportTrouble {
  return { text: error instanceof Error ? error.message : String(error), code: codeOf(error) };
}

export function errorOf({ text, code }: ExportTrouble): Error {
  return Object.assign(new Error(text), code && { code });
}
