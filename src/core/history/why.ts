import type { Obligation } from '../obligations/rules.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import { Refusal } from '../refusal.ts';
import type { CopyRecord } from '../ports/journal.ts';
import { rootOf } from '../mail/conversation.ts';
import type { Home } from '../mail/workspace.ts';
import { enterObligations } from '../obligations/obligation.ts';

const EXCHANGE = 200;

/** One line of the audit of a message: who did what, when and why. Never contains a body. */
export interface AuditLine {
  at: string;
  who: string;
  what: string;
  why: string;
  /** The mailbox of the copy that the line is about; absent for the message as a whole. */
  mailbox?: AgentName;
}

/** The audit of a message: who did what with it, and why, in order of time. spec: c2a#audit */
export async function why(home: Home, id: MessageId): Promise<AuditLine[]> {
  await enterObligations(home);
  const trace = await home.journal.trace(id);
  if (!trace) throw new Refusal('not_found', `no message has the id ${id.slice(0, 40)}`);
  const { message, copies } = trace;
  const lines: AuditLine[] = [
    { at: message.ts, who: message.from, what: `sent to ${message.to}`, why: intentOf(message) },
  ];
  for (const copy of copies) {
    lines.push({
      at: message.ts,
      who: 'parley',
      what: decisionOf(copy),
      why: copy.attention.reason,
      mailbox: copy.mailbox,
    });
    for (const { step, at, evidence } of copy.receipts) {
      lines.push({ at, who: actorOf(evidence, copy.mailbox), what: step, why: said(evidence), mailbox: copy.mailbox });
    }
    if (copy.settledAt !== null) {
      const by = copy.settledBy ?? {};
      const what = `settled: ${copy.disposition ?? 'gone'}`;
      lines.push({ at: copy.settledAt, who: actorOf(by, copy.mailbox), what, why: said(by), mailbox: copy.mailbox });
    }
    const obligation = await home.journal.obligation(copy.mailbox, id);
    if (obligation) lines.push(owedLine(obligation));
  }
  for (const one of await home.journal.exchange(rootOf(message), EXCHANGE)) {
    if (one.thread !== id) continue;
    const what =
      one.parley?.signal === undefined ? `answered by ${one.id.slice(0, 8)}` : `reacted: ${one.parley.signal}`;
    lines.push({ at: one.ts, who: one.from, what, why: one.parley?.eta ?? '' });
  }
  return lines.toSorted((a, b) => Number(a.at > b.at) - Number(a.at < b.at));
}

function intentOf({
  parley,
  priority,
}: {
  parley?: { intent?: string | undefined } | undefined;
  priority: string;
}): string {
  const intent = parley?.intent === undefined || parley.intent === 'none' ? '' : parley.intent;
  return [intent, priority === 'urgent' ? 'urgent' : ''].filter(Boolean).join(', ');
}

function decisionOf({ mailbox, attention: { directedness, policy, injection } }: CopyRecord): string {
  return `decided for @${mailbox}: ${policy} (${directedness}, ${injection})`;
}

function owedLine({ kind, state, mailbox, from, at, ended, returns, tier, note }: Obligation): AuditLine {
  const moves = [
    returns === 0 ? '' : `came back ${returns}×`,
    ['', 'a coordinator got a notice', 'a person got a notice'][tier] ?? '',
  ];
  const owed = kind === 'obligation' ? 'obligation' : 'owed answer';
  const what = ended ? `${owed} ended: ${ended.as}` : `${owed} to @${from}: ${state}`;
  const time = new Date(ended?.at ?? at).toISOString();
  return {
    at: time,
    who: mailbox,
    what,
    why: [...moves, note ?? '', ended ? said(ended.by) : ''].filter(Boolean).join('; '),
    mailbox,
  };
}

function actorOf(evidence: Evidence, mailbox: AgentName): string {
  const { agent, from, by } = evidence;
  return String(agent ?? from ?? by ?? mailbox);
}

function said(evidence: Evidence): string {
  return Object.entries(evidence)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
}
