import { closeSync, existsSync, mkdirSync, openSync, renameSync, unlinkSync, writeSync } from 'node:fs';
import { isTooDeep } from '../../protocol/depth.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { codeOf, ifThere, isMissing, isNoPlainFile } from '../disk.ts';
import { flush } from '../flush.ts';
import { LARGEST_LIST_BYTES, readPlain } from '../plain-file.ts';
import { withLock } from './lock.ts';
import { elements, saved } from './json-array.ts';
import { linesIn } from './lines-file.ts';

const NOT_WHOLE = 'it is no whole JSON array';

/** What a state file of the broker holds: a list of values, and for each its text as it stands there. */
export interface StateFile {
  values: unknown[];
  texts: string[];
  /** What is wrong with the file; then `values` is what could be saved. Undefined if nothing is, or if there is no file. */
  broken?: string | undefined;
}

/** A file that was found broken: a copy of it stands in `copy`. */
export interface Repair {
  file: string;
  copy: string;
  what: string;
}

/** The whole file; null if there is none. What is no plain file, or larger than any of ours, is refused: nobody knows what it stands for. */
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
    `${path} is no plain file, or far too large, so nothing was changed: move it away`,
  );
}

/** A file that holds a JSON array. A missing or empty one is an empty list. */
export function readList(path: string): StateFile {
  const bytes = readBytes(path);
  return bytes === null ? { values: [], texts: [] } : listIn(bytes);
}

/** Reads what can be read of a JSON array. */
export function listIn(bytes: Buffer): StateFile {
  const text = bytes.toString('utf8').replace(/^\uFEFF/u, '');
  if (text.trim() === '') return { values: [], texts: [], ...(text !== '' && { broken: 'it holds only blanks' }) };
  const { texts, whole } = elements(text);
  const found: StateFile = { values: [], texts: [], broken: whole ? undefined : NOT_WHOLE };
  if (!isUtf8(bytes, text)) found.broken = 'it is not UTF-8';
  for (const one of texts) {
    for (const [value, part] of parsed(one)) {
      if (isTooDeep(value)) {
        found.broken = 'a part of it is nested too deeply';
        continue;
      }
      found.values.push(value);
      found.texts.push(part);
      if (part !== one) found.broken = NOT_WHOLE;
    }
  }
  return found;
}

/** Whatever cannot be read becomes this sign; so nearly always its absence is the answer. */
function isUtf8(bytes: Buffer, text: string): boolean {
  return !text.includes('\uFFFD') || Buffer.from(bytes.toString('utf8')).equals(bytes);
}

/** The value of a text; if it is none, those of the whole objects in it. */
function parsed(text: string): [value: unknown, text: string][] {
  try {
    return [[JSON.parse(text), text]];
  } catch {
    return saved(text, 1).map((part) => [JSON.parse(part), part]);
  }
}

/**
 * Replaces a file by another one that is whole and flushed, and flushes the folder. Whoever calls it holds the file's lock, so the
 * name of the new one is nobody else's. `andFolder` false: a power cut may bring the old file back, never half a file. spec: c2c#writing
 */
export function replaceFile(path: string, content: string | readonly Uint8Array[], andFolder = true): void {
  const draft = `${path}.tmp.${process.pid}`;
  try {
    writeNew(draft, typeof content === 'string' ? [Buffer.from(content)] : content);
    renameSync(draft, path);
  } catch (error) {
    ifThere(() => unlinkSync(draft));
    throw error;
  }
  if (andFolder) flushFolder(path.slice(0, path.lastIndexOf('/')));
}

/** A list as the original writes it: one line. */
export function writeList(path: string, values: readonly unknown[]): void {
  replaceFile(path, JSON.stringify(values));
}

function writeNew(path: string, parts: readonly Uint8Array[]): void {
  const make = (): number => openSync(path, 'wx', 0o600);
  let fd: number;
  try {
    fd = make();
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    // Of a dead process that had our number.
    unlinkSync(path);
    fd = make();
  }
  try {
    // One call may write only a part, and on a nearly full disk it does so without an error.
    for (const bytes of parts) for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
    flush(fd);
  } finally {
    closeSync(fd);
  }
}

export function flushFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    flush(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * Keeps a copy of a file that is broken, before somebody replaces it, and notes it for `takeRepairs`. Returns where it is. The
 * caller holds the file's lock.
 */
export function keepBroken(root: string, path: string, what: string, now = Date.now()): string {
  const bytes = readBytes(path) ?? Buffer.alloc(0);
  const folder = `${root}/repaired`;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const copy = `${folder}/${path.slice(root.length + 1).replaceAll('/', '_')}.${now}.${process.pid}`;
  replaceFile(copy, [bytes]);
  const line = `${JSON.stringify({ file: path, copy, what } satisfies Repair)}\n`;
  withLock(`${folder}/untold.lock`, () => {
    const path = `${folder}/untold.jsonl`;
    replaceFile(path, [readBytes(path) ?? Buffer.alloc(0), Buffer.from(line)]);
  });
  return copy;
}

/** What was found broken since somebody last asked. */
export function takeRepairs(root: string): Repair[] {
  const path = `${root}/repaired/untold.jsonl`;
  // Nearly always there is none, and every command asks.
  if (!existsSync(path)) return [];
  return withLock(`${root}/repaired/untold.lock`, () => {
    const noted = linesIn(readBytes(path) ?? Buffer.alloc(0));
    ifThere(() => unlinkSync(path));
    return noted.filter(isRepair);
  });
}

function isRepair(value: unknown): value is Repair {
  const { file, copy, what } = (value ?? {}) as Record<string, unknown>;
  return [file, copy, what].every((one) => typeof one === 'string');
}
