import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { rootOf } from '../conversation.ts';
import type { House } from './house.ts';
import { rawConversation, rawMessage, rawPerson } from './source.ts';
import type { SurfaceShow } from './wire.ts';

/** How a message looks at a surface: a DM, a post, a reply in a thread, a reaction, or another text for an earlier one. spec: host#show */
export async function showOf(
  house: House,
  platform: AgentName,
  mailbox: AgentName,
  message: Message,
): Promise<SurfaceShow> {
  const { signal, eta, replaces, aim } = message.parley ?? {};
  const { kind, displayName } = await house.people.person(message.from);
  const about = signal === undefined ? null : await house.deps.home.ledger.message(message.thread as MessageId);
  const place = about ?? message;
  const isChannel = place.to.startsWith('#');
  const isThread = signal === undefined && message.thread !== undefined;
  // Whoever shares something for all calls nobody by it.
  const called = aim === 'ambient' ? [] : await house.people.called(message.body);
  return {
    what: signal !== undefined ? 'reaction' : replaces !== undefined ? 'edit' : 'message',
    id: message.id,
    idempotencyKey: `${message.id}:${platform}`,
    conversation: {
      id: isChannel ? rawConversation(place.to) : rawPerson(platform, mailbox),
      kind: isChannel ? (isThread ? 'thread' : 'channel') : 'dm',
      ...(isThread && { threadId: rawMessage(platform, rootOf(message)) }),
    },
    author: { id: message.from, kind, displayName },
    visibility: isThread && isChannel ? 'thread' : isChannel ? 'channel' : 'dm',
    ...(!isChannel && { recipient: rawPerson(platform, mailbox) }),
    mentions: called.flatMap((name) => {
      const [, person = ''] = /^(?:human|agent):(.*)$/.exec(name) ?? [];
      return person.startsWith(`${platform}.`) ? [rawPerson(platform, person)] : [];
    }),
    ...(signal === undefined && { text: message.body }),
    ...(message.refs && { refs: message.refs }),
    ...(signal !== undefined && { signal, target: rawMessage(platform, message.thread ?? '') }),
    ...(eta !== undefined && { eta }),
    ...(replaces !== undefined && { target: rawMessage(platform, replaces) }),
  };
}
