import { Database } from 'bun:sqlite';
import { mkdirSync, openSync, renameSync, unlinkSync, writeSync } from 'node:fs';
import { bob } from '../../test/support/mail.ts';
import { beside } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { fill, fillFolder, flushAll, LEASE, openMailroom, TAKEN } from '../mailroom.ts';
import { interleave } from '../measure.ts';

const FLOOR = 'one rename and one transaction';

/** A claim, and a whole take, compared with one rename and one transaction. */
export async function takeFigure(bench: Bench): Promise<Row[]> {
  const rounds = bench.quick ? 500 : 2000;
  const count = rounds * 1.2;
  const bare = bareRoom(bench.fresh(), count);
  const claims = await fullRoom(bench, count);
  const takes = await fullRoom(bench, count);
  const times = await interleave(rounds, { bare: bare.take, claim: claims.claim, take: takes.take });
  const note = 'of files that were never flushed; deleting a flushed one costs more, and the floor deletes nothing';
  return [
    beside('claim', FLOOR, 2, times.claim, times.bare),
    beside('whole take: claim, show, settle, delete', FLOOR, 3.5, times.take, times.bare, note),
    await flushedTake(bench, rounds / 2),
  ];
}

/** A take of flushed mail, compared with a floor that also deletes. */
async function flushedTake(bench: Bench, rounds: number): Promise<Row> {
  const count = rounds * 1.2;
  const bare = bareRoom(bench.fresh(), count);
  const room = await fullRoom(bench, count);
  flushAll();
  const times = await interleave(rounds, { bare: bare.takeAndDelete, take: room.take });
  return beside('whole take of flushed mail', `${FLOOR} and one unlink`, null, times.take, times.bare);
}

interface FullRoom {
  claim: () => Promise<void>;
  take: () => Promise<void>;
}

/** A mailbox with mail, and functions that claim or take the next message. */
async function fullRoom(bench: Bench, count: number): Promise<FullRoom> {
  const { mailboxes, ...room } = await openMailroom(bench.fresh());
  const left = (await fill({ mailboxes, ...room }, count)).values();
  const nowhere = openSync('/dev/null', 'w');
  return {
    claim: async () => void (await mailboxes.claim(bob, [next(left)], LEASE)),
    take: async () => {
      const id = next(left);
      const claim = await mailboxes.claim(bob, [id], LEASE);
      await mailboxes.settle(claim, [id], TAKEN, () => {
        for (const { message } of claim.copies) writeSync(nowhere, message.body);
      });
    },
  };
}

interface BareRoom {
  take: () => void;
  takeAndDelete: () => void;
}

/** The floor: one row per message, and a file that is renamed when its row changes. */
function bareRoom(root: string, count: number): BareRoom {
  const names = fillFolder(`${root}/new`, count);
  mkdirSync(`${root}/held`);
  const db = new Database(`${root}/bare.db`, { create: true, strict: true });
  db.run('PRAGMA journal_mode = WAL');
  db.run('PRAGMA synchronous = NORMAL');
  db.run('CREATE TABLE copies (id TEXT PRIMARY KEY, state INTEGER NOT NULL, owner TEXT, until INTEGER) WITHOUT ROWID');
  db.run('BEGIN IMMEDIATE');
  const insert = db.query('INSERT INTO copies VALUES (?, 0, NULL, NULL)');
  for (const name of names) insert.run(name);
  db.run('COMMIT');
  const update = db.query('UPDATE copies SET state = 1, owner = ?, until = ? WHERE id = ? AND state = 0');
  const left = names.values();
  const take = (): string => {
    const name = next(left);
    db.run('BEGIN IMMEDIATE');
    update.run('bench.1.2.3', Date.now(), name);
    db.run('COMMIT');
    renameSync(`${root}/new/${name}`, `${root}/held/${name}`);
    return name;
  };
  return { take: () => void take(), takeAndDelete: () => unlinkSync(`${root}/held/${take()}`) };
}

function next<T>(values: IterableIterator<T>): T {
  const { value, done } = values.next();
  if (done) throw new Error('the bench made too few messages');
  return value;
}
