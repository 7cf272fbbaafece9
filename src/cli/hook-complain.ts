import { plainLine } from '../delivery/quote.ts';
import { Refusal } from '../protocol/refusal.ts';
import { storageTrouble } from '../storage/disk.ts';
import { writeAll } from '../platform/terminal.ts';

/** Says on stderr, in one line, what went wrong. The client's turn goes on all the same. */
export function complain(thrown: unknown): void {
  const error = storageTrouble(thrown);
  const [first = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  const line = plainLine(first);
  try {
    writeAll(2, `parley hook: ${error instanceof Refusal ? line : `internal error, please report it: ${line}`}\n`);
  } catch {
    // Nobody reads stderr either.
  }
}
