// A reader that takes everything of bob's in hand and lives: whatever dies around it, what it holds stays its own.
import { bob } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';
import { leave, LEASE, say, standReady, TAKEN, thePlan } from './at-work.ts';

const { root } = thePlan() as { root: string };
const { mailboxes } = await openHome(root);
const claim = await mailboxes.claim(bob, await mailboxes.ids(bob), LEASE);
const ids = claim.copies.map(({ message }) => message.id);
await standReady();
say({ held: ids.length, kept: await mailboxes.settle(claim, ids, TAKEN) });
leave();
