import { closeSync, fstatSync, openSync, readSync, watch, type FSWatcher } from 'node:fs';

const CHUNK = 1024 * 1024;
const NEWLINE = 0x0a;

/** A whole line of a file, with the byte offsets of its beginning and of the next line. */
export interface FileLine {
  text: string;
  from: number;
  to: number;
}

/** The whole lines of a file from an offset on. Leaves out a last line without its newline. A file that does not exist has no lines. */
export function* linesFrom(path: string, from: number): Generator<FileLine> {
  const fd = opened(path);
  if (fd === null) return;
  try {
    let [rest, at] = [Buffer.alloc(0), from];
    for (;;) {
      const chunk = Buffer.allocUnsafe(CHUNK);
      const got = readSync(fd, chunk, 0, CHUNK, at + rest.length);
      if (got === 0) return;
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk.subarray(0, got)]) : chunk.subarray(0, got);
      let begin = 0;
      for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, begin)) {
        yield { text: bytes.toString('utf8', begin, end), from: at + begin, to: at + end + 1 };
        begin = end + 1;
      }
      at += begin;
      rest = Buffer.from(bytes.subarray(begin));
    }
  } finally {
    closeSync(fd);
  }
}

/** Where the last whole line of a file ends; 0 if it has none. */
export function endOfLines(path: string): number {
  const fd = opened(path);
  if (fd === null) return 0;
  try {
    for (let end = fstatSync(fd).size; end > 0;) {
      const begin = Math.max(0, end - CHUNK);
      const bytes = Buffer.alloc(end - begin);
      readSync(fd, bytes, 0, bytes.length, begin);
      const found = bytes.lastIndexOf(NEWLINE);
      if (found >= 0) return begin + found + 1;
      end = begin;
    }
    return 0;
  } finally {
    closeSync(fd);
  }
}

function opened(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch {
    return null;
  }
}

/** Calls back when a file in one of these folders changes. For a folder that does not exist yet, call `set` again later. */
export class FolderWatch {
  readonly #watchers = new Map<string, FSWatcher>();

  constructor(readonly changed: () => void) {}

  /** Watches exactly these folders from now on. */
  set(folders: readonly string[]): void {
    for (const [folder, watcher] of this.#watchers) if (!folders.includes(folder)) this.#drop(folder, watcher);
    for (const folder of folders) if (!this.#watchers.has(folder)) this.#add(folder);
  }

  close(): void {
    this.set([]);
  }

  #add(folder: string): void {
    try {
      const watcher = watch(folder, () => this.changed());
      watcher.on('error', () => this.#drop(folder, watcher));
      this.#watchers.set(folder, watcher);
    } catch {
      // The folder does not exist yet.
    }
  }

  #drop(folder: string, watcher: FSWatcher): void {
    this.#watchers.delete(folder);
    watcher.close();
  }
}
