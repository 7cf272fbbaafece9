// Takes bob's mail until nothing waits any more, or so many were taken: says what it took and how long it ever waited.
import type { MessageId } from '../../src/core/names.ts';
import { Refusal } from '../../src/core/refusal.ts';
import type { Mailboxes } from '../../src/core/ports/mailboxes.ts';
import { bob } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';
import type { OpenHome } from '../support/maildir.ts';
import { LEASE, leave, say, standReady, TAKEN, thePlan } from './at-work.ts';

const { root, bite, most = Infinity } = thePlan() as { root: string; bite: number; most?: number };
let longest = 0;
let count = 0;
let refused = 0;

async function timed<T>(act: () => Promise<T>): Promise<T> {
  const start = performance.now();
  try {
    return await act();
  } finally {
    longest = Math.max(longest, performance.now() - start);
  }
}

let home: OpenHome | undefined;
await standReady();
for (let nothing = 0; nothing < 3;) {
  try {
    nothing = (await takeSome()) ? 0 : nothing + 1;
  } catch (error) {
    // A damaged ledger: every command says "run it again", so that is what we do.
    if (!(error instanceof Refusal) || refused > 100) throw error;
    refused += 1;
    home = undefined;
    Bun.sleepSync(5);
  }
  if (count >= most) break;
  if (nothing > 0) Bun.sleepSync(20);
}
say({ longest, count, refused });
leave();

/** Every reader begins somewhere else in the list, and meets the others all the same. */
async function takeSome(): Promise<boolean> {
  home ??= await timed(() => openHome(root));
  const { mailboxes } = home;
  const ids = await mailboxes.ids(bob);
  if (ids.length === 0) return false;
  const start = Math.floor(Math.random() * ids.length);
  const turned = [...ids.slice(start), ...ids.slice(0, start)];
  // A list is good for a few bites; then too much of it is in others' hands.
  for (let at = 0; at < Math.min(turned.length, 3 * bite) && count < most; at += bite) {
    await takeThese(mailboxes, turned.slice(at, at + bite));
  }
  return true;
}

async function takeThese(mailboxes: Mailboxes, ids: MessageId[]): Promise<void> {
  const claim = await timed(() => mailboxes.claim(bob, ids, LEASE));
  const mine: MessageId[] = claim.copies.map(({ message }) => message.id);
  if (mine.length === 0) return;
  const settled = await timed(() =>
    mailboxes.settle(claim, mine, TAKEN, () => {
      say(...claim.copies.map(({ message, attempt }) => ({ taken: message.id, attempt })));
    }),
  );
  if (settled) count += mine.length;
}
