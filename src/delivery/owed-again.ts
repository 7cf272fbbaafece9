import type { Who } from '../core/mail/workspace.ts';
import { allOwed } from '../core/obligations/owed.ts';
import type { Trace } from '../core/ports/journal.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import type { Parcel } from '../core/ports/way-in.ts';
import type { FittedMail } from './fit.ts';
import { digestOf } from './wake-digest.ts';

/** At most this much of what is owed is shown again after one compaction, the oldest first. */
const MOST_OWED = 20;

/** What this session was shown or pointed to, must answer and has not answered: a compaction may have taken it out of the model's context. */
export async function shownAndOwed(who: Who, session: string): Promise<FittedMail[]> {
  const mail: FittedMail[] = [];
  for await (const { id, state, message } of allOwed(who)) {
    if (mail.length === MOST_OWED) break;
    if (!message || state === 'deferred') continue;
    const copy = (await who.home.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === who.name);
    if (!copy || !(wasShownTo(session, copy) || (await wasListedFor(who, session, copy)))) continue;
    mail.push({ message, attention: copy.attention, attempt: copy.attempt + 1 });
  }
  return mail;
}

export interface ShowAgainOptions {
  /** Renders it, oldest first. */
  wrap: (mail: readonly FittedMail[]) => Promise<readonly Parcel[]>;
  /** Puts it before the model. Throws if the client does not take it. */
  give: (parcels: readonly Parcel[]) => Promise<void>;
  now: () => number;
}

/** Shows a session again what it owes, after a compaction for which no hook runs. How much that was. */
export async function showAgain(who: Who, live: LiveSession, { wrap, give, now }: ShowAgainOptions): Promise<number> {
  const mail = await shownAndOwed(who, live.id);
  await give(mail.length === 0 ? [] : await wrap(mail));
  const evidence = { client: live.client, session: live.id, because: 'still owed after a compaction' };
  const offered = { step: 'offered', at: new Date(now()).toISOString(), evidence } as const;
  for (const { message } of mail) await who.home.journal.record(who.name, message.id, offered);
  return mail.length;
}

/** Was the copy shown whole to this session, or does it wait after a knock or a pointer there? */
function wasShownTo(session: string, { state, settledBy, receipts }: Trace['copies'][number]): boolean {
  if (state === 'settled') return settledBy?.['session'] === session;
  const isKnocked = receipts.some(({ step, evidence }) => step === 'knocked' && evidence['session'] === session);
  return state === 'stored' && isKnocked;
}

/** Was this session shown a digest that lists the copy, and does the copy still wait? See wake-digest.ts. */
async function wasListedFor(
  { name, home }: Who,
  session: string,
  { state, receipts }: Trace['copies'][number],
): Promise<boolean> {
  if (state !== 'stored') return false;
  const digest = await digestOf({ name, home }, receipts);
  return digest !== null && (await home.journal.copy(name, digest))?.settledBy?.['session'] === session;
}
