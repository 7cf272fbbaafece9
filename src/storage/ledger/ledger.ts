import type { Attention } from '../../protocol/attention.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId, SendKey } from '../../protocol/names.ts';
import type { Disposition, Evidence, Receipt } from '../../protocol/receipt.ts';
import type { Duties } from './duties.ts';
import type { ExportQueue } from './export-queue.ts';

/** One recipient's copy, with the decision how that recipient should see it. */
export interface Copy {
  mailbox: AgentName;
  attention: Attention;
}

/** A message with everybody who gets a copy: decided once, then never again. */
export interface Entry {
  message: Message;
  copies: Copy[];
  key?: SendKey | undefined;
  /** When this key was first tried, where the caller knows. */
  firstTried?: string | undefined;
  /** The message as JSON, where the caller has it already. */
  text?: string | undefined;
  /** Its id was made for this entry: nobody can have brought it before, so nobody need look. */
  fresh?: true | undefined;
}

/** What the ledger holds under a key. `first` is true for the one caller whose entry it is. */
export interface Acceptance {
  message: Message;
  copies: Copy[];
  first: boolean;
  /** Its body was forgotten, so nobody can tell any more whether a retry says the same. */
  pruned?: boolean;
  /** Its number in the order of arrival, where it is new. */
  seq?: number;
  /** The message as JSON, where somebody has it already. */
  text?: string;
}

/** A message that waits, as it is stored and unparsed, with its number in the order of arrival. */
export interface Mail {
  seq: number;
  text: string;
}

/** Where a copy stands. `held`: claimed by a reader, or put back until a time. `gone`: another program took it. */
export type CopyState = 'stored' | 'held' | 'settled' | 'gone';

/** One copy as the ledger knows it. */
export interface CopyRecord extends Copy {
  id: MessageId;
  state: CopyState;
  /** How often a reader began to read it and did not finish. A release without having seen it does not count. */
  attempt: number;
  /** Who holds it, and until when (ms). A held copy without an owner waits for its time. */
  owner: string | null;
  /** Held by whoever knows the owner's name, and not by a running process. */
  bearer: boolean;
  until: number | null;
  disposition: Disposition | null;
  settledAt: string | null;
  settledBy: Evidence | null;
  keep: boolean;
  /** It has no file: its message stands in the ledger alone. See late.ts. */
  fileless?: boolean;
}

/** How a copy ends. */
export interface Settlement {
  disposition: Disposition;
  by: Evidence;
  /** Keep the file in `cur/` instead of deleting it. */
  keep?: boolean;
}

/** A message with what became of each of its copies. */
export interface Trace {
  home?: string;
  message: Message;
  copies: (CopyRecord & { receipts: Receipt[] })[];
}

export interface Page {
  /** Only messages that this agent sent or got. */
  agent?: AgentName | undefined;
  thread?: MessageId | undefined;
  /** Only what is older than this sequence number: the next page. */
  before?: number | undefined;
  limit: number;
}

export interface HistoryRow {
  seq: number;
  /** Its body is no longer kept. */
  pruned: boolean;
  message: Message;
  recipients: AgentName[];
}

/** How many of a reader's last messages are looked at for one from a certain writer. */
export const LAST_MESSAGES = 20;

/** What anyone may ask about the past. Reading changes nothing. */
export interface Records {
  /** The message under this id, or null. */
  message(id: MessageId): Promise<Message | null>;
  /** The message and who has a copy of it, by name; null if the id is unknown. Costs less than to trace it. */
  addressed(id: MessageId): Promise<Pick<HistoryRow, 'message' | 'recipients'> | null>;
  /** The entry accepted under this sender's key, or null. */
  underKey(sender: AgentName, key: SendKey): Promise<Acceptance | null>;
  /** Ids that begin with this prefix: at most ten, newest first. */
  idsLike(prefix: string): Promise<MessageId[]>;
  copy(mailbox: AgentName, id: MessageId): Promise<CopyRecord | null>;
  /** Every copy of this mailbox that is stored or held, by id. */
  open(mailbox: AgentName): Promise<Map<MessageId, CopyRecord>>;
  /** The same, and no more of each than whether its file should stand in the mailbox: there may be very many. */
  openIds(mailbox: AgentName): Promise<Map<MessageId, boolean>>;
  /** The copies of this mailbox that this owner holds. Costs as many as are held, whatever waits. */
  heldBy(mailbox: AgentName, owner: string): Promise<CopyRecord[]>;
  /** What waits for this mailbox, in order of arrival, after this number: at most `limit`. Costs a page, not the history. */
  waiting(mailbox: AgentName, after: number, limit: number): Promise<Mail[]>;
  waitingCount(mailbox: AgentName): Promise<number>;
  /** Of what waits from after the one number up to the other: what was in a reader's hand before and came back. */
  returned(mailbox: AgentName, after: number, upTo: number, limit: number): Promise<Mail[]>;
  /** Newest first. Costs the same however much history there is. */
  history(page: Page): Promise<HistoryRow[]>;
  /** The messages of one exchange, oldest first: the last `limit` of them. */
  exchange(root: MessageId, limit: number): Promise<Message[]>;
  /**
   * The newest message since then (ms) that `from` sent to `to` by name, and to nobody else, unless `to` has written to `from`
   * after it; or null. Looks at the last 20 messages that each of them got, so it costs the same however much history there is.
   */
  unanswered(from: AgentName, to: AgentName, since: number): Promise<Message | null>;
  /** Messages that hold all these words, or, if none does, words that begin so; newest first. The first search after much mail takes a while: progress is told. */
  search(words: string, page: Page, onProgress?: (left: number) => void): Promise<HistoryRow[]>;
  /** Everything known of one message, with its evidence; null if the id is unknown. */
  trace(id: MessageId): Promise<Trace | null>;
}

export interface Troubles {
  /** Rows may be missing for files that exist: the ledger is new or rebuilt, or the machine was restarted. */
  fresh: boolean;
  /** Somebody holds a copy: it may be abandoned. */
  held: boolean;
  /** A copy waits without a file. */
  unexported: boolean;
}

/** The outcome of trying to claim some ids. Each id is in exactly one list. */
export interface Claimed {
  won: {
    id: MessageId;
    attempt: number;
    attention: Attention;
    /** It has no file, and as long as it is held nobody makes one: this is the message. */
    text?: string | undefined;
  }[];
  /** No row: a file of another program. Adopt it, then claim again. */
  unknown: MessageId[];
  /** Already settled: a file that came back from the dead. */
  spent: MessageId[];
  /** Held by a live reader. */
  busy: MessageId[];
  /** The disk is full: settle these before you claim more. */
  isScarce?: boolean;
}

/**
 * What happened, with proof; and the arbiter of what is new.
 *
 * A copy is `stored` until one reader claims it (`held`), and then `settled`, or `stored` again if that reader
 * released it, died, or let its lease run out. `settled` is final. `gone` is what we last saw: if the other program puts the
 * file back, the copy can be claimed again.
 * The write half below is for spools, which pair each step with their files; see spool.ts.
 */
export interface Ledger extends Records, ExportQueue, Duties {
  /** Takes an entry in as one act, or answers with what is already there under that sender and key. */
  accept(entry: Entry): Promise<Acceptance>;
  /** Makes rows for copies that are on disk without one, as waiting or as kept after reading. A copy that has a row keeps it. */
  adopt(entries: Entry[], as: 'stored' | 'kept'): Promise<void>;
  /** Of many racing claimers of one copy exactly one wins. A dead owner's or an expired claim is won anew. */
  claim(mailbox: AgentName, ids: MessageId[], owner: string, until: number): Promise<Claimed>;
  /** Prolongs what this owner still holds. Returns how many copies that was. */
  renew(mailbox: AgentName, owner: string, until: number): Promise<number>;
  /**
   * Ends the copies that this owner still holds, as one act, and returns their ids. `show` runs inside it, last: if it
   * throws, nothing was settled. If any of the ids is no longer this owner's, nothing is shown and nothing settled: null.
   */
  settle(
    mailbox: AgentName,
    owner: string,
    ids: MessageId[],
    settlement: Settlement,
    show?: () => void,
  ): Promise<MessageId[] | null>;
  /**
   * Puts held copies back: at once, or, with `until`, not before then. Returns the ids that were this owner's. `putBack` runs
   * inside, for each copy that waits again at once: if it throws, nothing was released. `begun`: its reader may have seen it, so it
   * comes again with a higher `attempt`.
   */
  release(
    mailbox: AgentName,
    owner: string,
    ids: MessageId[],
    until: number | null,
    because: Evidence,
    putBack?: (id: MessageId, attention: Attention) => void,
    begun?: boolean,
  ): Promise<MessageId[]>;
  /** Held copies whose owner is dead, whose lease has run out, or whose time has come. */
  abandoned(): Promise<CopyRecord[]>;
  /** Makes one abandoned copy wait again, unless somebody else was faster. `putBack` runs inside, last. */
  restore(copy: CopyRecord, putBack: () => void): Promise<boolean>;
  /** What somebody should see to. One cheap question: every command asks it, and nearly always the answer is nothing. */
  troubles(): Promise<Troubles>;
  /** Says that every file has its row. */
  complete(): Promise<void>;
  /** Ends every stored copy of a message as superseded and says what each copy's state was before. */
  withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]>;
  /** Notes that this copy is not with us any more: another program took it, or its file was no message. */
  lost(mailbox: AgentName, id: MessageId, how?: 'taken_elsewhere' | 'set_aside'): Promise<void>;
  /** Changes how a waiting copy is to be seen. */
  reconsider(mailbox: AgentName, id: MessageId, attention: Attention): Promise<void>;
  /** Adds one proven step. */
  record(mailbox: AgentName, id: MessageId, receipt: Receipt): Promise<void>;
  /**
   * Forgets bodies settled before `bodies` and whole messages settled before `facts` (ms; null keeps). What somebody still owes
   * for is kept, and so is an obligation that nobody has entered yet. Duties go with their messages; with `facts` go also claims that
   * have run out, and sessions that were not heard of since then.
   */
  prune(cut: { bodies: number | null; facts: number | null }): Promise<{ bodies: number; messages: number }>;
  /**
   * Removes an agent's copies, and messages that nobody else had part in; its duties and claims, and its name from sessions, with
   * those that had no other. An open obligation that somebody else waits for stays, without the agent's own words, and is due at
   * once: its author must learn that nobody is there. What others owe to the agent ends: nobody waits for it any more.
   */
  forget(agent: AgentName): Promise<{ copies: number; messages: number }>;
  close(): Promise<void>;
}
