import type { AgentName } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import { Refusal } from '../refusal.ts';
import { boxOf, isAtSurface, surfaceOf } from './arrival.ts';
import type { Home } from './workspace.ts';
import type { Sent } from './send.ts';

/** How long a caller outside the host waits for a chat to take the message, and to show it (ms). */
interface Patience {
  takenMs: number;
  shownMs: number;
}

/** The state of a message in the chats that it went to. `withdrawn`: its author withdrew it before it was shown, or its copy is gone. */
export interface ShownOutcome {
  state: 'shown' | 'waiting' | 'withdrawn' | 'refused';
  /** The chats that will never show it, with their reasons. */
  refused: { box: AgentName; by: Evidence }[];
}

/** The host notes every minute that a chat is connected. After this time without a note it counts as away. */
const AWAY_MS = 5 * 60_000;

/** The host runs in another process, so we poll its receipts: first often, then less often. */
const FIRST_LOOK_MS = 10;
const LONGEST_LOOK_MS = 200;

/**
 * Waits a short time until the chats that a message goes to have shown it. Null if it goes to no chat. Throws a Refusal if all its readers
 * are in chats that will never show it: then nobody sees it. spec: mcp#shown
 */
export async function shownSoon(sent: Sent, now: number, patience: Patience): Promise<ShownOutcome | null> {
  const { home, copies } = sent;
  const boxes = home.remote ? [] : await boxesOf(sent);
  if (boxes.length === 0) return null;
  const takenMs = (await isAnyConnected(home, boxes, now)) ? patience.takenMs : 0;
  let pause = FIRST_LOOK_MS;
  for (let waited = 0; ; waited += pause, pause = Math.min(2 * pause, LONGEST_LOOK_MS)) {
    const { isTaken, ...showing } = await look(home, sent, boxes);
    const [first] = showing.refused;
    if (first && showing.refused.length === copies.length) throw neverShown(first.by);
    const isOver = waited >= (isTaken ? patience.shownMs : takenMs);
    if (showing.state !== 'waiting' || isOver) return showing;
    await Bun.sleep(pause);
  }
}

/** The mailboxes whose copies a chat shows: those of people in the chat and, for a channel, the chat's own. */
async function boxesOf({ home, message, copies }: Sent): Promise<AgentName[]> {
  const boxes: AgentName[] = [];
  for (const { mailbox } of copies) {
    if (boxOf(mailbox, message) === mailbox && (await isAtSurface(home, mailbox, message))) boxes.push(mailbox);
  }
  return boxes;
}

/** Is one of the chats connected? Nobody waits for a chat that is away or was never connected. */
async function isAnyConnected(home: Home, boxes: AgentName[], now: number): Promise<boolean> {
  for (const box of boxes) {
    const seen = Date.parse((await surfaceOf(home, box))?.lastSeen ?? '');
    if (now - seen < AWAY_MS) return true;
  }
  return false;
}

async function look(home: Home, { message }: Sent, boxes: AgentName[]): Promise<ShownOutcome & { isTaken: boolean }> {
  const refused: ShownOutcome['refused'] = [];
  let [state, isTaken]: [ShownOutcome['state'], boolean] = ['refused', false];
  for (const box of boxes) {
    const copy = await home.journal.copy(box, message.id);
    const isEnded = copy?.state === 'settled';
    isTaken ||= copy?.state === 'held';
    if (copy?.state === 'stored' || copy?.state === 'held') state = 'waiting';
    else if (isEnded && copy.disposition === 'failed') refused.push({ box, by: copy.settledBy ?? {} });
    else if (state !== 'waiting') state = isEnded && copy.disposition !== 'superseded' ? withShown(state) : 'withdrawn';
  }
  return { state, refused, isTaken };
}

/** The state with one more chat that has shown the message: `shown`, unless another chat had it withdrawn. */
function withShown(state: ShownOutcome['state']): ShownOutcome['state'] {
  return state === 'withdrawn' ? 'withdrawn' : 'shown';
}

/** The refusal for a message that a chat will never show, with its reason. */
export function neverShown({ reason }: Evidence): Refusal {
  return new Refusal(
    'unreachable',
    `the surface refused it, so nobody there has seen it: ${String(reason ?? 'refused')}`,
  );
}
