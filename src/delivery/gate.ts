import { asLatin } from './look-alikes.ts';
import { visible, visibleLine } from './visible.ts';

/**
 * The one gate for text of others that a model reads: hook text, tool results, envelopes, prompts of the host, typed mail, command
 * output. Invisible characters become visible, and nothing can be read as a tag of a client, a token of a model or a turn of somebody
 * else. Stored messages, `--json`, files and the spool of the plugin do not pass here. spec: delivery#gate
 */
export function forModel(text: string): string {
  return withoutTags(visible(text))
    .split('\n')
    .map((line) => (readsAsTurn(line) ? `> ${line}` : line))
    .join('\n');
}

/** The same on one line of ours: for names, topics and everything in a header. */
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

/** The same without the look at each line: for texts whose lines are quoted by other rules. */
export function withoutTags(text: string): string {
  return text
    .replace(OPENER, (bracket, at: number) => (readsAsTag(text, at + bracket.length) ? '&lt;' : bracket))
    .replace(/\[(?=\s{0,8}\/?\s{0,8}INST\s{0,8}\])/gi, '&#91;');
}

/** `<` and what looks like it. */
const OPENER = /[<\uff1c\ufe64\u2039\u3008\u2329\u27e8\u276e\u276c\u02c2\u1438\u300a\u00ab\u27ea]/g;

/** Signs that do not separate the letters of a name for a reader who wants to see a tag there. */
const GAPS = /\s+|\u200c|\u200d|\ufe0f|\\u\{[0-9a-f]+\}/g;
const LONGEST_NAME = 48;
/** A tag whose letters lie further apart than this is none. */
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

/** Names that no comparison in a program has behind its `<`: also found with gaps between their letters. */
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

/** Would a reader take this line for the beginning of a turn of somebody else, or for a line of our hook? */
function readsAsTurn(line: string): boolean {
  return TURN.test(asLatin(line.slice(0, 200)));
}

const ROLE = '(?:system|developer|assistant|user|human)(?:[ _-](?:message|prompt|reminder|note|instructions?))?';
const TURN = new RegExp(`^[^a-z0-9]*(?:${ROLE}\\s*[:\\]|]|parley [a-z0-9]+\\])`);
