import { checkableIn } from '../attention/checkable.ts';
import { insists } from '../attention/decide.ts';
import { nextLineage } from '../attention/lineage.ts';
import { breaksEcho, isLongExchange, LONG_EXCHANGE } from '../attention/loop.ts';
import type { Guard } from '../attention/loop.ts';
import type { Extras, Lineage, Message } from '../protocol/message.ts';
import type { MessageId } from '../protocol/names.ts';
import { isAgent } from './attend.ts';
import type { Home } from './workspace.ts';

/** What a message says, and which one its sender says that it answers: a draft, or a message that another program left. */
export type Content = Pick<Message, 'to' | 'body' | 'refs' | 'thread'> &
  Pick<Extras, 'intent' | 'signal' | 'obligation' | 'replaces'> & { priority: string };

interface Answer {
  from: string;
  fromAgent: boolean;
  content: Content;
  thread: MessageId;
  parent: Message | null;
  /** What the exchange holds so far, oldest first. */
  earlier: readonly Message[];
}

/** The lineage of an answer. */
export function lineageOf({ from, fromAgent, content, thread, parent, earlier }: Answer): Lineage | undefined {
  const said = { ...content, from, byAgent: fromAgent, insists: isInsistent(content) };
  return nextLineage(parent && { ...parent, lineage: parent.parley?.lineage }, thread, said, earlier);
}

/** Which guard holds an answer that an agent sends now, if any does. spec: c2a#loops */
export async function guardOf(
  home: Home,
  lineage: Lineage | undefined,
  content: Content,
  earlier: readonly Message[],
  now: number,
): Promise<Guard | null> {
  if (!lineage || isInsistent(content)) return null;
  if (breaksEcho(lineage)) return 'echo';
  return lineage.stale > 0 && (await isLong(home, earlier.slice(-LONG_EXCHANGE), now)) ? 'long' : null;
}

function isInsistent({ intent = 'none', priority, signal, obligation }: Content): boolean {
  return obligation !== undefined || insists({ intent, priority: priority === 'urgent' ? 'urgent' : 'normal', signal });
}

/** Few exchanges are that long: the others pay for no look at what became of their messages. */
async function isLong(home: Home, last: readonly Message[], now: number): Promise<boolean> {
  const turns = last.map(({ ts, body, refs, parley }) => ({
    at: Date.parse(ts),
    byAgent: true,
    fact: parley?.lineage ? parley.lineage.stale === 0 : checkableIn(body, refs).length > 0,
    disposition: parley?.signal !== undefined,
  }));
  if (!isLongExchange(turns, now)) return false;
  const agents = new Map<string, boolean>();
  for (const { from } of last) if (!agents.has(from)) agents.set(from, await isAgent(home, from));
  const disposed = await Promise.all(last.map(({ id }) => isDisposedOf(home, id)));
  const known = turns.map((turn, at) => ({
    ...turn,
    byAgent: agents.get(last[at]?.from ?? '') ?? true,
    disposition: turn.disposition || disposed[at] === true,
  }));
  return isLongExchange(known, now);
}

/** What a reader does with a message on purpose. To be shown it, or to answer it, is no such act. */
const ON_PURPOSE: ReadonlySet<unknown> = new Set(['reacted', 'claimed', 'deferred', 'ack', 'resolve']);

async function isDisposedOf(home: Home, id: MessageId): Promise<boolean> {
  const { copies = [] } = (await home.ledger.trace(id)) ?? {};
  return copies.some(
    ({ settledBy, receipts }) =>
      ON_PURPOSE.has(settledBy?.['by']) ||
      receipts.some(({ step, evidence }) => ON_PURPOSE.has(step) || ON_PURPOSE.has(evidence['by'])),
  );
}
