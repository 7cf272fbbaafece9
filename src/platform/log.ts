import { masked } from '../attention/secrets.ts';
import type { Facts, Log } from '../core/service.ts';
import { visibleLine } from '../delivery/visible.ts';
import { staleAdvice } from './program.ts';
import { writeAll } from './terminal.ts';

/** Of one kind of event, so many are written in a second; the rest is counted. A storm must not fill a disk or stop the work. */
const PER_SECOND = 50;
/** One per request: only with `verbose`. */
const EVERYTHING = ['answered', 'listener_open', 'listener_closed'];

/** A log on stderr: one line per event, as words for people or as JSON for programs. */
export function servingLog(
  { json, verbose }: { json: boolean; verbose: boolean },
  now = Date.now,
  write = toStderr,
  advice = staleAdvice,
): Log {
  const counts = new Map<string, { second: number; seen: number }>();
  const line = (event: string, told: Facts): void => {
    const at = new Date(now()).toISOString();
    const facts = Object.fromEntries(Object.entries(told).map(([name, value]) => [name, harmless(value)]));
    if (json) return write(`${JSON.stringify({ at, event, ...facts })}\n`);
    const words = Object.entries(facts).map(([name, value]) => ` ${name}=${plain(String(value))}`);
    write(`${at} ${event}${words.join('')}\n`);
  };
  return (event, facts) => {
    if (!verbose && EVERYTHING.includes(event)) return;
    const second = Math.floor(now() / 1000);
    const count = counts.get(event) ?? { second, seen: 0 };
    if (count.second !== second && count.seen > PER_SECOND) line(event, { more: count.seen - PER_SECOND });
    const seen = count.second === second ? count.seen + 1 : 1;
    counts.set(event, { second, seen });
    if (!verbose && seen > PER_SECOND) return;
    const help = event.endsWith('failed') ? advice() : null;
    line(event, help === null ? facts : { ...facts, advice: help });
  };
}

function toStderr(text: string): void {
  writeAll(2, text);
}

function harmless(value: Facts[string]): Facts[string] {
  return typeof value === 'string' ? masked(value) : value;
}

/** What came from outside cannot move a cursor or begin a line of its own. */
function plain(value: string): string {
  const shown = visibleLine(value, 2000);
  return /[\s="]/.test(shown) ? JSON.stringify(shown) : shown;
}
