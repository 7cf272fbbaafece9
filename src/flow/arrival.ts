import type { Message } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Desk, Home, Who } from './desk.ts';
import { SURFACE_BOX } from './overhear.ts';
import type { Sent } from './send.ts';

/** What became of an answer. `waiting`: it is still to be shown. `withdrawn`: it was taken back before. */
export type Arrival = 'arrived' | 'waiting' | 'withdrawn' | { failed: Evidence };

/** So long what was answered stays out of its reader's sight while the answer waits for its surface. */
const ASIDE_MS = 24 * 60 * 60 * 1000;

/**
 * Plain mail has arrived when it is stored. Whoever wrote at a surface has an answer when that has shown it: until then nobody has
 * seen it, and what it answers has no end. spec: host#shown
 */
export async function arrivalOf(home: Home, author: string, said: Message): Promise<Arrival> {
  if (!(await isAtSurface(home, author, said))) return 'arrived';
  const copy = await home.ledger.copy(boxOf(author, said), said.id);
  if (copy?.state === 'stored' || copy?.state === 'held') return 'waiting';
  if (copy?.disposition === 'failed') return { failed: copy.settledBy ?? {} };
  return copy?.disposition === 'superseded' ? 'withdrawn' : 'arrived';
}

/** Is somebody shown this at a surface? What was said there is seen there already. */
async function isAtSurface(home: Home, reader: string, said: Message): Promise<boolean> {
  const platform = platformOf(reader);
  if (platform === reader || said.from.startsWith(`${platform}.`)) return false;
  return (await home.directory.get(`${platform}${SURFACE_BOX}` as AgentName)) !== null;
}

/** Of a channel's message the surface itself has the copy that is shown. */
function boxOf(reader: string, { to }: Message): AgentName {
  return (to.startsWith('#') ? `${platformOf(reader)}${SURFACE_BOX}` : reader) as AgentName;
}

function platformOf(reader: string): string {
  return reader.split('.', 1)[0] ?? '';
}

/** How long somebody outside the host waits for a surface's word: until it took the message up, and until it has shown it. */
export interface Patience {
  takenMs: number;
  shownMs: number;
}

/** The host writes down what became of it, in a process of its own: looked for at first soon, then ever more rarely. */
const FIRST_LOOK_MS = 10;
const LONGEST_LOOK_MS = 200;

/**
 * What became of a message at the surfaces it went to, as far as that is known soon: true if it was shown at all of them, undefined
 * if it goes to none. What a surface refuses for good is refused here too: nobody has seen it. spec: mcp#shown
 */
export async function shownSoon(
  desk: Desk,
  { message, copies }: Sent,
  patience: Patience,
): Promise<boolean | undefined> {
  let isAnywhere = false;
  for (const home of desk.homes.filter(({ far }) => far === undefined)) {
    for (const { mailbox } of copies) {
      if (!(await isAtSurface(home, mailbox, message))) continue;
      isAnywhere = true;
      if (!(await settledSoon(home, mailbox, message, patience))) return false;
    }
  }
  return isAnywhere ? true : undefined;
}

async function settledSoon(home: Home, reader: AgentName, said: Message, patience: Patience): Promise<boolean> {
  let pause = FIRST_LOOK_MS;
  for (let waited = 0; ; waited += pause, pause = Math.min(2 * pause, LONGEST_LOOK_MS)) {
    const arrival = await arrivalOf(home, reader, said);
    if (typeof arrival === 'object') throw neverShown(arrival.failed);
    if (arrival !== 'waiting') return true;
    const isTaken = (await home.ledger.copy(boxOf(reader, said), said.id))?.state === 'held';
    if (waited >= (isTaken ? patience.shownMs : patience.takenMs)) return false;
    await Bun.sleep(pause);
  }
}

/** The refusal of what a surface will never show, with the reason that it gave. */
export function neverShown({ reason }: Evidence): Refusal {
  return new Refusal('unreachable', `the surface refused it, nobody has seen it: ${String(reason ?? 'refused')}`);
}

/** Its answer is under way: meanwhile nobody else is asked for one. If that is never shown, the event waits again after a day. */
export async function setAside({ name, home }: Who, id: MessageId): Promise<void> {
  const copy = await home.ledger.copy(name, id);
  if (copy?.state === 'stored') await home.spool.claim(name, [id], { ms: ASIDE_MS, bearer: 'answered' });
}
