import { readFileSync } from 'node:fs';
import { Refusal } from '../protocol/refusal.ts';
import { spanMs } from './settings.ts';
import { isTerminal } from './terminal.ts';

/** The body from the command line, or from stdin if there is none or it is `-`. */
export async function bodyFrom(words: string[]): Promise<string> {
  if (words.length > 0 && !(words.length === 1 && words[0] === '-')) return words.join(' ');
  if (isTerminal(0)) throw new Refusal('invalid_request', 'give the text on the command line, or pipe it in');
  return readFileSync(0, 'utf8').replace(/\n$/, '');
}

/** A deadline as an ISO time: from now on for spans such as 30m. */
export function deadlineFrom(text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  const at = /^\d+[dhm]$/.test(text) ? now + (spanMs(text) ?? 0) : Date.parse(text);
  if (Number.isNaN(at))
    throw new Refusal('invalid_request', `"${text}" is no deadline; write 30m, 2h, 1d or an ISO time`);
  return new Date(at).toISOString();
}

/** A span of time such as 30s, 10m or 2h. */
export function durationFrom(text: string): number {
  if (/^\d+s$/.test(text)) return Number.parseInt(text, 10) * 1000;
  const ms = /^\d+[dhm]$/.test(text) ? spanMs(text) : null;
  if (ms === null) throw new Refusal('invalid_request', `"${text}" is no span of time; write 30s, 10m or 2h`);
  return ms;
}

/** A whole number from the command line. */
export function countFrom(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const count = Number(text);
  if (!Number.isInteger(count) || count < 1)
    throw new Refusal('invalid_request', `"${text}" is no count; write a whole number above 0`);
  return count;
}
