import { Refusal } from '../core/refusal.ts';

/*
 * What Claude Code 2.1 does with a text that is pasted into its composer, as seen in the real client. Kimi 2.1 does the same with commands,
 * `!`, tabs and blanks, and the rest does no harm there:
 * - it removes what cannot be seen, in silence; some of it only after a second Enter, and so the text stays in the composer;
 * - `!` at the beginning runs the rest in a shell, `/word` is a command of its own, also behind blanks, and `exit` alone ends it;
 * - a line that is nothing but the path of an image becomes the image, and the other lines follow it;
 * - `\` at the end makes a new line of Enter; after `:word` or `@word` at the end Enter takes what is offered for that word.
 */

/** A line before a text that the client would not take as a text. */
const HEADING = 'Message:\n';

/* oxlint-disable no-control-regex -- these are what must not get through. */
/** Colours, titles and keys: `ESC [ 31 m`, `ESC ] 0 ; title BEL`, `ESC O P`; also with the one-byte forms of ESC [ and ESC ]. */
const SEQUENCE =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufff9-\ufffb]/g;
/* oxlint-enable no-control-regex */

/** What begins a new line in the client. */
const NEW_LINE = /\r\n?|[\u0085\u2028\u2029]/g;

/** Everything that cannot be seen. */
const UNSEEN = /\p{Default_Ignorable_Code_Point}/gu;
/** The same; but what joins the parts of an emoji, or the letters of a script that needs it, is a part of the text. */
const UNSEEN_OR_JOINED =
  /(\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{2,6}\u{e007f}|[#*0-9]\ufe0f\u20e3|(?<=[^\p{ASCII}\p{Script=Latin}\p{White_Space}\p{Default_Ignorable_Code_Point}]\ufe0f?)(?:\u200c|\u200d|\ufe0e|\ufe0f))|\p{Default_Ignorable_Code_Point}/gu;

const COMMAND = /^\s*\/[^\s/]*(?:\s|$)/;
/** Words that end the client. */
const ENDING = /^\s*(?:exit|quit|:q!?|:wq!?)\s*$/;
/** A path of an image. */
const IMAGE = /^["']?\/.*\.(?:png|jpe?g|gif|webp|bmp)["']?$/i;
/** What makes Enter do something else than send. */
const TAKES_ENTER = /(?:\\|(?:^|\s)[:@]\S*)$/;

/**
 * The text as these clients take it as one prompt that is no command of its own. With `raw` a command stays one.
 * Nothing that can be seen is lost. What may be added: a blank before `!`, a line before what would be a command, quotes around a line with
 * the path of an image, and a blank at the end.
 */
export function preparePrompt(text: string, { raw = false } = {}): string {
  const clean = text
    .toWellFormed()
    .replace(SEQUENCE, '')
    .replace(NEW_LINE, '\n')
    .replace(CONTROL, '')
    .replace(UNSEEN_OR_JOINED, '$1');
  if (clean.trim() === '')
    throw new Refusal('invalid_request', 'nothing is left of the text that a session could read');
  const said = raw && isCommand(clean) ? clean.trim() : asText(clean);
  return TAKES_ENTER.test(said) ? `${said} ` : said;
}

/** Whether the client takes this for a command of its own. */
export function isCommand(text: string): boolean {
  return COMMAND.test(text);
}

function asText(text: string): string {
  const quoted = text.split('\n').map(withoutImage).join('\n');
  if (isCommand(quoted) || ENDING.test(quoted)) return `${HEADING}${quoted}`;
  return quoted.startsWith('!') ? ` ${quoted}` : quoted;
}

function withoutImage(line: string): string {
  const isImage = line
    .trim()
    .split(/ (?=\/)/)
    .every((path) => IMAGE.test(path));
  return isImage ? line.replace(line.trim(), (paths) => `\`${paths}\``) : line;
}

/** Whether the client wrote down this prompt. It makes blanks of tabs, and it is the judge of what can be seen. */
export function isSamePrompt(written: string, prepared: string): boolean {
  return bare(written) === bare(prepared);
}

function bare(text: string): string {
  return text.replace(UNSEEN, '').replaceAll('\t', '    ').trim();
}
