import { decide } from '../attention/decide.ts';
import { nextLineage } from '../attention/lineage.ts';
import { breaksLoop } from '../attention/loop.ts';
import { mentionsIn } from '../attention/mentions.ts';
import { asksQuestion, isOnlyThanks } from '../attention/thanks.ts';
import type { Attention } from '../protocol/attention.ts';
import type { Lineage, Message } from '../protocol/message.ts';
import { AgentName, MessageId } from '../protocol/names.ts';
import type { Home } from './desk.ts';

/** How much of an exchange is looked at to tell whether anything new is said. */
const EXCHANGE = 50;
/** How many names a body can call. */
const MENTIONS = 20;

/** Where a message stands in its exchange, computed from what we stored ourselves. */
export async function lineageOf(
  home: Home,
  content: { thread?: string | undefined; body: string; refs?: string[] | undefined },
): Promise<{ lineage: Lineage | undefined; earlier: Message[] }> {
  const thread = MessageId.safeParse(content.thread);
  if (!thread.success) return { lineage: undefined, earlier: [] };
  const parent = await home.ledger.message(thread.data);
  const known = parent?.parley?.lineage;
  const earlier = await home.ledger.exchange(known?.root ?? thread.data, EXCHANGE);
  // A person's word is always news: agents may answer it at length.
  const spoken = parent && known && !(await isAgent(home, parent.from)) ? { ...known, stale: 0 } : known;
  return { lineage: nextLineage(parent && { ...parent, lineage: spoken }, thread.data, content, earlier), earlier };
}

/** Step 3 of 5. Decides how one recipient should see a message: who is meant, must they answer, how much do they see. */
export async function attend(
  home: Home,
  message: Message,
  reader: AgentName,
  via: 'dm' | 'role' | 'channel',
  { lineage, earlier }: { lineage: Lineage | undefined; earlier: Message[] },
): Promise<Attention> {
  const record = await home.directory.get(reader);
  if (!record?.parley) return EVERYTHING_SHOWN;
  // Names in prose that nobody here has (decorators, packages) address nobody.
  const mentions = message.body.includes('@') ? await known(home, message.body) : [];
  const fromAgent = await isAgent(home, message.from);
  return decide({
    via,
    fromAgent,
    // A note to oneself is meant to be read, perhaps by a session elsewhere; one's own words in a channel are not.
    fromMe: via !== 'dm' && message.from === reader,
    mentionsMe: mentions.includes(reader),
    mentionsOther: mentions.some((name) => name !== reader),
    mentionsMyRole: mentions.some((name) => record.parley?.roles.includes(name)),
    inThreadIHaveJoined: earlier.some((one) => one.from === reader),
    ownsThread: await opened(home, lineage?.root, reader, earlier),
    ownsStream: false,
    threadReply: message.thread !== undefined,
    answersMe: earlier.some((one) => one.id === message.thread && one.from === reader),
    intent: message.parley?.intent ?? 'none',
    priority: message.priority === 'urgent' ? 'urgent' : 'normal',
    onlyThanks: isOnlyThanks(message.body),
    asksQuestion: (message.thread !== undefined || message.parley?.intent === 'thanks') && asksQuestion(message.body),
    loop: lineage !== undefined && breaksLoop(lineage, fromAgent && record.parley.kind === 'agent'),
  });
}

/** The decision on a copy that another program left in a mailbox. Its sender's claims about it are not believed. */
export async function attendForeign(
  home: Home,
  reader: AgentName,
  message: Message,
): Promise<{ attention: Attention; lineage: Lineage | undefined }> {
  const exchange = await lineageOf(home, message);
  const isMine = message.to.replace(/^@/, '') === reader;
  const via = message.to.startsWith('#') ? 'channel' : isMine ? 'dm' : 'role';
  return { attention: await attend(home, message, reader, via, exchange), lineage: exchange.lineage };
}

/** True if this reader wrote the message that opened the exchange. */
async function opened(
  home: Home,
  root: MessageId | undefined,
  reader: AgentName,
  earlier: Message[],
): Promise<boolean> {
  if (!root) return false;
  const opening = earlier.find((one) => one.id === root) ?? (await home.ledger.message(root));
  return opening?.from === reader;
}

/** The agents and roles among the names that a body calls; of a body that calls a crowd, the first few. */
async function known(home: Home, body: string): Promise<AgentName[]> {
  const called = mentionsIn(body)
    .slice(0, MENTIONS)
    .map((name) => AgentName.safeParse(name))
    .flatMap((name) => (name.success ? [name.data] : []));
  if (called.length === 0) return [];
  const records = await home.directory.list();
  const names = new Set(records.flatMap((record) => [record.name, ...(record.parley?.roles ?? [])]));
  return called.filter((name) => names.has(name));
}

/** An agent that was made by another program keeps no policy: it sees everything, as it always did. */
const EVERYTHING_SHOWN: Attention = {
  directedness: 'to_me',
  policy: 'must_respond',
  injection: 'buffered',
  reason: 'no_policy',
};

/** Anyone who is not known to be a person. */
async function isAgent(home: Home, name: string): Promise<boolean> {
  const known = AgentName.safeParse(name);
  return !known.success || (await home.directory.get(known.data))?.parley?.kind !== 'human';
}
