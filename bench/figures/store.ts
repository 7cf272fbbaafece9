import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { aMessage, bob, copiesFor } from '../../test/support/mail.ts';
import { beside } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY, openMailroom } from '../mailroom.ts';
import { interleave } from '../measure.ts';

/** A durable send, compared with the least that it must do: write, flush, rename, flush the folder. */
export async function storeFigure(bench: Bench): Promise<Row[]> {
  const rounds = bench.quick ? 150 : 1000;
  const normal = await openMailroom(bench.fresh());
  const full = await openMailroom(bench.fresh(), 'full');
  const bare = bench.fresh();
  for (const folder of ['tmp', 'new']) mkdirSync(`${bare}/${folder}`);
  const put = async ({ mailboxes }: typeof normal): Promise<void> => {
    await mailboxes.put({ message: aMessage({ body: BODY }), copies: copiesFor(bob) });
  };
  const times = await interleave(rounds, {
    bare: () => storeBare(bare, crypto.randomUUID(), JSON.stringify(aMessage({ body: BODY }))),
    normal: () => put(normal),
    full: () => put(full),
  });
  await normal.journal.close();
  await full.journal.close();
  const floor = 'write, flush, rename, flush the folder';
  return [
    beside('durable send inside a process', floor, 2, times.normal, times.bare),
    beside('the same with durability = full', floor, null, times.full, times.bare),
  ];
}

export function storeBare(root: string, id: string, text: string): void {
  const draft = openSync(`${root}/tmp/${id}.json`, 'wx', 0o600);
  writeSync(draft, text);
  fsyncSync(draft);
  closeSync(draft);
  renameSync(`${root}/tmp/${id}.json`, `${root}/new/${id}.json`);
  const folder = openSync(`${root}/new`, 'r');
  fsyncSync(folder);
  closeSync(folder);
}
