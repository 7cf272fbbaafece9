import { readMessage } from '../../protocol/message.ts';
import type { Message } from '../../protocol/message.ts';

/**
 * A message as a relay tells it, or null. Fields that we do not know are kept, but none that is nested so deeply that it could be
 * read and never written down again: one such message would stand in the way of all others.
 */
export function mailFrom(value: unknown): Message | null {
  const message = readMessage(value);
  try {
    JSON.stringify(message);
    return message;
  } catch {
    return null;
  }
}
