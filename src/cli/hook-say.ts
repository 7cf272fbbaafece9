import { framed, lengthFor, TEXT_LIMIT } from '../clients/hook-client.ts';
import type { Framed, HookClient } from '../clients/hook-client.ts';
import type { Mail } from '../delivery/fence.ts';
import { planRound, roundText } from '../delivery/round.ts';
import type { Phrases, Piece, Round } from '../delivery/round.ts';
import { deliver } from '../flow/deliver.ts';
import type { Who } from '../flow/desk.ts';
import type { Evidence, Receipt } from '../protocol/receipt.ts';
import { writeAll } from './terminal.ts';

/** An event at which something can be said to the model. */
export interface Opening {
  client: HookClient;
  event: string;
  session: string;
  /** What else is evidence of it. */
  further?: Evidence;
}

/**
 * Says as much of this mail as fits into one text. Whole messages are taken and settled by being said, as if the reader had taken
 * them; that a model saw them is not claimed. Signs leave their messages waiting, out of the hook's sight. Returns what was said.
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
  const { client, event, session } = opening;
  const evidence: Evidence = { by: 'hook', client: client.name, event, session, ...opening.further };
  const receipt = (step: Receipt['step']): Receipt => ({ step, at: new Date(now).toISOString(), evidence });
  const signs = round.pieces.filter(({ kind }) => kind !== 'whole');
  const whole = round.pieces.filter(({ kind }) => kind === 'whole').map(({ mail }) => mail.message.id);
  let said = signs;
  const taken = await deliver(
    who,
    whole,
    { disposition: 'acknowledged', by: evidence },
    (delivered) => {
      said = inOrder(round.pieces, delivered);
      return { show: () => write(opening, phrases, { ...round, pieces: said }), slow: false };
    },
    receipt('offered'),
  );
  if (taken.length === 0) {
    // Where speaking costs a turn, knocks do not speak for themselves.
    said = client.endsTurn.includes(event) && signs.every(({ kind }) => kind === 'knock') ? [] : signs;
    if (said.length > 0) write(opening, phrases, { ...round, pieces: said });
  }
  // Only now, when nothing can take back what was said, does the exit code say that something was.
  if (said.length > 0) process.exitCode = framedFor(opening, '').exit;
  for (const { mail, kind } of said) if (kind !== 'whole') await sinkSign(who, mail, receipt('knocked'));
  return said;
}

function write(opening: Opening, phrases: Phrases, round: Round): void {
  const { fd, text } = framedFor(opening, roundText(phrases, round));
  writeAll(fd, text);
}

/** The planned pieces as they came into our hand, without those that did not. */
function inOrder(pieces: readonly Piece[], delivered: readonly Mail[]): Piece[] {
  const won = new Map(delivered.map((mail) => [mail.message.id, mail]));
  return pieces.flatMap((piece): Piece[] => {
    if (piece.kind !== 'whole') return [piece];
    const mail = won.get(piece.mail.message.id);
    // The decision is told as it was planned: a claim may have made it an answer that is owed.
    return mail ? [{ kind: 'whole', mail: { ...mail, attention: piece.mail.attention } }] : [];
  });
}

/** Only after the sign was given: if we die between, it is given twice, and never not at all. */
async function sinkSign(who: Who, { message, attention }: Mail, receipt: Receipt): Promise<void> {
  // What a turn was pointed to is not kept for the next one too.
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
