import type { AgentName, MessageId } from './names.ts';
import type { Disposition, Evidence } from './receipt.ts';

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
  /** The time between two returns (ms): a third of the deadline, or an obligation's flat interval. It never changes. */
  every: number;
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
