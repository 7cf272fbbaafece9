import type { Attention } from '../../src/core/attention/attention.ts';
import type { Message } from '../../src/core/message.ts';
import { AgentName, MessageId, SendKey } from '../../src/core/names.ts';
import type { Copy, Entry } from '../../src/core/ports/journal.ts';

export const alice = AgentName.parse('alice');
export const bob = AgentName.parse('bob');
export const carol = AgentName.parse('carol');

/** How a copy is seen that is meant for its reader. */
export const LOUD: Attention = {
  directedness: 'to_me',
  policy: 'must_respond',
  injection: 'buffered',
  reason: 'direct_message',
};
/** How a copy is seen that should disturb nobody. */
export const QUIET: Attention = {
  directedness: 'ambient',
  policy: 'must_not_respond',
  injection: 'tool_mailbox',
  reason: 'ambient',
};

export function anId(): MessageId {
  return MessageId.parse(crypto.randomUUID());
}

export function aKey(): SendKey {
  return SendKey.parse(`key-${crypto.randomUUID()}`);
}

/** A message from alice to bob, unless told otherwise. */
export function aMessage(fields: Partial<Message> = {}): Message {
  return {
    id: anId(),
    from: alice,
    to: '@bob',
    body: 'hello',
    priority: 'normal',
    ts: new Date().toISOString(),
    ...fields,
  };
}

/** A message with a loud copy for bob, unless told otherwise. Its key stands in the message too, as `send` writes it. */
export function anEntry(fields: Partial<Message> = {}, rest: Partial<Omit<Entry, 'message'>> = {}): Entry {
  const { key } = rest;
  const message = aMessage({ ...(key && { parley: { v: 1, key } }), ...fields });
  return { message, copies: copiesFor(bob), ...rest };
}

export function copiesFor(...mailboxes: AgentName[]): Copy[] {
  return mailboxes.map((mailbox) => ({ mailbox, attention: LOUD }));
}
