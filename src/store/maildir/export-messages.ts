import type { AgentName, MessageId } from '../../core/names.ts';
import { codeOf } from '../../core/disk.ts';
import type { CopyNumber } from '../../core/ports/journal.ts';
import type { FoundMessage } from './files.ts';

/** What the main thread says to the export worker. */
export type ExportRequest =
  | { do: 'open'; root: string }
  /** There may be copies without a file. `turn` comes back when none is left. */
  | { do: 'export'; turn: number; isUrgent: boolean }
  | { do: 'look'; ticket: number; mailbox: AgentName }
  | { do: 'list'; ticket: number; folder: string }
  /** Tell of everything that comes into this mailbox and is newer than this number. */
  | { do: 'watch'; mailbox: AgentName; since: number }
  | { do: 'unwatch'; mailbox: AgentName }
  /** We bring these into new/ ourselves: nobody need be told. */
  | { do: 'expect'; mailbox: AgentName; ids: MessageId[] }
  | { do: 'close' };

/** What the export worker says to the main thread. */
export type Report =
  /** The first one. It is from no home. */
  | { say: 'loaded' }
  /** `handled`: with those that were taken before they had a file. */
  | { say: 'exported'; copies: CopyNumber[]; handled: number }
  /** Nothing is left to be exported, or what is left cannot be exported now. */
  | { say: 'idle'; turn: number }
  | { say: 'noticed'; mailbox: AgentName; changes: Changes }
  | { say: 'answer'; ticket: number; answer: unknown }
  | { say: 'failed'; ticket: number; trouble: ExportTrouble }
  | { say: 'trouble'; trouble: ExportTrouble }
  | { say: 'closed' };

/** For which home, or from which. */
export type Addressed<T> = T & { home: number };

/** What other programs did in a mailbox; `arrived` are ids that came into new/ since the last look, by others than us. */
export interface Changes extends FoundMessage {
  arrived: MessageId[];
}

/** An error in words: between threads it would lose its code. */
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
