import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs';

/** Replaces a small file: a reader finds the old or the new text. With `flush` that holds for a crash of the machine, too. */
export function replaceFile(path: string, text: string, { flush = false } = {}): void {
  const draft = `${path}.${process.pid}.tmp`;
  writeFileSync(draft, text, { mode: 0o600, flush });
  renameSync(draft, path);
  if (flush) flushFolder(path.slice(0, path.lastIndexOf('/')));
}

function flushFolder(folder: string): void {
  const fd = openSync(folder, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
