import { open, stat } from 'node:fs/promises';
import { readdirSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { ifThere } from '../../core/disk.ts';
import { hourlyFiles } from './history-files.ts';

const CHUNK_BYTES = 64 * 1024;
const LF = 0x0a;
/** The shortest line of the original. Its counter is at most the size of its files divided by this. */
const SHORTEST_LINE = 40;

/** A line of an earlier ccc. All its fields are passed on. */
export type EarlierMessage = Record<string, unknown> & { id: number; ts: number; from: string; text: string };

export interface EarlierPage {
  limit: number;
  from?: string | undefined;
  /** Reading stops after the line with which the texts exceed this many bytes. */
  bytes: number;
}

/**
 * The history that an earlier ccc wrote. Our own lines are in the same files with higher ids, but are read from the store. Files are read
 * from their ends, and whole only if a caller pages through all of them. The original gave many replies the id 1: its ids are neither
 * unique nor sorted, and are not changed. spec: control#earlier-history
 */
export class EarlierFiles {
  constructor(
    /** Ids up to this one are of an earlier ccc. */
    readonly lastId: number,
  ) {}

  /** The newest lines, oldest first. */
  async newest(folder: string, { limit, from, bytes }: EarlierPage): Promise<EarlierMessage[]> {
    const found: EarlierMessage[] = [];
    let left = bytes;
    for (const name of hourlyFiles(folder).reverse()) {
      for await (const line of linesBackward(`${folder}/${name}`)) {
        if (found.length >= limit || left < 0) return found.reverse();
        const message = this.#parsed(line, from);
        if (!message) continue;
        found.push(message);
        left -= Buffer.byteLength(message.text);
      }
    }
    return found.reverse();
  }

  /** The first lines after this id, oldest first. */
  async after(folder: string, id: number, { limit, from, bytes }: EarlierPage): Promise<EarlierMessage[]> {
    const found: EarlierMessage[] = [];
    let left = bytes;
    for (const name of await this.#filesBehind(folder, id)) {
      for await (const line of linesForward(`${folder}/${name}`)) {
        if (found.length >= limit || left < 0) return found;
        const message = this.#parsed(line, from);
        if (!message || message.id <= id) continue;
        found.push(message);
        left -= Buffer.byteLength(message.text);
      }
    }
    return found.slice(0, limit);
  }

  /** Skips files that end before the id. Compares only lines of the server: replies had ids of another counter. */
  async #filesBehind(folder: string, id: number): Promise<string[]> {
    const names = hourlyFiles(folder);
    for (let at = names.length - 1; id > 0 && at >= 0; at--) {
      const last = await this.#lastOfServer(`${folder}/${names[at]}`);
      if (last !== null && last <= id) return names.slice(at + 1);
    }
    return names;
  }

  async #lastOfServer(path: string): Promise<number | null> {
    let left = CHUNK_BYTES;
    for await (const line of linesBackward(path)) {
      const message = this.#parsed(line);
      if (message?.from === 'api') return message.id;
      left -= line.length;
      if (left < 0) return null;
    }
    return null;
  }

  #parsed(line: Uint8Array, from?: string): EarlierMessage | null {
    const message = parsed(line);
    return message && message.id <= this.lastId && (from === undefined || message.from === from) ? message : null;
  }
}

/** An upper bound for the ids of an earlier ccc, found without reading its files whole; 0 if there are none. */
export async function highestEarlierId(root: string): Promise<number> {
  let [bytes, highest] = [0, 0];
  for (const topic of ifThere(() => readdirSync(root)) ?? []) {
    const folder = `${root}/${topic}/messages`;
    const names = hourlyFiles(folder);
    for (const name of names) bytes += (await stat(`${folder}/${name}`)).size;
    for (const name of names.slice(-2)) highest = Math.max(highest, await highestAtEnd(`${folder}/${name}`));
  }
  return Math.max(highest, Math.ceil(bytes / SHORTEST_LINE));
}

async function highestAtEnd(path: string): Promise<number> {
  let [highest, left] = [0, CHUNK_BYTES];
  for await (const line of linesBackward(path)) {
    highest = Math.max(highest, parsed(line)?.id ?? 0);
    left -= line.length;
    if (left < 0) break;
  }
  return highest;
}

/** Null for a line that a crash cut off, and for any line that is not a message. */
function parsed(line: Uint8Array): EarlierMessage | null {
  try {
    const value = JSON.parse(Buffer.from(line.buffer, line.byteOffset, line.length).toString()) as EarlierMessage;
    if (typeof value !== 'object' || value === null || !Number.isSafeInteger(value.id)) return null;
    const { id, ts, from, text, ...more } = value;
    if (typeof from !== 'string') return null;
    return { id, ts: typeof ts === 'number' ? ts : 0, from, text: typeof text === 'string' ? text : '', ...more };
  } catch {
    return null;
  }
}

async function* linesForward(path: string): AsyncGenerator<Uint8Array> {
  for await (const chunks of chunksOf(path, 'forward')) yield* chunks;
}

async function* linesBackward(path: string): AsyncGenerator<Uint8Array> {
  for await (const chunks of chunksOf(path, 'backward')) yield* chunks;
}

/** The whole lines of a file, some at a time, in the order in which they are read. */
async function* chunksOf(path: string, way: 'forward' | 'backward'): AsyncGenerator<Uint8Array[]> {
  const file = await opened(path);
  if (!file) return;
  try {
    const { size } = await file.stat();
    // The pieces of a line that is not complete yet, in the order of the file.
    let edge: Uint8Array[] = [];
    for (let done = 0; done < size;) {
      const length = Math.min(CHUNK_BYTES, size - done);
      const chunk = new Uint8Array(length);
      const { bytesRead } = await file.read(chunk, 0, length, way === 'forward' ? done : size - done - length);
      if (bytesRead < length) return;
      done += length;
      const at = way === 'forward' ? chunk.lastIndexOf(LF) : chunk.indexOf(LF);
      if (at < 0) {
        edge = way === 'forward' ? [...edge, chunk] : [chunk, ...edge];
        continue;
      }
      const before = chunk.subarray(0, at);
      const behind = chunk.subarray(at + 1);
      const whole = way === 'forward' ? [...edge, before] : [behind, ...edge];
      const lines = split(Buffer.concat(whole));
      edge = way === 'forward' ? [behind] : [before];
      yield way === 'forward' ? lines : lines.reverse();
    }
    yield [Buffer.concat(edge)];
  } finally {
    await file.close();
  }
}

function split(bytes: Uint8Array): Uint8Array[] {
  const lines: Uint8Array[] = [];
  let from = 0;
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, from)) {
    lines.push(bytes.subarray(from, at));
    from = at + 1;
  }
  return [...lines, bytes.subarray(from)];
}

async function opened(path: string): Promise<FileHandle | null> {
  return open(path, 'r').catch(() => null);
}
