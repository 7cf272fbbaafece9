import { visibleLine } from '../core/gate.ts';
import { staleAdvice } from '../platform/program.ts';
import { writeAll } from '../platform/terminal.ts';
import { REFUSALS, Refusal } from '../core/refusal.ts';
import { codeOf, storageTrouble } from '../core/disk.ts';

/** Says a refusal in one line and returns its exit code; null for anything else. */
export function refused(error: unknown): number | null {
  if (codeOf(error) === 'EPIPE') return null;
  const told = isOfOutput(error) ? unwritten(error) : storageTrouble(error);
  if (!(told instanceof Refusal)) return null;
  writeAll(2, `parley: ${visibleLine(told.message, 2000)}\n`);
  return REFUSALS[told.code].exit;
}

/** The exit code of whatever was thrown. A reader that went away is not an error; what is no refusal is our bug. */
export function failed(error: unknown): number {
  if (codeOf(error) === 'EPIPE') return 141;
  const code = refused(error);
  if (code !== null) return code;
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  writeAll(2, `parley: internal error, ${staleAdvice() ?? 'please report it'}: ${stack}\n`);
  return 70;
}

/** A write that names no file is one to the output. */
function isOfOutput(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && error.syscall === 'write' && !('path' in error);
}

function unwritten(error: unknown): Refusal {
  const text = `the output could not be written (${codeOf(error)}); what was not shown still waits`;
  return new Refusal('storage_failed', text);
}
