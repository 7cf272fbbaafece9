import type { Attention } from '../../protocol/attention.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Refusal } from '../../protocol/refusal.ts';
import type { Acceptance, Entry, Mail } from './ledger.ts';

/** Which copy: the number of its message, and whose it is. */
export interface CopyNumber {
  seq: number;
  mailbox: AgentName;
}

/** A copy that waits, with its message as it is stored. */
export interface Standing extends Mail {
  id: MessageId;
  attention: Attention;
  quiet: boolean;
}

/** Which of the waiting copies are meant. */
export type Shelved = 'loud' | 'digest' | 'kept';

/** A waiting copy that somebody should write a file for. */
export type Unexported = Standing & CopyNumber;

/** A copy that waits or is in a hand: whether it waits, and whether its file should stand in the mailbox. */
export interface OpenCopy {
  seq: number;
  id: MessageId;
  waits: boolean;
  hasFile: boolean;
}

/** Before all copies. */
export const FIRST: CopyNumber = { seq: 0, mailbox: '' as AgentName };

/** Where a whole file of a copy was found: where it waits, as a draft, or nowhere. */
export type FilePlace = 'exported' | 'draft' | 'nowhere';

/**
 * The ledger's part for a spool that answers first and writes its files later.
 *
 * A copy accepted together with others is *fileless*: its message stands in the ledger alone. While it waits it is also *unexported*:
 * somebody should write its file. It leaves that queue in one of two ways, and the ledger lets only one of them happen:
 * a reader claims it and gets the message from the ledger, so that it never has a file (put back, it is unexported again);
 * or the exporter, which wrote a draft of it, says `drafted`, and from then on it has a file like every other copy, if not one that was flushed.
 */
export interface ExportQueue {
  /**
   * Accepts many entries as one act, each with its own outcome: a refusal of one never hurts the others. Their copies are
   * unexported. What is accepted is on disk only after `flush`.
   */
  acceptTogether(entries: Entry[]): Promise<(Acceptance | Refusal)[]>;
  /** Everything committed before this call is on disk when it returns. `alone`: nobody else waits for this thread meanwhile. */
  flush(alone?: boolean): Promise<void>;
  /** This process is asked by many at once. */
  tuneForServer(cacheKb?: number): void;
  /** The number of the newest message. */
  newest(): Promise<number>;
  /** One waiting copy, or null. */
  standing(mailbox: AgentName, id: MessageId): Promise<Standing | null>;
  /**
   * Like `waiting`, and says of each copy whether it waits quietly. `only`: those that do not, those for a digest, or those that a guard
   * keeps for a digest; of the others no text is read.
   */
  shelf(mailbox: AgentName, after: number, limit: number, only?: Shelved): Promise<Standing[]>;
  /** Copies of a mailbox that wait or are held, after a number, in order of arrival: there may be very many. */
  openCopies(mailbox: AgentName, after: number, limit: number): Promise<OpenCopy[]>;
  /** The mailboxes whose names begin so and in which something waits or is held, by name. Costs as many as there are, whatever waits. */
  mailboxesWithMail(prefix: string): Promise<AgentName[]>;
  /** Copies without a file, oldest first, or those that were drafted and are not known to be exported. */
  unexported(after: CopyNumber, limit: number, drafted?: boolean): Promise<Unexported[]>;
  /** Nearly always zero where no relay runs. At most `limit` are counted. */
  unexportedCount(limit: number): Promise<number>;
  /** A draft of each of these is written: those that still wait may be published, and they alone. Returns which. */
  drafted(copies: CopyNumber[]): Promise<boolean[]>;
  /** These drafted copies are published, or were taken before that. */
  exported(copies: CopyNumber[]): Promise<void>;
  /** Both at once, for a spool in which a draft stands where readers look. Returns which of these still waited for that. */
  placed(copies: CopyNumber[]): Promise<boolean[]>;
  /** After a restart of the machine: asks for every exported copy that waits where its file is, and believes it. */
  recount(look: (copy: { mailbox: AgentName; id: MessageId; quiet: boolean }) => FilePlace): Promise<void>;
}
