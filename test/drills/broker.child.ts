// One process at work in a c2c broker: it writes into bob's inbox, or takes from it until it is told to stop, and notes what it did.
import type { MessageId } from '../../src/core/names.ts';
import { openBrokerHome } from '../support/c2c-broker.ts';
import { anEntry, bob } from '../support/mail.ts';
import { leave, LEASE, say, standReady, TAKEN, thePlan, toldToStop } from './at-work.ts';
import { Diary } from './diary.ts';

export interface BrokerPlan {
  root: string;
  act: 'send' | 'take';
  count: number;
  /** What each message says, before its number. */
  said: string;
  /** Begin at once, because somebody will kill us. */
  hurry?: boolean;
}

const { root, act, count, said, hurry } = thePlan() as BrokerPlan;
const diary = new Diary(root);
const { mailboxes } = await openBrokerHome(root);
if (hurry) say({ ready: true });
else await standReady();
let longest = 0;
if (act === 'send') await send();
else await take();
say({ longest });
leave();

async function send(): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const start = performance.now();
    const { message } = await mailboxes.put(anEntry({ body: `${said} ${n}` }));
    longest = Math.max(longest, performance.now() - start);
    diary.write({ did: 'stored', id: message.id, key: `${said} ${n}` });
  }
}

async function take(): Promise<void> {
  const isOver = hurry ? () => false : toldToStop();
  for (let left = count; left > 0 && !isOver(); left -= 1) {
    await mailboxes.adopt(bob);
    await takeThese(await mailboxes.ids(bob));
    await Bun.sleep(2);
  }
}

async function takeThese(ids: MessageId[]): Promise<void> {
  const claim = await mailboxes.claim(bob, ids, LEASE);
  const mine = claim.copies.map(({ message }) => message.id);
  if (mine.length === 0) return;
  const isSettled = await mailboxes.settle(claim, mine, TAKEN, () => {
    diary.write(...claim.copies.map(({ message, attempt }) => ({ did: 'shown' as const, id: message.body, attempt })));
  });
  if (isSettled) diary.write(...claim.copies.map(({ message }) => ({ did: 'settled' as const, id: message.body })));
}
