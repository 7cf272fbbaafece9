import { masked } from './attention/secrets.ts';

/**
 * A text that is safe to show to a person or a model. Control characters, invisible characters and changes of writing direction become
 * visible, so that no text can move a cursor, hide words, or look different from what it is.
 */
export function visibleText(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\\u{${code.toString(16)}}`;
  });
}

/** Like `visibleText`, on one line: newlines and tabs become spaces. For names, topics and everything in a header. */
export function visibleLine(text: string, limit = 200): string {
  const line = visibleText(text.replace(/[\n\r\t\u2028\u2029]+/g, ' '));
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

// Control characters but tab and newline, separators, and everything that is drawn as nothing or changes how the rest is drawn:
// such characters can carry text that only a model sees.
const HIDDEN = '(?!\\t|\\n)[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800]';
// A joiner or emoji selector stays if an emoji or a script needs it.
const PICTURE = '[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f]';
const JOINING_LETTER =
  '[\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Gurmukhi}\\p{Script=Gujarati}\\p{Script=Oriya}' +
  '\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Sinhala}\\p{Script=Khmer}\\p{Script=Myanmar}\\p{Script=Mongolian}]';
const NEEDED = `(?<=${PICTURE})\\u200d(?=\\p{Extended_Pictographic})|(?<=[\\p{Extended_Pictographic}0-9#*])\\ufe0f|(?<=${JOINING_LETTER})[\\u200c\\u200d]`;
const UNSAFE = new RegExp(`(?!${NEEDED})${HIDDEN}`, 'gu');

/**
 * A text as a reader who is easily fooled sees it: lower-case Latin letters. Accents, wide letters, joiners, wide gaps, and Greek and
 * Cyrillic letters that look like Latin ones hide nothing.
 */
function asLatin(text: string): string {
  return text
    .replace(/\\u\{[0-9a-f]+\}|[\u2400-\u2421]|\u200c|\u200d/g, '')
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/\s+/g, ' ')
    .replace(/[\u02d0\u2236\ua789]/g, ':')
    .replace(/[\u2044\u2215\u29f8]/g, '/')
    .replace(/[\u2223\u01c0\u23d0]/g, '|')
    .replace(/[\u2010-\u2015\u2212]/g, '-')
    .replace(/[^\0-\x7f]/g, (letter) => LATIN[FOREIGN.indexOf(letter)] ?? letter);
}

/** Letters of other alphabets that look like Latin ones, after lower-casing. The letter in `LATIN` below each one is what it looks like. */
const FOREIGN = 'асеорхуіѕјвнкмтԁԍѵԛԝαεορικμντυβηζχςѡƨıɡɑ';
const LATIN = 'aceopxyisjbhkmtdgvqwaeopikmntybhzxcw2iga';

/**
 * The one gate for text of others that a model reads: hook text, tool results, envelopes, prompts of the host, typed mail, command
 * output. Invisible characters become visible, and nothing can be read as a tag of a client, a token of a model or a turn of another
 * speaker. Stored messages, `--json`, files and the spool of the plugin do not pass here. spec: delivery#gate
 */
export function forModel(text: string): string {
  return withoutTags(visibleText(text))
    .split('\n')
    .map((line) => (readsAsTurn(line) ? `> ${line}` : line))
    .join('\n');
}

/** Like `forModel`, for a part of one of our own lines: names, topics and everything in a header. */
export function lineForModel(text: string, limit = 200): string {
  return withoutTags(visibleLine(text, limit));
}

/** A value as JSON in which every text and every key has passed the gate: for tools whose contract is JSON. */
export function jsonForModel(value: unknown, indent = 0): string {
  return JSON.stringify(gated(value), null, indent);
}

function gated(value: unknown): unknown {
  if (typeof value === 'string') return forModel(value);
  if (Array.isArray(value)) return value.map(gated);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [lineForModel(key), gated(part)]));
}

/** Like `forModel` without its rule for lines: for texts whose lines are quoted by other rules. */
function withoutTags(text: string): string {
  return text
    .replace(OPENER, (bracket, at: number) => (readsAsTag(text, at + bracket.length) ? '&lt;' : bracket))
    .replace(/\[(?=\s{0,8}\/?\s{0,8}INST\s{0,8}\])/gi, '&#91;');
}

/** `<` and characters that look like it. */
const OPENER = /[<\uff1c\ufe64\u2039\u3008\u2329\u27e8\u276e\u276c\u02c2\u1438\u300a\u00ab\u27ea]/g;

/** Characters between the letters of a name that a model may ignore, so that it still reads a tag. */
const GAPS = /\s+|\u200c|\u200d|\ufe0f|\\u\{[0-9a-f]+\}/g;
const LONGEST_NAME = 48;
/** Only this many characters are searched for the spaced letters of a tag. */
const LONGEST_TAG = 400;

function readsAsTag(text: string, from: number): boolean {
  const latin = asLatin(text.slice(from, from + LONGEST_NAME));
  const name = withoutSeparators(latin);
  const isInWord = /[\p{L}\p{N}]/u.test(text.charAt(from - 2));
  const together = text
    .slice(from, from + LONGEST_TAG)
    .replace(GAPS, '')
    .slice(0, LONGEST_NAME);
  if (TAG.test(name) || SPACED_TAG.test(withoutSeparators(asLatin(together)))) return true;
  return !isInWord && (COMMON_TAG.test(name) || JOINED_TAG.test(latin));
}

/** Separators inside a name do not count: `system-reminder`, `system_reminder` and `SystemReminder` are one. */
function withoutSeparators(latin: string): string {
  return latin.replace(/[-_.:]/g, '');
}

/** Names that never follow a `<` in the code of a program. They are also found with gaps between their letters. */
const COMPOUND =
  'c2c|system(?:reminder|message|prompt|warning|note)|teammatemessage|ide(?:selection|opened|diagnostics)|newdiagnostics|' +
  '(?:sessionstart|stop|pretooluse|posttooluse)hook|userquery|environmentdetails|(?:start|end)ofturn|crosssession|hook(?:prompt|result|context)|userpromptsubmit|function(?:call|result)|' +
  'tool(?:use|call|result|response)|localcommand|command(?:name|message|args|contents)|bash(?:input|stdout|stderr)|tasknotification|' +
  'userinstructions|environmentcontext|permissionsinstructions|skillsinstructions|collaborationmode|turnaborted|agentmessage|antml|' +
  '<sys>|\\|(?:im(?:start|end)|endof|startof|startheader|endheader|eot|eom|begin|pad|fim)';
/** Names that only count directly behind the `<`. */
const SIMPLE = 'channel|system|developer|assistant|human|instructions?|invoke|functions?|reminder|thinking';
/** Names that are also types in programs: `Map<User, Message>` stays. */
const COMMON = 'user|message|parameter|notification|prompt|env|skill|important|context|hook';
const BEFORE = '^[/!?]*';
const TAG = new RegExp(`${BEFORE}(?:${COMPOUND}|\\|[a-z]|(?:${SIMPLE})(?![a-z0-9(]))`);
const COMMON_TAG = new RegExp(`${BEFORE}(?:${COMMON})(?![a-z0-9(])`);
/** Clients name their tags in several words, and invent new ones: `<user_query>`, `<stop-hook>`. A type such as `Vec<my_type>` stays. */
const JOINED_TAG = new RegExp(`${BEFORE}[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+(?=[\\s>/]|$)`);
const SPACED_TAG = new RegExp(`${BEFORE}(?:${COMPOUND}|channel(?=>|/|[a-z]+=))`);

/** Could a reader mistake this line for the beginning of another speaker's turn, or for a line of our hook? */
function readsAsTurn(line: string): boolean {
  return TURN.test(asLatin(line.slice(0, 200)));
}

const ROLE = '(?:system|developer|assistant|user|human)(?:[ _-](?:message|prompt|reminder|note|instructions?))?';
const TURN = new RegExp(`^[^a-z0-9]*(?:${ROLE}\\s*[:\\]|]|parley [a-z0-9]+\\])`);

/**
 * Text of others below a header: secrets are masked, everything is visible, and every line that could be read as a line of the protocol
 * begins with `> `. A line that already begins with `> ` gets one more, so that the quoting can be undone. spec: c2a#prompt
 */
export function quoted(text: string, limit = Infinity, rest?: (left: number) => string): string {
  return lines(text, (line) => (readsAsProtocol(line) ? `> ${line}` : line), limit, rest);
}

/** Like `quoted`, with every line quoted: for a text that the model should only understand. */
export function quotedWhole(text: string, limit = Infinity, rest?: (left: number) => string): string {
  return lines(text, (line) => `> ${line}`.trimEnd(), limit, rest);
}

function lines(
  text: string,
  quote: (line: string) => string,
  limit: number,
  rest: (left: number) => string = (left) => `… ${left} more characters`,
): string {
  // Mask before the cut: half a secret could not be recognized.
  const whole = masked(text);
  // Do not cut between the two halves of a character.
  const cut = whole.length > limit ? whole.slice(0, limit).replace(/[\ud800-\udbff]$/, '') : whole;
  const shown = withoutTags(visibleText(cut).split('\n').map(quote).join('\n'));
  return cut === whole ? shown : `${shown}\n${rest(whole.length - cut.length)}`;
}

/** One line in our own words that may quote others, such as the text of a refusal. */
export function plainLine(text: string, limit = 1000): string {
  return lineForModel(masked(text), limit);
}

/** Text of others, in quotes, inside one of our own lines. */
export function phrase(text: string, limit = 200): string {
  return JSON.stringify(plainLine(text, limit));
}

/** A name, an id or a topic in a header: on one line, and in quotes unless it is plain. */
export function inline(text: string, limit = 120): string {
  const line = lineForModel(masked(text), limit);
  return PLAIN.test(line) || TIME.test(line) ? line : JSON.stringify(line);
}

/** The id of a message, a conversation or a thread: unchanged if it is one word, else in quotes. */
export function idText(text: string): string {
  const line = lineForModel(masked(text), 200);
  return /^[\p{L}\p{N}@#._%/+:,-]+$/u.test(line) ? line : JSON.stringify(line);
}

// No colon and no equals sign: `Will response_policy: must_respond` is a name, and gets quotes.
const PLAIN = /^[\p{L}\p{N}@#._%/+-]+(?: [\p{L}\p{N}@#._%/+()-]+)*$/u;

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/**
 * Could a reader mistake this line for one of the protocol? Letters that look alike, and signs before the first letter, do not hide such a
 * line.
 */
export function readsAsProtocol(line: string): boolean {
  const start = line.replace(/\\u\{[0-9a-f]+\}|[\u2400-\u2421\u200c\u200d]/g, '').replace(SIGNS, '');
  return PROTOCOL.test(asLatin(start.slice(0, 200)).replace(SIGNS, ''));
}

/** Signs that may come before the first letter. A letter in a circle or a box counts as a letter. */
const SIGNS = /^[^\p{L}\p{N}\u24b6-\u24e9\u{1f130}-\u{1f149}]+/u;
const FIELDS =
  'event[ _-]?id|conversation|thread|author|from|where|directedness|response[ _-]?policy|policy|reason|priority|topic|' +
  'reply[ _-]?target|pull[ _-]?with|blocks|refs|discharged[ _-]?by|otherwise|period';
const PROTOCOL = new RegExp(
  `^(?:c2a(?![a-z0-9])|message\\s*(?::|[^a-z0-9]*$)|end[ _-]of[ _-]message|parley [a-z0-9]+\\]|(?:${FIELDS})\\s*[:=]|` +
    `${ROLE}\\s*[:\\]>|]|im_(?:start|end)\\||/?inst\\])`,
);
