// A back room that cannot open a home's ledger: nobody waits for it for ever, and it comes back to what it was told.
import { expect, it } from 'bun:test';
import { mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, anEntry, bob, LOUD } from '../../../test/support/mail.ts';
import { leaveFile } from '../../../test/support/maildir.ts';
import { within } from '../../../test/support/within.ts';
import type { MessageId } from '../../protocol/names.ts';
import { openSqliteLedger } from '../ledger/sqlite.ts';
import { Desk } from './back-room-desk.ts';
import type { Report } from './back-room-talk.ts';
import { LateMaildir } from './late-maildir.ts';

/** Whoever has this home's ledger open goes on; nobody else can open it until the returned function is called. */
function shut(root: string): () => void {
  const lock = `${root}/ledger.db.lock`;
  rmSync(lock);
  mkdirSync(lock);
  return () => rmdirSync(lock);
}

it('a relay whose back room cannot open the ledger at first writes its files and looks around when it can', async () => {
  const root = temporaryHome();
  const ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
  const mend = shut(root);
  const troubles: unknown[] = [];
  const told: MessageId[] = [];
  const judge = async () => ({ attention: LOUD, lineage: undefined });
  const onTrouble = (error: unknown): void => void troubles.push(error);
  const spool = new LateMaildir({ root, ledger, judge, now: Date.now, onTrouble, mostUnfiled: 5 });
  const watch = spool.watch(bob, (mail) => told.push(JSON.parse(mail?.text ?? '').id));
  // More than may wait for their files, and an end to the wait for them.
  for (let n = 0; n < 20; n += 1) await spool.put(anEntry());
  await spool.flush();
  expect(troubles).not.toEqual([]);
  expect(await ledger.unfiledCount(100)).toBe(20);
  mend();
  await within(20_000, async () => (await ledger.unfiledCount(1)) === 0);
  expect(readdirSync(`${root}/spool/bob/new`)).toHaveLength(20);
  const brought = aMessage();
  leaveFile(root, bob, `${brought.id}.json`, JSON.stringify(brought));
  await within(20_000, async () => told.includes(brought.id));
  watch.close();
  await spool.close();
  await ledger.close();
});

it('a relay whose back room cannot open the ledger answers whoever asks for a look, and ends when it is told to', async () => {
  const root = temporaryHome();
  await openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' }).close();
  const mend = shut(root);
  const said: Report[] = [];
  const desk = new Desk(root, (what) => said.push(what));
  const answerTo = (order: Parameters<Desk['take']>[0]): Report['say'][] => {
    desk.take(order);
    return said.splice(0).map(({ say }) => say);
  };
  expect(answerTo({ say: 'file', turn: 7, mayFile: true, hurry: false })).toEqual(['trouble', 'idle']);
  expect(answerTo({ say: 'file', turn: 8, mayFile: true, hurry: false })).toEqual(['idle']);
  expect(answerTo({ say: 'watch', mailbox: bob, since: 0 })).toEqual([]);
  expect(answerTo({ say: 'look', ticket: 1, mailbox: bob })).toEqual(['failed']);
  expect(answerTo({ say: 'list', ticket: 2, folder: root })).toEqual(['failed']);
  expect(answerTo({ say: 'close' })).toEqual(['closed']);
  mend();
});
