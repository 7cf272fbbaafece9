import type { Attention } from '../protocol/attention.ts';
import type { Duty } from '../protocol/duty.ts';
import type { Message, Obligation } from '../protocol/message.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import { HOST_NAME } from '../protocol/signal.ts';
import type { AgentRecord } from '../storage/directory/directory.ts';
import { enterDuties } from './duty.ts';
import { conversationOf, rootOf } from './conversation.ts';
import type { Desk, Home } from './desk.ts';
import { keyOf, ownerOf, post, tellOwner } from './people.ts';

/** Who has this role answers for what others left undone, where nobody owns the channel or the exchange. */
const COORDINATOR = 'lead' as AgentName;
/** How much of what somebody owes is looked through for a notice that can be joined. */
const OWED_LOOK = 100;

const ESCALATED: Attention = {
  directedness: 'to_me',
  policy: 'must_respond',
  injection: 'buffered',
  reason: 'escalation',
};

/**
 * Tells exactly one other of what was left undone: a coordinator, and where there is none, or it was the one who left it undone, the
 * owner. For an obligation the notice is an obligation too. Several for the same one are one notice. Nobody else hears of it.
 */
export async function escalate(desk: Desk, home: Home, duty: Duty): Promise<void> {
  const message = await home.ledger.message(duty.id);
  if (!message) return;
  const to = await rungAbove(home, duty, message);
  if (!to) {
    await tellOwner(desk, home, { key: `escalate/${duty.id}/${duty.mailbox}`, body: lineFor(duty), thread: duty.id });
    return noted(desk, home, duty, { to: 'nobody', held: true });
  }
  const standing = await noticeFor(home, to.name, duty);
  const about = [...new Set([...(standing?.refs ?? []), refOf(duty)])];
  if (standing && about.length === standing.refs?.length) return;
  const notice = await post(
    desk,
    home,
    {
      to: `@${to.name}`,
      body: await bodyFor(home, about),
      intent: 'blocker',
      key: keyOf(`escalate/${to.name}/${duty.id}/${duty.mailbox}`),
      thread: duty.id,
      refs: about,
      ...(standing && { replaces: standing.id }),
      ...(duty.kind === 'obligation' && { obligation: obligationOf(message) }),
    },
    to.name,
    ESCALATED,
  );
  await enterDuties(home);
  if (standing) await replace(desk, home, to.name, standing.id, notice.message.id);
  await noted(desk, home, duty, { to: to.name, notice: notice.message.id });
}

/** Who hears of it next. Never its author or the one who owes it, and never more than one. */
async function rungAbove(home: Home, duty: Duty, message: Message): Promise<AgentRecord | null> {
  const owner = await ownerOf(home);
  // Above a coordinator that left it undone there is only the person.
  if (duty.tier > 1 || message.from === HOST_NAME) return owner?.name === duty.mailbox ? null : owner;
  const { streamId = '' } = conversationOf(message, [duty.mailbox]);
  const others = (await home.directory.list()).filter(
    ({ name, parley }) => name !== duty.mailbox && name !== message.from && parley?.kind === 'agent',
  );
  const owns = (what: string): AgentRecord | undefined =>
    others.find(({ parley }) => what !== '' && parley?.owns?.includes(what));
  return (
    owns(rootOf(message)) ??
    owns(streamId) ??
    others.find(({ parley }) => parley?.roles.includes(COORDINATOR)) ??
    (owner?.name === duty.mailbox ? null : owner)
  );
}

/** The notice of the same kind that this one has not seen to yet. */
async function noticeFor(home: Home, name: AgentName, duty: Duty): Promise<Message | null> {
  await enterDuties(home);
  for (const { id, from, kind } of await home.ledger.owed(name, { limit: OWED_LOOK })) {
    if (from !== HOST_NAME || kind !== duty.kind) continue;
    const notice = await home.ledger.message(id);
    if (notice?.refs?.length) return notice;
  }
  return null;
}

/** The new notice says all that the old one said. What is held of the old one is taken back or ends. */
async function replace(desk: Desk, home: Home, name: AgentName, old: MessageId, now: MessageId): Promise<void> {
  const by = { replaced: now };
  await home.spool.withdraw(old, by);
  await home.ledger.changeDuty(name, old, (duty) => ({
    ...duty,
    ended: { as: 'superseded', at: desk.now(), by },
  }));
  const about = (await home.ledger.message(now))?.refs ?? [];
  for (const ref of about) {
    const [id = '', mailbox = ''] = ref.split(':');
    const receipt = { to: name, notice: now };
    await home.ledger.record(mailbox as AgentName, id as MessageId, escalated(desk, receipt));
  }
}

async function noted(desk: Desk, home: Home, duty: Duty, evidence: Record<string, string | boolean>): Promise<void> {
  await home.ledger.record(duty.mailbox, duty.id, escalated(desk, evidence));
}

function escalated(desk: Desk, evidence: Record<string, string | boolean>) {
  return { step: 'escalated' as const, at: new Date(desk.now()).toISOString(), evidence };
}

/** Who waits can discharge the notice as well as what it is about. */
function obligationOf({ from, parley }: Message): Obligation {
  const { delegate, ...rest } = parley?.obligation ?? { blocks: 'none' as const };
  const waits = from === HOST_NAME ? delegate : (from as AgentName);
  return { ...rest, ...(waits && { delegate: waits }) };
}

async function bodyFor(home: Home, about: readonly string[]): Promise<string> {
  const lines: string[] = [];
  for (const ref of about) {
    const [id = '', mailbox = ''] = ref.split(':');
    const duty = await home.ledger.duty(mailbox as AgentName, id as MessageId);
    if (duty && !duty.ended) lines.push(lineFor(duty));
  }
  return lines.join('\n');
}

function lineFor({ id, mailbox, from, kind, note }: Duty): string {
  const what = kind === 'obligation' ? 'work stands still for' : 'no answer came to';
  const why = note === null ? '' : ` (@${mailbox} says: ${note})`;
  return `${what} message ${id.slice(0, 8)} from @${from} to @${mailbox}${why}; see it with \`parley trace ${id.slice(0, 8)}\``;
}

export function refOf({ id, mailbox }: Pick<Duty, 'id' | 'mailbox'>): string {
  return `${id}:${mailbox}`;
}
