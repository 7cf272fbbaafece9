import type { Message } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import type { Evidence } from '../protocol/receipt.ts';
import type { Home, Who } from './desk.ts';
import { SURFACE_BOX } from './overhear.ts';

/** What became of an answer. `waiting`: it is still to be shown. `withdrawn`: it was taken back before. */
export type Arrival = 'arrived' | 'waiting' | 'withdrawn' | { failed: Evidence };

/** So long what was answered stays out of its reader's sight while the answer waits for its surface. */
const ASIDE_MS = 24 * 60 * 60 * 1000;

/**
 * Plain mail has arrived when it is stored. Whoever wrote at a surface has an answer when that has shown it: until then nobody has
 * seen it, and what it answers has no end. spec: host#shown
 */
export async function arrivalOf(home: Home, author: string, said: Message): Promise<Arrival> {
  const [platform = ''] = author.split('.', 1);
  // What was said at the surface itself is seen there already.
  if (platform === author || said.from.startsWith(`${platform}.`)) return 'arrived';
  const box = `${platform}${SURFACE_BOX}` as AgentName;
  if (!(await home.directory.get(box))) return 'arrived';
  const copy = await home.ledger.copy(said.to.startsWith('#') ? box : (author as AgentName), said.id);
  if (copy?.state === 'stored' || copy?.state === 'held') return 'waiting';
  if (copy?.disposition === 'failed') return { failed: copy.settledBy ?? {} };
  return copy?.disposition === 'superseded' ? 'withdrawn' : 'arrived';
}

/** Its answer is under way: meanwhile nobody else is asked for one. If that is never shown, the event waits again after a day. */
export async function setAside({ name, home }: Who, id: MessageId): Promise<void> {
  const copy = await home.ledger.copy(name, id);
  if (copy?.state === 'stored') await home.spool.claim(name, [id], { ms: ASIDE_MS, bearer: 'answered' });
}
