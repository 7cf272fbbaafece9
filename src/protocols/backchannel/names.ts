import * as v from 'valibot';
import type { Address } from '../../core/address.ts';
import type { ChannelName } from '../../core/names.ts';
import { AgentName, nameAdvice } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';

/** An agent's own name. It becomes a folder: nothing that could leave its place passes. spec: message#names */
export function readName(text: unknown): AgentName {
  const name = AgentName.safeParse(text);
  if (name.success) return name.data;
  throw new Refusal('invalid_request', `invalid agent name "${String(text)}" (${nameAdvice(text)})`);
}

/** A target as Backchannel reads it: `#…` is a channel, whatever its name; all else is an agent, after one leading @. */
export function readAddress(text: string): Address {
  if (text.startsWith('#')) return { kind: 'channel', channel: anyChannel(text) };
  const name = AgentName.safeParse(text.startsWith('@') ? text.slice(1) : text);
  if (name.success) return { kind: 'name', name: name.data };
  throw unreachable(text);
}

/** Here every channel name is allowed. It is only ever compared, never a path. */
export function anyChannel(text: string): ChannelName {
  return (text.startsWith('#') ? text : `#${text}`) as ChannelName;
}

/** Nobody would get it, in the original's words. */
export function unreachable(target: string): Refusal {
  if (target.startsWith('#')) {
    return new Refusal('unknown_recipient', `channel ${target} has no other subscribers — nothing to deliver`);
  }
  const name = target.replace(/^@/, '');
  return new Refusal('unknown_recipient', `unknown agent "${name}" — they must \`bch init ${name}\` first`);
}

/** The arguments of the four tools of its MCP server; anything beside them is refused. spec: mcp#backchannel */
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
