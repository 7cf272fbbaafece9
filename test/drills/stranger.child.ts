// Another program in the same home, which knows nothing of the ledger: it leaves mail for bob, or takes some of his.
import { mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { aMessage, bob } from '../support/mail.ts';
import { leave, say, thePlan, toldToStop } from './at-work.ts';
import { Diary } from './diary.ts';

const { root, act } = thePlan() as { root: string; act: 'leave' | 'take' };
const box = `${root}/spool/${bob}`;
const elsewhere = `${root}/elsewhere`;
for (const folder of [`${box}/tmp`, `${box}/new`, elsewhere]) mkdirSync(folder, { recursive: true });
const diary = new Diary(root);
const isOver = toldToStop();
say({ ready: true });
while (!isOver()) {
  if (act === 'leave') leaveOne();
  else takeOne();
  // The one who takes is slow: most of the mail should meet our own readers.
  await Bun.sleep(Math.random() * (act === 'leave' ? 40 : 250));
}
leave();

function leaveOne(): void {
  const message = aMessage({ from: 'stranger', body: 'from elsewhere' });
  writeFileSync(`${box}/tmp/${message.id}.json`, JSON.stringify(message));
  renameSync(`${box}/tmp/${message.id}.json`, `${box}/new/${message.id}.json`);
  diary.write({ did: 'left', id: message.id });
}

/** By rename, like every Backchannel program. What it got lies in `elsewhere`. */
function takeOne(): void {
  const [name] = readdirSync(`${box}/new`);
  if (!name) return;
  try {
    renameSync(`${box}/new/${name}`, `${elsewhere}/${name}`);
  } catch {
    // A reader of ours was faster.
  }
}
