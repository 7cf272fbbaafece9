// One process at work that may die at any moment: it sends or takes, and notes in the drill's diary what it did.
import type { MessageId } from '../../src/core/names.ts';
import { SendKey } from '../../src/core/names.ts';
import { anEntry, bob, carol, LOUD, QUIET } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';
import { leave, LEASE, say, TAKEN, thePlan } from './at-work.ts';
import { Diary } from './diary.ts';

export interface WorkPlan {
  root: string;
  act: 'send' | 'take';
  /** The first of the keys to send under: others send under the same ones. */
  from: number;
  count: number;
  /** Die at this step, the nth time it is reached. */
  step?: string | undefined;
  nth?: number;
}

const { root, act, from, count, step, nth = 1 } = thePlan() as WorkPlan;
const diary = new Diary(root);
let left = nth;

function onStep(reached: string): void {
  if (reached !== step) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
}

const { mailboxes } = await openHome(root, { onStep });
// From here on it is worth killing us.
say({ ready: true });
if (act === 'send') await send();
else await take();
leave();

/** To a loud and a quiet mailbox: between the two a send can be half done. */
async function send(): Promise<void> {
  const copies = [
    { mailbox: bob, attention: LOUD },
    { mailbox: carol, attention: QUIET },
  ];
  for (let n = from; n < from + count; n += 1) {
    const key = SendKey.parse(`key-${n}`);
    const { message } = await mailboxes.put(anEntry({ to: '#dev', body: `text ${n}` }, { key, copies }));
    diary.write({ did: 'stored', id: message.id, key });
    await Bun.sleep(Math.random() * 4);
  }
}

/** A few at a time, the way a reader does that prints what it took. */
async function take(): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const ids = (await mailboxes.ids(bob)).slice(0, 1 + Math.floor(Math.random() * 4));
    if (ids.length > 0) await takeThese(ids);
    await Bun.sleep(Math.random() * 10);
  }
}

async function takeThese(ids: MessageId[]): Promise<void> {
  const claim = await mailboxes.claim(bob, ids, LEASE);
  const mine = claim.copies.map(({ message }) => message.id);
  if (mine.length === 0) return;
  const settled = await mailboxes.settle(claim, mine, TAKEN, () => {
    diary.write(...claim.copies.map(({ message, attempt }) => ({ did: 'shown' as const, id: message.id, attempt })));
  });
  if (settled) diary.write(...mine.map((id) => ({ did: 'settled' as const, id })));
  else diary.write({ did: 'gave up' });
}
