import { decide } from '../attention/decide.ts';
import { nextLineage } from '../attention/lineage.ts';
import { breaksLoop } from '../attention/loop.ts';
import { mentionsIn } from '../attention/mentions.ts';
import { asksQuestion, isOnlyThanks } from '../attention/thanks.ts';
import type { Attention } from '../protocol/attention.ts';
import type { Lineage, Message } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import type { AgentRecord } from '../storage/directory/directory.ts';
import type { Records } from '../storage/ledger/ledger.ts';
import type { Home } from './desk.ts';

/** How much of an exchange is looked at to tell whether anything new is said. */
const EXCHANGE = 50;

/** Where a message stands in its exchange, computed from what we stored ourselves. */
export async function lineageOf(
  records: Records,
  content: { thread?: MessageId | string | undefined; body: string; refs?: string[] | undefined },
): Promise<{ lineage: Lineage | undefined; earlier: Message[] }> {
  const thread = content.thread as MessageId | undefined;
  if (!thread) return { lineage: undefined, earlier: [] };
  const parent = await records.message(thread);
  const earlier = await records.exchange(parent?.parley?.lineage?.root ?? thread, EXCHANGE);
  const said = earlier.map(({ body, refs }) => ({ body, refs: refs ?? [] }));
  const words = { body: content.body, refs: content.refs ?? [] };
  return { lineage: nextLineage(parent && { ...parent, lineage: parent.parley?.lineage }, thread, words, said), earlier };
}

/** Step 3 of 5. Decides how one recipient should see a message: who is meant, must they answer, how much do they see. */
export async function attend(
  home: Home,
  message: Message,
  reader: AgentName,
  via: 'dm' | 'role' | 'channel',
  exchange?: { lineage: Lineage | undefined; earlier: Message[] },
): Promise<Attention> {
  const record = await home.directory.get(reader);
  if (!record?.parley) return EVERYTHING_SHOWN;
  const { lineage, earlier } = exchange ?? (await lineageOf(home.ledger, message));
  const sender = await home.directory.get(message.from as AgentName);
  const mentions = mentionsIn(message.body);
  const fromAgent = sender?.parley?.kind !== 'human';
  return decide({
    via,
    fromAgent,
    fromMe: message.from === reader,
    mentionsMe: mentions.includes(reader),
    mentionsOther: mentions.some((name) => name !== reader),
    mentionsMyRole: mentions.some((name) => record.parley?.roles.includes(name as AgentName)),
    inThreadIHaveJoined: earlier.some((one) => one.from === reader),
    ownsThread: earlier[0]?.from === reader,
    ownsStream: false,
    threadReply: message.thread !== undefined,
    intent: message.parley?.intent ?? 'none',
    priority: message.priority,
    onlyThanks: isOnlyThanks(message.body),
    asksQuestion: asksQuestion(message.body),
    loop: lineage !== undefined && breaksLoop(lineage, fromAgent && isAgent(record)),
  });
}

/** The decision on a copy that another program left in a mailbox. Its sender's claims about it are not believed. */
export async function attendForeign(home: Home, reader: AgentName, message: Message): Promise<Attention> {
  return attend(home, message, reader, message.to.startsWith('#') ? 'channel' : 'dm');
}

/** An agent that was made by another program keeps no policy: it sees everything, as it always did. */
const EVERYTHING_SHOWN: Attention = {
  directedness: 'to_me',
  policy: 'must_respond',
  injection: 'buffered',
  reason: 'no_policy',
};

function isAgent(record: AgentRecord): boolean {
  return record.parley?.kind !== 'human';
}
