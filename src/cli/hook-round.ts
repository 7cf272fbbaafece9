import { framed, lengthFor, TEXT_LIMIT } from '../clients/hook-client.ts';
import type { Framed, HookClient } from '../clients/hook-client.ts';
import { plainLine } from '../delivery/quote.ts';
import { newMark } from '../delivery/fence.ts';
import type { Mail, Voice } from '../delivery/fence.ts';
import { planRound, roundText } from '../delivery/round.ts';
import type { Piece, Round } from '../delivery/round.ts';
import { deliver } from '../flow/deliver.ts';
import type { Who } from '../flow/desk.ts';
import { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Evidence, Receipt } from '../protocol/receipt.ts';
import { scopeMatches } from '../protocol/scope.ts';
import { mailboxOf, namesIn } from './sessions.ts';
import { writeAll } from './terminal.ts';
import { ago } from './words.ts';

/** A hook holds up a model's turn: a relay is waited for this long and no longer. */
const ASK_MS = 1500;

/** An event at which something can be said to the model. */
export interface Opening {
  client: HookClient;
  event: string;
  session: string;
  match: string;
}

/** The names in new/ that were looked at, and whether it is certain that none of those left is for this session. */
export interface Outcome {
  looked: ReadonlySet<string>;
  nothingLeft: boolean;
}

/**
 * Says what waits for this session, as far as it fits into one text. Whole messages are taken and settled by being said, as if
 * the reader had taken them; that a model saw them is not claimed. Signs leave their messages waiting, out of the hook's sight.
 */
export async function sayWaiting(who: Who, opening: Opening, now: number): Promise<Outcome> {
  const { client, event } = opening;
  const { mail, looked, unsure } = await loudMail(who, opening.match);
  const mark = newMark(mail, () => crypto.getRandomValues(Buffer.alloc(5)).toString('hex'));
  const voice: Voice = { reader: who.name, mark, now, ago: (iso) => ago(iso, now) };
  const round = planRound(voice, mail, {
    limit: TEXT_LIMIT,
    length: (text) => lengthFor(client, text),
    free: !client.endsTurn.includes(event),
  });
  const said = await say(who, opening, voice, round);
  return { looked, nothingLeft: !unsure && said.length === mail.length };
}

/** What stands in new/. */
interface Loud {
  /** The copies that are meant for this context. */
  mail: Mail[];
  /** Every name there. */
  looked: Set<string>;
  /** Some file is there that is no message yet: another program may still be writing it. */
  unsure: boolean;
}

/** Reads nothing that waits quietly, however much that is. */
async function loudMail(who: Who, match: string): Promise<Loud> {
  await fetchFor(who, match);
  if (await isLeftInHand(who)) await who.home.spool.adopt(who.name);
  for (let adopted = false; ; adopted = true) {
    const looked = new Set(namesIn(`${mailboxOf(who)}/new`));
    const found: (Mail | Verdict)[] = [];
    for (const name of looked) found.push(await mailIn(who, name, match));
    // Mail of other programs is judged first: it may belong to the quiet.
    if (found.includes('unjudged') && !adopted) await who.home.spool.adopt(who.name);
    else return { mail: found.filter((one) => typeof one === 'object'), looked, unsure: found.includes('unsure') };
  }
}

/** What waits at a relay for this context is fetched first. If the relay is away, what is here is said all the same. */
async function fetchFor({ name, home }: Who, match: string): Promise<void> {
  try {
    await home.far?.bring(name, (message) => scopeMatches(message.scope, match), ASK_MS);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    writeAll(2, `parley hook: ${plainLine(error.message, 200)}\n`);
  }
}

/** Does a copy stand in held/ that waits by its row? Nearly always that folder is empty, and this costs one listing. */
async function isLeftInHand(who: Who): Promise<boolean> {
  for (const name of namesIn(`${mailboxOf(who)}/held`)) {
    const copy = await who.home.ledger.copy(who.name, name.replace(/\.json$/, '') as MessageId);
    if (copy?.state === 'stored') return true;
  }
  return false;
}

type Verdict = 'not for us' | 'unjudged' | 'unsure';

async function mailIn(who: Who, name: string, match: string): Promise<Mail | Verdict> {
  const id = MessageId.safeParse(name.replace(/\.json$/, ''));
  if (!name.endsWith('.json') || !id.success) return 'not for us';
  const waiting = await who.home.spool.read(who.name, id.data);
  if (!waiting) return 'unsure';
  if (waiting.quiet || !scopeMatches(waiting.message.scope, match)) return 'not for us';
  const copy = await who.home.ledger.copy(who.name, id.data);
  if (!copy) return 'unjudged';
  return { message: waiting.message, attention: copy.attention, attempt: copy.attempt };
}

/** Returns the pieces that were really said: another session may have been faster with some. */
async function say(who: Who, opening: Opening, voice: Voice, round: Round): Promise<Piece[]> {
  const { client, event, session } = opening;
  const evidence: Evidence = { by: 'hook', client: client.name, event, session };
  const receipt = (step: Receipt['step']): Receipt => ({ step, at: new Date(voice.now).toISOString(), evidence });
  const signs = round.pieces.filter(({ kind }) => kind !== 'whole');
  const whole = round.pieces.filter(({ kind }) => kind === 'whole').map(({ mail }) => mail.message.id);
  let said = signs;
  const taken = await deliver(
    who,
    whole,
    { disposition: 'acknowledged', by: evidence },
    (delivered) => {
      said = inOrder(round.pieces, delivered);
      return { show: () => write(opening, voice, { ...round, pieces: said }), slow: false };
    },
    receipt('offered'),
  );
  if (taken.length === 0) {
    // Where speaking costs a turn, knocks do not speak for themselves.
    said = client.endsTurn.includes(event) && signs.every(({ kind }) => kind === 'knock') ? [] : signs;
    if (said.length > 0) write(opening, voice, { ...round, pieces: said });
  }
  // Only now, when nothing can take back what was said, does the exit code say that something was.
  if (said.length > 0) process.exitCode = framedFor(opening, '').exit;
  for (const { mail, kind } of said) if (kind !== 'whole') await sinkSign(who, mail, receipt('knocked'));
  return said;
}

function write(opening: Opening, voice: Voice, round: Round): void {
  const { fd, text } = framedFor(opening, roundText(voice, round));
  writeAll(fd, text);
}

/** The planned pieces as they came into our hand, without those that did not. */
function inOrder(pieces: readonly Piece[], delivered: readonly Mail[]): Piece[] {
  const won = new Map(delivered.map((mail) => [mail.message.id, mail]));
  return pieces.flatMap((piece): Piece[] => {
    if (piece.kind !== 'whole') return [piece];
    const mail = won.get(piece.mail.message.id);
    return mail ? [{ kind: 'whole', mail }] : [];
  });
}

/** Only after the sign was given: if we die between, it is given twice, and never not at all. */
async function sinkSign(who: Who, { message }: Mail, receipt: Receipt): Promise<void> {
  await who.home.spool.lower(who.name, message.id);
  await who.home.ledger.record(who.name, message.id, receipt);
}

function framedFor({ client, event }: Opening, text: string): Framed {
  const form = client.events[event];
  if (!form) throw new Error(`nothing can be said to ${client.name} at ${event}`);
  return framed(form, event, text);
}
