import { DEFER_MS, deferred } from '../attention/ladder.ts';
import { masked } from '../attention/secrets.ts';
import type { Duty } from '../protocol/duty.ts';
import type { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Workspace, Who } from './workspace.ts';
import { enterDuties } from './duty.ts';
import { visible } from './sight.ts';

/** The longest that something can be put off at once. */
const LONGEST_MS = 30 * 24 * 60 * 60 * 1000;

/**
 * Accepts an event for later, with a reason that its author can read. It stays owed, and comes back at its time: `until`, or after
 * half an hour. spec: c2a#duties
 */
export async function defer(
  workspace: Workspace,
  who: Who,
  id: MessageId,
  why: { reason: string; until?: string | undefined },
): Promise<Duty> {
  const { home } = await visible([who], id);
  const now = workspace.now();
  const reason = masked(why.reason.trim()).slice(0, 500);
  if (reason === '') throw new Refusal('invalid_request', 'say why it has to wait');
  const until = why.until === undefined ? now + DEFER_MS : Date.parse(why.until);
  if (!(until > now && until <= now + LONGEST_MS)) {
    throw new Refusal('invalid_request', 'give a time to come, at most 30 days from now');
  }
  await enterDuties(home);
  const duty = await home.ledger.changeDuty(who.name, id, (open) => deferred(open, until, reason));
  if (!duty) throw new Refusal('invalid_request', `nothing is owed for event ${id.slice(0, 8)}; leave it`);
  if (duty.ended) throw new Refusal('already_claimed', `event ${id.slice(0, 8)} is already ${duty.ended.as}`);
  await home.ledger.record(who.name, id, {
    step: 'deferred',
    at: new Date(now).toISOString(),
    evidence: { reason, until: new Date(duty.due ?? until).toISOString() },
  });
  return duty;
}
