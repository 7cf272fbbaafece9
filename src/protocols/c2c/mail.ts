import type { Workspace, Who } from '../../core/mail/workspace.ts';
import { deliver, waiting } from '../../core/mail/deliver.ts';
import type { Delivered } from '../../core/mail/deliver.ts';
import { refuseTooLarge, send } from '../../core/mail/send.ts';
import { composeMessage } from '../../core/message.ts';
import type { Draft, Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Broker } from './broker.ts';
import { isObject } from './files.ts';
import { dndOf } from './sessions.ts';
import { isSameAlias, readAlias, readRoom } from './shapes.ts';

/** How long a session may say that it compacts before that is taken for forgotten. */
const COMPACTING_S = 300;

/** What is written within this time to the sender of the last message is taken for an answer. */
const ANSWERED_MS = 60 * 60 * 1000;

/** Words in front of a text, as other programs of this broker know them. */
const TAGS = { fail: '🔴 FAIL: ', blocking: '⛔ BLOCKING: ', urgent: '⚠️ URGENT: ' } as const;
export type Tag = keyof typeof TAGS;

/** A broker, and the workspace whose only home it is. */
interface C2cContext {
  workspace: Workspace;
  broker: Broker;
}

/** A message as a reader of this dialect gets it. `to_alias` of a room's message is `<alias>#<room>`. spec: c2c#inbox */
export interface MailEntry {
  from_alias: string;
  to_alias: string;
  content: string;
  /** Seconds since 1970. */
  ts: number;
  message_id: string;
  /** A reader began to read it before and did not finish. */
  redelivered?: true;
}

export function entryOf(reader: AgentName, message: Message, attempt = 0): MailEntry {
  return {
    from_alias: message.from,
    to_alias: message.to.startsWith('#') ? `${reader}${message.to}` : reader,
    content: message.body,
    ts: secondsOf(message),
    message_id: message.id,
    ...(attempt > 0 && { redelivered: true }),
  };
}

/** Takes everything that waits for this reader, quiet mail included. It is shown at the last moment at which that can be undone. */
export async function takeWaiting(who: Who, by: Evidence, render: Parameters<typeof deliver>[3]): Promise<Delivered[]> {
  const mail = await waiting(who, { any: true });
  const messages = mail.map(({ message }) => message);
  return deliver(who, messages, { disposition: 'acknowledged', by }, render);
}

/** What a send may claim: it is stored. That anybody read it is not known here. */
export interface Stored {
  queued: true;
  ts: number;
  from_alias: string;
  to_alias: string;
  message_id: string;
  /** The last step that is proven. */
  proven: 'stored';
  /** Whose inboxes it is in, where it went to a room. */
  stored_for?: string[];
  /** Nobody runs under that alias now: it waits. */
  queued_offline?: true;
  recipient_dnd?: true;
  compacting_warning?: string;
}

export interface C2cMessage {
  body: string;
  tag?: Tag | undefined;
  /** It is enough if it is read when the reader next looks. */
  deferrable?: boolean | undefined;
}

/** Stores a message for a session or a room. */
export async function sendTo(context: C2cContext, from: AgentName, to: string, said: C2cMessage): Promise<Stored> {
  const alias = to.replace(/^@/, '');
  if (isSameAlias(alias, from)) {
    throw new Refusal('invalid_request', `"${from}" is your own alias; name another session (\`c2c list\`)`);
  }
  const body = `${said.tag ? TAGS[said.tag] : ''}${said.body}`;
  if (alias.startsWith('#')) {
    const { delivered_to, ts, message_id } = await sayInRoom(context, from, readRoom(alias), body);
    const stored_for = delivered_to;
    return { queued: true, ts, from_alias: from, to_alias: alias, message_id, proven: 'stored', stored_for };
  }
  const draft: Draft = {
    to: alias,
    body,
    priority: said.tag === undefined || said.tag === 'fail' ? 'normal' : 'urgent',
    intent: said.tag === 'blocking' ? 'blocker' : said.deferrable ? 'status' : 'none',
    thread: await answered(context, from, alias),
  };
  const { message } = await send(context.workspace, from, draft);
  return storedFor(context.broker, message);
}

/**
 * Which message this answers. Here nobody can say so; a session that writes to the sender of its last message does. Otherwise every
 * message would be owed an answer for ever.
 */
async function answered({ workspace }: C2cContext, from: AgentName, alias: string): Promise<MessageId | undefined> {
  const [home] = workspace.homes;
  const reader = await home?.directory.get(alias as AgentName);
  const last = reader && (await home?.journal.unanswered(reader.name, from, workspace.now() - ANSWERED_MS));
  return last?.id;
}

async function storedFor(broker: Broker, message: Message): Promise<Stored> {
  const known = await broker.called(message.to);
  const alias = known?.row.alias ?? message.to;
  const now = Date.now() / 1000;
  const compacting = known?.row['compacting'];
  const isCompacting = isObject(compacting) && Number(compacting['started_at']) > now - COMPACTING_S;
  return {
    queued: true,
    ts: secondsOf(message),
    from_alias: message.from,
    to_alias: alias,
    message_id: message.id,
    proven: 'stored',
    ...(known?.alive === false && { queued_offline: true }),
    ...(known && dndOf(known.row, now).dnd && { recipient_dnd: true }),
    ...(isCompacting && { compacting_warning: `${alias} is compacting its context; the message waits meanwhile` }),
  };
}

/** Writes to all other members of a room. A member who is away finds it on return. Only members may write. spec: c2c#rooms */
export async function sayInRoom({ workspace, broker }: C2cContext, from: AgentName, room: string, body: string) {
  const members = (await broker.room(room))?.members ?? [];
  if (!members.some(({ alias }) => isSameAlias(alias, from))) {
    throw new Refusal('not_yours', `${from} is not in room ${room}; join it first: \`c2c rooms join ${room}\``);
  }
  const draft = { to: `#${room}`, body, priority: 'normal', intent: 'none' } as const;
  const isAlone = members.every(({ alias }) => isSameAlias(alias, from));
  const { message, copies } = isAlone ? await noted(workspace, from, draft) : await send(workspace, from, draft);
  const delivered = copies.map(({ mailbox }) => mailbox as string);
  return { delivered_to: delivered, skipped: [], ts: secondsOf(message), message_id: message.id };
}

/** Nobody else is in the room: it is in the history for those who come. */
async function noted(workspace: Workspace, from: AgentName, draft: Draft) {
  const [home] = workspace.homes;
  if (!home) throw new Error('a workspace without a home');
  refuseTooLarge(draft.body, workspace.bodyLimit);
  const message = composeMessage(draft, { id: workspace.newId(), from, ts: new Date(workspace.now()).toISOString() });
  return home.mailboxes.put({ message, copies: [] });
}

/** Each gets a message of its own. A refusal for one of them does not keep it from the others. */
export async function sendToAll(
  { workspace, broker }: C2cContext,
  from: AgentName,
  body: string,
  except: readonly string[],
) {
  const excluded = except.filter(Boolean).map((one) => readAlias(one.trim()));
  const without = new Set([from, ...excluded].map((alias) => alias.toLowerCase()));
  const sent: string[] = [];
  const skipped: { alias: string; reason: string }[] = [];
  const ids: Record<string, string> = {};
  for (const { row, alive } of await broker.sessions()) {
    const { alias } = row;
    if (without.has(alias.toLowerCase())) continue;
    without.add(alias.toLowerCase());
    if (alive === false) {
      skipped.push({ alias, reason: 'not_alive' });
      continue;
    }
    try {
      const { message } = await send(workspace, from, { to: alias, body, priority: 'normal', intent: 'none' });
      ids[alias] = message.id;
      sent.push(alias);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      skipped.push({ alias, reason: error.code });
    }
  }
  return { sent_to: sent, skipped, message_ids: ids };
}

function secondsOf({ ts }: Message): number {
  return Date.parse(ts) / 1000;
}
