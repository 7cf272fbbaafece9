import type { Message } from '../protocol/message.ts';
import { shortId } from '../protocol/names.ts';
import type { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Receipt } from '../protocol/receipt.ts';
import { scopeMatches } from '../protocol/scope.ts';
import { PartlyShown } from '../storage/disk.ts';
import type { Settlement } from '../storage/ledger/ledger.ts';
import type { Claim, Waiting } from '../storage/spool/spool.ts';
import { onlyOne } from './workspace.ts';
import type { Who } from './workspace.ts';

/** How long a reader at work may hold a copy before it is taken for dead. */
export const LEASE_MS = 30_000;

export interface Selection {
  /** The reader's context. Scoped mail is taken only where it matches; `any` ignores scopes. */
  match?: string | undefined;
  any?: boolean;
  /** Leave out what waits quietly. */
  loudOnly?: boolean;
  urgentOnly?: boolean;
}

/** A copy in a reader's hand, with the decision how it should be seen. `attempt` above 0 means that it was begun before. */
export type Delivered = Claim['copies'][number];

/** What waits for this reader, oldest first. Takes nothing; mail of other programs gets its decision here. */
export async function waiting(who: Who, selection: Selection): Promise<Waiting[]> {
  await who.home.spool.adopt(who.name);
  const all = await who.home.spool.peek(who.name);
  return all.filter((one) => isSelected(one, selection));
}

/** Is this one of those that the reader asked for? */
export function isSelected({ message, quiet }: Waiting, selection: Selection): boolean {
  if (selection.loudOnly && quiet) return false;
  if (selection.urgentOnly && message.priority !== 'urgent') return false;
  return selection.any || scopeMatches(message.scope, selection.match);
}

/** The waiting message whose id begins so. */
export async function findWaiting(who: Who, prefix: string): Promise<MessageId> {
  const ids = (await who.home.spool.ids(who.name)).filter((id) => id.startsWith(prefix));
  if (ids.length === 0 && prefix !== '') await refuseHeld(who, prefix);
  return onlyOne(
    prefix,
    ids.map((id) => ({ id })),
  ).id;
}

/** Says where a message is that waits for nobody else: a session was shown it, or a reader has it. */
async function refuseHeld({ name, home }: Who, prefix: string): Promise<void> {
  for (const id of await home.ledger.idsLike(prefix)) {
    const copy = (await home.ledger.trace(id))?.copies.find(({ mailbox }) => mailbox === name);
    if (copy?.state !== 'held' || copy.owner === null) continue;
    const short = shortId(id);
    const isOffered = copy.bearer && copy.receipts.at(-1)?.step === 'offered';
    throw new Refusal(
      'already_claimed',
      isOffered
        ? `message ${short} is offered to a session, which settles it or lets it wait again; answer it with \`parley reply ${short}\` or give it back with \`parley release ${short}\``
        : `message ${short} is held by another reader; see \`parley trace ${short}\``,
    );
  }
}

/**
 * Step 4 of 5. Takes these messages into the reader's hand, lets `render` make what the reader will see, and shows it at the
 * last moment at which a failure can still be undone. If it cannot be shown, everything waits again. `offered` is noted first.
 * Who has just read a message where it waits gives it instead of its id, and it is not read a second time.
 *
 * A copy is waiting → held by us → settled. If we die while it is held it waits again at once; if we die after it was shown and
 * before it was settled, it comes once more, marked as a redelivery. Nobody else can get it in between.
 */
export async function deliver(
  who: Who,
  mail: readonly (MessageId | Message)[],
  settlement: Settlement,
  render: (delivered: Delivered[]) => { show: () => void; slow: boolean },
  offered?: Receipt,
): Promise<Delivered[]> {
  const { spool } = who.home;
  const ids = mail.map((one) => (typeof one === 'string' ? one : one.id));
  const read = new Map(mail.filter((one) => typeof one !== 'string').map((message) => [message.id, message]));
  const claim = await spool.claim(who.name, ids, { ms: LEASE_MS }, read);
  if (claim.copies.length === 0) return [];
  const delivered = claim.copies.toSorted(
    (a, b) => Number(a.message.ts > b.message.ts) - Number(a.message.ts < b.message.ts),
  );
  const held = delivered.map(({ message }) => message.id);
  const { show, slow } = render(delivered);
  if (offered) for (const id of held) await who.home.ledger.record(who.name, id, offered);
  // A slow reader must not hold up everybody else's writes: show first, then settle.
  if (slow) await showOrRelease(who, claim, held, show);
  const settled = await spool.settle(claim, held, settlement, slow ? 'shown' : show);
  // It was shown: to answer that nothing was taken would be untrue.
  if (!settled && slow) {
    throw new Refusal(
      'already_claimed',
      'what was shown was meanwhile claimed by another session; it may be shown twice',
    );
  }
  return settled ? delivered : [];
}

async function showOrRelease(who: Who, claim: Claim, ids: MessageId[], show: () => void): Promise<void> {
  try {
    show();
  } catch (error) {
    await who.home.spool.release(
      claim,
      ids,
      { because: 'it could not be shown' },
      undefined,
      error instanceof PartlyShown,
    );
    throw error;
  }
}
