import { asksToLeave } from '../attention/leave.ts';
import { mentionsIn } from '../attention/mentions.ts';
import type { Message } from '../protocol/message.ts';
import { AgentName } from '../protocol/names.ts';
import type { AgentRecord } from '../storage/directory/directory.ts';
import { rootOf } from './conversation.ts';
import type { Home } from './workspace.ts';

/**
 * Notes who is asked to leave a channel or an exchange: from then on it waits quietly there. Who is called there by name again, for
 * anything else, is back. spec: c2a#leaving
 */
export async function leaveOrReturn(home: Home, message: Message, recipients: readonly AgentRecord[]): Promise<void> {
  const named = new Set<string>(mentionsIn(message.body));
  const isDm = !message.to.startsWith('#');
  const places = isDm ? [rootOf(message)] : [message.to, rootOf(message)];
  const leaves = asksToLeave(message.body) && (await maySendAway(home, message));
  // Where an exchange stands in a channel, it is the exchange, unless they name the channel.
  const place = message.thread !== undefined && !/channel|#/i.test(message.body) ? rootOf(message) : message.to;
  for (const { name, parley } of recipients) {
    if (!parley || parley.kind !== 'agent' || (!isDm && !named.has(name))) continue;
    if (leaves && (!isDm || message.thread !== undefined)) {
      const where = isDm ? rootOf(message) : place;
      await home.directory.amend(name, ({ left = [] }) => (left.includes(where) ? null : { left: [...left, where] }));
    } else if (named.has(name) && parley.left?.some((where) => places.includes(where))) {
      await home.directory.amend(name, ({ left = [] }) => rest(left.filter((where) => !places.includes(where))));
    }
  }
}

function rest(left: string[]): { left: string[] | undefined } {
  return { left: left.length > 0 ? left : undefined };
}

/** A person, or whoever opened the exchange or owns the place. Any other agent could silence the rest. */
async function maySendAway(home: Home, message: Message): Promise<boolean> {
  const from = AgentName.safeParse(message.from);
  const parley = from.success ? (await home.directory.get(from.data))?.parley : undefined;
  if (parley?.kind === 'human') return true;
  const root = rootOf(message);
  if (parley?.owns?.some((what) => what === message.to || what === root)) return true;
  return message.thread !== undefined && (await home.ledger.message(root))?.from === message.from;
}
