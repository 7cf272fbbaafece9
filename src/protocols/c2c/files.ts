import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { Refusal } from '../../core/refusal.ts';
import { codeOf, ifThere, isMissing, isNoPlainFile } from '../../core/disk.ts';
import { flush, flushFolder, LARGEST_LIST_BYTES, readPlain } from '../../platform/files.ts';
import { platform } from '../../platform/os.ts';
import { listIn, listOrMemberIn, jsonValue } from './json-list.ts';
import type { JsonList } from './json-list.ts';
import { openPlain, withLock } from './lock.ts';

/** Times that the original reads only as floats. A whole number is written with `.0`. */
const TIMES =
  /"(ts|drained_at|registered_at|last_activity_ts|confirmed_at|dnd_since|dnd_until|pubkey_signed_at|started_at|joined_at|created_at|expires_at|resolved_at)":(-?\d+)(?=[,}])/g;
/** A draft is normally renamed within moments. If it is this old, its writer (ours or another program's) is dead. */
const OLD_DRAFT_MS = 60 * 60 * 1000;

/** The whole file; null if there is none. Refuses anything but a plain file, and a file larger than any of ours. */
export function readBytes(path: string): Buffer | null {
  try {
    return readPlain(path, 'refuse', LARGEST_LIST_BYTES);
  } catch (error) {
    if (isMissing(error)) return null;
    if (isNoPlainFile(error)) throw noPlainFile(path);
    throw error;
  }
}

export function noPlainFile(path: string): Refusal {
  return new Refusal(
    'storage_failed',
    `${path} is not a plain file, or is far too large, so nothing was changed: move it away`,
  );
}

/** A file that holds a JSON array, or an object with the array `member`. A missing or empty one is an empty list. */
export function readList(path: string, member?: string): JsonList {
  const bytes = readBytes(path);
  if (bytes === null) return { values: [], texts: [] };
  return member === undefined ? listIn(bytes) : listOrMemberIn(bytes, member);
}

/**
 * Writes a list on one line. Values that come from `before`, and an object around the list, keep their exact text. The first of `before` is
 * the file itself: if it was broken, a copy is kept first. The caller holds the lock. spec: c2c#writing
 */
export function writeList(root: string, path: string, values: readonly unknown[], ...before: JsonList[]): void {
  const texts = new Map(before.flatMap((list) => list.values.map((value, at) => [value, list.texts[at]])));
  if (before[0]?.broken !== undefined) keepBroken(root, path, before[0].broken);
  const [head, tail] = before[0]?.around ?? ['', ''];
  replaceDurably(path, `${head}[${values.map((value) => texts.get(value) ?? withFloats(value)).join(',')}]${tail}`);
}

/** The JSON of a value, with times as the original reads them. Quotes in strings have a backslash, so `TIMES` matches only fields. */
export function withFloats(value: unknown): string {
  return JSON.stringify(value).replaceAll(TIMES, '"$1":$2.0');
}

/**
 * Replaces a file by a complete, flushed one, and flushes the folder. The caller holds the file's lock, so no other process uses the name of the
 * draft. With `andFolder` false, a power cut may bring the old file back, but never half a file. spec: c2c#writing
 */
export function replaceDurably(path: string, content: string | Uint8Array, andFolder = true): void {
  const draft = `${path}.tmp.${process.pid}`;
  try {
    writeNew(draft, typeof content === 'string' ? Buffer.from(content) : content);
    renameSync(draft, path);
  } catch (error) {
    ifThere(() => unlinkSync(draft));
    throw error;
  }
  if (andFolder) flushFolder(path.slice(0, path.lastIndexOf('/')));
}

function writeNew(path: string, bytes: Uint8Array): void {
  const make = (): number => openSync(path, 'wx', 0o600);
  let fd: number;
  try {
    fd = make();
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    // Left by a dead process that had our pid.
    unlinkSync(path);
    fd = make();
  }
  writeFlushed(fd, bytes);
}

/** Writes and flushes all bytes. Closes the file, even after an error. */
function writeFlushed(fd: number, bytes: Uint8Array): void {
  try {
    // One call may write only a part; on a nearly full disk it does so without an error.
    for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
    flush(fd);
  } finally {
    closeSync(fd);
  }
}

/** The value of a small JSON file; undefined if there is no file, or if it is not JSON. */
export function readJsonFile(path: string): unknown {
  const text = ifThere(() => readFileSync(path, 'utf8'));
  return text === null ? undefined : jsonValue(text);
}

/** The lines of a file that are not empty. */
export function readFileLines(path: string): string[] {
  const lines = readBytes(path)?.toString('utf8').split('\n') ?? [];
  return lines.filter((line) => line !== '');
}

/** The objects in a file of JSON lines. Skips a half-written line of a dead writer. */
export function readObjects(path: string): Record<string, unknown>[] {
  return readFileLines(path).map(jsonValue).filter(isObject);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Appends a line of JSON for each value, and flushes the file. The caller holds its lock. */
export function appendLines(path: string, values: readonly object[]): void {
  const fd = openPlain(path);
  const { size } = fstatSync(fd);
  const last = Buffer.from('\n');
  // A writer may have died in the middle of a line: start a new one.
  if (size > 0) readSync(fd, last, 0, 1, size - 1);
  const start = last[0] === 0x0a ? '' : '\n';
  writeFlushed(fd, Buffer.from(start + values.map((value) => `${withFloats(value)}\n`).join('')));
}

/** Removes drafts (`<file>.tmp.<pid>`) that killed writers left behind. */
export function sweepDrafts(root: string, now: number): void {
  for (const folder of [root, `${root}/held`]) {
    for (const name of ifThere(() => readdirSync(folder)) ?? []) {
      const pid = /\.tmp\.(\d+)$/.exec(name)?.[1];
      if (pid === undefined || platform.processStart(Number(pid)) !== null) continue;
      const path = `${folder}/${name}`;
      const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now;
      if (now - changed > OLD_DRAFT_MS) rmSync(path, { force: true });
    }
  }
}

/** A file that was found broken, and the path of the copy that was kept. */
export interface Repair {
  file: string;
  copy: string;
  what: string;
}

/** Keeps a copy of a broken file before it is replaced, and records that for `takeRepairs`. The caller holds the file's lock. */
export function keepBroken(root: string, path: string, what: string, now = Date.now()): string {
  const folder = `${root}/repaired`;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const copy = `${folder}/${path.slice(root.length + 1).replaceAll('/', '_')}.${now}.${process.pid}`;
  replaceDurably(copy, readBytes(path) ?? '');
  const repair: Repair = { file: path, copy, what };
  withLock(`${folder}/untold.lock`, () => appendLines(`${folder}/untold.jsonl`, [repair]));
  return copy;
}

/** The repairs since the last call. */
export function takeRepairs(root: string): Repair[] {
  const path = `${root}/repaired/untold.jsonl`;
  // Every command calls this, and there is almost never a repair.
  if (!existsSync(path)) return [];
  return withLock(`${root}/repaired/untold.lock`, () => {
    const noted = readObjects(path);
    ifThere(() => unlinkSync(path));
    return noted.filter(isRepair);
  });
}

function isRepair(value: Record<string, unknown>): value is Record<string, unknown> & Repair {
  return ['file', 'copy', 'what'].every((field) => typeof value[field] === 'string');
}
