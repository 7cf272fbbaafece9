import type { HookClient } from '../clients/hook-client.ts';
import type { HookEvent } from '../clients/hook-event.ts';
import type { Mail } from '../delivery/fence.ts';
import type { Piece } from '../delivery/round.ts';
import type { Who } from '../flow/desk.ts';
import type { MessageId } from '../protocol/names.ts';
import type { Offers } from './hook-offers.ts';

/** So much of what is owed is shown again after one compaction, the oldest first. */
const MOST = 20;

/**
 * What this session was shown, must answer and has not answered: a compaction may have taken it out of the model's context. Nothing if
 * there was none since it was last shown, and at the end of a turn: to say it again is no reason to make a model go on.
 */
export async function owedAgain(
  who: Who,
  offers: Offers,
  { client, event }: { client: HookClient; event: HookEvent },
): Promise<Mail[]> {
  const shown = offers.shownSinceCompaction();
  if (!shown || client.endsTurn.includes(event.hook_event_name ?? '')) return [];
  const { owe } = await import('../flow/owe.ts');
  const { duties } = await owe(who, { limit: MOST });
  const mail: Mail[] = [];
  for (const { id, state, message } of duties) {
    const copy = await who.home.ledger.copy(who.name, id);
    const reader = copy?.settledBy?.['session'] ?? offers.session.id;
    const isOurs = copy?.state === 'settled' && reader === offers.session.id;
    if (!message || !isOurs || state === 'deferred' || shown.includes(id)) continue;
    mail.push({ message, attention: copy.attention, attempt: copy.attempt + 1 });
  }
  if (mail.length === 0) offers.endCompaction();
  return mail;
}

/** What was shown again has its receipt; what did not fit follows at the next event. */
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
  for (const id of said) {
    await who.home.ledger.record(who.name, id, { step: 'offered', at: new Date(now).toISOString(), evidence });
  }
}
