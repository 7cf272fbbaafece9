import { AgentName, ChannelName } from './names.ts';
import { Refusal } from './refusal.ts';

/** The homes that an address can name after `%`. spec: message#homes */
export const HOME_LABELS = ['parley', 'bch', 'c2c', 'relay'] as const;
export type HomeLabel = (typeof HOME_LABELS)[number];

/** `@name` is an agent or a role; the directory knows which. spec: message#addresses */
export type Address =
  | { kind: 'name'; name: AgentName; home?: HomeLabel | undefined }
  | { kind: 'channel'; channel: ChannelName; home?: HomeLabel | undefined };

/** Reads `@agent`, `agent`, `@role` or `#channel`, each with an optional `%home`. */
export function parseAddress(text: string): Address {
  const [target, label] = splitHome(text);
  const home = HOME_LABELS.find((known) => known === label);
  if (label !== undefined && !home) {
    throw new Refusal(
      'invalid_request',
      `"%${label}" is not a home; use one of ${HOME_LABELS.map((h) => `%${h}`).join(', ')}`,
    );
  }
  if (target.startsWith('#')) {
    const channel = ChannelName.safeParse(target);
    if (channel.success) return { kind: 'channel', channel: channel.data, home };
    throw new Refusal('invalid_request', `"${shown(target)}" is not a channel name; use # and letters, digits, . _ -`);
  }
  const name = AgentName.safeParse(target.startsWith('@') ? target.slice(1) : target);
  if (name.success) return { kind: 'name', name: name.data, home };
  throw new Refusal('invalid_request', `"${shown(target)}" is not a recipient; write @agent or #channel`);
}

/** The text before the last `%`, and the word after it. Without a word after it, the text is not split. */
function splitHome(text: string): [target: string, label?: string] {
  const at = text.lastIndexOf('%');
  const label = text.slice(at + 1);
  return at >= 0 && /^[A-Za-z0-9]+$/.test(label) ? [text.slice(0, at), label] : [text];
}

/** A refused word as it may appear in one line of an error. */
function shown(text: string): string {
  return text.replace(/\p{Cc}/gu, '?').slice(0, 80);
}
