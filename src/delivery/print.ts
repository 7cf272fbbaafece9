import { asOwed, claimedBy } from '../core/obligations/owed.ts';
import { deliver } from '../core/mail/deliver.ts';
import type { Delivered } from '../core/mail/deliver.ts';
import { takenBy } from '../core/mail/shared.ts';
import type { ReadMailbox } from '../core/mail/shared.ts';
import type { Who } from '../core/mail/workspace.ts';
import { isSlow, writeAll } from '../platform/terminal.ts';
import type { Attention } from '../core/attention/attention.ts';
import type { Message } from '../core/message.ts';
import type { MessageId } from '../core/names.ts';
import type { Evidence } from '../core/receipt.ts';

export interface PrintedMail {
  message: Message;
  attention?: Attention | undefined;
  attempt?: number;
  quiet?: boolean;
  held?: boolean;
}

/** Takes these messages and prints them in one write. If they cannot be printed, they still wait. */
export async function takeAndPrint(
  { who, taker }: ReadMailbox,
  mail: readonly (MessageId | Message)[],
  by: Evidence,
  render: (delivered: Delivered[]) => string,
  keep = false,
): Promise<Delivered[]> {
  const claimed = await claimedBy(who);
  return deliver(who, mail, { disposition: 'acknowledged', by, keep, ...takenBy(taker) }, (delivered) => {
    const text = render(
      delivered.map((one) => ({ ...one, attention: asOwed(one.attention, claimed.has(one.message.id)) })),
    );
    return { show: () => writeAll(1, text), slow: isSlow(1, text) };
  });
}

/** The evidence of a take by command: the command, the agent and the process. */
export function byCommand(command: string, who: Who): Evidence {
  return { by: command, agent: who.name, pid: process.pid };
}
