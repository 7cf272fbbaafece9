import type { Obligation } from '../obligations/rules.ts';
import type { Message } from '../message.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { CopyRecord } from './journal.ts';

/** The agent that answers an event or an exchange that was offered to several. A reserved claim was assigned, not requested. */
export interface EventClaim {
  key: MessageId;
  holder: AgentName;
  until: number;
  reserved: boolean;
}

/** A harness's session, kept over a restart. spec: host#sessions */
export interface SessionRecord {
  id: string;
  tokenHash: string;
  identities: AgentName[];
  roles: AgentName[];
  streams: string[];
  threads: MessageId[];
  /** When the session was last active (ms). */
  seen: number;
}

/**
 * One page of obligations, oldest first, after this position: the last obligation of the page before. Several agents may owe for one message:
 * without `mailbox` the page begins after all of them.
 */
export interface ObligationPage {
  after?: { at: number; id: MessageId; mailbox?: AgentName | undefined } | undefined;
  limit: number;
}

/** A copy that may need an obligation. `alone`: its message is the only one of its exchange so far. */
export interface UnenteredCopy {
  copy: CopyRecord;
  message: Message;
  alone: boolean;
}

/**
 * Obligations, event claims and sessions. A query for obligations first enters them from the copies that were accepted since the last query, so
 * a send pays nothing for them.
 */
export interface Obligations {
  /**
   * Copies that must be answered and were accepted after the last scan, oldest first, and the position up to which the list is
   * complete. At most `limit`, but the copies of one message come together. Copies with an obligation are left out. Copies that were answered
   * or ended meanwhile are included: the caller decides. `upTo` may be after `from` even if there are none: entering nothing up to
   * there saves the next scan.
   */
  unentered(limit: number): Promise<{ from: number; upTo: number; copies: UnenteredCopy[] }>;
  /**
   * Enters these and moves the position to `upTo`, as one transaction. Existing obligations stay unchanged. Returns false and enters nothing
   * if another process moved the position first, or if a copy of an older message was found meanwhile: then scan again.
   */
  enter(from: number, upTo: number, obligations: Obligation[]): Promise<boolean>;
  /** Enters one obligation if this copy has none yet: for an escalation, or an edit that inherits one. */
  addObligation(obligation: Obligation): Promise<boolean>;
  obligation(mailbox: AgentName, id: MessageId): Promise<Obligation | null>;
  /** This agent's open obligations. Costs a page, however many there are. */
  owed(mailbox: AgentName, page: ObligationPage): Promise<Obligation[]>;
  /** Open obligations of others towards this agent. Costs a page, however many there are. */
  blocking(from: AgentName, page: ObligationPage): Promise<Obligation[]>;
  /** Open obligations that this agent may discharge for their authors, the oldest first. Reads all that are open. */
  delegated(delegate: AgentName, limit: number): Promise<Obligation[]>;
  /** The number of this agent's open obligations; counting stops at `most`. */
  owedCount(mailbox: AgentName, most: number): Promise<number>;
  /** Obligations that are due, the earliest first. */
  dueObligations(now: number, limit: number): Promise<Obligation[]>;
  /** The earliest due time, or null. */
  nextDue(): Promise<number | null>;
  /**
   * Changes one obligation in a transaction. `change` gets the obligation and returns the new one, or null to leave it. An ended obligation is returned
   * unchanged, without a call of `change`. Mailbox, kind, sender and start never change. If `change` throws, nothing changes. Returns
   * null if there is no such obligation.
   */
  changeObligation(
    mailbox: AgentName,
    id: MessageId,
    change: (obligation: Obligation) => Obligation | null,
  ): Promise<Obligation | null>;

  /**
   * Tries to claim; of many racing claimers one wins. Returns the valid claim: the caller's own, prolonged if it had one, or another
   * agent's that has not expired. A claim of what was reserved for the caller is an ordinary claim.
   */
  claimEvent(claim: EventClaim, now: number): Promise<EventClaim>;
  /** The claim that is valid now, or null. */
  eventClaim(key: MessageId, now: number): Promise<EventClaim | null>;
  /** Ends a claim. False if this holder did not have it. */
  freeClaim(key: MessageId, holder: AgentName): Promise<boolean>;
  /** This agent's valid claims, in order of expiry. */
  claimsOf(holder: AgentName, now: number): Promise<EventClaim[]>;

  /** Replaces the session with this id. */
  saveSession(session: SessionRecord): Promise<void>;
  session(id: string): Promise<SessionRecord | null>;
  /** All sessions, by id. */
  sessions(): Promise<SessionRecord[]>;
  dropSession(id: string): Promise<void>;
}
