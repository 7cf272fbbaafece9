import {
  chmodSync,
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs';
import { ifThere } from '../../core/disk.ts';
import type { SessionMessage, SessionStore } from '../../core/ports/session-store.ts';
import { fileNameOf } from './config.ts';
import type { ControlFile } from './config.ts';

/** How many lines are written before the store marks them as exported. */
const BATCH = 200;
/** How much of a file's end is read before the first append, in addition to the size of the new lines. */
const TAIL_BYTES = 64 * 1024;
const LF = 0x0a;
const FILE_NAME = /^\d{4}-\d\d-\d\d-\d\d\.jsonl$/;

/**
 * The hourly history files of the document. The store is the source: it knows which lines are missing in the files, and which changed. A
 * line is appended and then marked in the store. After a crash in between, the end of the file shows that the line is there. A changed line
 * is appended again with the same id; the last one counts. spec: control#history-files
 */
export class HistoryFiles {
  readonly #root: string;
  /** Files that this process has checked: they end with a whole line, and only this process has appended to them since. */
  readonly #known = new Set<string>();
  readonly #newest = new Map<string, { stamp: number; path: string | null }>();
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(
    readonly store: Pick<SessionStore, 'unexported' | 'exported'>,
    readonly config: ControlFile,
  ) {
    this.#root = `${config.folder}/history`;
  }

  /** Returns when every line that was stored before the call is in the files. */
  async publish(): Promise<void> {
    if (!this.#next) {
      this.#next = this.#running.then(() => {
        this.#next = undefined;
        return this.#export();
      });
      this.#running = this.#next.catch(() => {});
    }
    return this.#next;
  }

  /** The folder of a session's files: its topic, or without one a name that is never a number. */
  folderOf(session: string): string {
    const { sessions } = this.config.readOrLast();
    const topic = Object.hasOwn(sessions, session) ? sessions[session]?.topic_id : 0;
    return `${this.#root}/${topic ? String(topic) : `session-${fileNameOf(session)}`}/messages`;
  }

  /** Unix seconds of the last change of a session's newest file; 0 if it has none. */
  lastModified(session: string): number {
    const newest = this.#newestOf(this.folderOf(session));
    const stat = newest && statSync(newest, { throwIfNoEntry: false });
    return stat ? Math.floor(stat.mtimeMs / 1000) : 0;
  }

  /** Lists a folder again only if it changed: it may hold the files of many years. */
  #newestOf(folder: string): string | null {
    const stat = statSync(folder, { throwIfNoEntry: false });
    if (!stat) return null;
    const known = this.#newest.get(folder);
    if (known?.stamp === stat.mtimeMs) return known.path;
    const name = hourlyFiles(folder).at(-1);
    const path = name === undefined ? null : `${folder}/${name}`;
    this.#newest.set(folder, { stamp: stat.mtimeMs, path });
    return path;
  }

  async #export(): Promise<void> {
    for (;;) {
      const messages = await this.store.unexported(BATCH);
      if (messages.length === 0) return;
      const parts = Map.groupBy(messages, (message) => this.#pathOf(message));
      try {
        for (const [path, some] of parts) this.#append(path, some);
        await this.store.exported(messages);
      } catch (error) {
        // The files may end with half a line, or with lines that the store will return again.
        for (const path of parts.keys()) this.#known.delete(path);
        throw error;
      }
    }
  }

  #pathOf({ session, ts }: SessionMessage): string {
    return `${this.folderOf(session)}/${hourOf(ts)}.jsonl`;
  }

  #append(path: string, messages: readonly SessionMessage[]): void {
    const lines = messages.map((message) => Buffer.from(`${JSON.stringify(lineOf(message))}\n`));
    const folder = path.slice(0, path.lastIndexOf('/'));
    const isNew = !this.#known.has(path);
    if (isNew) {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      // An earlier ccc made the folder readable for everyone.
      chmodSync(folder, 0o700);
    }
    const fd = openSync(path, 'a+', 0o600);
    try {
      const there = isNew ? prepareFile(fd, lines) : new Set<string>();
      // One write per line: a reader that follows the file sees whole lines.
      for (const line of lines) if (!there.has(line.toString().trimEnd())) writeWhole(fd, line);
    } finally {
      closeSync(fd);
    }
    this.#known.add(path);
  }
}

/** The names of a session's files, oldest first. */
export function hourlyFiles(folder: string): string[] {
  return (ifThere(() => readdirSync(folder)) ?? []).filter((name) => FILE_NAME.test(name)).sort();
}

/** A message as the files and the socket show it. */
export function lineOf({ session: _session, id, ts, from, text, ...more }: SessionMessage): Record<string, unknown> {
  return { id, ts, from, text, ...more };
}

/** The hour in local time, as in the original's file names. At a clock change the ids keep the order. */
function hourOf(ts: number): string {
  const at = new Date(ts * 1000);
  const two = (part: number): string => String(part).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}-${two(at.getHours())}`;
}

/** Ends a file of another process with a line end, and returns its last lines. */
function prepareFile(fd: number, lines: readonly Buffer[]): Set<string> {
  const { size, mode, uid } = fstatSync(fd);
  if ((mode & 0o077) !== 0 && uid === process.getuid?.()) process.getBuiltinModule('node:fs').fchmodSync(fd, 0o600);
  if (size === 0) return new Set();
  const length = Math.min(
    size,
    lines.reduce((sum, line) => sum + line.length, TAIL_BYTES),
  );
  const tail = Buffer.alloc(length);
  readSync(fd, tail, 0, length, size - length);
  // A crash in the middle of a line.
  if (tail.at(-1) !== LF) writeWhole(fd, Buffer.from('\n'));
  return new Set(tail.toString().split('\n'));
}

function writeWhole(fd: number, bytes: Buffer): void {
  for (let from = 0; from < bytes.length;) from += writeSync(fd, bytes, from);
}
