import type { Policy } from '../protocol/attention.ts';
import type { Intent } from '../protocol/message.ts';
import type { Disposition } from '../protocol/receipt.ts';
import { SIGNALS } from '../protocol/signal.ts';
import type { KnownSignal } from '../protocol/signal.ts';

/** What a signal of its reader makes of an event. Not final: it is still owed. spec: c2a#signals */
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

/** What an event ends as at its deadline if nobody said or did anything. What must be answered is never ignored. */
export function silenceOutcome(policy: Policy): Disposition {
  return policy === 'must_respond' ? 'failed' : 'ignored';
}

/** What an answer makes of an event. Where a receipt is all that is asked for, it is one. */
export function replyOutcome(policy: Policy | undefined): Disposition {
  return policy === 'ack_only' ? 'acknowledged' : 'responded';
}

/** A nod is all that an approval asks for; anything else that must be answered is not done by it. */
function isEnd(disposition: Disposition, intent: Intent, signal: KnownSignal): boolean {
  if (disposition === 'acknowledged') return signal === 'agree' && intent === 'approval';
  return disposition === 'responded' || disposition === 'ignored';
}
