import { mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync } from 'node:fs';
import { deliver, waiting } from '../../src/core/mail/deliver.ts';
import type { Who } from '../../src/core/mail/workspace.ts';
import { FilesDirectory } from '../../src/store/directory/files.ts';
import { bob } from '../../test/support/mail.ts';
import { beside, notMeasured } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { fill, fillFolder, flushAll, openMailroom, TAKEN } from '../mailroom.ts';
import type { Mailroom } from '../mailroom.ts';
import { interleave } from '../measure.ts';

const FLOOR = 'readdir, then rename, read, parse, unlink each';

/** Emptying a full mailbox as `parley drain` does, compared with the shortest loop that could do it. */
export async function drainFigure(bench: Bench): Promise<Row[]> {
  const count = countFor(bench);
  const flushed = await drains(bench, bench.quick ? 3 : 4, flushAll);
  const what = `drain of ${count.toLocaleString('en')}`;
  const other = 'the same with files that were never flushed';
  const note = 'deleting a file that was flushed, as all sent mail is, costs this disk much more than all the rest';
  if (bench.quick) return [flushed(what, 2), notMeasured(other, FLOOR, null, 'left out by --quick')];
  const young = await drains(bench, 4, () => {});
  return [flushed(what, 2), young(other, null, note)];
}

/** Peeking into a full mailbox, compared with reading its files. */
export async function peekFigure(bench: Bench): Promise<Row[]> {
  const count = countFor(bench);
  const root = bench.fresh();
  fillFolder(`${root}/new`, count);
  const room = await openMailroom(bench.fresh());
  await fill(room, count);
  const times = await interleave(bench.quick ? 9 : 40, {
    bare: () => {
      const all: unknown[] = [];
      for (const name of readdirSync(`${root}/new`)) all.push(JSON.parse(readFileSync(`${root}/new/${name}`, 'utf8')));
    },
    peek: async () => {
      await room.mailboxes.peek(bob);
    },
  });
  await room.journal.close();
  const what = `peek with ${count.toLocaleString('en')} waiting`;
  return [beside(what, 'readdir, then read and parse each', null, times.peek, times.bare)];
}

function countFor(bench: Bench): number {
  return bench.quick ? 2000 : 10_000;
}

/** Measures drains. All homes are made beforehand, because creating files is slow after mass deletions. */
async function drains(bench: Bench, rounds: number, settleDown: () => void) {
  const count = countFor(bench);
  const warmUp = 1;
  const folders: string[] = [];
  const rooms: Mailroom[] = [];
  for (let n = 0; n < rounds + warmUp; n += 1) {
    const folder = bench.fresh();
    fillFolder(`${folder}/new`, count);
    mkdirSync(`${folder}/held`);
    folders.push(folder);
    const room = await openMailroom(bench.fresh());
    await fill(room, count);
    rooms.push(room);
  }
  settleDown();
  const acts = { bare: () => drainBare(folders.pop()), ours: () => drainAsCommand(count, rooms.pop()) };
  const times = await interleave(rounds, acts, warmUp);
  return (what: string, limit: number | null, note?: string): Row =>
    beside(what, FLOOR, limit, times.ours, times.bare, note);
}

function drainBare(folder = ''): void {
  for (const name of readdirSync(`${folder}/new`)) {
    renameSync(`${folder}/new/${name}`, `${folder}/held/${name}`);
    JSON.parse(readFileSync(`${folder}/held/${name}`, 'utf8'));
    unlinkSync(`${folder}/held/${name}`);
  }
}

/** Peeks first, then takes all messages and shows them together. */
async function drainAsCommand(count: number, room?: Mailroom): Promise<void> {
  if (!room) throw new Error('the bench made too few rooms');
  const { root, mailboxes, journal } = room;
  const home = {
    label: 'parley' as const,
    root,
    mailboxes,
    journal,
    directory: new FilesDirectory(root, Date.now),
  };
  const who: Who = { name: bob, home };
  const mail = (await waiting(who, {})).map(({ message }) => message);
  const taken = await deliver(who, mail, TAKEN, () => ({ show: () => {}, slow: true }));
  if (taken.length !== count) throw new Error('the drain was incomplete');
}
