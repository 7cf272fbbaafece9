import { isQuiet } from '../../protocol/attention.ts';
import type { Policy } from '../../protocol/attention.ts';
import type { MessageId } from '../../protocol/names.ts';
import type { CopyRecord } from '../../storage/ledger/ledger.ts';
import type { Who } from '../workspace.ts';
import { endDuty } from '../duty.ts';
import { HOLD_MS } from './deps.ts';
import type { Item } from './item.ts';
import type { Session } from './session.ts';

/** From what asks the most to what asks nothing. */
const ORDER: readonly Policy[] = ['must_respond', 'may_respond', 'ack_only', 'must_not_respond'];

/** Does another mailbox of this session have a copy of the same message, by which more is asked of it, or as much and before? */
export async function isToldBy(
  session: Session,
  who: Who,
  copy: Pick<CopyRecord, 'id' | 'attention'>,
): Promise<boolean> {
  if (session.whos.length < 2) return false;
  const mine = session.whos.findIndex(({ name }) => name === who.name);
  for (const [at, twin] of (await twinsOf(session, who, copy.id)).entries()) {
    const isShown =
      twin && (!isQuiet(twin.attention) || (session.link?.wantsAll && twin.attention.injection !== 'digest'));
    if (!isShown) continue;
    const more = asksMore(twin, copy);
    if (more > 0 || (more === 0 && at < mine)) return true;
  }
  return false;
}

/** The session has the message: the copies in its other mailboxes are done with, unless more is asked by them. */
export async function endTwins(session: Session, item: Item): Promise<void> {
  const { who, message } = item;
  if (session.whos.length < 2) return;
  const by = { way: 'host', session: session.id, told: who.name };
  for (const [at, twin] of (await twinsOf(session, who, message.id)).entries()) {
    const other = session.whos[at];
    if (!twin || !other || asksMore(twin, item) > 0) continue;
    const { name, home } = other;
    const lease = { ms: HOLD_MS, bearer: session.holder };
    const claim = await home.spool.claim(name, [message.id], lease);
    if (!(await home.spool.settle(claim, [message.id], { disposition: 'superseded', by }))) continue;
    await endDuty(home, name, message.id, 'superseded', by, session.house.deps.now());
  }
}

/** More than 0 if more is asked by the first. */
function asksMore(one: Pick<CopyRecord, 'attention'>, other: Pick<CopyRecord, 'attention'>): number {
  return ORDER.indexOf(other.attention.policy) - ORDER.indexOf(one.attention.policy);
}

/** The copies that wait in the session's other mailboxes, in the order of those. */
async function twinsOf(session: Session, who: Who, id: MessageId): Promise<(CopyRecord | null)[]> {
  const twins: (CopyRecord | null)[] = [];
  for (const { name, home } of session.whos) {
    const copy = name === who.name || home !== who.home ? null : await home.ledger.copy(name, id);
    const isOpen = copy?.state === 'stored' || copy?.owner === session.owner;
    twins.push(copy && isOpen ? copy : null);
  }
  return twins;
}
