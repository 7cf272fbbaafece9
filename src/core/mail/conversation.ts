import type { Message } from '../message.ts';
import { HOST_NAME } from '../signal.ts';

/** Where a message was sent. Messages of one conversation keep their order. spec: host#conversation */
export interface Conversation {
  id: string;
  kind: 'dm' | 'channel' | 'thread' | 'system' | 'tool';
  /** The channel, if the message was sent to one. */
  streamId?: string;
  /** The message that opened the exchange, if this message has a thread. */
  threadId?: string;
}

/** The conversation of a message. A message to a role counts as one in a channel, because it is offered to several agents. */
export function conversationOf(message: Message, recipients: readonly string[]): Conversation {
  const threadId = message.thread === undefined ? undefined : rootOf(message);
  const thread = threadId !== undefined && { threadId };
  if (message.to.startsWith('#')) {
    return { id: message.to, kind: thread ? 'thread' : 'channel', streamId: message.to, ...thread };
  }
  const name = message.to.replace(/^@/, '');
  if (message.from === HOST_NAME) return { id: `system:${name}`, kind: 'system', ...thread };
  if (!recipients.includes(name)) return { id: `@${name}`, kind: thread ? 'thread' : 'channel', ...thread };
  return { id: `dm:${[message.from, name].sort().join(',')}`, kind: 'dm', ...thread };
}

/** The id of the message that opened the exchange, as far as we know. */
export function rootOf(message: Message): Message['id'] {
  return message.parley?.lineage?.root ?? message.id;
}

/** Was the message offered to several agents, so that one of them should claim it before it answers? */
export function isOfferedToSeveral(message: Message, recipients: readonly string[]): boolean {
  return message.to.startsWith('#') || !recipients.includes(message.to.replace(/^@/, ''));
}
