import type { Who } from '../core/mail/workspace.ts';
import { allOwed } from '../core/obligations/owed.ts';
import type { Trace } from '../core/ports/journal.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import type { Parcel } from '../core/ports/way-in.ts';
import type { FittedMail } from './fit.ts';
import { digestOf } from './wake-digest.ts';

/** The most messages that are shown again after one compaction, the oldest first. */
const MAX_SHOWN_AGAIN = 20;

/**
 * The mail that this session was shown, or got a knock or pointer for, and still owes an answer. A compaction may have removed it from the
 * model's context.
 */
export async function shownAndOwed(who: Who, session: string): Promise<FittedMail[]> {
  const mail: FittedMail[] = [];
  for await (const { id, state, message } of allOwed(who)) {
    if (mail.length === MAX_SHOWN_AGAIN) break;
    if (!message || state === 'deferred') continue;
    const copy = (await who.home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === who.name);
    if (!copy || !(wasShownTo(session, copy) || (await wasListedFor(who, session, copy)))) continue;
    mail.push({ message, attention: copy.attention, attempt: copy.attempt + 1 });
  }
  return mail;
}

export interface ShowAgainOptions {
  /** Renders the mail, oldest first. */
  wrap: (mail: readonly FittedMail[]) => Promise<readonly Parcel[]>;
  /** Hands the parcels to the client. Throws if the client does not take them. */
  give: (parcels: readonly Parcel[]) => Promise<void>;
  now: () => number;
}

/** Shows a session again what it owes, after a compaction for which no hook runs. Returns the number of messages. */
export async function showAgain(who: Who, live: LiveSession, { wrap, give, now }: ShowAgainOptions): Promise<number> {
  const mail = await shownAndOwed(who, live.id);
  await give(mail.length === 0 ? [] : await wrap(mail));
  const evidence = { client: live.client, session: live.id, because: 'still owed after a compaction' };
  const offered = { step: 'offered', at: new Date(now()).toISOString(), evidence } as const;
  for (const { message } of mail) await who.home.journal.record(who.name, message.id, offered);
  return mail.length;
}

/** Whether this session was shown the copy whole, or got a knock or pointer for it and the copy still waits. */
function wasShownTo(session: string, { state, settledBy, receipts }: Trace['copies'][number]): boolean {
  if (state === 'settled') return settledBy?.['session'] === session;
  const isKnocked = receipts.some(({ step, evidence }) => step === 'knocked' && evidence['session'] === session);
  return state === 'stored' && isKnocked;
}

/** Whether this session was shown a digest that lists the copy, and the copy still waits. See wake-digest.ts. */
async function wasListedFor(
  { name, home }: Who,
  session: string,
  { state, receipts }: Trace['copies'][number],
): Promise<boolean> {
  if (state !== 'stored') return false;
  const digest = await digestOf({ name, home }, receipts);
  return digest !== null && (await home.journal.copy(name, digest))?.settledBy?.['session'] === session;
}
