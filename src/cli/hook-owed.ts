import type { HookClient } from '../clients/hook-client.ts';
import type { HookEvent } from '../clients/hook-event.ts';
import type { Mail } from '../delivery/fence.ts';
import type { Piece } from '../delivery/round.ts';
import type { Who } from '../flow/workspace.ts';
import type { MessageId } from '../protocol/names.ts';
import type { Trace } from '../storage/ledger/ledger.ts';
import type { Offers } from './hook-offers.ts';

/** At most this much of what is owed is shown again after one compaction, the oldest first. */
const MOST = 20;

/**
 * What this session was shown or pointed to, must answer and has not answered: a compaction may have taken it out of the model's context.
 * Empty if there was no compaction, or at a turn's end: repeated mail must not start a turn. `waiting` is shown anyway.
 */
export async function owedAgain(
  who: Who,
  offers: Offers,
  { client, event }: { client: HookClient; event: HookEvent },
  waiting: readonly Mail[],
): Promise<Mail[]> {
  const shown = offers.shownSinceCompaction();
  if (!shown || client.endsTurn.includes(event.hook_event_name ?? '')) return [];
  const { owe } = await import('../flow/owe.ts');
  const { duties } = await owe(who, { limit: MOST });
  const left = new Set([...shown, ...waiting.map(({ message }) => message.id)]);
  const mail: Mail[] = [];
  for (const { id, state, message } of duties) {
    if (!message || state === 'deferred' || left.has(id)) continue;
    const copy = (await who.home.ledger.trace(id))?.copies.find(({ mailbox }) => mailbox === who.name);
    if (!copy || !wasShownTo(offers.session.id, copy)) continue;
    mail.push({ message, attention: copy.attention, attempt: copy.attempt + 1 });
  }
  if (mail.length === 0) offers.endCompaction();
  return mail;
}

/** Was the copy shown whole to this session, or does it wait after a knock or a pointer there? */
function wasShownTo(session: string, { state, settledBy, receipts }: Trace['copies'][number]): boolean {
  if (state === 'settled') return settledBy?.['session'] === session;
  const isKnocked = receipts.some(({ step, evidence }) => step === 'knocked' && evidence['session'] === session);
  return state === 'stored' && isKnocked;
}

/** What was shown again whole gets a receipt; a knock or pointer has one already. What did not fit follows at the next event. */
export async function noteOwed(
  who: Who,
  offers: Offers,
  text: { client: HookClient; event: HookEvent; said: readonly Piece[]; again: ReadonlySet<MessageId> },
  now: number,
): Promise<void> {
  const shown = offers.shownSinceCompaction();
  const said = text.said.map(({ mail }) => mail.message.id).filter((id) => text.again.has(id));
  if (!shown || said.length === 0) return;
  if (said.length === text.again.size) offers.endCompaction();
  else offers.noteCompaction([...shown, ...said]);
  const { client, event } = text;
  const evidence = {
    by: 'hook',
    client: client.name,
    event: event.hook_event_name ?? '',
    session: offers.session.id,
    because: 'still owed after a compaction',
  };
  const whole = text.said.filter(({ kind }) => kind === 'whole').map(({ mail }) => mail.message.id);
  for (const id of said.filter((one) => whole.includes(one))) {
    await who.home.ledger.record(who.name, id, { step: 'offered', at: new Date(now).toISOString(), evidence });
  }
}
