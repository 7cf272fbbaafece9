import type { Directedness, Policy } from './attention.ts';
import type { Disposition } from '../receipt.ts';
import type { RefusalCode } from '../refusal.ts';
import { repeats } from './echo.ts';
import type { Intent } from '../message.ts';
import { SIGNALS } from '../signal.ts';
import type { KnownSignal } from '../signal.ts';

/** A reply that an agent wants to send to an event, and the state of the event. */
export interface Reply {
  policy: Policy;
  /** How the event ended for this reader, if it has. */
  ended: Disposition | null;
  text: string;
  directedness?: Directedness | undefined;
  /** How many readers the text is meant for. */
  recipients: number;
  visibility?: string | undefined;
  /** Another agent that has claimed the event, as `@name`. */
  claimedBy: string | null;
  /** This reader may answer without a claim, or has claimed the event. */
  claimed: boolean;
  /** The event was sent to a channel or a role. */
  offeredToSeveral: boolean;
  /** The last text of this reader in the exchange. */
  lastOwn?: string;
  /** The deadline of the event has passed, and this reader has not read the thread since. */
  stale: boolean;
}

/** The most characters of a receipt. */
const RECEIPT = 80;

interface Rule {
  code: RefusalCode;
  against: (reply: Reply) => boolean;
  why: (reply: Reply) => string;
}

/** The first rule that applies refuses the reply, and says what to do instead. spec: c2a#replies */
const RULES: readonly Rule[] = [
  {
    code: 'against_policy',
    against: ({ ended }) => ended === 'superseded',
    why: () =>
      'it was superseded: its author took it back or wrote it again; read the thread with chat.read_thread first',
  },
  {
    code: 'against_policy',
    against: ({ policy }) => policy === 'must_not_respond',
    why: () => 'it must not be answered (must_not_respond): read it, do not reply',
  },
  {
    code: 'already_claimed',
    against: ({ claimedBy }) => claimedBy !== null,
    why: ({ claimedBy }) => `${claimedBy} has claimed it and answers; write to ${claimedBy} if you know something`,
  },
  {
    code: 'against_policy',
    against: ({ offeredToSeveral, claimed }) => offeredToSeveral && !claimed,
    why: () => 'it was offered to several: take it with chat.claim first, so that one of you answers',
  },
  {
    code: 'against_policy',
    against: ({ stale }) => stale,
    why: () => 'its deadline has passed and much may have changed: read the thread with chat.read_thread, then answer',
  },
  {
    code: 'against_policy',
    against: ({ policy, text }) => policy === 'ack_only' && lengthOf(text.trim()) > RECEIPT,
    why: () => `it asks for a receipt only (ack_only): use chat.react, or at most ${RECEIPT} characters`,
  },
  {
    code: 'against_policy',
    against: ({ directedness, recipients }) => directedness === 'to_me' && recipients > 1,
    why: ({ recipients, visibility }) =>
      `it would oblige ${recipients} at once: ${visibility === 'dm' ? 'send it to one of them' : 'mention one of them'}, or a role`,
  },
  {
    code: 'against_policy',
    against: ({ text, lastOwn }) => lastOwn !== undefined && repeats(text, lastOwn),
    why: () => 'you have said this already, and nothing new is in it: say what is new, or use chat.react',
  },
];

/** The refusal of this reply, or null if it is allowed. spec: c2a#replies */
export function refusalOf(reply: Reply): { code: RefusalCode; why: string } | null {
  const rule = RULES.find(({ against }) => against(reply));
  return rule ? { code: rule.code, why: rule.why(reply) } : null;
}

/** The length in characters: an emoji is one character. */
function lengthOf(text: string): number {
  return Array.from(text).length;
}

/** How a reader's signal changes the state of a message. `claimed` and `deferred` are still owed. spec: c2a#signals */
export function outcomeOf(
  policy: Policy,
  intent: Intent,
  signal: KnownSignal,
): { disposition: Disposition | null; final: boolean } {
  const { disposition } = SIGNALS[signal];
  if (disposition === null) return { disposition, final: false };
  switch (policy) {
    case 'must_respond':
      return { disposition, final: isEnd(disposition, intent, signal) };
    case 'may_respond':
      return { disposition, final: disposition !== 'claimed' && disposition !== 'deferred' };
    case 'ack_only':
      return { disposition: disposition === 'ignored' ? disposition : 'acknowledged', final: true };
    case 'must_not_respond':
      return { disposition: 'ignored', final: true };
  }
}

/** How a message ends at its deadline without an answer. A message that must be answered has failed, never `ignored`. */
export function silenceOutcome(policy: Policy): Disposition {
  return policy === 'must_respond' ? 'failed' : 'ignored';
}

/** How an answer ends a message: as acknowledged if the policy was `ack_only`, else as responded. */
export function replyOutcome(policy: Policy | undefined): Disposition {
  return policy === 'ack_only' ? 'acknowledged' : 'responded';
}

/** A thumbs-up answers an approval, and nothing else that must be answered. */
function isEnd(disposition: Disposition, intent: Intent, signal: KnownSignal): boolean {
  if (disposition === 'acknowledged') return signal === 'agree' && intent === 'approval';
  return disposition === 'responded' || disposition === 'ignored';
}
