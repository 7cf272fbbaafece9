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

/**
 * A mailbox of one session, as the hook reads it. `parley hook` and `c2c hook` each have their own. "The script" is the shell script of the
 * hook (hook-script.ts), which starts this program only when mail may wait.
 */
export interface HookMailbox {
  /** The session, as receipts name it. */
  readonly session: string;
  /** More facts for the receipts. */
  readonly evidence?: Evidence;
  /** Set for a shared mailbox: mail that was shown becomes this agent's. */
  readonly taker?: AgentName;
  /**
   * Prints nothing at the start of a session; the first prompt brings the mail. A text printed at the start reaches the model only with the
   * first prompt, and some sessions never get one.
   */
  readonly silentAtStart: boolean;
  /** The texts that were printed and are not proven yet. Null: a text is settled when it is printed, the rule of `c2c`. */
  readonly offered: OfferedTexts | null;
  phrases(reader: AgentName, mail: readonly FittedMail[], now: number): Phrases | Promise<Phrases>;
  write(fd: 1 | 2, text: string): void;
  /** Reads the loud mail that waits; with `turnBegins` also the mail that a guard kept for the session's own turn. Takes nothing. */
  look(turnBegins: boolean): Promise<HookLook>;
  /** Called for a subagent, which gets no mail: the script need not start us again for the mail that waits now. */
  skip(): unknown;
  /** Makes the script start us at the next event in any case: if we die, that event takes care of the mail that we held. */
  lookAtOnce(): void;
  /** Notes when the script must start us although no new mail came. */
  lookAgain(): void | Promise<void>;
}

/** The waiting mail of one mailbox. */
export interface HookLook {
  who: Who;
  mail: FittedMail[];
  /** Called when all of this mail was shown: the script need not start us again for it. */
  nothingLeft(): unknown;
  close?(): void;
}

/**
 * Answers one event of a client. spec: hook#session
 *
 * 1. Settle the mail that an earlier event printed, or let it wait again.
 * 2. Find the first mailbox of the session that has mail to show. Claim as much of it as fits into one text.
 * 3. Print the text in the form that the client takes at this event, and record what was printed.
 *
 * Returns the pieces that were printed. Sets the exit code that the client expects with them.
 */
export async function answerEvent(
  mailboxes: readonly HookMailbox[],
  client: HookClient,
  event: HookEvent,
): Promise<Piece[]> {
  let printed: Piece[] = [];
  for (const mailbox of mailboxes) mailbox.lookAtOnce();
  if (isSubagent(client, event)) for (const mailbox of mailboxes) mailbox.skip();
  else {
    await mailboxes[0]?.offered?.resolve(client, event);
    for (const mailbox of mailboxes) if (printed.length === 0) printed = await showMail(mailbox, client, event);
  }
  for (const mailbox of mailboxes) await mailbox.lookAgain();
  return printed;
}

async function showMail(mailbox: HookMailbox, client: HookClient, event: HookEvent): Promise<Piece[]> {
  const { hook_event_name: name = '' } = event;
  const isSilentEvent = mailbox.silentAtStart && name === 'SessionStart';
  if (!isSilentEvent && !isHeard(client, event)) return [];
  const look = await mailbox.look(client.beginsTurn.includes(name));
  try {
    const isOwed = !isSilentEvent && mailbox.taker === undefined;
    const owed = isOwed ? ((await mailbox.offered?.owedAgain(look.who, client, event, look.mail)) ?? []) : [];
    const again = new Set(owed.map(({ message }) => message.id));
    const mail = isSilentEvent ? look.mail : await withoutKnown(mailbox, client, event, look);
    const all = { who: look.who, mail: [...mail, ...owed] };
    const printed = isSilentEvent || all.mail.length === 0 ? [] : await printText(mailbox, client, event, all, again);
    if (printed.filter(({ mail: one }) => !again.has(one.message.id)).length === mail.length) look.nothingLeft();
    return printed;
  } finally {
    look.close?.();
  }
}

/** The mail that the conversation of this session does not have yet. */
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
 * Prints as much of this mail as fits into one text. Does not claim that a model saw it. A message with a knock or pointer keeps waiting,
 * and becomes quiet, so that the hook does not show it again. `again`: messages that are settled already and only repeated. Returns the
 * pieces that were printed: another session may have taken some of the mail first.
 */
async function printText(
  mailbox: HookMailbox,
  client: HookClient,
  event: HookEvent,
  { who, mail: waiting }: Pick<HookLook, 'who' | 'mail'>,
  again: ReadonlySet<MessageId>,
): Promise<Piece[]> {
  const { session, offered, taker } = mailbox;
  const { hook_event_name: name = '' } = event;
  const form = client.events[name];
  if (!form) throw new Error(`no text reaches ${client.name} at ${name}`);
  const now = Date.now();
  const mail = await asOwedNow(who, waiting);
  const phrases = await mailbox.phrases(taker ?? who.name, mail, now);
  const isFree = !client.endsTurn.includes(name);
  const limits = { limit: TEXT_LIMIT, length: (text: string) => lengthFor(client, text), free: isFree };
  const plan = planText(phrases, mail, limits);
  const own = { ...mailbox.evidence, ...takenBy(taker) };
  const evidence: Evidence = { by: 'hook', client: client.name, event: name, session, ...own };
  const noted = (step: Receipt['step']): Receipt => receipt(step, now, evidence);

  let printed: Piece[] = [];
  const show = (pieces: Piece[]): void => {
    printed = pieces;
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
    printed = [];
    const others = plan.pieces.filter((piece) => !toTake.includes(piece));
    // Where printing costs a turn, knocks alone are not printed.
    const isWorthATurn = isFree || others.some(({ kind }) => kind !== 'knock');
    if (others.length > 0 && isWorthATurn) show(others);
  }
  // The exit code says that a text was printed, so it is set only now, when that cannot be undone.
  if (printed.length > 0) process.exitCode = framed(form, name, '').exit;
  for (const piece of printed) if (piece.kind !== 'whole') await makeQuiet(who, piece.mail, noted('knocked'));
  text?.close(momentOf(event), printed, again);
  await offered?.noteShownAgain(who, printed, again, noted('offered'));
  return printed;
}

/** Settles the messages in the transaction that prints them. */
async function settleByShowing(
  who: Who,
  ids: MessageId[],
  show: (delivered: Delivered[]) => void,
  offered: Receipt,
): Promise<Delivered[]> {
  const render = (delivered: Delivered[]) => ({ show: () => show(delivered), slow: false });
  return deliver(who, ids, { disposition: 'acknowledged', by: offered.evidence }, render, offered);
}

/** The planned pieces with the claimed copies, without messages that another session got. */
function inOrder(pieces: readonly Piece[], toTake: readonly Piece[], delivered: readonly FittedMail[]): Piece[] {
  const won = new Map(delivered.map((mail) => [mail.message.id, mail]));
  return pieces.flatMap((piece): Piece[] => {
    if (!toTake.includes(piece)) return [piece];
    const mail = won.get(piece.mail.message.id);
    // Print the decision of the plan, which says whether an answer is owed now (`asOwedNow`).
    return mail ? [{ kind: 'whole', mail: { ...mail, attention: piece.mail.attention } }] : [];
  });
}

/** Makes a message quiet. Called after its knock or pointer was printed: if we die in between, that is printed twice, and never lost. */
async function makeQuiet(who: Who, { message, attention }: FittedMail, receipt: Receipt): Promise<void> {
  // `digest` mail is kept for the next prompt. After its pointer was printed, it only waits to be asked for.
  if (attention.injection === 'digest') {
    await who.home.journal.reconsider(who.name, message.id, { ...attention, injection: 'tool_mailbox' });
  }
  await who.home.mailboxes.lower(who.name, message.id);
  await who.home.journal.record(who.name, message.id, receipt);
}
