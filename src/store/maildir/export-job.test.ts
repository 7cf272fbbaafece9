// An export worker that cannot open a home's journal: no caller waits for ever, and the worker still does what it was asked when it can.
import { expect, it } from 'bun:test';
import { mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, bob, LOUD } from '../../../test/support/mail.ts';
import { leaveFile } from '../../../test/support/maildir.ts';
import { within } from '../../../test/support/within.ts';
import type { MessageId } from '../../core/names.ts';
import { openSqliteJournal } from '../journal/sqlite.ts';
import { ExportJob } from './export-job.ts';
import type { Report } from './export-messages.ts';
import { ExportedMaildir } from './exported-maildir.ts';

/** Lets no process open this home's journal until the returned function is called. Processes that have it open are not affected. */
function blockJournal(root: string): () => void {
  const lock = `${root}/ledger.db.lock`;
  rmSync(lock);
  mkdirSync(lock);
  return () => rmdirSync(lock);
}

it('a relay whose export worker cannot open the journal at first writes files and checks mailboxes once it can', async () => {
  const root = temporaryHome();
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' });
  const unblock = blockJournal(root);
  const troubles: unknown[] = [];
  const received: MessageId[] = [];
  const judge = async () => ({ attention: LOUD, lineage: undefined });
  const onTrouble = (error: unknown): void => void troubles.push(error);
  const mailboxes = new ExportedMaildir({ root, journal, judge, now: Date.now, onTrouble, mostUnexported: 5 });
  const watch = mailboxes.watch(bob, (mail) => received.push(JSON.parse(mail?.text ?? '').id));
  // More copies than may wait for their files: the senders must not wait for ever.
  for (let n = 0; n < 20; n += 1) await mailboxes.put(anEntry());
  await mailboxes.flush();
  expect(troubles).not.toEqual([]);
  expect(await journal.unexportedCount(100)).toBe(20);
  unblock();
  await within(20_000, async () => (await journal.unexportedCount(1)) === 0);
  expect(readdirSync(`${root}/spool/bob/new`)).toHaveLength(20);
  const added = aMessage();
  leaveFile(root, bob, `${added.id}.json`, JSON.stringify(added));
  await within(20_000, async () => received.includes(added.id));
  watch.close();
  await mailboxes.close();
  await journal.close();
});

it('an export worker that cannot open the journal answers every request with the error, and can be closed', async () => {
  const root = temporaryHome();
  await openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal' }).close();
  const unblock = blockJournal(root);
  const reports: Report[] = [];
  let notify = (): void => {};
  const job = new ExportJob(root, (what) => {
    reports.push(what);
    notify();
  });
  const answerTo = async (request: Parameters<ExportJob['take']>[0], many: number): Promise<Report['say'][]> => {
    job.take(request);
    while (reports.length < many) await new Promise<void>((resolve) => (notify = resolve));
    return reports.splice(0).map(({ say }) => say);
  };
  expect(await answerTo({ do: 'export', turn: 7, isUrgent: false }, 2)).toEqual(['trouble', 'idle']);
  // After a failure the worker pauses, unless the request is urgent.
  expect(await answerTo({ do: 'export', turn: 8, isUrgent: false }, 1)).toEqual(['idle']);
  expect(await answerTo({ do: 'export', turn: 9, isUrgent: true }, 2)).toEqual(['trouble', 'idle']);
  expect(await answerTo({ do: 'look', ticket: 1, mailbox: bob }, 1)).toEqual(['failed']);
  expect(await answerTo({ do: 'close' }, 1)).toEqual(['closed']);
  unblock();
});
