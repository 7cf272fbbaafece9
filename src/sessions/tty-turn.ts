import { closeSync, constants, openSync } from 'node:fs';
import { libc } from './libc.ts';

const LOCK_EX_NB = 2 | 4;

/**
 * Whose turn it is to type: one writer at a time per terminal, of all processes on this machine, by a lock on the device itself. The
 * kernel ends it with its holder. Null if somebody else types just now. A terminal without a known device is not shared.
 */
export function takeTurn(tty: string | null): { release(): void } | null {
  if (tty === null) return { release: () => undefined };
  const fd = openSync(tty, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
  if (lockFile(fd)) return { release: () => closeSync(fd) };
  closeSync(fd);
  return null;
}

/** Locks an open file for its holder alone, until it is closed. False if somebody else has it. */
export function lockFile(fd: number): boolean {
  return libc().flock(fd, LOCK_EX_NB) === 0;
}
