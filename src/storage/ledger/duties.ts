import type { Duty } from '../../protocol/duty.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { CopyRecord } from './ledger.ts';

export type { Duty };

/** Who answers for an event or an exchange that was offered to several. A reserved claim was given, not asked for. */
export interface EventClaim {
  key: MessageId;
  holder: AgentName;
  until: number;
  reserved: boolean;
}

/** A harness's session, as it must be known after a restart. spec: host#sessions */
export interface SessionRecord {
  id: string;
  tokenHash: string;
  identities: AgentName[];
  roles: AgentName[];
  streams: string[];
  threads: MessageId[];
  /** When it was last heard of (ms). */
  seen: number;
}

/**
 * One page of duties: the oldest first, after this place. The last duty of the page before is such a place. Several may owe for one
 * message: without `mailbox` the page begins after all of them.
 */
export interface DutyPage {
  after?: { at: number; id: MessageId; mailbox?: AgentName | undefined } | undefined;
  limit: number;
}

/** A copy that may be owed for. `alone`: nothing else was said in the exchange of its message so far, so nothing about it. */
export interface UnenteredCopy {
  copy: CopyRecord;
  message: Message;
  alone: boolean;
}

/**
 * Who owes what, who answers for what, and which sessions there are. Duties are entered when somebody asks for them, from the
 * copies that were accepted since: a send pays nothing for them.
 */
export interface Duties {
  /**
   * Copies that must be answered and were accepted after the last ones that were entered, oldest first, and the number up to which
   * that is all. At most `limit`, but the copies of one message come together. Those that have a duty are left out. A copy that was
   * answered or ended meanwhile is among them: the caller decides. Where there are none, `upTo` may still be further than `from`:
   * to enter nothing up to there spares the next one the same look.
   */
  unentered(limit: number): Promise<{ from: number; upTo: number; copies: UnenteredCopy[] }>;
  /**
   * Enters these and goes on from `upTo`, as one act; a duty that is there stays as it is. False, and nothing is entered, if somebody
   * else went on from `from` first, or if a further copy of an older message was found meanwhile: then look again.
   */
  enter(from: number, upTo: number, duties: Duty[]): Promise<boolean>;
  /** Enters one by itself, if this copy has none yet: an escalation, an edit that inherits. */
  addDuty(duty: Duty): Promise<boolean>;
  duty(mailbox: AgentName, id: MessageId): Promise<Duty | null>;
  /** What this agent owes and has not ended. Costs a page, however much it owes. */
  owed(mailbox: AgentName, page: DutyPage): Promise<Duty[]>;
  /** What others owe to this agent. Costs a page, however much that is. */
  blocking(from: AgentName, page: DutyPage): Promise<Duty[]>;
  /** How many this agent owes; counting stops at `most`. */
  owedCount(mailbox: AgentName, most: number): Promise<number>;
  /** Those whose time has come, the earliest first. */
  dueDuties(now: number, limit: number): Promise<Duty[]>;
  /** The earliest time at which one will be due, or null. */
  nextDue(): Promise<number | null>;
  /**
   * Changes one duty, alone among all writers. `change` sees it as it is and answers how it shall be, or null to leave it; an
   * ended one stays as it is and is answered unchanged, and `change` does not hear of it. Whose duty it is, what kind, for whom and
   * since when never changes. If `change` throws, nothing was changed. Null if there is none.
   */
  changeDuty(mailbox: AgentName, id: MessageId, change: (duty: Duty) => Duty | null): Promise<Duty | null>;

  /**
   * Tries to claim; of many racing claimers one wins. Answers with the claim that stands: the caller's own, prolonged if it had it,
   * or another's that has not run out. Who claims what was reserved for it has it like any other.
   */
  claimEvent(claim: EventClaim, now: number): Promise<EventClaim>;
  /** The claim that stands now, or null. */
  eventClaim(key: MessageId, now: number): Promise<EventClaim | null>;
  /** Gives it up, if this holder has it. */
  freeClaim(key: MessageId, holder: AgentName): Promise<boolean>;
  /** Everything that this agent has claimed and that has not run out, in the order in which it will. */
  claimsOf(holder: AgentName, now: number): Promise<EventClaim[]>;

  /** A session that is known under this id is replaced. */
  saveSession(session: SessionRecord): Promise<void>;
  session(id: string): Promise<SessionRecord | null>;
  /** All, by id. */
  sessions(): Promise<SessionRecord[]>;
  dropSession(id: string): Promise<void>;
}
