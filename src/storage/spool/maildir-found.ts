import type { Lineage, Message } from '../../protocol/message.ts';
import type { MessageId } from '../../protocol/names.ts';

/** What a look into the folders of a mailbox found: copies that are not where they wait, and files that may have no row. */
export interface Found {
  missing: MessageId[];
  strangers: MessageId[];
}

/** The ledger is read before the folders are listed: so a copy that moves meanwhile is looked at once more, and not lost. */
export function compared(open: ReadonlyMap<MessageId, boolean>, loud: MessageId[], quiet: MessageId[]): Found {
  const here = new Set([...loud, ...quiet]);
  const missing: MessageId[] = [];
  for (const [id, hasFile] of open) if (hasFile && !here.has(id)) missing.push(id);
  return { missing, strangers: loud.filter((id) => !open.has(id)) };
}

/** A message with the lineage that we computed in place of the one that its file claims. */
export function withLineage(message: Message, lineage: Lineage | undefined): Message {
  const { lineage: claimed, ...extras } = message.parley ?? { v: 1 as const };
  if (!claimed && !lineage) return message;
  return { ...message, parley: { ...extras, ...(lineage && { lineage }) } };
}
