import { readAlias, readRoom } from '../../protocol/c2c.ts';
import type { Draft, Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Evidence } from '../../protocol/receipt.ts';
import type { deliver as Deliver, Delivered } from '../deliver.ts';
import type { Who } from '../workspace.ts';
import { send } from '../send.ts';
import type { Sent } from '../send.ts';
import type { Counter } from './rooms.ts';

/** How long a session may say that it compacts before that is taken for forgotten. */
const COMPACTING_S = 300;

/** What is written within this time to the one who wrote last is taken for an answer. */
const ANSWERED_MS = 60 * 60 * 1000;

/** Words in front of a text, as other programs of this broker know them. */
const TAGS = { fail: '🔴 FAIL: ', blocking: '⛔ BLOCKING: ', urgent: '⚠️ URGENT: ' } as const;
export type Tag = keyof typeof TAGS;

/** A message as a reader of this dialect gets it. `to_alias` of a room's message is `<alias>#<room>`. spec: c2c#inbox */
export interface Entry {
  from_alias: string;
  to_alias: string;
  content: string;
  /** Seconds since 1970. */
  ts: number;
  message_id: string;
  /** Somebody began to read it before and did not finish. */
  redelivered?: true;
}

export function entryOf(reader: AgentName, message: Message, attempt = 0): Entry {
  return {
    from_alias: message.from,
    to_alias: message.to.startsWith('#') ? `${reader}${message.to}` : reader,
    content: message.body,
    ts: Date.parse(message.ts) / 1000,
    message_id: message.id,
    ...(attempt > 0 && { redelivered: true }),
  };
}

/** Takes everything that waits for this reader, quiet mail included. It is shown at the last moment at which that can be undone. */
export async function takeWaiting(who: Who, by: Evidence, render: Parameters<typeof Deliver>[3]): Promise<Delivered[]> {
  // Every send reads this file: what only readers need is read here, and what only rooms need, further down.
  const { deliver, waiting } = await import('../deliver.ts');
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
  /** Whose inboxes it stands in, where it went to a room. */
  stored_for?: string[];
  /** Nobody runs under that alias now: it waits. */
  queued_offline?: true;
  recipient_dnd?: true;
  compacting_warning?: string;
}

export interface Said {
  body: string;
  tag?: Tag | undefined;
  /** It is enough if it is read when the reader next looks. */
  deferrable?: boolean | undefined;
}

/** Stores a message for a session or a room. */
export async function sendTo(counter: Counter, from: AgentName, to: string, said: Said): Promise<Stored> {
  const alias = to.replace(/^@/, '');
  if (alias.toLowerCase() === from.toLowerCase()) {
    throw new Refusal('invalid_request', `"${from}" is your own alias; name somebody else (\`c2c list\`)`);
  }
  const body = `${said.tag ? TAGS[said.tag] : ''}${said.body}`;
  if (alias.startsWith('#')) return saidTo(counter, from, alias, body);
  const draft: Draft = {
    to: alias,
    body,
    priority: said.tag === undefined || said.tag === 'fail' ? 'normal' : 'urgent',
    intent: said.tag === 'blocking' ? 'blocker' : said.deferrable ? 'status' : 'none',
    thread: await answered(counter, from, alias),
  };
  return answerTo(counter, await send(counter.workspace, from, draft));
}

/**
 * What this answers: here nobody can say so, and a session that writes to the one who wrote to it last does. Otherwise every message would
 * be owed an answer for ever.
 */
async function answered({ workspace }: Counter, from: AgentName, alias: string): Promise<MessageId | undefined> {
  const [home] = workspace.homes;
  const reader = await home?.directory.get(alias as AgentName);
  const last = reader && (await home?.ledger.unanswered(reader.name, from, workspace.now() - ANSWERED_MS));
  return last?.id;
}

async function saidTo(counter: Counter, from: AgentName, to: string, body: string): Promise<Stored> {
  const { sayInRoom } = await import('./rooms.ts');
  const { delivered_to, ts, message_id } = await sayInRoom(counter, from, readRoom(to), body);
  return { queued: true, ts, from_alias: from, to_alias: to, message_id, proven: 'stored', stored_for: delivered_to };
}

async function answerTo(counter: Counter, { message }: Sent): Promise<Stored> {
  const stored: Stored = {
    queued: true,
    ts: Date.parse(message.ts) / 1000,
    from_alias: message.from,
    to_alias: message.to,
    message_id: message.id,
    proven: 'stored',
  };
  const known = await counter.broker.called(message.to);
  if (!known) return stored;
  const { alias, dnd, dnd_until, compacting } = known.row as typeof known.row & { compacting?: unknown };
  const now = Date.now() / 1000;
  const isCompacting = startOf(compacting) > now - COMPACTING_S;
  return {
    ...stored,
    to_alias: alias,
    ...(known.alive === false && { queued_offline: true }),
    ...(dnd && (dnd_until ?? Infinity) > now && { recipient_dnd: true }),
    ...(isCompacting && { compacting_warning: `${alias} is compacting its context; the message waits meanwhile` }),
  };
}

function startOf(compacting: unknown): number {
  const { started_at } = (compacting ?? {}) as { started_at?: unknown };
  return typeof started_at === 'number' ? started_at : 0;
}

export interface SentToAll {
  sent_to: string[];
  skipped: { alias: string; reason: string }[];
  message_ids: Record<string, string>;
}

/** Each gets a message of its own. What one of them cannot get does not keep it from the others. */
export async function sendToAll(
  counter: Counter,
  from: AgentName,
  body: string,
  except: readonly string[],
): Promise<SentToAll> {
  const without = new Set([from, ...except.filter(Boolean).map((one) => readAlias(one.trim()))].map(folded));
  const result: SentToAll = { sent_to: [], skipped: [], message_ids: {} };
  for (const { row, alive } of await counter.broker.sessions()) {
    if (without.has(folded(row.alias))) continue;
    without.add(folded(row.alias));
    if (alive === false) {
      result.skipped.push({ alias: row.alias, reason: 'not_alive' });
      continue;
    }
    const draft: Draft = { to: row.alias, body, priority: 'normal', intent: 'none' };
    try {
      result.message_ids[row.alias] = (await send(counter.workspace, from, draft)).message.id;
      result.sent_to.push(row.alias);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      result.skipped.push({ alias: row.alias, reason: error.code });
    }
  }
  return result;
}

function folded(alias: string): string {
  return alias.toLowerCase();
}
