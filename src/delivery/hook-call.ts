import { writeAll } from '../platform/terminal.ts';
import { readFileSync } from 'node:fs';
import { plainLine } from '../core/gate.ts';
import { HookEvent } from './hook-event.ts';
import { Refusal } from '../core/refusal.ts';
import { storageTrouble } from '../core/disk.ts';

/** Reads the event from stdin. `relayed`: the script has read its first line, and passes that on descriptor 3. */
export function readEvent(relayed = false): HookEvent {
  const first = relayed ? readFileSync(3, 'utf8') : '';
  const event = parsed(first) ?? parsed(first + readFileSync(0, 'utf8'));
  if (event) return event;
  throw new Refusal('invalid_request', 'the event on stdin is no JSON object; nothing was taken');
}

function parsed(text: string): HookEvent | null {
  try {
    const event = HookEvent.safeParse(JSON.parse(text));
    return event.success ? event.data : null;
  } catch {
    return null;
  }
}

/** Prints one line about an error on stderr. It does not stop the client's turn. */
export function complain(command: 'parley hook' | 'c2c hook', thrown: unknown): void {
  const error = storageTrouble(thrown);
  const [first = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  const line = plainLine(first);
  try {
    writeAll(2, `${command}: ${error instanceof Refusal ? line : `internal error, please report it: ${line}`}\n`);
  } catch {
    // stderr is closed, too.
  }
}
