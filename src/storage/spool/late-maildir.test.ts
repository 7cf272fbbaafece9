import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { openLateHome } from '../../../test/support/late.ts';
import { bob } from '../../../test/support/mail.ts';
import { leaveFile } from '../../../test/support/maildir.ts';
import type { Message } from '../../protocol/message.ts';
import { spoolContract } from './spool.contract.ts';

spoolContract('late-maildir', subject);

async function subject() {
  const { now, pass } = aClock();
  const root = temporaryHome();
  const home = await openLateHome(root, { now });
  const opened = [home];
  const another = async () => {
    const other = await openLateHome(root, { now });
    opened.push(other);
    return other.spool;
  };
  return {
    ...home,
    pass,
    another,
    leave: (message: Message) => leaveFile(root, bob, `${message.id}.json`, JSON.stringify(message)),
    close: async () => {
      for (const one of opened) await one.close();
    },
  };
}
