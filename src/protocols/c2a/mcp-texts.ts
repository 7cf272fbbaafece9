import { idText, inline, phrase, quotedWhole } from '../../core/gate.ts';
import type { Who } from '../../core/mail/workspace.ts';
import type { EventView, listEvents, readThread } from '../../core/history/events.ts';
import { heldLines } from '../../core/mail/held.ts';
import type { Reacted } from '../../core/obligations/react.ts';
import type { Sent } from '../../core/mail/send.ts';
import type { ShownOutcome } from '../../core/mail/shown.ts';
import type { Obligation } from '../../core/obligations/rules.ts';
import type { MessageId } from '../../core/names.ts';
import type { Signal } from '../../core/signal.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import type { EventClaim } from '../../core/ports/obligations.ts';
import type { McpTool } from './mcp.ts';

/** The tool that our texts name for reading the whole text. */
export const PULL_WITH = 'chat_read_thread' satisfies McpTool;

/** Characters of one body in a tool's answer, and names in one list. */
const BODY_SHOWN = 16_000;
const NAMES_SHOWN = 100;

// What tools answer. It stands in a model's context: short, signals by their words, and text of others is masked and quoted.
// spec: mcp#answers

export function eventList(me: string, { events, cursor }: Awaited<ReturnType<typeof listEvents>>): string {
  if (events.length === 0) return 'no events';
  return [
    `${events.length} ${events.length === 1 ? 'event' : 'events'}, newest first; whole text: ${PULL_WITH}`,
    ...events.map((event) => `${headline(me, event)}\n> ${gist(event)}`),
    ...(cursor === null ? [] : [`more: cursor ${cursor}`]),
  ].join('\n');
}

/** Oldest first. */
export function thread(me: string, { messages, earlier, cursor }: Awaited<ReturnType<typeof readThread>>): string {
  return [
    ...(earlier > 0 ? [`${earlier} earlier; more: cursor ${cursor}`] : []),
    ...messages.map((event) => {
      const refs = event.refs?.length ? `\nrefs: ${event.refs.map((ref) => inline(ref, 300)).join(', ')}` : '';
      return `${headline(me, event)}\n${body(event)}${refs}`;
    }),
  ].join('\n');
}

function headline(me: string, event: EventView): string {
  const { id, from, to, at, attention, disposition, proven, signal, claim, thread: answers } = event;
  // Its own messages ask nothing of an agent.
  const asks = from === me ? ['yours'] : [attention.policy, attention.directedness, attention.reason];
  return [
    `${shortId(id)} ${name(from)} to ${inline(to)}`,
    inline(at),
    ...asks,
    signal ? `reaction ${signal}` : '',
    answers ? `answers ${shortId(answers)}` : '',
    from === me ? '' : (disposition ?? proven),
    claim ? `claimed by ${name(claim.holder)}` : '',
  ]
    .filter(Boolean)
    .join(' · ');
}

function gist({ body }: EventView): string {
  return body === undefined ? 'no longer kept' : phrase(body.replace(/\s+/g, ' ').trim(), 120);
}

function body({ id, body: text }: EventView): string {
  if (text === undefined) return '(no longer kept)';
  return quotedWhole(text, BODY_SHOWN, (left) => `… ${left} more characters: parley read ${shortId(id)}`);
}

export function sent({ message, copies, first, leftOut = [] }: Sent, showing: ShownOutcome | null): string {
  const readers = copies.map(({ mailbox }) => name(mailbox));
  const stored = readers.length > 0 ? `for ${readers.slice(0, 10).join(', ')}` : `to ${inline(message.to)}`;
  const more = readers.length > 10 ? ` and ${readers.length - 10} more` : '';
  const without = leftOut.length > 0 ? `; no room left for ${leftOut.map((one) => name(one)).join(', ')}` : '';
  const there = showing ? atSurfaces(showing) : '';
  const said = `${first ? 'stored' : 'was stored before'} as ${shortId(message.id)} ${stored}${more}${without}${there}`;
  return [said, ...heldLines(copies, 'tool')].join('\n');
}

const SHOWN: Record<ShownOutcome['state'], string> = {
  shown: ', and shown there',
  waiting: '; not shown there yet: ask again with the same key',
  withdrawn: '; not shown there: it was taken back or away before',
  refused: '',
};

function atSurfaces({ state, refused }: ShownOutcome): string {
  const reasons = refused.map(
    ({ box, by }) => `; refused at ${name(box)}: ${inline(String(by['reason'] ?? 'refused'), 200)}`,
  );
  return `${SHOWN[state]}${reasons.join('')}`;
}

export function reacted(id: MessageId, signal: Signal, { disposition, final }: Reacted): string {
  const means = disposition === null ? '' : `: ${disposition}${final ? '' : ', still owed'}`;
  return `reacted ${signal} to ${shortId(id)}${means}`;
}

export function claimed(id: MessageId, { until }: EventClaim): string {
  return `you answer for ${shortId(id)} until ${new Date(until).toISOString()}`;
}

export function released(id: MessageId, wasMine: boolean): string {
  return wasMine ? `you no longer answer for ${shortId(id)}` : `${shortId(id)} was not claimed by you`;
}

export function deferred({ id, due }: Obligation): string {
  return `deferred ${shortId(id)}; owed again ${due === null ? 'later' : `at ${new Date(due).toISOString()}`}`;
}

export function resolved(id: MessageId, closed: readonly MessageId[]): string {
  if (closed.length === 0) return `nothing of yours is open in ${shortId(id)}`;
  return `resolved ${closed.map((one) => shortId(one)).join(', ')}`;
}

export function whoIsHere(who: Who, here: readonly { home: string; record: AgentRecord }[], now: number): string {
  // Only channels that this agent listens to are shown.
  const mine = here.find(({ home, record }) => home === who.home.label && record.name === who.name)?.record
    .subscriptions;
  const lines = here.slice(0, NAMES_SHOWN).map(({ home, record }) => {
    const { parley, subscriptions, lastSeen } = record;
    const facts = [
      parley?.kind === 'human' ? `a person${parley.displayName ? `, ${inline(parley.displayName)}` : ''}` : '',
      ...(parley?.roles ?? []).map((role) => `@${role}`),
      ...subscriptions
        .filter((channel) => mine?.includes(channel))
        .slice(0, 10)
        .map((channel) => inline(channel)),
    ].filter(Boolean);
    const where = home === who.home.label ? '' : `%${home}`;
    return `${name(record.name)}${where}${facts.length > 0 ? ` (${facts.join(', ')})` : ''} seen ${ago(lastSeen, now)}`;
  });
  const more = here.length > NAMES_SHOWN ? [`and ${here.length - NAMES_SHOWN} more`] : [];
  return [`you are ${name(who.name)}`, ...lines, ...more].join('\n');
}

/** A name as it is; anything else that another program wrote there is quoted. */
function name(text: string): string {
  return /^[\w.-]+$/.test(text) ? `@${text}` : inline(text);
}

function shortId(id: string): string {
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) ? id.slice(0, 8) : idText(id);
}

function ago(iso: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (!Number.isFinite(minutes)) return 'at an unknown time';
  if (minutes < 1) return 'just now';
  return minutes < 120 ? `${minutes} min ago` : `${Math.floor(minutes / 60)} h ago`;
}
