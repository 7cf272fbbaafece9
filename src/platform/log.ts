import { visibleLine } from '../core/gate.ts';
import { masked } from '../core/attention/secrets.ts';
import type { LogFacts, Log } from '../core/service.ts';
import { staleAdvice } from './program.ts';
import { writeAll } from './terminal.ts';

/** The most lines per second for one kind of event; the rest is only counted. A burst must not fill a disk or block the work. */
const PER_SECOND = 50;
/** Equal failures are written once in this time, with a count of those left out. */
const REPEAT_MS = 60_000;
const FAILURES = /^trouble$|failed$/;
/** The fields that may differ between equal failures. */
const PER_REQUEST = ['id', 'ms'];
/** The most different failures remembered. */
const MOST_REPEATS = 1000;
/** Events of every request: written only with `verbose`. */
const EVERYTHING = ['answered', 'listener_open', 'listener_closed'];

/** A log on stderr with one line per event: text for people, or JSON for programs. */
export function servingLog(
  { json, verbose }: { json: boolean; verbose: boolean },
  now = Date.now,
  write = toStderr,
  advice = staleAdvice,
): Log {
  const counts = new Map<string, { second: number; seen: number }>();
  const line = (event: string, told: LogFacts): void => {
    const at = new Date(now()).toISOString();
    const facts = Object.fromEntries(Object.entries(told).map(([name, value]) => [name, harmless(value)]));
    if (json) return write(`${JSON.stringify({ at, event, ...facts })}\n`);
    const words = Object.entries(facts).map(([name, value]) => ` ${name}=${plain(String(value))}`);
    write(`${at} ${event}${words.join('')}\n`);
  };
  const repeats = new Map<string, { at: number; left: number }>();
  /** Null if an equal failure was written a moment ago. */
  const once = (event: string, facts: LogFacts): LogFacts | null => {
    const key = `${event} ${JSON.stringify(Object.entries(facts).filter(([name]) => !PER_REQUEST.includes(name)))}`;
    const before = repeats.get(key);
    if (before && now() - before.at < REPEAT_MS) {
      before.left += 1;
      return null;
    }
    if (repeats.size >= MOST_REPEATS) repeats.clear();
    repeats.set(key, { at: now(), left: 0 });
    return before && before.left > 0 ? { ...facts, repeated: before.left } : facts;
  };
  return (event, told) => {
    if (!verbose && EVERYTHING.includes(event)) return;
    const facts = !verbose && FAILURES.test(event) ? once(event, told) : told;
    if (!facts) return;
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

function harmless(value: LogFacts[string]): LogFacts[string] {
  return typeof value === 'string' ? masked(value) : value;
}

/** Makes a value from outside safe: it cannot move the cursor or begin a line. */
function plain(value: string): string {
  const shown = visibleLine(value, 2000);
  return /[\s="]/.test(shown) ? JSON.stringify(shown) : shown;
}
