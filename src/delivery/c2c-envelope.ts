import type { BrokerEntry } from '../protocol/c2c.ts';
import { forModel } from './gate.ts';

/** What an envelope says of its message. `to_alias` of a room's message is `<alias>#<room>`. */
export type Enveloped = Pick<BrokerEntry, 'from_alias' | 'to_alias' | 'content'> & {
  ts?: number | undefined;
  message_id?: string | undefined;
  /** It may have been shown before. */
  redelivered?: boolean | undefined;
};

/** A message of the broker as a model reads it. Whatever its body says, it opens no second one. spec: c2c#envelope */
export function envelope(entry: Enveloped): string {
  const [to = '', room] = entry.to_alias.split('#', 2);
  const said = attributes({
    event: 'message',
    from: entry.from_alias,
    alias: to,
    to,
    room,
    ts: entry.ts ? new Date(entry.ts * 1000).toISOString() : undefined,
    message_id: entry.message_id,
    redelivered: entry.redelivered ? 'true' : undefined,
  });
  return `<c2c${said}>\n${forModel(entry.content)}\n</c2c>`;
}

/** Stands for a message that the reader has to fetch: all but its words. spec: c2c#envelope */
export function pendingMark(entry: Enveloped, why: 'knock' | 'too_long'): string {
  const [to = '', room] = entry.to_alias.split('#', 2);
  const ts = entry.ts ? new Date(entry.ts * 1000).toISOString() : undefined;
  const characters = String(entry.content.length);
  return `<c2c${attributes({ event: 'message_pending', from: entry.from_alias, alias: to, to, room, ts, message_id: entry.message_id, characters, why })}/>`;
}

/** A sign for an idle session that it is still wanted. It asks for nothing. spec: c2c#heartbeat */
export function heartbeat(facts: { alias: string; ts: number; waiting: number }): string {
  const ts = new Date(facts.ts * 1000).toISOString();
  return `<c2c${attributes({ event: 'heartbeat', alias: facts.alias, ts, waiting: String(facts.waiting) })}/>`;
}

const FETCH = 'New messages wait for you. Please fetch them now with the tool mcp__c2c__poll_inbox.';

/** What wakes a client so that it fetches its mail: it says that something waits, and nothing of what it is. spec: c2c#wake */
const SENTINELS: Record<string, string> = {
  codex: '<c2c event="message_pending">poll mcp__c2c__poll_inbox</c2c>',
  'codex-headless': '<c2c event="message_pending">poll mcp__c2c__poll_inbox</c2c>',
  opencode: '/mcp__c2c__poll_inbox',
};

/** The words for one client. One that we do not know gets a sentence that any model understands. */
export function sentinel(client: string): string {
  return (Object.hasOwn(SENTINELS, client) ? SENTINELS[client] : undefined) ?? FETCH;
}

function attributes(given: Record<string, string | undefined>): string {
  const told = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [` ${name}="${attribute(value)}"`],
  );
  return told.join('');
}

/** Aliases are plain, but a foreign program may have written anything in their place. */
export function attribute(value: string): string {
  return value
    .slice(0, 200)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
