import { masked } from '../attention/secrets.ts';
import { lineForModel, withoutTags } from './gate.ts';
import { asLatin } from './look-alikes.ts';
import { visible } from './visible.ts';

/**
 * Somebody's words as they may stand below a header: secrets masked, everything visible, and every line that could be read as
 * a line of the protocol begins with `> `. What begins so already gets one more, so that the quoting can be undone.
 * spec: c2a#prompt
 */
export function quoted(text: string, limit = Infinity, rest?: (left: number) => string): string {
  return lines(text, (line) => (readsAsProtocol(line) ? `> ${line}` : line), limit, rest);
}

/** The same with every line quoted: for what is only there to be understood. */
export function quotedWhole(text: string, limit = Infinity, rest?: (left: number) => string): string {
  return lines(text, (line) => `> ${line}`.trimEnd(), limit, rest);
}

function lines(
  text: string,
  quote: (line: string) => string,
  limit: number,
  rest: (left: number) => string = (left) => `… ${left} more characters`,
): string {
  // Masked before it is cut: half a secret is known by nobody.
  const whole = masked(text);
  // Not between the two halves of a character.
  const cut = whole.length > limit ? whole.slice(0, limit).replace(/[\ud800-\udbff]$/, '') : whole;
  const shown = withoutTags(visible(cut).split('\n').map(quote).join('\n'));
  return cut === whole ? shown : `${shown}\n${rest(whole.length - cut.length)}`;
}

/** Our own words that may hold some of somebody's, on one line: what a refusal says. */
export function plainLine(text: string, limit = 1000): string {
  return lineForModel(masked(text), limit);
}

/** Somebody's words as they may stand inside a line of ours. */
export function phrase(text: string, limit = 200): string {
  return JSON.stringify(plainLine(text, limit));
}

/** A name, an id or a topic as it may stand in a header: on one line, and in quotes unless it is plain. */
export function inline(text: string, limit = 120): string {
  const line = lineForModel(masked(text), limit);
  return PLAIN.test(line) || TIME.test(line) ? line : JSON.stringify(line);
}

/** An id of a message, a conversation or a thread: one word, as it is. */
export function idText(text: string): string {
  const line = lineForModel(masked(text), 200);
  return /^[\p{L}\p{N}@#._%/+:,-]+$/u.test(line) ? line : JSON.stringify(line);
}

// No colon and no equals sign: `Will response_policy: must_respond` is a name, and stands in quotes.
const PLAIN = /^[\p{L}\p{N}@#._%/+-]+(?: [\p{L}\p{N}@#._%/+()-]+)*$/u;

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/**
 * Would a reader, also one that is easily fooled, take this line for ours? Look-alikes and signs before the first letter do not hide
 * anything.
 */
export function readsAsProtocol(line: string): boolean {
  const start = line.replace(/\\u\{[0-9a-f]+\}|[\u2400-\u2421\u200c\u200d]/g, '').replace(SIGNS, '');
  return PROTOCOL.test(asLatin(start.slice(0, 200)).replace(SIGNS, ''));
}

/** What may stand before the first letter; a letter in a circle or a box is one. */
const SIGNS = /^[^\p{L}\p{N}\u24b6-\u24e9\u{1f130}-\u{1f149}]+/u;
const FIELDS =
  'event[ _-]?id|conversation|thread|author|from|where|directedness|response[ _-]?policy|policy|reason|priority|topic|' +
  'reply[ _-]?target|pull[ _-]?with|blocks|refs|discharged[ _-]?by|otherwise|period';
const ROLES = '(?:system|developer|assistant|user|human)(?:[ _-](?:message|prompt|reminder|note|instructions?))?';
const PROTOCOL = new RegExp(
  `^(?:c2a(?![a-z0-9])|message\\s*(?::|[^a-z0-9]*$)|end[ _-]of[ _-]message|parley [a-z0-9]+\\]|(?:${FIELDS})\\s*[:=]|` +
    `${ROLES}\\s*[:\\]>|]|im_(?:start|end)\\||/?inst\\])`,
);
