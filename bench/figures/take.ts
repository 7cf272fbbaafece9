import { Database } from 'bun:sqlite';
import { closeSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { bob } from '../../test/support/mail.ts';
import { beside } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { fill, fillFolder, LEASE, openMailroom, TAKEN } from '../mailroom.ts';
import { interleave } from '../measure.ts';

/** A claim, and a whole take, beside one rename and one transaction. */
export async function takeFigure(bench: Bench): Promise<Row[]> {
  const rounds = bench.quick ? 500 : 2000;
  const count = rounds * 1.2;
  const bare = await bareRoom(bench.fresh(), count);
  const claimed = await openMailroom(bench.fresh());
  const claimIds = (await fill(claimed, count)).values();
  const taken = await openMailroom(bench.fresh());
  const takeIds = (await fill(taken, count)).values();
  const nowhere = openSync('/dev/null', 'w');
  const times = await interleave(rounds, {
    bare: bare.take,
    claim: async () => {
      await claimed.spool.claim(bob, [next(claimIds)], LEASE);
    },
    take: async () => {
      const id = next(takeIds);
      const claim = await taken.spool.claim(bob, [id], LEASE);
      await taken.spool.settle(claim, [id], TAKEN, () => {
        for (const { message } of claim.copies) writeSync(nowhere, message.body);
      });
    },
  });
  closeSync(nowhere);
  bare.close();
  await claimed.ledger.close();
  await taken.ledger.close();
  const floor = 'one rename and one transaction';
  return [
    beside('claim', floor, 2, times.claim, times.bare),
    beside('whole take: claim, show, settle, delete', floor, 3.5, times.take, times.bare),
  ];
}

/** One row per message, and a file that moves when its row changes. */
async function bareRoom(root: string, count: number): Promise<{ take: () => void; close: () => void }> {
  const names = fillFolder(`${root}/new`, count);
  mkdirSync(`${root}/held`);
  const db = new Database(`${root}/bare.db`, { create: true, strict: true });
  db.run('PRAGMA journal_mode = WAL');
  db.run('PRAGMA synchronous = NORMAL');
  db.run('PRAGMA wal_autocheckpoint = 200');
  db.run('CREATE TABLE copies (id TEXT PRIMARY KEY, state INTEGER NOT NULL, owner TEXT, until INTEGER) WITHOUT ROWID');
  db.run('BEGIN IMMEDIATE');
  const insert = db.query('INSERT INTO copies VALUES (?, 0, NULL, NULL)');
  for (const name of names) insert.run(name);
  db.run('COMMIT');
  const update = db.query('UPDATE copies SET state = 1, owner = ?, until = ? WHERE id = ? AND state = 0');
  const left = names.values();
  return {
    take: () => {
      const name = next(left);
      db.run('BEGIN IMMEDIATE');
      update.run('bench.1.2.3', Date.now(), name);
      db.run('COMMIT');
      renameSync(`${root}/new/${name}`, `${root}/held/${name}`);
    },
    close: () => db.close(),
  };
}

function next<T>(values: IterableIterator<T>): T {
  const { value, done } = values.next();
  if (done) throw new Error('the bench made too few messages');
  return value;
}
