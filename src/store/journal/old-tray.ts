import type { Database } from 'bun:sqlite';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { codeOf, isDiskFull } from '../../core/disk.ts';
import type { JournalConnection } from './connection.ts';
import type { Entry } from '../../core/ports/journal.ts';
import { exportLock } from './log.ts';
import { metaOf, setMeta } from './meta.ts';

/** A position: the round (how often the file was written from its start) and the offset in bytes. */
type Place = { round: number; bytes: number };

/** The head of a batch: the round, the length of its body in bytes, and a checksum. */
const HEAD = /^ *\d{1,12} ( *\d{1,10}) [0-9a-f]{8}\n$/;
const HEAD_BYTES = 33;

/** The errors of a row that SQLite can never accept. */
const NEVER = /^SQLITE_(?:CONSTRAINT|TOOBIG|MISMATCH)/;

/**
 * Enters `ledger.db.tray` into the journal and removes it. The file has mail that a relay of an older version answered, but did not enter
 * before it died. The file of a living relay is left alone. On a full disk it stays, and the next heal tries again. If a part of it cannot
 * be entered, or it belongs to another journal, it is kept as `ledger.db.tray.damaged-<time>`.
 */
export function importOldTray(
  connection: JournalConnection,
  isExporter: boolean,
  accept: (db: Database, entries: Entry[]) => void,
): void {
  const path = `${connection.options.path}.tray`;
  if (!existsSync(path)) return;
  const lock = isExporter ? null : exportLock(connection.options.path);
  if (!lock && !isExporter) return;
  try {
    const file = readFileSync(path);
    // Flush before the file is removed. This also flushes the entries that the dead relay made itself.
    const isWhole = connection.writeFlushed((db) => enterAll(db, file, accept));
    if (isWhole) rmSync(path);
    else renameSync(path, `${path}.damaged-${Date.now()}`);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  } finally {
    lock?.release();
  }
}

/** Enters the entries that the journal does not have yet, and records the position reached. Returns false if any was left out. */
function enterAll(db: Database, file: Buffer, accept: (db: Database, entries: Entry[]) => void): boolean {
  const life = metaOf(db, 'generation') ?? '';
  const [round = 0, bytes = 0] = (metaOf(db, 'tray') ?? '').split(' ').map(Number);
  let isWhole = isOf(file, life);
  let end: Place = { round, bytes };
  for (const from of [end, { round: round + 1, bytes: 0 }]) {
    for (const { entries, place } of batches(file, life, from)) {
      for (const entry of entries) isWhole = enterOne(db, () => accept(db, [entry])) && isWhole;
      end = place;
    }
  }
  setMeta(db, 'tray', `${end.round} ${end.bytes}`);
  return isWhole;
}

function enterOne(db: Database, enter: () => void): boolean {
  db.run('SAVEPOINT one');
  try {
    enter();
    return true;
  } catch (error) {
    if (!NEVER.test(codeOf(error) ?? '')) throw error;
    db.run('ROLLBACK TO one');
    return false;
  } finally {
    if (db.inTransaction) db.run('RELEASE one');
  }
}

/** True if the file was written for this journal, or nothing was written to it. */
function isOf(file: Buffer, life: string): boolean {
  const head = file.toString('latin1', 0, HEAD_BYTES);
  return /^\0*$/.test(head) || !batches(file, life, { round: Number(head.slice(0, 12)), bytes: 0 }).next().done;
}

/** The batches from a position on, in the same round. Ends at a batch that is incomplete. */
function* batches(file: Buffer, life: string, from: Place): Generator<{ entries: Entry[]; place: Place }> {
  const { round } = from;
  for (let { bytes } = from; ;) {
    const head = file.toString('latin1', bytes, bytes + HEAD_BYTES);
    const length = Number(HEAD.exec(head)?.[1] ?? NaN);
    const body = file.subarray(bytes + HEAD_BYTES, bytes + HEAD_BYTES + length);
    if (body.length !== length || headOf(body, life, round) !== head) return;
    bytes += HEAD_BYTES + length;
    yield { entries: entriesIn(body.toString('utf8')), place: { round, bytes } };
  }
}

function headOf(body: Uint8Array, life: string, round: number): string {
  const sum = Bun.hash.crc32(body, Bun.hash.crc32(`${life} ${round}`));
  return `${String(round).padStart(12)} ${String(body.length).padStart(10)} ${sum.toString(16).padStart(8, '0')}\n`;
}

/** Each entry is two lines: the message, and its other fields. */
function entriesIn(body: string): Entry[] {
  const lines = body.split('\n');
  return Array.from({ length: lines.length >> 1 }, (_, n) => {
    const [text = '', rest = ''] = lines.slice(2 * n, 2 * n + 2);
    return { ...(JSON.parse(rest) as Omit<Entry, 'message'>), message: JSON.parse(text) as Entry['message'], text };
  });
}
