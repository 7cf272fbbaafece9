import { receipt } from '../receipt.ts';
import type { AgentName, MessageId } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { Workspace, Who, Home } from '../mail/workspace.ts';
import { sendKeyOf, post, tellOwner } from './owners.ts';
import { send } from '../mail/send.ts';
import type { Sent } from '../mail/send.ts';
import { visible } from '../history/sight.ts';
import type { Attention } from '../attention/attention.ts';
import type { Obligation } from './rules.ts';
import type { Message, Blocking } from '../message.ts';
import { HOST_NAME } from '../signal.ts';
import type { AgentRecord } from '../ports/directory.ts';
import { enterObligations } from './obligation.ts';
import { conversationOf, rootOf } from '../mail/conversation.ts';

/**
 * A person hands a message to an agent that it was not meant for. The agent gets a new message from that person, which quotes the first one
 * and must be answered. The first message does not change. Sent once per message and agent. spec: c2a#raise
 */
export async function raise(workspace: Workspace, who: Who, id: MessageId, to: AgentName, note = ''): Promise<Sent> {
  if ((await who.home.directory.get(who.name))?.parley?.kind !== 'human') {
    throw new Refusal(
      'not_yours',
      `@${who.name} is an agent; only a person raises an event: --as <the person's mailbox>`,
    );
  }
  const { home, message } = await visible([who], id);
  const quoted = `${message.from} in ${message.to}:\n${message.body.replace(/^/gm, '> ')}`;
  return send(workspace, who.name, {
    to: `@${to}%${home.label}`,
    body: [note || 'please see to this', quoted].join('\n\n'),
    priority: 'normal',
    intent: 'assignment',
    thread: id,
    key: sendKeyOf(`raise/${id}/${to}`),
  });
}

/** The role that gets escalations if nobody owns the thread or the channel. */
const COORDINATOR = 'lead' as AgentName;
/** How many obligations are searched for an open notice that a new one replaces. */
const OWED_LOOK = 100;

const ESCALATED: Attention = {
  directedness: 'to_me',
  policy: 'must_respond',
  injection: 'buffered',
  reason: 'escalation',
};

/** How many messages a notice lists. It counts the others; all of them are in its refs. */
const NAMED = 20;

/** An obligation to escalate, its message, and the recipient of the notice. */
interface Escalation {
  obligation: Obligation;
  message: Message;
  to: AgentRecord | null;
}

/**
 * Tells exactly one other agent or person about each answer that did not come: a coordinator, or the owner if there is none or if the
 * coordinator is the one who did not answer. The notice of an obligation is an obligation too. Each recipient has one notice; a new one
 * replaces the old one. Calling this twice sends nothing twice. spec: c2a#notices
 */
export async function escalate(workspace: Workspace, home: Home, obligations: readonly Obligation[]): Promise<void> {
  if (obligations.length === 0) return;
  await enterObligations(home);
  const everybody = await home.directory.list();
  const escalations: Escalation[] = [];
  for (const obligation of obligations) {
    const message = await home.journal.message(obligation.id);
    if (message) escalations.push({ obligation, message, to: recipientOf(everybody, obligation, message) });
  }
  const groups = Map.groupBy(escalations, ({ obligation, to }) => `${obligation.kind} ${to?.name ?? ''}`);
  for (const group of groups.values()) await sendNotice(workspace, home, group);
}

/** Sends one notice for escalations of one kind to one recipient. */
async function sendNotice(workspace: Workspace, home: Home, group: readonly Escalation[]): Promise<void> {
  const [first] = group;
  if (!first) return;
  const { to, obligation, message } = first;
  const earlier = to && (await noticeFor(home, to.name, obligation));
  const known = new Set(earlier?.refs);
  const fresh = group.filter((one) => !known.has(refOf(one.obligation)));
  if (fresh.length === 0) return;
  const about = [...known, ...fresh.map((one) => refOf(one.obligation))];
  const key = `escalate/${obligation.id}/${obligation.mailbox}/${about.length}`;
  if (!to) {
    await tellOwner(workspace, home, { key, body: await bodyFor(home, about), thread: obligation.id });
    for (const one of fresh) await noteEscalated(workspace, home, one.obligation, { to: 'nobody', held: true });
    return;
  }
  const notice = await post(
    workspace,
    home,
    {
      to: `@${to.name}`,
      body: await bodyFor(home, about),
      intent: 'blocker',
      key: sendKeyOf(`${to.name}/${key}`),
      thread: obligation.id,
      refs: about,
      ...(earlier && { replaces: earlier.id }),
      ...(obligation.kind === 'obligation' && { obligation: obligationOf(message) }),
    },
    to.name,
    ESCALATED,
  );
  await enterObligations(home);
  const evidence = { to: to.name, notice: notice.message.id };
  for (const one of fresh) await noteEscalated(workspace, home, one.obligation, evidence);
  if (earlier) await replace(workspace, home, to.name, earlier.id, notice.message.id);
}

/** The agent or person that gets the notice: never the one that owes the answer. Null if there is none. */
function recipientOf(everybody: readonly AgentRecord[], obligation: Obligation, message: Message): AgentRecord | null {
  const person = everybody.find(({ parley }) => parley?.kind === 'human' && parley.owner === true);
  const owner = person && person.name !== obligation.mailbox ? person : null;
  // After a coordinator comes only the owner.
  if (obligation.tier > 1 || message.from === HOST_NAME) return owner;
  const { streamId } = conversationOf(message, [obligation.mailbox]);
  const others = everybody.filter(
    ({ name, parley }) => name !== obligation.mailbox && name !== message.from && parley?.kind === 'agent',
  );
  const owns = (what: string | undefined): AgentRecord | undefined =>
    others.find(({ parley }) => what !== undefined && parley?.owns?.includes(what));
  const lead = others.find(({ parley }) => parley?.roles.includes(COORDINATOR));
  return owns(rootOf(message)) ?? owns(streamId) ?? lead ?? owner;
}

/** The open notice of the same kind that this recipient already has. */
async function noticeFor(home: Home, name: AgentName, obligation: Obligation): Promise<Message | null> {
  for (const { id, from, kind } of await home.journal.owed(name, { limit: OWED_LOOK })) {
    if (from !== HOST_NAME || kind !== obligation.kind) continue;
    const notice = await home.journal.message(id);
    if (notice?.refs?.length) return notice;
  }
  return null;
}

/** Ends the old notice. Its end names the new notice, which repeats its content. */
async function replace(
  workspace: Workspace,
  home: Home,
  name: AgentName,
  old: MessageId,
  now: MessageId,
): Promise<void> {
  const by = { replaced: now };
  await home.mailboxes.withdraw(old, by);
  await home.journal.changeObligation(name, old, (obligation) => ({
    ...obligation,
    due: null,
    ended: { as: 'superseded', at: workspace.now(), by },
  }));
}

async function noteEscalated(
  workspace: Workspace,
  home: Home,
  obligation: Obligation,
  evidence: Record<string, string | boolean>,
): Promise<void> {
  await home.journal.record(obligation.mailbox, obligation.id, receipt('escalated', workspace.now(), evidence));
}

/** The obligation of a notice: its delegate is the author of the message, who can then discharge the notice too. */
function obligationOf({ from, parley }: Message): Blocking {
  const { delegate, ...rest } = parley?.obligation ?? { blocks: 'none' as const };
  const waits = from === HOST_NAME ? delegate : (from as AgentName);
  return { ...rest, ...(waits && { delegate: waits }) };
}

async function bodyFor(home: Home, about: readonly string[]): Promise<string> {
  const lines: string[] = [];
  for (const ref of about.slice(0, NAMED)) {
    const [id = '', mailbox = ''] = ref.split(':');
    const obligation = await home.journal.obligation(mailbox as AgentName, id as MessageId);
    if (obligation && !obligation.ended) lines.push(lineFor(obligation));
  }
  if (about.length > NAMED) lines.push(`and ${about.length - NAMED} more, oldest first`);
  return lines.join('\n');
}

function lineFor({ id, mailbox, from, kind, note }: Obligation): string {
  const what = kind === 'obligation' ? 'work stands still for' : 'no answer came to';
  const why = note === null ? '' : ` (@${mailbox} says: ${note})`;
  return `${what} message ${id.slice(0, 8)} from @${from} to @${mailbox}${why}; see it with \`parley trace ${id.slice(0, 8)}\``;
}

/** How a notice refers to an obligation. */
function refOf({ id, mailbox }: Pick<Obligation, 'id' | 'mailbox'>): string {
  return `${id}:${mailbox}`;
}
