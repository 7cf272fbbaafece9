import { openBrokerHome, leaveMessage } from '../../../test/support/c2c-broker.ts';
import { aClock } from '../../../test/support/clock.ts';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { bob } from '../../../test/support/mail.ts';
import { mailboxesContract } from '../../store/mailboxes.contract.ts';

mailboxesContract('c2c-broker', async () => {
  const { now, pass } = aClock();
  const root = quickFolder();
  const home = await openBrokerHome(root, { now });
  const opened = [home];
  const another = async () => {
    const other = await openBrokerHome(root, { now });
    opened.push(other);
    return other.mailboxes;
  };
  return {
    ...home,
    pass,
    another,
    leave: (message) => leaveMessage(root, bob, message),
    close: async () => {
      for (const one of opened) await one.close();
    },
  };
});
