#!/usr/bin/env bun
import { visibleLine } from '../delivery/gate.ts';
import { REFUSALS, Refusal } from '../protocol/refusal.ts';
import { codeOf, storageTrouble } from '../storage/disk.ts';
import { exitNow } from '../storage/libc.ts';
import type * as Replaced from './replaced.ts';
import { writeAll } from './terminal.ts';

/** The binary is also `bch`, `c2c`, `c2c-deliver-inbox` and `ccc`, by the name it is called with. `parley bch …` needs no second name: clients start it so. */
async function main(): Promise<void> {
  const argv = process.argv.slice(2);
  switch (process.argv0.split('/').at(-1)) {
    case 'bch':
      return (await import('./dialects/bch.ts')).runBch(argv);
    case 'c2c':
      return (await import('./dialects/c2c.ts')).runC2c(argv);
    case 'c2c-deliver-inbox':
      return (await import('./dialects/c2c.ts')).runC2c(['deliver-inbox', ...argv]);
    case 'ccc':
      return (await import('./dialects/later.ts')).sayLater('ccc');
    default:
      if (argv[0] === 'bch') return (await import('./dialects/bch.ts')).runBch(argv.slice(1));
      if (argv[0] === 'c2c') return (await import('./dialects/c2c.ts')).runC2c(argv.slice(1));
      return (await import('./parley.ts')).runParley(argv);
  }
}

/** A refusal is one line and its exit code; a reader that went away is not an error; anything else is our bug. */
function failed(error: unknown): number {
  if (codeOf(error) === 'EPIPE') return 141;
  const told = isOfOutput(error) ? unwritten(error) : storageTrouble(error);
  if (told instanceof Refusal) {
    writeAll(2, `parley: ${visibleLine(told.message, 2000)}\n`);
    return REFUSALS[told.code].exit;
  }
  writeAll(
    2,
    `parley: internal error, ${advice()}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
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

function advice(): string {
  try {
    return (require('./replaced.ts') as typeof Replaced).staleAdvice() ?? 'please report it';
  } catch {
    // Not even this can be loaded any more.
    return 'its files are gone; install it again';
  }
}

exitNow(await main().then(() => Number(process.exitCode ?? 0), failed));
