import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Disposition, Evidence } from '../../protocol/receipt.ts';
import type { CopyRecord } from './ledger.ts';

/**
 * What somebody owes for one copy. `reply`: an answer in any form ends it, and so does its deadline. `obligation`: only its author
 * or delegate discharges it; reading, answering and time do not. spec: c2a#duties
 */
export interface Duty {
  id: MessageId;
  mailbox: AgentName;
  /** Who waits for it. */
  from: string;
  kind: 'reply' | 'obligation';
  /** When its message was made (ms). Age counts from here, never from receipt. */
  at: number;
  /** `claimed`: being worked on. `deferred`: accepted, later. `paused`: waits for a word of its author. All are still owed. */
  state: 'open' | 'claimed' | 'deferred' | 'paused';
  /** When somebody should look at it next (ms); null if time does nothing more to it. */
  due: number | null;
  /** How often it came back. */
  returns: number;
  /** 0: with its recipient. 1: with a coordinator. 2: with a person, where it stays until it is discharged. */
  tier: 0 | 1 | 2;
  /** Its time was prolonged; that is done once. */
  extended: boolean;
  /** Why it was deferred, or what is asked back. Of its holder's own words, masked. */
  note: string | null;
  /** How it ended, once and for all. */
  ended: { as: Disposition; at: number; by: Evidence } | null;
}

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

/** One page of duties: the oldest first, after this place. */
export interface DutyPage {
  after?: { at: number; id: MessageId } | undefined;
  limit: number;
}

/**
 * Who owes what, who answers for what, and which sessions there are. Duties are entered when somebody asks for them, from the
 * copies that were accepted since: a send pays nothing for them.
 */
export interface Duties {
  /**
   * Copies that must be answered and were accepted after the last ones that were entered, oldest first, at most `limit`, and the
   * number up to which that is all. A copy that was answered or ended meanwhile is among them: the caller decides.
   */
  unentered(limit: number): Promise<{ from: number; upTo: number; copies: { copy: CopyRecord; message: Message }[] }>;
  /** Enters these and goes on from `upTo`, as one act. False if somebody else went on from `from` first. */
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
   * ended one stays as it is and is answered unchanged. Null if there is none.
   */
  changeDuty(mailbox: AgentName, id: MessageId, change: (duty: Duty) => Duty | null): Promise<Duty | null>;

  /** Tries to claim. Answers with the claim that stands: the caller's own, prolonged if it had it, or another's that has not run out. */
  claimEvent(claim: EventClaim, now: number): Promise<EventClaim>;
  /** The claim that stands now, or null. */
  eventClaim(key: MessageId, now: number): Promise<EventClaim | null>;
  /** Gives it up, if this holder has it. */
  freeClaim(key: MessageId, holder: AgentName): Promise<boolean>;
  /** Everything that this agent has claimed and that has not run out. */
  claimsOf(holder: AgentName, now: number): Promise<EventClaim[]>;

  saveSession(session: SessionRecord): Promise<void>;
  session(id: string): Promise<SessionRecord | null>;
  sessions(): Promise<SessionRecord[]>;
  dropSession(id: string): Promise<void>;
}
