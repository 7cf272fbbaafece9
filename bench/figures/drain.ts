import { mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync } from 'node:fs';
import { deliver, waiting } from '../../src/flow/deliver.ts';
import type { Who } from '../../src/flow/desk.ts';
import { FilesDirectory } from '../../src/storage/directory/files.ts';
import { bob } from '../../test/support/mail.ts';
import { beside } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { fill, fillFolder, LEASE, openMailroom, TAKEN } from '../mailroom.ts';
import type { Mailroom } from '../mailroom.ts';
import { interleave } from '../measure.ts';

const COUNT = 10_000;

/** Emptying a full mailbox, beside the barest loop that could do it. */
export async function drainFigure(bench: Bench): Promise<Row[]> {
  const rounds = bench.quick ? 2 : 5;
  // One more for the round that is not counted; all made beforehand, because creating files is slow after mass deletions.
  const bare = Array.from({ length: rounds + 1 }, () => bench.fresh());
  for (const root of bare) {
    fillFolder(`${root}/new`, COUNT);
    mkdirSync(`${root}/held`);
  }
  const rooms = await fullRooms(bench, rounds + 1);
  const commands = await fullRooms(bench, rounds + 1);
  const times = await interleave(
    rounds,
    {
      bare: () => drainBare(bare.pop() ?? ''),
      spool: () => drainSpool(next(rooms)),
      command: () => drainAsCommand(next(commands)),
    },
    1,
  );
  const floor = 'readdir, then rename, read, parse, unlink each';
  return [
    beside('drain of 10,000 from the spool', floor, 1.5, times.spool, times.bare),
    beside('drain of 10,000 as the command does it: look first, then take', floor, null, times.command, times.bare),
  ];
}

/** Looking at a full mailbox, beside reading the files. */
export async function peekFigure(bench: Bench): Promise<Row[]> {
  const root = bench.fresh();
  fillFolder(`${root}/new`, COUNT);
  const room = await openMailroom(bench.fresh());
  await fill(room, COUNT);
  const times = await interleave(bench.quick ? 5 : 20, {
    bare: () => {
      for (const name of readdirSync(`${root}/new`)) JSON.parse(readFileSync(`${root}/new/${name}`, 'utf8'));
    },
    peek: async () => {
      await room.spool.peek(bob);
    },
  });
  await room.ledger.close();
  const floor = 'readdir, then read and parse each';
  return [beside('peek with 10,000 waiting', floor, 1.25, times.peek, times.bare)];
}

async function fullRooms(bench: Bench, count: number): Promise<Mailroom[]> {
  const rooms: Mailroom[] = [];
  for (let n = 0; n < count; n += 1) {
    const room = await openMailroom(bench.fresh());
    await fill(room, COUNT);
    rooms.push(room);
  }
  return rooms;
}

function drainBare(root: string): void {
  for (const name of readdirSync(`${root}/new`)) {
    renameSync(`${root}/new/${name}`, `${root}/held/${name}`);
    JSON.parse(readFileSync(`${root}/held/${name}`, 'utf8'));
    unlinkSync(`${root}/held/${name}`);
  }
}

async function drainSpool({ spool }: Mailroom): Promise<void> {
  const claim = await spool.claim(bob, await spool.ids(bob), LEASE);
  const ids = claim.copies.map(({ message }) => message.id);
  if (ids.length !== COUNT || !(await spool.settle(claim, ids, TAKEN))) throw new Error('the drain was incomplete');
}

async function drainAsCommand({ root, spool, ledger }: Mailroom): Promise<void> {
  const home = { label: 'parley' as const, root, spool, ledger, directory: new FilesDirectory(root, Date.now) };
  const who: Who = { name: bob, home };
  const ids = (await waiting(who, {})).map(({ message }) => message.id);
  const taken = await deliver(who, ids, TAKEN, () => ({ show: () => {}, slow: true }));
  if (taken.length !== COUNT) throw new Error('the drain was incomplete');
}

function next(rooms: Mailroom[]): Mailroom {
  const room = rooms.pop();
  if (!room) throw new Error('the bench made too few rooms');
  return room;
}
