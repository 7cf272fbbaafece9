import { Refusal } from '../core/refusal.ts';

/** A text for a client that takes prompts by its interface, where `!` and `/` are plain text: its commands are only for its own window. */
export function plainPrompt(client: string, text: string, { raw = false } = {}): string {
  if (raw && /^\s*[/!]/.test(text))
    throw new Refusal('invalid_request', `${client} takes its commands only in its own window`);
  // oxlint-disable-next-line no-control-regex -- a window would draw them.
  const plain = text.replaceAll(/\r\n?/g, '\n').replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
  if (plain.trim() === '') throw new Refusal('invalid_request', 'a prompt has a text');
  return plain.toWellFormed();
}
