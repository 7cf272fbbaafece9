import { Refusal } from '../core/refusal.ts';

/*
 * What Claude Code 2.1 does with a text that is pasted into its composer, as seen in the real client. Kimi 2.1 treats commands, `!`, tabs
 * and spaces in the same way; the other precautions do no harm there.
 * - It silently removes invisible characters. For some of them it needs a second Enter, and until then the text stays in the composer.
 * - A `!` at the beginning runs the rest in a shell. `/word` is a command, also after spaces. `exit` alone ends the client.
 * - A line that holds only the path of an image becomes the image, and the other lines follow it.
 * - A `\` at the end turns Enter into a new line. After `:word` or `@word` at the end, Enter accepts the completion of that word.
 */

/** A first line for a text that the client would otherwise run as a command. */
const HEADING = 'Message:\n';

/* oxlint-disable no-control-regex -- control characters are exactly what these patterns remove. */
/** Escape sequences (colours, titles, keys): `ESC [ 31 m`, `ESC ] 0 ; title BEL`, `ESC O P`; also with the one-byte forms of ESC [ and ESC ]. */
const SEQUENCE =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufff9-\ufffb]/g;
/* oxlint-enable no-control-regex */

/** Line breaks for the client. */
const NEW_LINE = /\r\n?|[\u0085\u2028\u2029]/g;

/** Invisible characters. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
/** Invisible characters. Group 1 has those to keep: joiners within an emoji or within a script that needs them. */
const INVISIBLE_OR_JOINER =
  /(\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{2,6}\u{e007f}|[#*0-9]\ufe0f\u20e3|(?<=[^\p{ASCII}\p{Script=Latin}\p{White_Space}\p{Default_Ignorable_Code_Point}]\ufe0f?)(?:\u200c|\u200d|\ufe0e|\ufe0f))|\p{Default_Ignorable_Code_Point}/gu;

const COMMAND = /^\s*\/[^\s/]*(?:\s|$)/;
/** Words that end the client. */
const ENDING = /^\s*(?:exit|quit|:q!?|:wq!?)\s*$/;
/** The path of an image file. */
const IMAGE = /^["']?\/.*\.(?:png|jpe?g|gif|webp|bmp)["']?$/i;
/** A text after which Enter does not send. */
const TAKES_ENTER = /(?:\\|(?:^|\s)[:@]\S*)$/;

/**
 * Changes a text so that the client takes it as one prompt and not as a command. With `raw` a command stays a command.
 * No visible character is lost. It may add a space before `!`, a line before a command, backticks around a line with the path of an image,
 * and a space at the end.
 */
export function preparePrompt(text: string, { raw = false } = {}): string {
  const clean = text
    .toWellFormed()
    .replace(SEQUENCE, '')
    .replace(NEW_LINE, '\n')
    .replace(CONTROL, '')
    .replace(INVISIBLE_OR_JOINER, '$1');
  if (clean.trim() === '') throw new Refusal('invalid_request', 'the prompt has no visible characters; give it a text');
  const prompt = raw && isCommand(clean) ? clean.trim() : asText(clean);
  return TAKES_ENTER.test(prompt) ? `${prompt} ` : prompt;
}

/** Does the client take this text as a command? */
export function isCommand(text: string): boolean {
  return COMMAND.test(text);
}

function asText(text: string): string {
  const quoted = text.split('\n').map(quoteImagePath).join('\n');
  if (isCommand(quoted) || ENDING.test(quoted)) return `${HEADING}${quoted}`;
  return quoted.startsWith('!') ? ` ${quoted}` : quoted;
}

function quoteImagePath(line: string): string {
  const isImage = line
    .trim()
    .split(/ (?=\/)/)
    .every((path) => IMAGE.test(path));
  return isImage ? line.replace(line.trim(), (paths) => `\`${paths}\``) : line;
}

/** Did the client record this prompt? It turns tabs into spaces and has its own list of invisible characters. */
export function isSamePrompt(written: string, prepared: string): boolean {
  return bare(written) === bare(prepared);
}

function bare(text: string): string {
  return text.replace(INVISIBLE, '').replaceAll('\t', '    ').trim();
}
