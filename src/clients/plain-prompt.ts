import { Refusal } from '../core/refusal.ts';

/** A prompt for a client that takes prompts through its API. There `!` and `/` are plain text: commands work only in the client's window. */
export function plainPrompt(client: string, text: string, { raw = false } = {}): string {
  if (raw && /^\s*[/!]/.test(text))
    throw new Refusal('invalid_request', `${client} takes commands only in its own window; type this one there`);
  // oxlint-disable-next-line no-control-regex -- a window would draw them.
  const plain = text.replaceAll(/\r\n?/g, '\n').replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
  if (plain.trim() === '') throw new Refusal('invalid_request', 'the prompt is empty; give it a text');
  return plain.toWellFormed();
}
