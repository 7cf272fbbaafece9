import type { Message } from '../message.ts';
import { isMessageId } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { HistoryRow } from '../ports/journal.ts';
import type { Home, Who } from '../mail/workspace.ts';

/** An event that a reader may see, and its home. */
export interface Seen {
  home: Home;
  message: Message;
  recipients: HistoryRow['recipients'];
}

/**
 * The event, if one of these readers may see it: a reader that has a copy, wrote it, subscribes to its channel, may discharge it, or got its
 * escalation. Otherwise throws the same Refusal as for an event that does not exist, which reveals nothing.
 * spec: c2a#permissions
 */
export async function visible(whos: readonly Who[], id: string): Promise<Seen> {
  const homes = isMessageId(id) ? new Set(whos.map((who) => who.home)) : [];
  for (const home of homes) {
    const trace = await home.journal.trace(id as Message['id']);
    if (!trace) continue;
    const seen = { home, message: trace.message, recipients: trace.copies.map(({ mailbox }) => mailbox) };
    if (await maySee(whos, home, seen)) return seen;
  }
  throw unknownEvent(id);
}

/** May one of these readers see the message? */
export async function maySee(
  whos: readonly Who[],
  home: Home,
  { message, recipients }: Pick<HistoryRow, 'message' | 'recipients'>,
): Promise<boolean> {
  const here = whos.filter((who) => who.home === home);
  const delegate = message.parley?.obligation?.delegate;
  if (here.some(({ name }) => [message.from, delegate, ...recipients].includes(name))) return true;
  if (message.to.startsWith('#') && (await listens(here, message.to))) return true;
  return gotEscalation(home, message, here);
}

/** Did one of these readers get the escalation of the message? */
async function gotEscalation(home: Home, { id }: Message, here: readonly Who[]): Promise<boolean> {
  const copies = (await home.journal.trace(id))?.copies ?? [];
  const escalations = copies.flatMap(({ receipts }) => receipts.filter(({ step }) => step === 'escalated'));
  return escalations.some(({ evidence }) => here.some(({ name }) => name === evidence['to']));
}

/** Does one of these readers subscribe to this channel? */
export async function listens(whos: readonly Who[], channel: string): Promise<boolean> {
  for (const { name, home } of whos) {
    if ((await home.directory.get(name))?.subscriptions.includes(channel)) return true;
  }
  return false;
}

/** The refusal for an event that is unknown or that the reader may not see. */
export function unknownEvent(id: string): Refusal {
  const shown = id.replace(/[^\w.#@:,-]/g, '?').slice(0, 40);
  return new Refusal('not_found', `nothing called "${shown}" is here for you; see \`parley events\``);
}
