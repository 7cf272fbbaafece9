import { expect, it } from 'bun:test';
import { readdirSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { anEntry } from '../../test/support/mail.ts';
import { FilesDirectory } from '../storage/directory/files.ts';
import { ExportedMaildir } from '../storage/spool/exported-maildir.ts';
import { lazyHome } from './wiring-home.ts';

it('a home whose spool cannot finish is closed all the same, and can be opened again', async () => {
  const root = temporaryHome();
  let isFull = true;
  const open = () =>
    lazyHome('bch', root, 'normal', new FilesDirectory(root, Date.now), (parts) => {
      const spool = new ExportedMaildir(parts);
      const flush = spool.flush.bind(spool);
      spool.flush = () => (isFull ? Promise.reject(new Error('no room')) : flush());
      return spool;
    });
  const first = open();
  await first.home.spool.heal();
  expect(await first.close().catch(String)).toContain('no room');
  isFull = false;
  const second = open();
  await second.home.spool.heal();
  // The first holds nothing any more: here files are written again.
  await second.home.spool.put(anEntry());
  await second.home.spool.flush();
  expect(readdirSync(`${root}/spool/bob/new`)).toHaveLength(1);
  await second.close();
});
