import { expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import { anEntry } from '../../../test/support/mail.ts';
import { openSqliteLedger } from '../ledger/sqlite.ts';
import { Clerk } from './back-room-clerk.ts';
import type { Report } from './back-room-talk.ts';

it('a clerk that is told to end while it moves a long log ends, and asks nobody to wait any more', async () => {
  const root = temporaryHome();
  const ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
  ledger.leaveLog();
  const body = 'x'.repeat(4000);
  for (let n = 0; n < 20; n += 1) await ledger.acceptTogether(Array.from({ length: 100 }, () => anEntry({ body })));
  const said: Report['say'][] = [];
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const clerk = new Clerk(root, ({ say }) => {
    said.push(say);
    if (say === 'closed') resolve();
  });
  clerk.take({ say: 'file', turn: 1, mayFile: true, hurry: false });
  // Now it waits for more mail before it writes files.
  await new Promise((again) => setImmediate(again));
  clerk.take({ say: 'move log' });
  clerk.take({ say: 'close' });
  await closed;
  expect(said.filter((say) => say === 'hold' || say === 'drafted')).toEqual([]);
  await ledger.close();
});
