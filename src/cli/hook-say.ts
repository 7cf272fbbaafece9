import { framed, lengthFor, TEXT_LIMIT } from '../clients/hook-client.ts';
import type { Framed, HookClient } from '../clients/hook-client.ts';
import type { Mail } from '../delivery/fence.ts';
import { planRound, roundText } from '../delivery/round.ts';
import type { Phrases, Piece, Round } from '../delivery/round.ts';
import { deliver } from '../flow/deliver.ts';
import type { Delivered } from '../flow/deliver.ts';
import type { Who } from '../flow/workspace.ts';
import type { MessageId } from '../protocol/names.ts';
import type { Evidence, Receipt } from '../protocol/receipt.ts';
import { writeAll } from '../platform/terminal.ts';

/** An event at which something can be said to the model. */
export interface Opening {
  client: HookClient;
  event: string;
  session: string;
  /** What else is evidence of it. */
  further?: Evidence;
  /** How whole messages are taken. Without it they are settled by being printed. */
  take?: (ids: MessageId[], show: (delivered: Delivered[]) => void, offered: Receipt) => Promise<Delivered[]>;
  /** Of the mail, what was settled before and is only shown again. */
  again?: ReadonlySet<MessageId>;
}

/**
 * Says as much of this mail as fits into one text. That a model saw it is not claimed. Signs leave their messages waiting, out of the
 * hook's sight. Returns what was said.
 */
export async function sayRound(
  who: Who,
  opening: Opening,
  phrases: Phrases,
  mail: readonly Mail[],
  now: number,
): Promise<Piece[]> {
  const { client, event } = opening;
  const round = planRound(phrases, mail, {
    limit: TEXT_LIMIT,
    length: (text) => lengthFor(client, text),
    free: !client.endsTurn.includes(event),
  });
  return say(who, opening, phrases, round, now);
}

/** Returns the pieces that were really said: another session may have been faster with some. */
async function say(who: Who, opening: Opening, phrases: Phrases, round: Round, now: number): Promise<Piece[]> {
  const { client, event, session, again = new Set() } = opening;
  const evidence: Evidence = { by: 'hook', client: client.name, event, session, ...opening.further };
  const receipt = (step: Receipt['step']): Receipt => ({ step, at: new Date(now).toISOString(), evidence });
  const toTake = round.pieces.filter(({ kind, mail }) => kind === 'whole' && !again.has(mail.message.id));
  const others = round.pieces.filter((piece) => !toTake.includes(piece));
  let said: Piece[] = [];
  const show = (pieces: Piece[]): void => {
    said = pieces;
    write(opening, phrases, { ...round, pieces });
  };
  const take = opening.take ?? settlingTake(who, evidence);
  const taken = await take(
    toTake.map(({ mail }) => mail.message.id),
    (delivered) => show(inOrder(round.pieces, toTake, delivered)),
    receipt('offered'),
  );
  if (taken.length === 0) {
    // Where speaking costs a turn, knocks do not speak for themselves.
    const isWorthATurn = !client.endsTurn.includes(event) || others.some(({ kind }) => kind !== 'knock');
    said = [];
    if (others.length > 0 && isWorthATurn) show(others);
  }
  // Only now, when nothing can take back what was said, does the exit code say that something was.
  if (said.length > 0) process.exitCode = framedFor(opening, '').exit;
  for (const { mail, kind } of said) if (kind !== 'whole') await sinkSign(who, mail, receipt('knocked'));
  return said;
}

/** Printed is settled: the rule of `bch` and `c2c`. */
function settlingTake(who: Who, by: Evidence): NonNullable<Opening['take']> {
  return (ids, show, offered) => {
    const render = (delivered: Delivered[]) => ({ show: () => show(delivered), slow: false });
    return deliver(who, ids, { disposition: 'acknowledged', by }, render, offered);
  };
}

function write(opening: Opening, phrases: Phrases, round: Round): void {
  const { fd, text } = framedFor(opening, roundText(phrases, round));
  writeAll(fd, text);
}

/** The planned pieces as they came into our hand, without those that did not. */
function inOrder(pieces: readonly Piece[], toTake: readonly Piece[], delivered: readonly Mail[]): Piece[] {
  const won = new Map(delivered.map((mail) => [mail.message.id, mail]));
  return pieces.flatMap((piece): Piece[] => {
    if (!toTake.includes(piece)) return [piece];
    const mail = won.get(piece.mail.message.id);
    // The decision is told as it was planned: a claim may have made it an answer that is owed.
    return mail ? [{ kind: 'whole', mail: { ...mail, attention: piece.mail.attention } }] : [];
  });
}

/** Only after the sign was given: if we die between, it is given twice, and never not at all. */
async function sinkSign(who: Who, { message, attention }: Mail, receipt: Receipt): Promise<void> {
  // What a prompt was pointed to is not kept for the next one too.
  if (attention.injection === 'digest') {
    await who.home.ledger.reconsider(who.name, message.id, { ...attention, injection: 'tool_mailbox' });
  }
  await who.home.spool.lower(who.name, message.id);
  await who.home.ledger.record(who.name, message.id, receipt);
}

function framedFor({ client, event }: Opening, text: string): Framed {
  const form = client.events[event];
  if (!form) throw new Error(`nothing can be said to ${client.name} at ${event}`);
  return framed(form, event, text);
}
