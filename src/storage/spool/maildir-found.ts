import type { Lineage, Message } from '../../protocol/message.ts';
import type { MessageId } from '../../protocol/names.ts';

/** What a look into the folders of a mailbox found: copies that are not where they wait, and files that may have no row. */
export interface Found {
  missing: MessageId[];
  strangers: MessageId[];
}

/** The ledger is read before the folders are listed: so a copy that moves meanwhile is looked at once more, and not lost. */
export function compared(
  open: ReadonlyMap<MessageId, boolean>,
  loud: ReadonlySet<MessageId>,
  quiet: ReadonlySet<MessageId>,
): Found {
  const found: Found = { missing: [], strangers: [] };
  for (const [id, hasFile] of open) if (hasFile && !loud.has(id) && !quiet.has(id)) found.missing.push(id);
  for (const id of loud) if (!open.has(id)) found.strangers.push(id);
  return found;
}

/** A message with the lineage that we computed in place of the one that its file claims. */
export function withLineage(message: Message, lineage: Lineage | undefined): Message {
  const { lineage: claimed, ...extras } = message.parley ?? { v: 1 as const };
  if (!claimed && !lineage) return message;
  return { ...message, parley: { ...extras, ...(lineage && { lineage }) } };
}
