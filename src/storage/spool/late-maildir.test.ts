import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { openLateHome } from '../../../test/support/late.ts';
import { bob } from '../../../test/support/mail.ts';
import { leaveFile } from '../../../test/support/maildir.ts';
import type { Message } from '../../protocol/message.ts';
import type { MessageId } from '../../protocol/names.ts';
import type { Rush } from './late-group.ts';
import { spoolContract } from './spool.contract.ts';

spoolContract('late-maildir', () => subject());

// The same when every single message is a rush: it lies in the tray until somebody asks.
spoolContract(
  'late-maildir in a rush',
  async () => {
    const { spool, ...rest } = await subject({ atOnce: 1, withinMs: 25, unreadMs: 0 });
    const put = spool.put.bind(spool);
    const known = new Set<MessageId>();
    // A relay makes the ids of what it accepts.
    spool.put = (entry) => {
      const isNew = !entry.key && !known.has(entry.message.id);
      known.add(entry.message.id);
      return put(isNew ? { ...entry, fresh: true } : entry);
    };
    return { ...rest, spool, ledger: spool.ledger };
  },
  { isLate: true },
);

async function subject(rush?: Rush) {
  const { now, pass } = aClock();
  const root = temporaryHome();
  const options = { now, ...(rush !== undefined && { rush }) };
  const home = await openLateHome(root, options);
  const opened = [home];
  const another = async () => {
    const other = await openLateHome(root, options);
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
