import { isSelected } from '../core/mail/deliver.ts';
import type { Selection } from '../core/mail/deliver.ts';
import type { ReadMailbox } from '../core/mail/shared.ts';
import { byTime } from '../core/message.ts';
import type { WaitingMessage } from '../core/ports/mailboxes.ts';
import { Wakeup } from '../core/wait.ts';
import { isPushed } from './hand-over.ts';

/** Mailboxes are also read at this interval, in case a file event was lost. */
const LOOK_MS = 5000;

/**
 * Waits until one of these mailboxes has mail that would wake its reader, and returns that mail. Takes nothing. Mail that only waits to be
 * asked for does not count: it would wake the same reader again and again.
 */
export async function awaitMail(
  mailboxes: readonly ReadMailbox[],
  selection: Selection,
  stop: AbortSignal,
): Promise<WaitingMessage[]> {
  const wakeup = new Wakeup();
  const watches = mailboxes.map(({ who }) => who.home.mailboxes.watch(who.name, () => wakeup.notify()));
  try {
    while (!stop.aborted) {
      const found: WaitingMessage[] = [];
      for (const mailbox of mailboxes) found.push(...(await wakingMail(mailbox, selection)));
      if (found.length > 0) return found;
      await wakeup.nextWithin(LOOK_MS, stop);
    }
    return [];
  } finally {
    for (const watch of watches) watch.close();
    wakeup.close();
  }
}

/** The mail that would wake the reader. Reads no quiet mail: a reader that a hook gave a knock or pointer knows of that message already. */
async function wakingMail({ who, taker }: ReadMailbox, selection: Selection): Promise<WaitingMessage[]> {
  const { name, home } = who;
  const found: WaitingMessage[] = [];
  await home.mailboxes.adopt(name);
  for (const id of await home.mailboxes.ids(name, true)) {
    const copy = await home.journal.copy(name, id);
    const one = copy?.state === 'stored' && isPushed(copy) ? await home.mailboxes.read(name, id) : null;
    // A session does not take its own messages from a shared mailbox.
    if (one && one.message.from !== taker && isSelected(one, selection)) found.push(one);
  }
  return found.sort((a, b) => byTime(a.message, b.message));
}
