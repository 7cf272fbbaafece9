import type { Message } from '../protocol/message.ts';
import type { AgentName } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import { Refusal } from '../protocol/refusal.ts';
import { arrivalOf, boxOf, isAtSurface } from './arrival.ts';
import type { Desk, Home } from './desk.ts';
import type { Sent } from './send.ts';

/** How long somebody outside the host waits for a surface's word: until it took the message up, and until it has shown it. */
interface Patience {
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
