import type { Message } from '../message.ts';
import { HOST_NAME } from '../signal.ts';

/** Where a message was said. Its order is kept within one of these. spec: host#conversation */
export interface Conversation {
  id: string;
  kind: 'dm' | 'channel' | 'thread' | 'system' | 'tool';
  /** The channel, where there is one. */
  streamId?: string;
  /** The message that opened the exchange, where this one answers something. */
  threadId?: string;
}

/** What a message is part of. What was sent to a role was offered to several, like what is in a channel. */
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

/** The message with which its exchange began, as far as we know. */
export function rootOf(message: Message): Message['id'] {
  return message.parley?.lineage?.root ?? message.id;
}

/** Was it offered to several, so that one of them should claim it before an answer? */
export function isOfferedToSeveral(message: Message, recipients: readonly string[]): boolean {
  return message.to.startsWith('#') || !recipients.includes(message.to.replace(/^@/, ''));
}
