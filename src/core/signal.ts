import * as v from 'valibot';
import type { AgentName } from './names.ts';
import type { Disposition } from './receipt.ts';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';

/** The nine signals, each with the sign that a chat shows for it, and its disposition of the event. spec: c2a#signals */
export const SIGNALS = {
  seen: { glyph: '👀', disposition: 'acknowledged' },
  agree: { glyph: '👍', disposition: 'acknowledged' },
  working: { glyph: '🔧', disposition: 'claimed' },
  queued: { glyph: '🕐', disposition: 'deferred' },
  claimed: { glyph: '✋', disposition: 'claimed' },
  done: { glyph: '✅', disposition: 'responded' },
  declined: { glyph: '🙅', disposition: 'ignored' },
  blocked: { glyph: '🚧', disposition: 'deferred' },
  unclear: { glyph: '❓', disposition: null },
} as const satisfies Record<string, { glyph: string; disposition: Disposition | null }>;
export type KnownSignal = keyof typeof SIGNALS;

/** One of the nine signals, or a workspace's own: such a signal is shown and kept, but it claims and discharges nothing. */
export const Signal = new Schema(() =>
  v.pipe(
    v.string(),
    v.regex(
      new RegExp(`^(?:${Object.keys(SIGNALS).join('|')}|x-[a-z0-9-]{1,30})$`),
      `use one of ${Object.keys(SIGNALS).join(', ')}, or x-…`,
    ),
  ),
);
export type Signal = Described<typeof Signal>;

/** What another agent's signal asks the author of the message to do. spec: c2a#signals */
const MEANINGS: Partial<Record<string, Meaning>> = { agree: 'proceed', declined: 'revise', done: 'already_handled' };
export const Meaning = new Schema(() => v.picklist(['proceed', 'revise', 'already_handled']));
export type Meaning = Described<typeof Meaning>;

export function meaningOf(signal: string): Meaning | undefined {
  return MEANINGS[signal];
}

export function isKnownSignal(signal: string): signal is KnownSignal {
  return Object.hasOwn(SIGNALS, signal);
}

/** The name under which Parley itself writes notices, reminders and escalations. Nobody can register it. spec: c2a#notices */
export const HOST_NAME = 'parley-host' as AgentName;

/** The name under which a relay itself writes to agents. Nobody can register it. spec: relay#notices */
export const RELAY_NAME = 'parley-relay' as AgentName;
