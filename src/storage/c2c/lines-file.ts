import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import { isNoPlainFile } from '../disk.ts';
import { flush } from '../flush.ts';

const { O_RDWR, O_CREAT, O_APPEND, O_NOFOLLOW, O_NONBLOCK } = constants;

/** Adds a line of JSON for each value to a file of such lines, and flushes it. The caller holds the file's lock. */
export function appendLines(path: string, values: readonly object[]): void {
  const fd = openPlain(path);
  try {
    const half = endsInHalfALine(fd) ? '\n' : '';
    const bytes = Buffer.from(half + values.map((value) => `${lineOf(value)}\n`).join(''));
    for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
    flush(fd);
  } finally {
    closeSync(fd);
  }
}

/** Times are written as floats, also whole seconds: the original reads nothing else. Inside a text every quote has a slash before it. */
function lineOf(value: object): string {
  return JSON.stringify(value).replaceAll(/"(ts|drained_at)":(-?\d+)(?=[,}])/g, '"$1":$2.0');
}

/** The values of a file of JSON lines; what is none is passed over. */
export function linesIn(bytes: Buffer): unknown[] {
  const values: unknown[] = [];
  for (const line of bytes.toString('utf8').split('\n')) {
    try {
      if (line !== '') values.push(JSON.parse(line));
    } catch {
      // Half a line of somebody who died, or of another program.
    }
  }
  return values;
}

function openPlain(path: string): number {
  let fd: number | undefined;
  try {
    fd = openSync(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0o600);
    if (fstatSync(fd).isFile()) return fd;
  } catch (error) {
    if (!isNoPlainFile(error)) throw error;
  }
  if (fd !== undefined) closeSync(fd);
  throw new Refusal('storage_failed', `${path} is no plain file, so nothing was changed: move it away`);
}

/** Somebody may have died over a line: what follows must not become part of it. */
function endsInHalfALine(fd: number): boolean {
  const { size } = fstatSync(fd);
  const last = Buffer.alloc(1);
  return size > 0 && readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== 0x0a;
}
