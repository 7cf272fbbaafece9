import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { openServerHome } from '../../../test/support/server-home.ts';
import { bob } from '../../../test/support/mail.ts';
import { leaveFile } from '../../../test/support/maildir.ts';
import type { Message } from '../../core/message.ts';
import { mailboxesContract } from '../mailboxes.contract.ts';

mailboxesContract('exported-maildir', subject);

async function subject() {
  const { now, pass } = aClock();
  const root = temporaryHome();
  const home = await openServerHome(root, { now });
  const opened = [home];
  const another = async () => {
    const other = await openServerHome(root, { now });
    opened.push(other);
    return other.mailboxes;
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
