// What is forgotten does not come back: a clock that jumps must not decide it.
import { expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { aClock } from '../../test/support/clock.ts';
import { temporaryHome } from '../../test/support/home.ts';
import { anEntry, bob } from '../../test/support/mail.ts';
import { openHome } from '../../test/support/maildir.ts';
import type { OpenHome } from '../../test/support/maildir.ts';
import type { Home } from '../core/mail/workspace.ts';
import type { Context } from './context.ts';
import { forgetDaily } from './retention.ts';

const DAY = 24 * 60 * 60 * 1000;
const KEEP = { keepBodies: 10 * DAY, keepFacts: 20 * DAY };

interface Used {
  root: string;
  opened: OpenHome;
  clock: ReturnType<typeof aClock>;
  look: () => Promise<void>;
  bodies: () => Promise<string[]>;
}

/** A home with one settled message, at which somebody may look. */
async function aUsedHome(): Promise<Used> {
  const clock = aClock();
  const root = temporaryHome();
  const opened = await openHome(root, { now: clock.now });
  const { id } = (await opened.mailboxes.put(anEntry({ body: 'said once' }))).message;
  const claim = await opened.mailboxes.claim(bob, [id], { ms: 1000 });
  await opened.mailboxes.settle(claim, [id], { disposition: 'acknowledged', by: {} });
  const context = { settings: KEEP, workspace: { now: clock.now }, log: () => {} } as unknown as Context;
  const home = { root, label: 'parley', journal: opened.journal } as unknown as Home;
  return {
    root,
    opened,
    clock,
    look: () => forgetDaily(context, home),
    bodies: async () => (await opened.journal.history({ limit: 10 })).map(({ message }) => message.body),
  };
}

it('a clock that jumps by 200 days forgets nothing, and nothing after it is right again', async () => {
  const { opened, clock, look, bodies } = await aUsedHome();
  await look();
  for (let day = 0; day < 5; day += 1) {
    clock.pass(200 * DAY);
    await look();
    clock.pass(-199 * DAY);
    await look();
  }
  expect(await bodies()).toEqual(['said once']);
  await opened.close();
});

it('a clock that stays ahead forgets only after as many days of use as the settings say', async () => {
  const { opened, clock, look, bodies } = await aUsedHome();
  clock.pass(200 * DAY);
  await look();
  const seen: string[][] = [];
  for (let day = 1; day <= 21; day += 1) {
    clock.pass(DAY);
    await look();
    if ([9, 10, 19, 20].includes(day)) seen.push(await bodies());
  }
  // The message is older than the first day that was noted: its body goes after ten days, the rest after twenty.
  expect(seen).toEqual([['said once'], [''], [''], []]);
  await opened.close();
});

it('a home of the first builds, which noted one day only, goes on from there', async () => {
  const { root, opened, clock, look, bodies } = await aUsedHome();
  writeFileSync(`${root}/pruned`, '');
  clock.pass(200 * DAY);
  await look();
  expect(await bodies()).toEqual(['said once']);
  await opened.close();
});
