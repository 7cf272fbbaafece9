import { expect, it } from 'bun:test';
import { copyFileSync, existsSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { anEntry } from '../../../test/support/mail.ts';
import { LogFile } from './log.ts';
import { openSqliteJournal } from './sqlite.ts';

/** A file that no system can flush. */
const UNFLUSHED = '/dev/full';
const onLinux = it.skipIf(!existsSync(UNFLUSHED));

onLinux('after a flush that failed no other proves anything, until the log was restarted', async () => {
  const path = `${temporaryHome()}/log`;
  symlinkSync(UNFLUSHED, path);
  const log = new LogFile(path);
  expect(await log.flush().catch(() => 'failed')).toBe('failed');
  rmSync(path);
  writeFileSync(path, 'a log');
  log.forget();
  expect(await log.flush().catch(() => 'failed')).toBe('failed');
  log.wasRestarted();
  await log.flush();
});

onLinux(
  'a ledger whose log could not be flushed answers for nothing before all of it stands in the ledger itself',
  async () => {
    const root = temporaryHome();
    const ledger = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' });
    const entry = anEntry();
    await ledger.acceptTogether([entry]);
    renameSync(`${root}/ledger.db-wal`, `${root}/wal`);
    symlinkSync(UNFLUSHED, `${root}/ledger.db-wal`);
    expect(await ledger.flush().catch(() => 'failed')).toBe('failed');
    rmSync(`${root}/ledger.db-wal`);
    renameSync(`${root}/wal`, `${root}/ledger.db-wal`);
    await ledger.flush();
    const disk = temporaryHome();
    for (const part of ['', '.id']) copyFileSync(`${root}/ledger.db${part}`, `${disk}/ledger.db${part}`);
    const found = openSqliteJournal({ path: `${disk}/ledger.db`, durability: 'normal' });
    expect((await found.message(entry.message.id))?.id).toBe(entry.message.id);
    await found.close();
    await ledger.close();
  },
);
