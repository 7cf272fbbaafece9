import { closeSync, existsSync, fstatSync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { flushFolder } from '../flush.ts';
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
const HEAD = /^ *\d{1,12} ( *\d{1,10}) [0-9a-f]{8}\n$/;
const HEAD_BYTES = 33;
const BLANK_HEAD = ' '.repeat(HEAD_BYTES);
/** How long the words of what is entered may stand in the log. */
const EMPTY_MS = 10_000;

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
  #inode: number | null = null;
  #emptying: ReturnType<typeof setTimeout> | undefined;

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

  /** Whether a ledger of this life, which has everything up to that place, would find what is written next. */
  isFoundAfter(life: string, { round }: TrayPlace): boolean {
    return life === this.#life && round === (this.#bytes > 0 ? this.#round : this.#round - 1);
  }

  /** Begins the round after a place of another ledger, or of the same as it was before. Only if everything is entered. */
  follow(life: string, after: TrayPlace): void {
    this.#life = life;
    this.#round = after.round + 1;
    this.#bytes = 0;
  }

  /** A round that neither we nor the ledger have used, for who has to say up to where it has everything. */
  unusedAfter(place: TrayPlace): TrayPlace {
    return { round: Math.max(place.round, this.#round) + 1, bytes: 0 };
  }

  /** Writes a sheet and returns the place behind it. If that fails, the next is written over it. */
  append(entries: Entry[]): TrayPlace {
    // Somebody has taken the file away since the last round.
    if (this.#bytes === 0 && inodeAt(this.#path) !== this.#inode) this.letGo();
    this.#fd ??= this.#open();
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
  async flush(alone = false): Promise<void> {
    await this.#log.flush(alone);
  }

  /** Somebody has removed the file under us, or put another in its place. */
  get isGone(): boolean {
    return this.#bytes > 0 && inodeAt(this.#path) !== this.#inode;
  }

  /** From the beginning, once all of it is in the ledger and the ledger is on disk. What it said does not stay for long. */
  beginAnew(life: string, onTrouble: (error: unknown) => void): void {
    this.#log.hasBegunAnew();
    this.#life = life;
    this.#round += 1;
    this.#bytes = 0;
    clearTimeout(this.#emptying);
    this.#emptying = setTimeout(() => this.#removeIfUnused(onTrouble), EMPTY_MS);
    this.#emptying.unref();
  }

  #removeIfUnused(onTrouble: (error: unknown) => void): void {
    try {
      if (this.#bytes === 0) this.remove();
    } catch (error) {
      onTrouble(error);
    }
  }

  /** Leaves nothing of what was said. Only at the beginning of a round, or when nothing more is appended. */
  remove(): void {
    this.letGo();
    rmSync(this.#path, { force: true });
  }

  /** The file stays as it is. */
  letGo(): void {
    clearTimeout(this.#emptying);
    const fd = this.#fd;
    this.#fd = null;
    this.#log.forget();
    if (fd !== null) closeSync(fd);
  }

  /** A file that nobody finds after a power cut would be as good as none. */
  #open(): number {
    const isNew = !existsSync(this.#path);
    const fd = openSync(this.#path, isNew ? 'wx+' : 'r+', 0o600);
    this.#inode = fstatSync(fd).ino;
    if (isNew) flushFolder(dirname(this.#path));
    return fd;
  }
}

/** Whether there may be something in it. */
export function hasTray(root: string): boolean {
  return existsSync(trayLogOf(root));
}

export function removeTray(root: string): void {
  rmSync(trayLogOf(root), { force: true });
}

/** Whether something stands at its beginning that was not written for this life of a ledger, in whichever round. */
export function isOfAnother(root: string, life: string): boolean {
  const fd = openSync(trayLogOf(root), 'r');
  try {
    const head = read(fd, HEAD_BYTES, 0)?.toString('latin1') ?? '';
    // Laid out, and nothing written yet.
    if (/^\0*$/.test(head)) return false;
    return sheetsOf(fd, life, { round: Number(head.slice(0, 12)), bytes: 0 }).next().done === true;
  } finally {
    closeSync(fd);
  }
}

/** It is of another ledger, and perhaps the only copy of something. */
export function setTrayAside(root: string): void {
  renameSync(trayLogOf(root), `${trayLogOf(root)}.damaged-${Date.now()}`);
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
    const length = Number(HEAD.exec(head)?.[1] ?? Infinity);
    const body = length <= fstatSync(fd).size - bytes ? read(fd, length, bytes + HEAD_BYTES) : null;
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

function inodeAt(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? null;
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
