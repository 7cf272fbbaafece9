// A relay's storage at work until it is killed: `server-home.child.ts <home> <putters>`. Says every id that was answered, one a line.
import { writeSync } from 'node:fs';
import { SendKey } from '../../src/core/names.ts';
import { openServerHome } from './server-home.ts';
import { anEntry, bob, carol, LOUD, QUIET } from './mail.ts';

const [, , root = '', putters = '16'] = process.argv;
const { mailboxes } = await openServerHome(root);
const copies = [
  { mailbox: bob, attention: LOUD },
  { mailbox: carol, attention: QUIET },
];

let sent = 0;
await Promise.all(
  Array.from({ length: Number(putters) }, async () => {
    for (;;) {
      sent += 1;
      const key = SendKey.parse(`key-${sent}`);
      const { message } = await mailboxes.put(anEntry({ to: '#dev' }, { key, copies }));
      writeSync(1, `${message.id} ${key}\n`);
      // Readers are at work too: some copies are taken before they have a file, and some after.
      if (sent % 7 === 0) await take(message.id);
    }
  }),
);

async function take(id: Parameters<typeof mailboxes.claim>[1][number]): Promise<void> {
  const claim = await mailboxes.claim(bob, [id], { ms: 30_000 });
  const done = { disposition: 'acknowledged', by: { test: true } } as const;
  if (await mailboxes.settle(claim, [id], done)) writeSync(1, `taken ${id}\n`);
}
