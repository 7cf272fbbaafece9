import { aClock } from '../../../test/support/clock.ts';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { bob } from '../../../test/support/mail.ts';
import { leaveFile, openHome } from '../../../test/support/maildir.ts';
import { mailboxesContract } from '../mailboxes.contract.ts';

mailboxesContract('maildir', async () => {
  const { now, pass } = aClock();
  const root = quickFolder();
  const home = await openHome(root, { now });
  const opened = [home];
  const another = async () => {
    const other = await openHome(root, { now });
    opened.push(other);
    return other.mailboxes;
  };
  return {
    ...home,
    pass,
    another,
    leave: (message) => leaveFile(root, bob, `${message.id}.json`, JSON.stringify(message)),
    close: async () => {
      for (const one of opened) await one.close();
    },
  };
});
