import type { Attention } from '../attention/attention.ts';
import type { Message } from '../message.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import type { Acceptance, CopyRecord, Entry, Mail, Settlement } from './journal.ts';

/** A message that waits. Hooks do not look at quiet messages. */
export interface WaitingMessage {
  message: Message;
  quiet: boolean;
}

/** The copies that a reader holds. A claim ends by `settle` or `release`, or else by the reader's death or at `until`. */
export interface Claim {
  mailbox: AgentName;
  owner: string;
  until: number;
  copies: { message: Message; attempt: number; attention: Attention }[];
}

/**
 * The holder of a claim: this process (its death frees the copies at once), or any bearer of the owner's name (only time frees them). A bearer
 * that must find its claims again after a restart gives a name: the owner is then `bearer.<name>`, and several claims under it are one. With
 * a name, the death of `process` frees the copies too.
 */
export interface Lease {
  ms: number;
  bearer?: boolean | string;
  process?: number | undefined;
}

/** How the reader sees a settled copy. `'shown'`: it has already seen it. Left out: it sees it only afterwards. */
export type Show = (() => void) | 'shown';

export interface Watch {
  close(): void;
}

/** The reader's half: one agent's waiting messages. */
export interface MailboxReader {
  /** All waiting messages, oldest first. Claims nothing. Never returns half a message. */
  peek(mailbox: AgentName): Promise<WaitingMessage[]>;
  /** The ids of all waiting messages, in no order. Reads no message. With `loudOnly`, quiet messages are left out and cost nothing. */
  ids(mailbox: AgentName, loudOnly?: boolean): Promise<MessageId[]>;
  /** One waiting message, or null. Claims nothing. */
  read(mailbox: AgentName, id: MessageId): Promise<WaitingMessage | null>;
  /**
   * Claims these messages. Of many racing callers exactly one gets each copy; a copy that another caller got is left out. Messages that the
   * caller has already `read` are not read again: a message never changes.
   */
  claim(mailbox: AgentName, ids: MessageId[], lease: Lease, read?: ReadonlyMap<MessageId, Message>): Promise<Claim>;
  /** Prolongs a claim from now. False if it is no longer held. */
  renew(claim: Pick<Claim, 'mailbox' | 'owner'>, lease: Lease): Promise<boolean>;
  /**
   * Ends held copies. `show` runs at the last moment at which it can still be undone: if it throws before anything was shown, the copies are
   * released and the error is thrown. Copies that were shown and cannot be settled wait again too, with a higher `attempt`. Returns false,
   * and shows nothing, if this owner no longer holds all of the copies.
   */
  settle(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    settlement: Settlement,
    show?: Show,
  ): Promise<boolean>;
  /** Makes held copies wait again, at once or after a delay. `begun`: the reader may have seen them, so their `attempt` is higher. */
  release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]>;
  /**
   * Calls `onArrival` when a loud message may have arrived, at least once per arrival, until closed. Claims nothing. Passes the message if the
   * backend knows it; otherwise the watcher reads it.
   */
  watch(mailbox: AgentName, onArrival: (mail?: Mail) => void): Watch;
}

/** Where messages wait between send and take. It keeps the files and the journal together: callers never combine the two. */
export interface Mailboxes extends MailboxReader {
  /**
   * Accepts an entry once per sender and key and leaves a copy in every mailbox. A copy never arrives twice, even after it was taken. Returns
   * when every copy is durable. After a crash half-way `heal` finishes the work.
   */
  put(entry: Entry): Promise<Acceptance>;
  /**
   * Reconciles a mailbox with what other programs did in it: a file that they left gets its row and its place, and a file that they took is
   * noted. A file in held/ that nobody holds waits again. Returns how many messages were new.
   */
  adopt(mailbox: AgentName): Promise<number>;
  /** Moves a waiting copy to the quiet ones, which hooks do not look at. */
  lower(mailbox: AgentName, id: MessageId): Promise<void>;
  /**
   * Moves a copy that waits quietly to where hooks look, and notifies watchers. If its attention was quiet, it is announced by a knock from
   * now on. A held copy waits where hooks look once it is put back. True if the copy waited quietly until now.
   */
  raise(mailbox: AgentName, id: MessageId): Promise<boolean>;
  /** Withdraws the copies that nobody has taken yet. Returns the copies as they were before. */
  withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]>;
  /** Finishes what dead processes left half done. Costs nothing if there is nothing to do. */
  heal(): Promise<void>;
  /** Returns when every accepted copy that still waits has its file. */
  flush(): Promise<void>;
  /** The paths of files that could not be read as messages and were set aside. */
  asides(): Promise<string[]>;
  /** Removes a mailbox with all its waiting messages. */
  remove(mailbox: AgentName): Promise<void>;
  close(): Promise<void>;
}
