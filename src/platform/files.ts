import { renameSync, writeFileSync } from 'node:fs';
import { flushFolder } from '../storage/flush.ts';

/** Replaces a small file: a reader finds the old or the new text. With `flush` that holds for a crash of the machine, too. */
export function replaceFile(path: string, text: string, { flush = false } = {}): void {
  const draft = `${path}.${process.pid}.tmp`;
  writeFileSync(draft, text, { mode: 0o600, flush });
  renameSync(draft, path);
  if (flush) flushFolder(path.slice(0, path.lastIndexOf('/')));
}
