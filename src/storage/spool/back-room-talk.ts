import type { AgentName, MessageId } from '../../protocol/names.ts';
import { codeOf } from '../disk.ts';
import type { CopyNumber } from '../ledger/late.ts';
import type { Found } from './maildir-found.ts';

/** What the counter (the main thread) says to the clerk of one home in the back room (the worker). */
export type Order =
  | { say: 'open'; root: string }
  /** There may be copies without a file. `turn` comes back when none is left. */
  | { say: 'file'; turn: number; mayFile: boolean; hurry: boolean }
  /** The answer to `drafted`; null if the ledger could not be asked. */
  | { say: 'mine'; mine: boolean[] | null }
  | { say: 'look'; ticket: number; mailbox: AgentName }
  | { say: 'list'; ticket: number; folder: string }
  /** Tell of everything that comes into this mailbox and is newer than this number. */
  | { say: 'watch'; mailbox: AgentName; since: number }
  | { say: 'unwatch'; mailbox: AgentName }
  /** We put these back into new/ ourselves: no news. */
  | { say: 'put back'; mailbox: AgentName; ids: MessageId[] }
  | { say: 'close' };

/** An order for the clerk of a home. */
export type Errand = Exclude<Order, { say: 'open' }>;

/** What the clerk says to the counter. */
export type Report =
  /** A draft of each of these is written: may they be published? */
  | { say: 'drafted'; copies: CopyNumber[] }
  | { say: 'filed'; copies: CopyNumber[]; handled: number }
  /** Nothing is left to be filed, or what is left cannot be filed now. */
  | { say: 'idle'; turn: number; left: number }
  | { say: 'looked'; ticket: number | null; mailbox: AgentName; found: Looked }
  | { say: 'listed'; ticket: number; ids: MessageId[] }
  /** What was asked for under this ticket cannot be done. */
  | { say: 'failed'; ticket: number; trouble: Trouble }
  | { say: 'trouble'; trouble: Trouble }
  | { say: 'closed' };

/** An error in words: between threads it would lose its code. */
export interface Trouble {
  text: string;
  code: string | undefined;
}

export function troubleOf(error: unknown): Trouble {
  return { text: error instanceof Error ? error.message : String(error), code: codeOf(error) };
}

export function errorOf({ text, code }: Trouble): Error {
  return Object.assign(new Error(text), code && { code });
}

/** What a look into a mailbox found; `arrived` are ids that have come into new/ since the last look, by others than us. */
export interface Looked extends Found {
  arrived: MessageId[];
}

/** To which clerk, or from which. */
export type Addressed<T> = T & { home: number };
