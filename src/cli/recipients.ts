import { inShell } from '../clients/shell-word.ts';
import { Refusal } from '../protocol/refusal.ts';

/** One word that is an address: `@agent`, `#channel`, with its home (`%bch`) and perhaps a comma behind it. */
const ADDRESS = /^[@#][\p{L}\p{N}][\p{L}\p{N}._-]*(?:%[\w.-]+)?,?$/u;
/** A longer text is not repeated in a refusal. */
const TEXT_LIMIT = 200;

/** Refuses `send @a @b text` and `send @a,@b text`, and gives the line to type for each of the two meanings. */
export function refuseSeveral(to: string, text: string[], options: Record<string, unknown>): void {
  const named = to.split(',').filter(Boolean);
  const end = text.findIndex((word) => !ADDRESS.test(word));
  const others = text.slice(0, end < 0 ? text.length : end);
  if (named.length < 2 && others.length === 0) return;
  const recipients = new Set([...named, ...others.map((word) => word.replace(/,$/, ''))]);
  const body = bodyWord(text.slice(others.length).join(' '));
  const each = [...recipients].map((one) => sendLine(one, body, options)).join(' && ');
  const [first = to] = named;
  const asText = others.length > 0 ? `; if ${others.join(' ')} is text: ${textLine(first, text, options)}` : '';
  throw new Refusal('invalid_request', `a message has one recipient; to write to each, type: ${each}${asText}`);
}

/** Quotes make one word of the text. An address alone would stay one word: it comes from stdin. */
function textLine(to: string, text: string[], options: Record<string, unknown>): string {
  const body = bodyWord(text.join(' '));
  return text.length > 1 ? sendLine(to, body, options) : `printf %s ${body} | ${sendLine(to, '-', options)}`;
}

function sendLine(to: string, body: string, options: Record<string, unknown>): string {
  return ['parley send', word(to), body, ...optionWords(options)].join(' ');
}

function bodyWord(body: string): string {
  return body === '' || body.length > TEXT_LIMIT || /\p{Cc}/u.test(body) ? '"…"' : inShell(body);
}

/** The options as they were given. A key names one message: it is left out of lines that send several. */
function optionWords({ key: _key, 'first-tried': _tried, ...options }: Record<string, unknown>): string[] {
  return Object.entries(options).flatMap(([name, value]) => {
    const values = Array.isArray(value) ? (value as unknown[]) : [value];
    return values.map((one) => (one === true ? `--${name}` : `--${name} ${word(String(one))}`));
  });
}

function word(text: string): string {
  return /^[\w@%.:/+-]+$/.test(text) ? text : inShell(text);
}
