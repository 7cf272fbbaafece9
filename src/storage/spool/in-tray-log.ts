import { closeSync, existsSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { trayOf } from '../ledger/connection.ts';
import type { TrayPlace } from '../ledger/late.ts';
import type { Entry } from '../ledger/ledger.ts';
import { LogFile } from '../ledger/log.ts';

/** Entries that came together, and the place behind them. */
export interface Sheet {
  entries: Entry[];
  place: TrayPlace;
}

/** Before each sheet: the round, the length of what follows in bytes, and its checksum. */
const HEAD = /^( *\d{1,12}) ( *\d{1,10}) ([0-9a-f]{8})\n$/;
const HEAD_BYTES = 33;
const BLANK_HEAD = ' '.repeat(HEAD_BYTES);
/** No sheet is longer: a group of the largest messages. */
const LONGEST = 1024 * 1024 * 1024;

function trayLogOf(root: string): string {
  return trayOf(`${root}/ledger.db`);
}

/**
 * What a busy relay has accepted and not entered in its ledger yet, one sheet after the other in a file. Used from the beginning again
 * and again: a sheet belongs to its round, and to one life of one ledger, so that nothing of an earlier use is ever taken for news.
 */
export class TrayLog {
  readonly #path: string;
  readonly #log: LogFile;
  #life: string;
  #round: number;
  #bytes = 0;
  #fd: number | null = null;

  /** `after`: the place up to which the ledger has everything. */
  constructor(root: string, life: string, after: TrayPlace) {
    this.#path = trayLogOf(root);
    this.#log = new LogFile(this.#path);
    this.#life = life;
    this.#round = after.round + 1;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Writes a sheet and returns the place behind it. If that fails, the next is written over it. */
  append(entries: Entry[]): TrayPlace {
    this.#fd ??= openSync(this.#path, existsSync(this.#path) ? 'r+' : 'wx+', 0o600);
    this.#log.layOut();
    let text = BLANK_HEAD;
    for (const { message, text: json = JSON.stringify(message), copies, key, firstTried, fresh } of entries) {
      text += `${json}\n${JSON.stringify({ copies, key, firstTried, fresh })}\n`;
    }
    const bytes = Buffer.from(text);
    bytes.write(headOf(bytes.subarray(HEAD_BYTES), this.#life, this.#round), 'latin1');
    for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at, bytes.length - at, this.#bytes + at);
    this.#bytes += bytes.length;
    return { round: this.#round, bytes: this.#bytes };
  }

  /** What was appended before this call is on disk when it returns. */
  async flush(alone: boolean): Promise<void> {
    await this.#log.flush(alone);
  }

  /** From the beginning, once all of it is in the ledger and the ledger is on disk. */
  beginAnew(life: string): void {
    if (this.#bytes === 0) return;
    this.#life = life;
    this.#round += 1;
    this.#bytes = 0;
  }

  /** Leaves nothing of what was said. Only at the beginning of a round, or when nothing more is appended. */
  remove(): void {
    this.#log.forget();
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
    rmSync(this.#path, { force: true });
  }
}

/** Whether there may be something in it. */
export function hasTray(root: string): boolean {
  return existsSync(trayLogOf(root));
}

export function removeTray(root: string): void {
  rmSync(trayLogOf(root), { force: true });
}

/** The sheets behind a place: those of its round, and then those of the next. A sheet that was not written to its end is the end. */
export function* sheetsAfter(root: string, life: string, { round, bytes }: TrayPlace): Generator<Sheet> {
  const path = trayLogOf(root);
  if (!existsSync(path)) return;
  const fd = openSync(path, 'r');
  try {
    yield* sheetsOf(fd, life, { round, bytes });
    yield* sheetsOf(fd, life, { round: round + 1, bytes: 0 });
  } finally {
    closeSync(fd);
  }
}

function* sheetsOf(fd: number, life: string, from: TrayPlace): Generator<Sheet> {
  const { round } = from;
  for (let { bytes } = from; ;) {
    const head = read(fd, HEAD_BYTES, bytes)?.toString('latin1') ?? '';
    const length = Number(HEAD.exec(head)?.[2] ?? LONGEST);
    const body = length < LONGEST ? read(fd, length, bytes + HEAD_BYTES) : null;
    if (!body || headOf(body, life, round) !== head) return;
    bytes += HEAD_BYTES + length;
    yield { entries: entriesIn(body.toString('utf8')), place: { round, bytes } };
  }
}

function headOf(body: Uint8Array, life: string, round: number): string {
  const sum = Bun.hash.crc32(body, Bun.hash.crc32(`${life} ${round}`));
  return `${String(round).padStart(12)} ${String(body.length).padStart(10)} ${sum.toString(16).padStart(8, '0')}\n`;
}

function entriesIn(body: string): Entry[] {
  const lines = body.split('\n');
  const entries: Entry[] = [];
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const text = lines[at] as string;
    const rest = JSON.parse(lines[at + 1] as string) as Omit<Entry, 'message' | 'text'>;
    entries.push({ ...rest, message: JSON.parse(text) as Entry['message'], text });
  }
  return entries;
}

/** So many bytes from there; null if there are fewer. */
function read(fd: number, length: number, from: number): Buffer | null {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length;) {
    const got = readSync(fd, bytes, at, length - at, from + at);
    if (got === 0) return null;
    at += got;
  }
  return bytes;
}
