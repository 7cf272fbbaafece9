import { envelope } from '../../../delivery/c2c-envelope.ts';
import { entryOf } from '../../../flow/c2c/mail.ts';
import type { Parcel } from '../../../delivery/way.ts';
import type { Delivered } from '../../../flow/deliver.ts';
import type { OutgoingCopy } from '../../../flow/attempt.ts';
import type { AgentName } from '../../../protocol/names.ts';

/** What was taken, as JSON for programs or as envelopes for models. */
export function renderTaken(reader: AgentName, delivered: readonly Delivered[], json: boolean): string {
  const entries = delivered.map(({ message, attempt }) => entryOf(reader, message, attempt));
  if (json) return `${JSON.stringify(entries)}\n`;
  return entries.map((entry) => `${envelope(entry)}\n`).join('');
}

/** What goes out by a way, each message in its envelope. */
export function enveloped(reader: AgentName, outgoing: readonly OutgoingCopy[]): Parcel[] {
  return outgoing.map(({ message, redelivered }) => ({
    id: message.id,
    text: envelope({ ...entryOf(reader, message), redelivered }),
  }));
}
