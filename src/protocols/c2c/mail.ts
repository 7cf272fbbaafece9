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

/** After this time, a session that said it is compacting counts as not compacting any more. */
const COMPACTING_S = 300;

/** A message to the sender of an unanswered message counts as the answer for this long. */
const ANSWERED_MS = 60 * 60 * 1000;

/** The prefixes of tagged messages, as other programs of the broker write them. */
const TAGS = { fail: '🔴 FAIL: ', blocking: '⛔ BLOCKING: ', urgent: '⚠️ URGENT: ' } as const;
export type Tag = keyof typeof TAGS;

/** A broker, and the workspace whose only home it is. */
interface C2cContext {
  workspace: Workspace;
  broker: Broker;
}

/** A message as c2c's commands and tools give it to its reader. `to_alias` of a room's message is `<alias>#<room>`. spec: c2c#inbox */
export interface MailEntry {
  from_alias: string;
  to_alias: string;
  content: string;
  /** Seconds since 1970. */
  ts: number;
  message_id: string;
  /** An earlier reader took it and did not finish. */
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

/** Takes all waiting mail of this reader, including quiet mail. It is shown as the last step, before the take is committed. */
export async function takeWaiting(who: Who, by: Evidence, render: Parameters<typeof deliver>[3]): Promise<Delivered[]> {
  const mail = await waiting(who, { any: true });
  const messages = mail.map(({ message }) => message);
  return deliver(who, messages, { disposition: 'acknowledged', by }, render);
}

/** The result of a send: the message is stored. Nothing says that it was read. */
export interface Stored {
  queued: true;
  ts: number;
  from_alias: string;
  to_alias: string;
  message_id: string;
  /** The last proven step. */
  proven: 'stored';
  /** For a room: the members whose inboxes have it. */
  stored_for?: string[];
  /** No session with that alias runs now, so the message waits. */
  queued_offline?: true;
  recipient_dnd?: true;
  compacting_warning?: string;
}

export interface C2cMessage {
  body: string;
  tag?: Tag | undefined;
  /** It need not wake the reader. */
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
    thread: await answeredId(context, from, alias),
  };
  const { message } = await send(context.workspace, from, draft);
  return storedFor(context.broker, message);
}

/**
 * The message that this one answers: the last unanswered message from its recipient. A c2c send cannot name the message that it answers, and
 * without this every message would stay owed.
 */
async function answeredId({ workspace }: C2cContext, from: AgentName, alias: string): Promise<MessageId | undefined> {
  const [home] = workspace.homes;
  const reader = await home?.directory.get(alias as AgentName);
  const last = reader && (await home?.journal.unanswered(reader.name, from, workspace.now() - ANSWERED_MS));
  return last?.id;
}

async function storedFor(broker: Broker, message: Message): Promise<Stored> {
  const known = await broker.byAlias(message.to);
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

/** Sends a message to all other members of a room, running or not. Only members may write. spec: c2c#rooms */
export async function sayInRoom({ workspace, broker }: C2cContext, from: AgentName, room: string, body: string) {
  const members = (await broker.room(room))?.members ?? [];
  if (!members.some(({ alias }) => isSameAlias(alias, from))) {
    throw new Refusal('not_yours', `${from} is not in room ${room}; join it first: \`c2c rooms join ${room}\``);
  }
  const draft = { to: `#${room}`, body, priority: 'normal', intent: 'none' } as const;
  const isAlone = members.every(({ alias }) => isSameAlias(alias, from));
  const { message, copies } = isAlone
    ? await storeWithoutCopies(workspace, from, draft)
    : await send(workspace, from, draft);
  const delivered = copies.map(({ mailbox }) => mailbox as string);
  return { delivered_to: delivered, skipped: [], ts: secondsOf(message), message_id: message.id };
}

/** Stores a message to a room without other members: only the room's history has it. */
async function storeWithoutCopies(workspace: Workspace, from: AgentName, draft: Draft) {
  const [home] = workspace.homes;
  if (!home) throw new Error('a workspace without a home');
  refuseTooLarge(draft.body, workspace.bodyLimit);
  const message = composeMessage(draft, { id: workspace.newId(), from, ts: new Date(workspace.now()).toISOString() });
  return home.mailboxes.put({ message, copies: [] });
}

/** Sends a message of its own to each session that may run. A refusal for one session does not stop the others. */
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
