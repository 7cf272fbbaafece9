// Takes every message for bob as soon as it comes, one by one, until it is told to stop and nothing waits.
import { bob } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';
import { LEASE, leave, say, standReady, TAKEN, thePlan, toldToStop } from './at-work.ts';

const { root } = thePlan() as { root: string };
const { mailboxes } = await openHome(root);
await standReady();
const isOver = toldToStop();
for (;;) {
  const [id] = await mailboxes.ids(bob);
  if (id) {
    const claim = await mailboxes.claim(bob, [id], LEASE);
    if (claim.copies.length > 0) await mailboxes.settle(claim, [id], TAKEN, () => say({ taken: id }));
  } else if (isOver()) break;
  else await Bun.sleep(0);
}
leave();
