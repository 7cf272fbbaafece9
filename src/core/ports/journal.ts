import type { Attention } from '../attention/attention.ts';
import type { Message } from '../message.ts';
import type { AgentName, MessageId, SendKey } from '../names.ts';
import type { Disposition, Evidence, Receipt } from '../receipt.ts';
import type { Obligations } from './obligations.ts';
import type { Refusal } from '../refusal.ts';
import type { SessionStore } from './session-store.ts';

/** One recipient's copy, with its attention. */
export interface Copy {
  mailbox: AgentName;
  attention: Attention;
}

/** A message with all of its copies, decided once. */
export interface Entry {
  message: Message;
  copies: Copy[];
  key?: SendKey | undefined;
  /** When this key was first tried, if the caller knows. */
  firstTried?: string | undefined;
  /** The message as JSON, if the caller already has it. */
  text?: string | undefined;
  /** The id was made for this entry, so no lookup is needed. */
  fresh?: true | undefined;
}

/** The entry under a key. `first` is true for the one caller whose entry it is. */
export interface Acceptance {
  message: Message;
  copies: Copy[];
  first: boolean;
  /** The body was pruned, so a retry cannot be compared with it. */
  pruned?: boolean;
  /** Its sequence number, if it is new. */
  seq?: number;
  /** The message as JSON, if it is known. */
  text?: string;
}

/** A waiting message, unparsed, with its sequence number. */
export interface Mail {
  seq: number;
  text: string;
}

/** `held`: claimed by a reader, or released until a time. `gone`: another program took it. */
export type CopyState = 'stored' | 'held' | 'settled' | 'gone';

/** One copy in the journal. */
export interface CopyRecord extends Copy {
  id: MessageId;
  state: CopyState;
  /** How often a delivery of this copy was begun and not settled. A release of an unseen copy does not count. */
  attempt: number;
  /** The owner of the claim. Null for a held copy that was released and waits again only at `until`. */
  owner: string | null;
  /** Any caller that knows the owner's name may end the copy, not only a running process. */
  bearer: boolean;
  /** When the claim or the delay ends (ms). */
  until: number | null;
  disposition: Disposition | null;
  settledAt: string | null;
  settledBy: Evidence | null;
  keep: boolean;
  /** The copy has no file: only the journal has its message. See MailboxJournal. */
  fileless?: boolean;
}

/** How a copy ends. */
export interface Settlement {
  disposition: Disposition;
  by: Evidence;
  /** Keep the file in `cur/` instead of deleting it. */
  keep?: boolean;
  /** The copy was in a shared mailbox and belongs to this agent from now on: see `assign`. A `taker` in the evidence is ignored. */
  taker?: AgentName;
}

/** The reason for a `released` copy that its reader neither ended nor gave back. */
export const LEASE_ENDED = 'the reader died or let its lease run out';

/** A message with its copies and their receipts. */
export interface Trace {
  home?: string;
  message: Message;
  copies: (CopyRecord & { receipts: Receipt[] })[];
}

export interface Page {
  /** Only messages that this agent sent or got. */
  agent?: AgentName | undefined;
  thread?: MessageId | undefined;
  /** Only messages before this sequence number: the next page. */
  before?: number | undefined;
  limit: number;
}

export interface HistoryRow {
  seq: number;
  /** Its body was pruned. */
  pruned: boolean;
  message: Message;
  recipients: AgentName[];
}

/** How many of a reader's last messages `unanswered` searches. */
export const LAST_MESSAGES = 20;

/** Queries about the past. They do not change anything. */
export interface Records {
  /** The message under this id, or null. */
  message(id: MessageId): Promise<Message | null>;
  /** The entry accepted under this sender's key, or null. */
  underKey(sender: AgentName, key: SendKey): Promise<Acceptance | null>;
  /** Ids that begin with this prefix: at most ten, newest first. */
  idsLike(prefix: string): Promise<MessageId[]>;
  copy(mailbox: AgentName, id: MessageId): Promise<CopyRecord | null>;
  /** Every copy of this mailbox that is stored or held, by id. */
  open(mailbox: AgentName): Promise<Map<MessageId, CopyRecord>>;
  /** The copies of this mailbox that this owner holds. Waiting copies cost nothing. */
  heldBy(mailbox: AgentName, owner: string): Promise<CopyRecord[]>;
  waitingCount(mailbox: AgentName): Promise<number>;
  /** Waiting messages between these sequence numbers that a reader held before and that came back. */
  returned(mailbox: AgentName, after: number, upTo: number, limit: number): Promise<Mail[]>;
  /** Newest first. Costs the same however much history there is. */
  history(page: Page): Promise<HistoryRow[]>;
  /** The messages of one exchange, oldest first: the last `limit` of them. */
  exchange(root: MessageId, limit: number): Promise<Message[]>;
  /**
   * The newest message since then (ms) that `from` sent to `to` alone, by name; null if there is none or `to` has written to `from`
   * after it. Searches the last 20 messages that each of them got, so the length of the history does not matter.
   */
  unanswered(from: AgentName, to: AgentName, since: number): Promise<Message | null>;
  /**
   * Messages with all these words, or else with words that begin with them; newest first. The first search after much mail takes a while and
   * calls `onProgress`.
   */
  search(words: string, page: Page, onProgress?: (left: number) => void): Promise<HistoryRow[]>;
  /** One message with all its evidence; null if the id is unknown. */
  trace(id: MessageId): Promise<Trace | null>;
  /** The receipts of these steps in all mailboxes since `since` (Unix ms), oldest first. The cost depends only on the receipts since then. */
  receiptsSince(
    since: number,
    steps: readonly Receipt['step'][],
  ): Promise<(Receipt & { mailbox: AgentName; id: MessageId })[]>;
}

export interface JournalTroubles {
  /** Rows may be missing for files that exist: the journal is new or rebuilt, or the machine was restarted. */
  fresh: boolean;
  /** A copy is held and may be abandoned. */
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
    /** The message of a copy without a file. While it is held, no file is written. */
    text?: string | undefined;
  }[];
  /** No row: a file of another program. Adopt it, then claim again. */
  unknown: MessageId[];
  /** Already settled: its file came back. */
  spent: MessageId[];
  /** Held by a live reader. */
  busy: MessageId[];
  /** The disk is full: settle these before you claim more. */
  isScarce?: boolean;
}

/** Records what happened, with proof. Only `Mailboxes` claims and settles copies; see MailboxJournal. */
export interface Journal extends Records, Obligations {
  /** The number of the newest message. */
  newest(): Promise<number>;
  /** One waiting copy, or null. */
  waitingCopy(mailbox: AgentName, id: MessageId): Promise<WaitingCopy | null>;
  /**
   * At most `limit` waiting copies of this mailbox after this sequence number, in order. Costs a page, not the history. `only`: those that do
   * not wait quietly, those of them that are urgent, those for a digest, or those that a guard keeps for a digest. The texts of the others
   * are not read.
   */
  waitingCopies(mailbox: AgentName, after: number, limit: number, only?: WaitingKind): Promise<WaitingCopy[]>;
  /** The mailboxes that begin with `prefix` and have a waiting or held copy, by name. The cost depends only on the number of mailboxes. */
  mailboxesWithMail(prefix: string): Promise<AgentName[]>;
  /** Whether anything needs repair. One cheap query: every command runs it. */
  troubles(): Promise<JournalTroubles>;
  /** The prompts for sessions and their answers. Closed with the journal. */
  sessionStore(): SessionStore;
  /** Stores an entry in one transaction, or returns the entry that is already there under that sender and key. */
  accept(entry: Entry): Promise<Acceptance>;
  /** Changes how the recipient sees a waiting copy. */
  reconsider(mailbox: AgentName, id: MessageId, attention: Attention): Promise<void>;
  /**
   * Gives a settled copy of a shared mailbox to the agent that took it: that agent gets a copy that ended in the same way, the receipts, and
   * the obligation. The copy of the shared mailbox stays settled, so that its file cannot come back. Does nothing if the copy is not settled
   * or was taken by another agent.
   */
  assign(mailbox: AgentName, id: MessageId, taker: AgentName): Promise<void>;
  /** Adds one proven step. */
  record(mailbox: AgentName, id: MessageId, receipt: Receipt): Promise<void>;
  /**
   * Removes bodies settled before `bodies` and whole messages settled before `facts` (ms; null keeps). Messages with an open obligation
   * stay, and so do those whose obligation is not entered yet. Obligations go with their messages. `facts` also removes expired claims, and
   * sessions that were not active since then.
   */
  prune(cut: { bodies: number | null; facts: number | null }): Promise<{ bodies: number; messages: number }>;
  /**
   * Removes an agent's copies, its messages without other recipients, its obligations and claims, its name from sessions, and sessions that
   * had no other name. An open obligation towards another agent stays, without the agent's own note, and is due at once: its author must
   * learn that the agent is gone. Obligations of others towards the agent end.
   */
  forget(agent: AgentName): Promise<{ copies: number; messages: number }>;
  close(): Promise<void>;
}

/** Identifies a copy: the sequence number of its message, and its mailbox. */
export interface CopyNumber {
  seq: number;
  mailbox: AgentName;
}

/** A copy that waits, with its message as it is stored. */
export interface WaitingCopy extends Mail {
  id: MessageId;
  attention: Attention;
  quiet: boolean;
}

/** The kinds of waiting copies that a query can select. */
export type WaitingKind = 'loud' | 'immediate' | 'digest' | 'kept';

/** A waiting copy that still needs a file. */
export type Unexported = WaitingCopy & CopyNumber;

/** A copy that waits or is held. `hasFile`: its file should be in the mailbox. */
export interface OpenCopy {
  seq: number;
  id: MessageId;
  waits: boolean;
  hasFile: boolean;
}

/** The position before all copies. */
export const FIRST: CopyNumber = { seq: 0, mailbox: '' as AgentName };

/** Where a whole file of a copy was found: where it waits, as a draft, or nowhere. */
export type FilePlace = 'exported' | 'draft' | 'nowhere';

/**
 * The write half, for `Mailboxes`, which does each step together with its files; see mailboxes.ts. It decides which entry is new and which
 * reader wins.
 *
 * A copy is `stored` until one reader claims it (`held`). Then it is `settled`, or `stored` again if that reader releases it or dies, or its
 * lease ends. `settled` is final. `gone` is the last known state: if the other program puts the file back, the copy can be claimed again.
 *
 * A copy that was accepted together with others is *fileless*: only the journal has its message. While it waits it is also *unexported*: the
 * exporter should write its file. It leaves that queue in one of two ways, and the journal lets only one of them happen: a reader claims it
 * and gets the message from the journal, so that it never has a file (if it is put back, it is unexported again); or the exporter, which
 * wrote a draft of it, calls `drafted`. From then on it has a file like every other copy, but one that may not be flushed.
 */
export interface MailboxJournal extends Journal {
  /** Makes rows for files without one, as waiting or as kept after reading. Existing rows stay unchanged. */
  adopt(entries: Entry[], as: 'stored' | 'kept'): Promise<void>;
  /** Of many racing claimers of one copy exactly one wins. The claim of a dead owner, or an expired one, can be won again. */
  claim(mailbox: AgentName, ids: MessageId[], owner: string, until: number): Promise<Claimed>;
  /** Renews the claims that this owner still holds. Returns how many copies these were. */
  renew(mailbox: AgentName, owner: string, until: number): Promise<number>;
  /**
   * Settles the copies that this owner still holds, in one transaction, and returns their ids. `show` runs as its last step: if it throws,
   * nothing is settled. If this owner has lost any of the ids, nothing is shown or settled, and the result is null.
   */
  settle(
    mailbox: AgentName,
    owner: string,
    ids: MessageId[],
    settlement: Settlement,
    show?: () => void,
  ): Promise<MessageId[] | null>;
  /**
   * Releases held copies: at once, or, with `until`, not before then. Returns the ids that this owner held. `putBack` runs inside the
   * transaction for each copy that waits again at once: if it throws, nothing is released. `begun`: the reader may have seen the copies, so
   * their `attempt` is higher.
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
  /** Held copies whose owner is dead, whose lease has ended, or whose delay is over. */
  abandoned(): Promise<CopyRecord[]>;
  /** Makes one abandoned copy wait again, unless another process was faster. `putBack` runs as the last step of the transaction. */
  restore(copy: CopyRecord, putBack: () => void): Promise<boolean>;
  /** Records that every file has its row. */
  complete(): Promise<void>;
  /** Settles every waiting copy of a message as superseded, and returns the copies as they were before. */
  withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]>;
  /** Records that this copy is gone: another program took it, or its file was not a message. */
  lost(mailbox: AgentName, id: MessageId, how?: 'taken_elsewhere' | 'set_aside'): Promise<void>;
  /**
   * Accepts many entries in one transaction, each with its own outcome: a refusal of one does not affect the others. Their copies are
   * unexported. Accepted entries are on disk only after `flush`.
   */
  acceptTogether(entries: Entry[]): Promise<(Acceptance | Refusal)[]>;
  /** Returns when everything that was committed before the call is on disk. `alone`: nothing else waits for this thread meanwhile. */
  flush(alone?: boolean): Promise<void>;
  /** Prepares the journal for a process that serves many callers at once. */
  tuneForServer(cacheKb?: number): void;
  /** The ids of the copies that are stored or held. True: the file of the copy should be in the mailbox. There may be very many. */
  openIds(mailbox: AgentName): Promise<Map<MessageId, boolean>>;
  /** The same copies page by page: those after a sequence number, in order of arrival. */
  openCopies(mailbox: AgentName, after: number, limit: number): Promise<OpenCopy[]>;
  /** Copies without a file, oldest first; with `drafted`, copies that were drafted and are not known to be exported. */
  unexported(after: CopyNumber, limit: number, drafted?: boolean): Promise<Unexported[]>;
  /** The number of copies without a file; counting stops at `limit`. Nearly always zero if no relay runs. */
  unexportedCount(limit: number): Promise<number>;
  /** Records that drafts of these copies are written. Returns for each whether it still waits: only then may its draft be published. */
  drafted(copies: CopyNumber[]): Promise<boolean[]>;
  /** Records that these drafted copies are published, or were taken before that. */
  exported(copies: CopyNumber[]): Promise<void>;
  /** Both at once, for a backend whose drafts are where readers look. Returns for each copy whether it still waited. */
  placed(copies: CopyNumber[]): Promise<boolean[]>;
  /**
   * Enters mail that a relay of an older version accepted and left beside the journal. Does nothing if there is none, while that relay runs,
   * or on a full disk: every open and every heal tries again. `isExporter`: the caller holds the export lock.
   */
  importOldTray(isExporter?: boolean): void;
  /** After a restart of the machine: asks `look` for every exported copy that waits where its file is, and records the answer. */
  recount(look: (copy: { mailbox: AgentName; id: MessageId; quiet: boolean }) => FilePlace): Promise<void>;
}
