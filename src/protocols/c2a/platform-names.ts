import { Buffer } from 'node:buffer';
import { AgentName, ChannelName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Message } from '../../core/message.ts';
import { SURFACE_BOX } from '../../core/mail/route.ts';
import { Signal } from '../../core/signal.ts';

/*
 * Names of a platform as names of ours, and back. What may not stand in one of ours is written as `_` and two digits per byte, so
 * nothing has to be remembered: `!abc:server.org` is `_21abc_3aserver.org`.
 */

/** Where a text came in that no surface brought. */
export const HERE = 'parley';

/** A person or bot of a platform. */
export function personName(platform: AgentName, id: string): AgentName {
  return made(AgentName.safeParse(`${platform}.${safe(id)}`), id);
}

/** A conversation of a platform. */
export function conversationName(conversation: string): ChannelName {
  const text = safe(conversation);
  return made(ChannelName.safeParse(/^[A-Za-z0-9]/.test(text) ? `#${text}` : `#0_${text}`), conversation);
}

/** The mailbox for what is said in a platform's channels. */
export function bridgeName(platform: AgentName): AgentName {
  return made(AgentName.safeParse(`${platform}${SURFACE_BOX}`), platform);
}

/** A message of a platform: the same one always has the same id. `version` counts its edits. */
export function messageName(
  platform: AgentName,
  id: string,
  { version = 1, kind }: { version?: number; kind?: string | undefined } = {},
): MessageId {
  const mark = kind === 'system' || kind === 'tool' ? `_${kind}.` : '';
  return made(MessageId.safeParse(`${platform}.${mark}${safe(id)}${version > 1 ? `_v${version}` : ''}`), id);
}

/** What kind of place a message of a platform was said in, where that is neither a channel nor a DM. */
export function kindIn({ id, from }: Pick<Message, 'id' | 'from'>): 'system' | 'tool' | null {
  const platform = platformOf({ id, from });
  if (platform === HERE) return null;
  const [, kind] = /^_(system|tool)\./.exec(id.slice(platform.length + 1)) ?? [];
  return kind === 'system' || kind === 'tool' ? kind : null;
}

/** The platform's own id of one of its people, messages or conversations; as it stands, if it is one of ours. */
export function rawPerson(platform: string, name: string): string {
  return name.startsWith(`${platform}.`) ? raw(name.slice(platform.length + 1)) : name;
}

export function rawMessage(platform: string, id: string): string {
  return id.startsWith(`${platform}.`)
    ? raw(
        id
          .slice(platform.length + 1)
          .replace(/^_(?:system|tool)\./, '')
          .replace(/_v\d+$/, ''),
      )
    : id;
}

export function rawConversation(channel: string): string {
  return raw(channel.replace(/^#/, '').replace(/^0__/, '_'));
}

/** Which platform a message came in from: there its author and the message itself have its name before theirs. */
export function platformOf({ id, from }: Pick<Message, 'id' | 'from'>): string {
  const [platform = ''] = from.split('.');
  return from.includes('.') && id.startsWith(`${platform}.`) ? platform : HERE;
}

function safe(text: string): string {
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
 * What a reaction at a surface says. The server has read the sign, with a workspace's own signs; one that means nothing there is kept by
 * its number, not guessed. spec: host#glyphs
 */
export function signalFor({ signal, glyph = '' }: { signal?: string | undefined; glyph?: string | undefined }): Signal {
  const said = Signal.safeParse(signal ?? '');
  if (said.success) return said.data;
  const raw = glyph === '' ? (signal ?? '') : glyph;
  const points = Array.from(raw, (sign) => `u${sign.codePointAt(0)?.toString(16) ?? ''}`);
  return Signal.parse(`x-${points.join('-').slice(0, 30) || 'none'}`);
}
