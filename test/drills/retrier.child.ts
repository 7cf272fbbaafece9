// Sends under a row of keys, each several times, as a client does that got no answer.
import { SendKey } from '../../src/core/names.ts';
import { anEntry } from '../support/mail.ts';
import { openHome } from '../support/maildir.ts';
import { leave, say, standReady, thePlan } from './at-work.ts';

const { root, rounds, tries } = thePlan() as { root: string; rounds: number; tries: number };
const { mailboxes } = await openHome(root);
await standReady();
for (let round = 0; round < rounds; round += 1) {
  const key = SendKey.parse(`round-${round}`);
  for (let n = 0; n < tries; n += 1) {
    const { message, first } = await mailboxes.put(anEntry({ body: `round ${round}` }, { key }));
    say({ key, stored: message.id, first });
    // Long enough for a reader to be anywhere between seeing the message and settling it.
    await Bun.sleep(Math.random() * 2);
  }
}
leave();
