import type { Attention } from '../attention/attention.ts';
import type { Message } from '../message.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import type { Acceptance, CopyRecord, Entry, Mail, Settlement } from './journal.ts';

/** A message that waits. Quiet ones are where no hook looks. */
export interface WaitingMessage {
  message: Message;
  quiet: boolean;
}

/** What a reader holds. It ends by `settle` or `release`; otherwise by the reader's death or at `until`. */
export interface Claim {
  mailbox: AgentName;
  owner: string;
  until: number;
  copies: { message: Message; attempt: number; attention: Attention }[];
}

/**
 * Who holds a claim: this process (its death frees it at once), or anyone who knows the owner's name (only time frees it). A bearer that
 * must know its own after a restart says its name: the owner is then `bearer.<name>`, and several claims under it are one. With a
 * name, the death of `process` frees the copies too.
 */
export interface Lease {
  ms: number;
  bearer?: boolean | string;
  process?: number | undefined;
}

/** How a reader sees what is settled. `'shown'`: it has seen it already. Left out: it sees it only afterwards. */
export type Show = (() => void) | 'shown';

export interface Watch {
  close(): void;
}

/** The reader's half: one agent's waiting messages. */
export interface MailboxReader {
  /** Everything waiting, oldest first. Claims nothing. Never half a message. */
  peek(mailbox: AgentName): Promise<WaitingMessage[]>;
  /** The ids of everything waiting, in no order; with `loudOnly` it costs nothing what waits quietly. Reads no message. */
  ids(mailbox: AgentName, loudOnly?: boolean): Promise<MessageId[]>;
  /** One waiting message, or null. Claims nothing. */
  read(mailbox: AgentName, id: MessageId): Promise<WaitingMessage | null>;
  /**
   * Claims these messages. Of many racing callers exactly one gets each; a copy lost to another is left out. Those that the
   * caller has `read` while they waited need not be read again: a message never changes.
   */
  claim(mailbox: AgentName, ids: MessageId[], lease: Lease, read?: ReadonlyMap<MessageId, Message>): Promise<Claim>;
  /** Prolongs a claim from now. False if it is no longer held. */
  renew(claim: Pick<Claim, 'mailbox' | 'owner'>, lease: Lease): Promise<boolean>;
  /**
   * Ends held copies. `show` runs at the last moment at which it can still be undone: if it throws before anything was shown, the
   * copies are released and the error goes on. What was shown and cannot be settled waits again too, with a higher `attempt`. Answers false, and shows nothing, if any of them is no longer held
   * by this owner.
   */
  settle(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    settlement: Settlement,
    show?: Show,
  ): Promise<boolean>;
  /** Puts held copies back, at once or after a delay. `begun`: the reader may have seen them, so they come with a higher `attempt`. */
  release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]>;
  /**
   * Calls back after anything loud may have arrived, at least once per arrival, until closed. Claims nothing. With the mail
   * where the spool knows it; without it, the watcher looks for itself.
   */
  watch(mailbox: AgentName, onArrival: (mail?: Mail) => void): Watch;
}

/** Where messages wait between being sent and being taken. It owns the pairing with the journal: no caller glues the two. */
export interface Mailboxes extends MailboxReader {
  /**
   * Accepts an entry once per sender and key and leaves a copy in every mailbox. A copy never arrives twice, even after it
   * was taken. Returns once every copy is durable. A crash half-way is finished by `heal`.
   */
  put(entry: Entry): Promise<Acceptance>;
  /**
   * Reconciles a mailbox with what other programs did in it: what they left gets its row and its place, what they took is noted.
   * What is in held/ that nobody holds waits again. Returns how many were new.
   */
  adopt(mailbox: AgentName): Promise<number>;
  /** Moves a waiting copy out of a hook's sight. */
  lower(mailbox: AgentName, id: MessageId): Promise<void>;
  /**
   * Moves a copy that waits quietly into a hook's sight, and tells who watches. Where it was decided that it is quiet, it is knocked
   * for from now on. One that is held waits in sight once it is put back. True if it waited quietly until now.
   */
  raise(mailbox: AgentName, id: MessageId): Promise<boolean>;
  /** Takes back the copies that nobody has taken yet, and says what each copy's state was. */
  withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]>;
  /** Finishes what dead processes left half done. Costs nothing when there is nothing. */
  heal(): Promise<void>;
  /** Everything accepted has its file. */
  flush(): Promise<void>;
  /** Files that could not be read as messages and were set aside, as paths. */
  asides(): Promise<string[]>;
  /** Removes a mailbox with everything that waits in it. */
  remove(mailbox: AgentName): Promise<void>;
  close(): Promise<void>;
}
