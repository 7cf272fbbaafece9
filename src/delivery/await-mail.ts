import { waitingMail } from '../core/mail/shared.ts';
import type { ReadMailbox } from '../core/mail/shared.ts';
import type { Selection } from '../core/mail/deliver.ts';
import type { WaitingMessage } from '../core/ports/mailboxes.ts';
import { Wakeup } from '../core/wait.ts';
import { isPushed } from './hand-over.ts';

/** In case a file event was lost. */
const LOOK_MS = 5000;

/**
 * Waits until one of these mailboxes has mail that would wake its reader, and says which. It takes nothing. What only waits to be asked for
 * does not count: it would wake the same reader again and again.
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

async function wakingMail(mailbox: ReadMailbox, selection: Selection): Promise<WaitingMessage[]> {
  const { name, home } = mailbox.who;
  const found: WaitingMessage[] = [];
  for (const one of await waitingMail(mailbox, selection)) {
    const copy = await home.journal.copy(name, one.message.id);
    if (copy?.state === 'stored' && isPushed(copy)) found.push(one);
  }
  return found;
}
