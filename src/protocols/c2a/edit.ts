import { receipt } from '../../core/receipt.ts';
import type { Obligation } from '../../core/obligations/rules.ts';
import { composeMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import { isMessageId } from '../../core/names.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Copy, CopyRecord } from '../../core/ports/journal.ts';
import { attend, exchangeOf } from '../../core/mail/attend.ts';
import type { Workspace, Home } from '../../core/mail/workspace.ts';
import { discharge, endObligation, enterObligations } from '../../core/obligations/obligation.ts';
import { refuseTooLarge } from '../../core/mail/send.ts';
import type { Sent } from '../../core/mail/send.ts';
import type { ChatContent } from './content.ts';

/** The most versions of a message that are followed from its first to its latest. */
const VERSIONS = 200;

/**
 * Replaces the content of a message, for the same readers. A reader who has not taken the old version gets only the new one. A reader who
 * owes an answer to the old version owes it to the new one, with the same deadline. A reader who has answered gets the new version as an
 * edit.
 */
export async function edit(
  workspace: Workspace,
  from: AgentName,
  home: Home,
  given: MessageId,
  content: ChatContent,
  newId: MessageId = workspace.newId(),
): Promise<Sent> {
  const { body } = content;
  refuseTooLarge(body, workspace.bodyLimit);
  const old = await ownMessage(home, from, await latestOf(home, given));
  const { id } = old;
  const before = (await home.journal.trace(id))?.copies ?? [];
  await enterObligations(home);
  const exchange = await exchangeOf(home, from, { ...old.parley, ...old, ...content, replaces: id }, workspace.now());
  const { intent = 'none', deadline, obligation, aim, conversation } = old.parley ?? {};
  const message = composeMessage(
    {
      ...content,
      to: old.to,
      priority: old.priority === 'urgent' ? 'urgent' : 'normal',
      intent,
      ...(old.thread !== undefined && { thread: old.thread as MessageId }),
      ...(deadline && { deadline }),
      ...(obligation && { obligation }),
      ...(aim && { aim }),
      ...(old.parley?.private && { private: true as const }),
      ...(conversation !== undefined && { conversation }),
      replaces: id,
    },
    { id: newId, from, ts: new Date(workspace.now()).toISOString(), lineage: exchange.lineage },
  );
  const copies: Copy[] = [];
  for (const { mailbox } of before) {
    const reader = await home.directory.get(mailbox);
    const via = viaOf(old, mailbox);
    if (reader)
      copies.push({ mailbox, attention: await attend(home, message, reader, via, exchange, workspace.now()) });
  }
  const by = { replaced: newId, by: from };
  await home.mailboxes.withdraw(id, by);
  const stored = await home.mailboxes.put({ message, copies });
  for (const { mailbox } of before) {
    await home.journal.record(mailbox, id, { step: 'cancelled', at: message.ts, evidence: by });
    await inherit(home, mailbox, id, newId, by, workspace.now());
    await callOff(home, mailbox, id);
  }
  return { home, ...stored };
}

/**
 * Withdraws the copies of a message that nobody has taken. If its author deletes it, everything owed for it ends, obligations too. If
 * anybody else does, only owed replies end.
 */
export async function remove(
  workspace: Workspace,
  by: AgentName,
  home: Home,
  given: MessageId,
): Promise<{ copies: CopyRecord[]; ended: Obligation[] }> {
  const id = await latestOf(home, given);
  const message = await home.journal.message(id);
  if (!message) throw new Refusal('not_found', `no message has the id ${id.slice(0, 40)}`);
  await enterObligations(home);
  const evidence = { withdrawn: true, by };
  const copies = await home.mailboxes.withdraw(id, evidence);
  const ended: Obligation[] = [];
  const cancelled = (mailbox: AgentName) =>
    home.journal.record(mailbox, id, receipt('cancelled', workspace.now(), evidence));
  for (const { mailbox } of copies) {
    const owed = await home.journal.obligation(mailbox, id);
    if (!owed || owed.ended) {
      await callOff(home, mailbox, id);
      await cancelled(mailbox);
      continue;
    }
    const end = message.from === by ? discharge : endObligation;
    const after = await end(home, mailbox, id, 'superseded', evidence, workspace.now());
    if (after?.ended) ended.push(after);
    await cancelled(mailbox);
  }
  return { copies, ended };
}

/** Marks a held copy for which nothing is owed as `must_not_respond`, so that its holder sees that no answer is wanted now. */
async function callOff(home: Home, mailbox: AgentName, id: MessageId): Promise<void> {
  const copy = await home.journal.copy(mailbox, id);
  if (copy?.state !== 'held' || copy.attention.policy === 'must_not_respond') return;
  const obligation = await home.journal.obligation(mailbox, id);
  if (obligation && !obligation.ended) return;
  await home.journal.reconsider(mailbox, id, { ...copy.attention, policy: 'must_not_respond' });
}

/** Moves an open obligation from the old version to the new one. It keeps its age and its number of returns. */
async function inherit(
  home: Home,
  mailbox: AgentName,
  old: MessageId,
  id: MessageId,
  by: Evidence,
  now: number,
): Promise<void> {
  const owed = await home.journal.obligation(mailbox, old);
  if (!owed || owed.ended) return;
  // Add the new obligation first: a crash in between leaves two, never none.
  await home.journal.addObligation({ ...owed, id, state: owed.state === 'paused' ? 'open' : owed.state });
  await discharge(home, mailbox, old, 'superseded', by, now);
}

/** The latest version of a message: a caller who names an old version means the latest. */
async function latestOf(home: Home, id: MessageId): Promise<MessageId> {
  let latest = id;
  for (let n = 0; n < VERSIONS; n += 1) {
    const copies = (await home.journal.trace(latest))?.copies ?? [];
    const next = copies.flatMap(({ receipts }) => receipts).find(({ evidence }) => isMessageId(evidence['replaced']));
    if (!next) break;
    latest = next.evidence['replaced'] as MessageId;
  }
  return latest;
}

async function ownMessage(home: Home, from: AgentName, id: MessageId): Promise<Message> {
  const message = await home.journal.message(id);
  if (!message) throw new Refusal('not_found', `no message has the id ${id.slice(0, 40)}`);
  if (message.from === from) return message;
  throw new Refusal('not_yours', `message ${id.slice(0, 8)} was sent by ${message.from}; only its sender can edit it`);
}

function viaOf({ to }: Message, mailbox: AgentName): 'dm' | 'role' | 'channel' {
  if (to.startsWith('#')) return 'channel';
  return to.replace(/^@/, '') === mailbox ? 'dm' : 'role';
}
