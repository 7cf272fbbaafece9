import { isBlank } from '../protocol/message.ts';
import { Refusal } from '../protocol/refusal.ts';
import { codeOf } from '../storage/disk.ts';
import { spanMs } from './span.ts';
import { isTerminal } from './terminal.ts';

const YEAR = 366 * 24 * 60 * 60 * 1000;
/** The last time that can be written down. */
const LATEST = 8.64e15;

/** The body from the command line, or from stdin if there is none or it is `-`; of that no more is read than a body may have. */
export async function bodyFrom(words: string[], limit: number): Promise<string> {
  if (words.length > 0 && !(words.length === 1 && words[0] === '-')) return words.join(' ');
  if (isTerminal(0)) throw new Refusal('invalid_request', 'give the text on the command line, or pipe it in');
  const body = utf8(await fromStdin(limit)).replace(/\n$/, '');
  // A closed stdin is no text: many programs start commands that way.
  if (body === '') throw emptyText();
  return body;
}

/** The body of a message of Parley's own: it says something. `bodyFrom` also takes an empty word, as other programs' documents allow. */
export async function textFrom(words: string[], limit: number): Promise<string> {
  const body = await bodyFrom(words, limit);
  if (isBlank(body)) throw emptyText();
  return body;
}

function emptyText(): Refusal {
  return new Refusal('invalid_request', 'the text is empty; give it on the command line, or pipe it in');
}

/** What the sender wants, by `--intent` or its short form `--fyi`. */
export function intentFrom({ intent, fyi }: { intent?: string; fyi?: boolean }): string {
  if (!fyi) return intent ?? 'none';
  if (intent === undefined || intent === 'fyi') return 'fyi';
  throw new Refusal('invalid_request', `--fyi means --intent fyi; leave out --fyi or --intent ${intent.slice(0, 40)}`);
}

async function fromStdin(limit: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let left = limit;
  try {
    for await (const piece of Bun.stdin.stream()) {
      pieces.push(piece);
      left -= piece.length;
      // The newline at its end is not part of it.
      if (left < -1) break;
    }
  } catch (error) {
    throw new Refusal('invalid_request', `the text could not be read from stdin (${codeOf(error) ?? String(error)})`);
  }
  if (left < -1)
    throw new Refusal(
      'too_large',
      `the text has more than ${limit} bytes, which is the limit; write it to a file and send its path instead`,
    );
  return Buffer.concat(pieces);
}

/** Other encodings are refused: a letter that we cannot read would be lost in silence. */
function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Refusal('invalid_request', 'the text is not UTF-8; convert it first');
  }
}

/** A deadline as an ISO time: from now on for spans such as 30m. */
export function deadlineFrom(text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  const at = /^\d+[dhm]$/.test(text) ? now + (spanMs(text) ?? 0) : Date.parse(text);
  if (!(Math.abs(at) < LATEST))
    throw new Refusal('invalid_request', `"${text}" is no deadline; write 30m, 2h, 1d or an ISO time`);
  return new Date(at).toISOString();
}

/** A time to come, as an ISO time: after a span such as 2h, at the next 07:30 of this machine's clock, or an ISO time. */
export function momentFrom(text: string, now: number): string {
  const [, hours, minutes] = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  const at = /^\d+[dhm]$/.test(text)
    ? now + (spanMs(text) ?? 0)
    : hours !== undefined
      ? nextAt(Number(hours), Number(minutes), now)
      : Date.parse(text);
  if (!(Math.abs(at) < LATEST))
    throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is no time; write 30m, 2h, 07:30 or an ISO time`);
  if (at <= now) throw new Refusal('invalid_request', `"${text}" is over; name a time to come`);
  return new Date(at).toISOString();
}

/** A time that is over, as an ISO time: so long ago as a span such as 2h says, or an ISO time. */
export function pastFrom(text: string, now: number): string {
  const at = /^\d+[dhm]$/.test(text) ? now - (spanMs(text) ?? 0) : Date.parse(text);
  if (!(Math.abs(at) < LATEST))
    throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is no time; write 2h, 1d or an ISO time`);
  return new Date(at).toISOString();
}

function nextAt(hours: number, minutes: number, now: number): number {
  const at = new Date(now);
  at.setHours(hours, minutes, 0, 0);
  if (at.getTime() <= now) at.setDate(at.getDate() + 1);
  return at.getTime();
}

/** A span of time such as 30s, 10m or 2h. */
export function durationFrom(text: string): number {
  const isSeconds = /^\d+s$/.test(text);
  const ms = isSeconds ? Number.parseInt(text, 10) * 1000 : /^\d+[dhm]$/.test(text) ? spanMs(text) : null;
  if (ms === null || ms > YEAR)
    throw new Refusal('invalid_request', `"${text}" is no span of time; write 30s, 10m, 2h or 7d, at most a year`);
  return ms;
}

/** A whole number from the command line. */
export function countFrom(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1)
    throw new Refusal('invalid_request', `"${text}" is no count; write a whole number above 0`);
  return count;
}
