import type { Who } from '../core/mail/workspace.ts';
import { asOwedNow } from '../core/obligations/owed.ts';
import { deliver } from '../core/mail/deliver.ts';
import type { Delivered } from '../core/mail/deliver.ts';
import { takenBy } from '../core/mail/shared.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import { receipt } from '../core/receipt.ts';
import type { Evidence, Receipt } from '../core/receipt.ts';
import { framed, lengthFor, TEXT_LIMIT } from './client.ts';
import type { HookClient } from './client.ts';
import { planText, renderText } from './fit.ts';
import type { FittedMail, Phrases, Piece } from './fit.ts';
import { isHeard, isSubagent, momentOf } from './hook-event.ts';
import type { HookEvent } from './hook-event.ts';
import type { OfferedTexts } from './hook-offered.ts';

/** The mail of one session, as one home keeps it. `parley hook` and `c2c hook` bind the session and bring one of these. */
export interface HookMailbox {
  /** The session, as receipts name it. */
  readonly session: string;
  /** What else receipts say. */
  readonly evidence?: Evidence;
  /** The mailbox is shared, and what is shown becomes this agent's. */
  readonly taker?: AgentName;
  /**
   * At the start of a session a text reaches the model only with the first prompt, and a session that is left without one asks its model
   * nothing. Where this is set nothing is said there, and the first prompt brings the mail.
   */
  readonly silentAtStart: boolean;
  /** What was printed and is not proven yet. Null: what is printed is settled, the rule of `c2c`. */
  readonly offered: OfferedTexts | null;
  phrases(reader: AgentName, mail: readonly FittedMail[], now: number): Phrases | Promise<Phrases>;
  write(fd: 1 | 2, text: string): void;
  /** What waits, loud; with `turnBegins` also what a guard kept for the session's own turn. Takes nothing. */
  look(turnBegins: boolean): Promise<HookLook>;
  /** A subagent gets no mail: the script need not start us again for what waits by now. */
  skip(): unknown;
  /** From now on the script starts us, whatever it knows: if we die, the next event sees to what we held. */
  lookAtOnce(): void;
  /** Says when the script must start us although nothing came. */
  lookAgain(): void | Promise<void>;
}

/** One look through a mailbox: whose it is, and what waits there. */
export interface HookLook {
  who: Who;
  mail: FittedMail[];
  /** None of what was there is left for this session: the script need not start us again for it. */
  nothingLeft(): unknown;
  close?(): void;
}

/**
 * Answers one event of a client. spec: hook#session
 *
 * 1. What the event before offered is settled, or waits again.
 * 2. What waits is looked for, in the first of the session's mailboxes that has some, and claimed as far as it fits into one text.
 * 3. The text is printed in the form that the client takes at this event, and what was offered is noted.
 *
 * Returns what was said. Sets the exit code with which the client understands it.
 */
export async function answerEvent(
  mailboxes: readonly HookMailbox[],
  client: HookClient,
  event: HookEvent,
): Promise<Piece[]> {
  let said: Piece[] = [];
  for (const mailbox of mailboxes) mailbox.lookAtOnce();
  if (isSubagent(client, event)) for (const mailbox of mailboxes) mailbox.skip();
  else {
    await mailboxes[0]?.offered?.resolve(client, event);
    for (const mailbox of mailboxes) if (said.length === 0) said = await speak(mailbox, client, event);
  }
  for (const mailbox of mailboxes) await mailbox.lookAgain();
  return said;
}

async function speak(mailbox: HookMailbox, client: HookClient, event: HookEvent): Promise<Piece[]> {
  const { hook_event_name: name = '' } = event;
  const isSilent = mailbox.silentAtStart && name === 'SessionStart';
  if (!isSilent && !isHeard(client, event)) return [];
  const look = await mailbox.look(client.beginsTurn.includes(name));
  try {
    const isOwed = !isSilent && mailbox.taker === undefined;
    const owed = isOwed ? ((await mailbox.offered?.owedAgain(look.who, client, event, look.mail)) ?? []) : [];
    const again = new Set(owed.map(({ message }) => message.id));
    const mail = isSilent ? look.mail : await withoutKnown(mailbox, client, event, look);
    const all = { who: look.who, mail: [...mail, ...owed] };
    const said = isSilent || all.mail.length === 0 ? [] : await sayText(mailbox, client, event, all, again);
    if (said.filter(({ mail: one }) => !again.has(one.message.id)).length === mail.length) look.nothingLeft();
    return said;
  } finally {
    look.close?.();
  }
}

/** What the conversation of this session does not have yet. */
async function withoutKnown(
  { offered, session, taker }: HookMailbox,
  client: HookClient,
  event: HookEvent,
  { who, mail }: Pick<HookLook, 'who' | 'mail'>,
): Promise<FittedMail[]> {
  if (!offered) return mail;
  const because = 'the conversation has it; it was not printed again';
  const evidence = { by: 'hook', client: client.name, event: event.hook_event_name ?? '', session, because };
  return offered.keepKnown(who, mail, event, receipt('offered', Date.now(), { ...evidence, ...takenBy(taker) }), taker);
}

/**
 * Says as much of this mail as fits into one text. That a model saw it is not claimed. Knocks and pointers leave their messages waiting,
 * out of the hook's sight. `again`: what was settled before and is only shown again. Returns what was really said: another session may
 * have been faster with some.
 */
async function sayText(
  mailbox: HookMailbox,
  client: HookClient,
  event: HookEvent,
  { who, mail: waiting }: Pick<HookLook, 'who' | 'mail'>,
  again: ReadonlySet<MessageId>,
): Promise<Piece[]> {
  const { session, offered, taker } = mailbox;
  const { hook_event_name: name = '' } = event;
  const form = client.events[name];
  if (!form) throw new Error(`nothing can be said to ${client.name} at ${name}`);
  const now = Date.now();
  const mail = await asOwedNow(who, waiting);
  const phrases = await mailbox.phrases(taker ?? who.name, mail, now);
  const isFree = !client.endsTurn.includes(name);
  const limits = { limit: TEXT_LIMIT, length: (text: string) => lengthFor(client, text), free: isFree };
  const plan = planText(phrases, mail, limits);
  const own = { ...mailbox.evidence, ...takenBy(taker) };
  const evidence: Evidence = { by: 'hook', client: client.name, event: name, session, ...own };
  const noted = (step: Receipt['step']): Receipt => receipt(step, now, evidence);

  let said: Piece[] = [];
  const show = (pieces: Piece[]): void => {
    said = pieces;
    const { fd, text } = framed(form, name, renderText(phrases, { ...plan, pieces }));
    mailbox.write(fd, text);
  };
  const toTake = plan.pieces.filter(({ kind, mail: { message } }) => kind === 'whole' && !again.has(message.id));
  const ids = toTake.map((piece) => piece.mail.message.id);
  const showTaken = (delivered: Delivered[]): void => show(inOrder(plan.pieces, toTake, delivered));
  const text = offered?.begin(who.name, now, taker);
  const taken = text
    ? await text.take(who, ids, showTaken, noted('offered'))
    : await settleByShowing(who, ids, showTaken, noted('offered'));
  if (taken.length === 0) {
    said = [];
    const others = plan.pieces.filter((piece) => !toTake.includes(piece));
    // Where speaking costs a turn, knocks do not speak for themselves.
    const isWorthATurn = isFree || others.some(({ kind }) => kind !== 'knock');
    if (others.length > 0 && isWorthATurn) show(others);
  }
  // Only now, when nothing can take back what was said, does the exit code say that something was.
  if (said.length > 0) process.exitCode = framed(form, name, '').exit;
  for (const piece of said) if (piece.kind !== 'whole') await lower(who, piece.mail, noted('knocked'));
  text?.close(momentOf(event), said, again);
  await offered?.noteShownAgain(who, said, again, noted('offered'));
  return said;
}

/** Printed is settled. */
async function settleByShowing(
  who: Who,
  ids: MessageId[],
  show: (delivered: Delivered[]) => void,
  offered: Receipt,
): Promise<Delivered[]> {
  const render = (delivered: Delivered[]) => ({ show: () => show(delivered), slow: false });
  return deliver(who, ids, { disposition: 'acknowledged', by: offered.evidence }, render, offered);
}

/** The planned pieces as they were claimed, without those that another session got. */
function inOrder(pieces: readonly Piece[], toTake: readonly Piece[], delivered: readonly FittedMail[]): Piece[] {
  const won = new Map(delivered.map((mail) => [mail.message.id, mail]));
  return pieces.flatMap((piece): Piece[] => {
    if (!toTake.includes(piece)) return [piece];
    const mail = won.get(piece.mail.message.id);
    // The decision is told as it was planned: a claim may have made it an answer that is owed.
    return mail ? [{ kind: 'whole', mail: { ...mail, attention: piece.mail.attention } }] : [];
  });
}

/** Only after the knock or pointer was printed: if we die between, it comes twice, and never not at all. */
async function lower(who: Who, { message, attention }: FittedMail, receipt: Receipt): Promise<void> {
  // What a prompt was pointed to is not kept for the next one too.
  if (attention.injection === 'digest') {
    await who.home.journal.reconsider(who.name, message.id, { ...attention, injection: 'tool_mailbox' });
  }
  await who.home.mailboxes.lower(who.name, message.id);
  await who.home.journal.record(who.name, message.id, receipt);
}
