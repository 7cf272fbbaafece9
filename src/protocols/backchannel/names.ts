import * as v from 'valibot';
import type { Address } from '../../core/address.ts';
import type { ChannelName } from '../../core/names.ts';
import { AgentName, nameAdvice } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';

/** An agent's name. It becomes a folder name, so a name that could leave its parent folder is refused. spec: message#names */
export function readName(text: unknown): AgentName {
  const name = AgentName.safeParse(text);
  if (name.success) return name.data;
  throw new Refusal('invalid_request', `invalid agent name "${String(text)}" (${nameAdvice(text)})`);
}

/** A target as Backchannel reads it: `#…` is a channel of any name; everything else is an agent, without one leading @. */
export function readAddress(text: string): Address {
  if (text.startsWith('#')) return { kind: 'channel', channel: anyChannel(text) };
  const name = AgentName.safeParse(text.startsWith('@') ? text.slice(1) : text);
  if (name.success) return { kind: 'name', name: name.data };
  throw unreachable(text);
}

/** Every channel name is allowed here: it is only compared and never becomes a path. */
export function anyChannel(text: string): ChannelName {
  return (text.startsWith('#') ? text : `#${text}`) as ChannelName;
}

/** The original's error for a message that nobody would get. */
export function unreachable(target: string): Refusal {
  if (target.startsWith('#')) {
    return new Refusal('unknown_recipient', `channel ${target} has no other subscribers — nothing to deliver`);
  }
  const name = target.replace(/^@/, '');
  return new Refusal('unknown_recipient', `unknown agent "${name}" — they must \`bch init ${name}\` first`);
}

/** The arguments of the four tools of Backchannel's MCP server. Any other argument is refused. spec: mcp#backchannel */
export const McpSend = new Schema(() =>
  v.strictObject({
    target: v.pipe(v.string(), v.minLength(1)),
    body: v.string(),
    priority: v.optional(v.picklist(['normal', 'urgent']), 'normal'),
    scope: v.optional(v.string()),
    thread: v.optional(v.string()),
    refs: v.optional(v.array(v.string())),
  }),
);
export const McpInbox = new Schema(() => v.strictObject({ match: v.optional(v.string()) }));
export const McpSubscribe = new Schema(() => v.strictObject({ channel: v.pipe(v.string(), v.minLength(1)) }));
export const McpNothing = new Schema(() => v.strictObject({}));
