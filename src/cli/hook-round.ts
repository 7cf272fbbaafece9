import type { HookClient } from '../clients/hook-client.ts';
import type { HookEvent } from '../clients/hook-event.ts';
import { momentOf } from '../clients/hook-proof.ts';
import { plainLine } from '../delivery/quote.ts';
import { fenced, newMark } from '../delivery/fence.ts';
import type { Mail } from '../delivery/fence.ts';
import type { Piece } from '../delivery/round.ts';
import { asOwed, claimedBy } from '../flow/claimed.ts';
import type { Who } from '../flow/workspace.ts';
import { offerTo } from '../flow/offered.ts';
import { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import { scopeMatches } from '../protocol/scope.ts';
import type { Offers, Printed } from './hook-offers.ts';
import { noteOwed, owedAgain } from './hook-owed.ts';
import { sayRound } from './hook-say.ts';
import type { Opening } from './hook-say.ts';
import { mailboxOf, namesIn } from './sessions.ts';
import { writeAll } from '../platform/terminal.ts';
import { ago } from '../core/time.ts';

/** A hook holds up a model's turn: a relay is waited for this long and no longer. */
const ASK_MS = 1500;

/** The names that were looked at, and whether it is certain that none of those left is for this session. */
export interface Outcome {
  /** In new/. */
  looked: ReadonlySet<string>;
  /** In quiet/, where what wakes nobody waits for a turn to begin. Null if none begins now. */
  lookedLater: ReadonlySet<string> | null;
  nothingLeft: boolean;
}

/** Who speaks to whom: at which event of which client, for mail of which context. */
export interface Turn {
  client: HookClient;
  event: HookEvent;
  match: string;
}

/** Looks for mail of this session, and says nothing. */
export async function look(who: Who, { match }: Turn): Promise<Outcome> {
  const { mail, looked, unsure } = await loudMail(who, match);
  return { looked, lookedLater: null, nothingLeft: !unsure && mail.length === 0 };
}

/**
 * Says what waits for this session, as far as it fits into one text, and what it still owes after a compaction. Whole messages are
 * offered: the session's next event settles them or makes them wait again. Signs leave their messages waiting, out of the hook's sight.
 */
export async function sayWaiting(who: Who, offers: Offers, turn: Turn, now: number): Promise<Outcome> {
  const { client, event } = turn;
  const name = event.hook_event_name ?? '';
  const { mail: loud, looked, unsure } = await loudMail(who, turn.match);
  const later = client.beginsTurn.includes(name) ? await keptForTurn(who, turn.match) : null;
  const lookedLater = later?.looked ?? null;
  const mail = [...loud, ...(later?.mail ?? [])];
  const owed = await owedAgain(who, offers, turn, mail);
  if (mail.length + owed.length === 0) return { looked, lookedLater, nothingLeft: !unsure };
  const claimed = await claimedBy(who);
  const all = [...mail, ...owed].map((one) => ({
    ...one,
    attention: asOwed(one.attention, claimed.has(one.message.id)),
  }));
  const offer = offers.begin(who.name, now);
  const again = new Set(owed.map(({ message }) => message.id));
  const opening: Opening = {
    client,
    event: name,
    session: offers.session.id,
    take: (ids, show, offered) => {
      offer.note();
      return offerTo(who, ids, offer.lease, show, offered);
    },
    again,
  };
  const mark = newMark(all, () => crypto.getRandomValues(Buffer.alloc(5)).toString('hex'));
  const phrases = fenced({ reader: who.name, mark, now, ago: (iso) => ago(iso, now) });
  const said = await sayRound(who, opening, phrases, all, now);
  if (said.length === 0) offer.drop();
  else offer.notePrinted(momentOf(event), idsIn(said, again));
  await noteOwed(who, offers, { client, event, said, again }, now);
  const ownSaid = said.filter(({ mail: one }) => !again.has(one.message.id)).length;
  return { looked, lookedLater, nothingLeft: !unsure && ownSaid === mail.length };
}

function idsIn(said: readonly Piece[], again: ReadonlySet<MessageId>): Printed {
  const printed: Printed = { whole: [], signs: [], again: [] };
  for (const { mail, kind } of said) {
    const { id } = mail.message;
    if (again.has(id)) printed.again.push(id);
    else if (kind === 'whole') printed.whole.push(id);
    else printed.signs.push({ id, injection: mail.attention.injection });
  }
  return printed;
}

/** What a guard kept for this turn. spec: c2a#loops */
async function keptForTurn(who: Who, match: string): Promise<{ mail: Mail[]; looked: Set<string> }> {
  // The names first: what comes after them is looked for at the next turn.
  const looked = new Set(namesIn(`${mailboxOf(who)}/quiet`));
  const mail: Mail[] = [];
  for (const message of looked.size > 0 ? await (await import('../flow/later.ts')).laterMail(who, match) : []) {
    const copy = await who.home.ledger.copy(who.name, message.id);
    if (copy) mail.push({ message, attention: copy.attention, attempt: copy.attempt });
  }
  return { mail, looked };
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
    await home.remote?.bring(name, (message) => scopeMatches(message.scope, match), ASK_MS);
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
