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
  /** Its number in the order of arrival: an edit has that of what it replaces. */
  seq: number;
  author: Person;
  conversation: Conversation;
  /** How it goes out, with what the harness can do. */
  mode: Injection;
  /** How often it went out before. */
  attempts: number;
  /** Held by this session already: offered before, and not lost since. */
  held: boolean;
}

/** Which copy: several mailboxes of one session may get the same message. */
export function keyOf({ who, message }: Pick<Item, 'who' | 'message'>): string {
  return `${message.id}:${who.name}`;
}

/** Where it was said, as its reader sees it. */
export function placeOf(message: Message, who: Who): Conversation {
  const place = conversationOf(message, [who.name]);
  return { ...place, kind: kindIn(message) ?? place.kind };
}

/** When it was said, by our clock at the latest: another machine's may be ahead. */
export function saidAt({ message }: Pick<Item, 'message'>, now: number): number {
  const at = Date.parse(message.ts);
  return Number.isNaN(at) ? now : Math.min(at, now);
}

/** What goes out as one: one message, or what one author wrote in a row. The last is the event, the others are in its turn. */
export interface Group {
  items: Item[];
  mode: Injection;
  /** It may go although a turn runs: a boundary came, or it interrupts. */
  cleared: boolean;
  interrupt: boolean;
  /** How often it has come back, because nobody answered: then it is a knock. */
  returns: number;
  /** Not before this time (ms): the turn that had it has just failed. */
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

/** Nothing of it is put before a model: it only tells the harness. */
export function isUnseen({ mode }: Pick<Group, 'mode'>): boolean {
  return mode === 'tool_mailbox' || mode === 'silent' || mode === 'digest';
}
