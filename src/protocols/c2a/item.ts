import type { Attention, Injection } from '../../core/attention/attention.ts';
import type { Message } from '../../core/message.ts';
import type { MessageId } from '../../core/names.ts';
import { conversationOf } from '../../core/mail/conversation.ts';
import type { Conversation } from '../../core/mail/conversation.ts';
import type { Who } from '../../core/mail/workspace.ts';
import type { Person } from './context.ts';
import { kindIn } from './platform-names.ts';

/** One copy on its way to a harness. */
export interface Item {
  who: Who;
  message: Message;
  attention: Attention;
  /** Its number in the order of arrival. An edit has the number of the message that it replaces. */
  seq: number;
  author: Person;
  conversation: Conversation;
  /** The mode in which it is sent, limited to what the harness can do. */
  mode: Injection;
  /** How often it was sent before. */
  attempts: number;
  /** This session holds the copy already, because it offered it before. */
  held: boolean;
}

/** The key of a copy: several mailboxes of one session may get the same message. */
export function keyOf({ who, message }: Pick<Item, 'who' | 'message'>): string {
  return `${message.id}:${who.name}`;
}

/** The conversation of a message, as its reader sees it. */
export function placeOf(message: Message, who: Who): Conversation {
  const place = conversationOf(message, [who.name]);
  return { ...place, kind: kindIn(message) ?? place.kind };
}

/** When a message was sent, but not later than now: another machine's clock may be ahead. */
export function saidAt({ message }: Pick<Item, 'message'>, now: number): number {
  const at = Date.parse(message.ts);
  return Number.isNaN(at) ? now : Math.min(at, now);
}

/** Items that are sent as one: one message, or several of one author in a row. The last is the event; the others share its turn. */
export interface Group {
  items: Item[];
  mode: Injection;
  /** It may be sent while a turn runs: a boundary was reached, or the event may interrupt. */
  cleared: boolean;
  interrupt: boolean;
  /** How often it was sent again because nobody answered. A return is a knock. */
  returns: number;
  /** It is not sent before this time (ms), because its turn has just failed. */
  notBefore: number;
}

export function aGroup(item: Item, fields: Partial<Group> = {}): Group {
  return { items: [item], mode: item.mode, cleared: false, interrupt: false, returns: 0, notBefore: 0, ...fields };
}

/** The item that is the event. */
export function lastOf(group: Group): Item {
  const last = group.items.at(-1);
  if (!last) throw new Error('a group has an item');
  return last;
}

export function idsOf(group: Group): MessageId[] {
  return group.items.map(({ message }) => message.id);
}

export function isUrgent(group: Group): boolean {
  return group.items.some(({ message }) => message.priority === 'urgent');
}

/** The harness gets the event, but shows its model nothing. */
export function isUnseen({ mode }: Pick<Group, 'mode'>): boolean {
  return mode === 'tool_mailbox' || mode === 'silent' || mode === 'digest';
}
