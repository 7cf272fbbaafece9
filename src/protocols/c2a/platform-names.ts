import { Buffer } from 'node:buffer';
import { AgentName, ChannelName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Message } from '../../core/message.ts';
import { SURFACE_BOX } from '../../core/mail/route.ts';
import { Signal } from '../../core/signal.ts';

/*
 * Converts names of a platform to ours and back. A character that our names may not have becomes `_` and two hex digits per byte, so no
 * table is needed: `!abc:server.org` is `_21abc_3aserver.org`.
 */

/** The origin of messages that came from no surface. */
export const HERE = 'parley';

/** A workspace of a platform. The names of its people and messages begin with `name`: for the first workspace, that is the platform's. */
export interface ChatOrigin {
  platform: AgentName;
  workspaceId: string;
  name: AgentName;
}

/** The names that a workspace can have, in order: another workspace of the platform may have the first. */
export function originNames(platform: AgentName, workspaceId: string): AgentName[] {
  const other = `${platform}-${safe(workspaceId).replaceAll('.', '_2e')}`;
  return [platform, made(AgentName.safeParse(other), workspaceId)];
}

/** A person or bot of a workspace. */
export function personName({ name }: Pick<ChatOrigin, 'name'>, id: string): AgentName {
  return made(AgentName.safeParse(`${name}.${safe(id)}`), id);
}

/** A conversation of a workspace. */
export function conversationName(
  { platform, name }: Omit<ChatOrigin, 'workspaceId'>,
  conversation: string,
): ChannelName {
  const text = safe(conversation);
  if (name !== platform) return made(ChannelName.safeParse(`#${name}.${text}`), conversation);
  return made(ChannelName.safeParse(/^[A-Za-z0-9]/.test(text) ? `#${text}` : `#0_${text}`), conversation);
}

/** The mailbox for the messages in the channels of a workspace. */
export function bridgeName(name: AgentName): AgentName {
  return made(AgentName.safeParse(`${name}${SURFACE_BOX}`), name);
}

/** The id of a message of a workspace, always the same one. Pass `conversation` if another conversation has the same platform id. */
export function messageName(
  { name }: Pick<ChatOrigin, 'name'>,
  id: string,
  { kind, conversation }: { kind?: string | undefined; conversation?: string | undefined } = {},
): MessageId {
  const mark = kind === 'system' || kind === 'tool' ? `_${kind}.` : '';
  const where = conversation === undefined ? '' : `_in.${hashOf(conversation)}.`;
  return made(MessageId.safeParse(`${name}.${mark}${where}${safe(id)}`), id);
}

/** The id of an edit of a message: `version` counts from 2. */
export function versionName(id: MessageId, version: number): MessageId {
  return made(MessageId.safeParse(`${id.replace(/^([^.]+\.)_(?:system|tool)\./, '$1')}_v${version}`), id);
}

/** The kind of a platform's conversation that is neither a channel nor a DM, or null. */
export function kindIn({ id, from }: Pick<Message, 'id' | 'from'>): 'system' | 'tool' | null {
  const name = originOf({ id, from });
  if (name === HERE) return null;
  const [, kind] = /^_(system|tool)\./.exec(id.slice(name.length + 1)) ?? [];
  return kind === 'system' || kind === 'tool' ? kind : null;
}

/** The platform's own id of a person, message or conversation. A name of ours is returned unchanged. */
export function rawPerson(origin: string, name: string): string {
  return name.startsWith(`${origin}.`) ? raw(name.slice(origin.length + 1)) : name;
}

export function rawMessage(origin: string, id: string): string {
  return id.startsWith(`${origin}.`)
    ? raw(
        id
          .slice(origin.length + 1)
          .replace(/^_(?:system|tool)\./, '')
          .replace(/^_in\.[0-9a-f]+\./, '')
          .replace(/_v\d+$/, ''),
      )
    : id;
}

export function rawConversation({ platform, name }: Omit<ChatOrigin, 'workspaceId'>, channel: string): string {
  const text = channel.replace(/^#/, '');
  return raw(name === platform ? text.replace(/^0__/, '_') : text.replace(`${name}.`, ''));
}

/** The name of the workspace that a message came from: the names of the message and of its author both begin with it. */
export function originOf({ id, from }: Pick<Message, 'id' | 'from'>): string {
  const [name = ''] = from.split('.');
  return from.includes('.') && id.startsWith(`${name}.`) ? name : HERE;
}

function hashOf(text: string): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('hex').slice(0, 12);
}

/** A text of a platform, as a part of a name. */
export function safe(text: string): string {
  return [...Buffer.from(text)]
    .map((byte) => {
      const sign = String.fromCharCode(byte);
      return /[A-Za-z0-9.-]/.test(sign) ? sign : `_${byte.toString(16).padStart(2, '0')}`;
    })
    .join('');
}

function raw(text: string): string {
  const bytes = text.replace(/_([0-9a-f]{2})/g, '%$1');
  try {
    return decodeURIComponent(bytes);
  } catch {
    return text;
  }
}

function made<T>(parsed: { success: true; data: T } | { success: false }, id: string): T {
  if (parsed.success) return parsed.data;
  const shown = id.replace(/\p{Cc}/gu, '?').slice(0, 40);
  throw new Refusal('invalid_request', `"${shown}" is too long for an id; use at most 60 letters, digits, . and -`);
}

/**
 * The signal of a reaction at a surface. The server has looked the emoji up among the workspace's own. An emoji without a meaning is kept
 * by its code point, not guessed. spec: host#glyphs
 */
export function signalFor({ signal, glyph = '' }: { signal?: string | undefined; glyph?: string | undefined }): Signal {
  const said = Signal.safeParse(signal ?? '');
  if (said.success) return said.data;
  const raw = glyph === '' ? (signal ?? '') : glyph;
  const points = Array.from(raw, (sign) => `u${sign.codePointAt(0)?.toString(16) ?? ''}`);
  return Signal.parse(`x-${points.join('-').slice(0, 30) || 'none'}`);
}
