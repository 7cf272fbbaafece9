import * as v from 'valibot';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';

/** A mailbox name. It becomes a folder and a file name, so path characters are refused. spec: message#names */
export const AgentName = word('AgentName', /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'use letters, digits, . _ -');
export type AgentName = Described<typeof AgentName>;

/** How to fix a text that is not an agent name. spec: message#names */
export function nameAdvice(text: unknown): string {
  const isLong = typeof text === 'string' && AgentName.safeParse(text.slice(0, 128)).success;
  return isLong ? 'use at most 128 characters' : 'use letters, digits, . _ -';
}

/** `#name`, as stored on the records of those who subscribed. spec: message#names */
export const ChannelName = word(
  'ChannelName',
  /^#[\p{L}\p{N}][\p{L}\p{N}._-]{0,127}$/u,
  'use # and letters, digits, . _ -',
);
export type ChannelName = Described<typeof ChannelName>;

/** Other programs may use any id that is safe as a file name. Our own ids are UUIDs, version 4. spec: message#ids */
const ID = /^[A-Za-z0-9._-]{1,128}$/;
export const MessageId = word('MessageId', ID, 'use letters, digits, . _ -');
export type MessageId = Described<typeof MessageId>;

/** The same test as `MessageId.safeParse`, but faster, for long lists. */
export function isMessageId(value: unknown): value is MessageId {
  return typeof value === 'string' && ID.test(value);
}

/** A sender's own name for one send. A second send with the same key is the same message. spec: message#keys */
export const SendKey = word(
  'SendKey',
  /^[^\p{Cc}]{1,200}$/u,
  'use 1 to 200 characters, none of them a control character',
);
export type SendKey = Described<typeof SendKey>;

/** A room of a relay. It becomes a folder name, so path characters are refused. spec: relay#rooms */
export const RoomId = word('RoomId', /^[A-Za-z0-9_-]{1,64}$/, 'use 1 to 64 letters, digits, _ -');
export type RoomId = Described<typeof RoomId>;

/** The context of the recipient that the message is for, usually a repository. We never use it as a path. spec: message#scope */
export const Scope = new Schema(() =>
  v.pipe(
    v.string(),
    v.regex(/^[^\p{Cc}]{1,512}$/u, 'use one line of at most 512 characters'),
    v.check((text) => !text.split(/[/\\]/).includes('..'), 'leave out the ".." part'),
    v.brand('Scope'),
  ),
);
export type Scope = Described<typeof Scope>;

/** A branded text that matches a pattern. */
function word<const Name extends string>(name: Name, pattern: RegExp, why: string) {
  return new Schema(() => v.pipe(v.string(), v.regex(pattern, why), v.brand(name)));
}

/** The first 8 characters of an id, which people type. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

/**
 * Scope matching, exactly as other Backchannel programs do it: normalise both, then plain containment.
 * The order of the replacements is part of the protocol. spec: message#scope
 */
export function normaliseScope(scope: string): string {
  return scope
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/^git@/, '')
    .replace(/\.git$/, '')
    .replace(/\/+$/, '')
    .replaceAll(':', '/');
}

/** True if a reader who works in `context` may claim a message with this scope. Unscoped mail is for every context. */
export function scopeMatches(scope: string | undefined, context: string | undefined): boolean {
  if (!scope) return true;
  if (!context) return false;
  return normaliseScope(context).includes(normaliseScope(scope));
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** `xxxxxxxx-xxxx-4xxx-yxxx-`: the random part. */
const HEAD = 24;

/**
 * A new id that a relay accepts only from this sender: the last 12 digits are bound to its name. So no sender can choose the id of another's
 * message, to overwrite it or to learn whether it exists. spec: relay#ids
 */
export function newSenderId(from: AgentName): MessageId {
  const head = crypto.randomUUID().slice(0, HEAD);
  return `${head}${tailFor(from, head)}` as MessageId;
}

/** May this sender choose this id? */
export function isSenderId(text: string, from: AgentName): text is MessageId {
  return UUID.test(text) && text.slice(HEAD) === tailFor(from, text.slice(0, HEAD));
}

function tailFor(from: AgentName, head: string): string {
  return new Bun.CryptoHasher('sha256').update(`${from}\n${head}`).digest('hex').slice(0, 12);
}
