import { idText, inline, phrase, quotedWhole } from '../gate.ts';
import type { Who, Workspace } from './workspace.ts';
import type { EventView, listEvents, readThread } from '../history/events.ts';
import { heldLines } from './held.ts';
import type { Reacted } from '../obligations/react.ts';
import type { Sent } from './send.ts';
import type { ShownOutcome } from './shown.ts';
import type { Obligation } from '../obligations/rules.ts';
import type { MessageId } from '../names.ts';
import type { Signal } from '../signal.ts';
import type { EventClaim } from '../ports/obligations.ts';

/** The most characters of one body in a tool's answer, and the most names in one list. */
const BODY_SHOWN = 16_000;
const NAMES_SHOWN = 100;

// The answers of the MCP tools, for the mail face and the C2A face. They are in a model's context, so they are short, name signals by their
// words, and mask and quote text of others. spec: mcp#answers

/** The line with which a face introduces a message. */
export type Headline = (me: string, message: EventView) => string;

/** The messages of a thread, oldest first. */
export function thread(
  me: string,
  { messages, earlier, cursor }: Awaited<ReturnType<typeof readThread>>,
  headline: Headline,
): string {
  return [
    ...(earlier > 0 ? [`${earlier} earlier; more: cursor ${cursor}`] : []),
    ...messages.map((one) => {
      const refs = one.refs?.length ? `\nrefs: ${one.refs.map((ref) => inline(ref, 300)).join(', ')}` : '';
      return `${headline(me, one)}\n${body(one)}${refs}`;
    }),
  ].join('\n');
}

/** A line for each message, and the beginning of its text. */
export function gists(
  me: string,
  { events, cursor }: Awaited<ReturnType<typeof listEvents>>,
  headline: Headline,
): string[] {
  return [
    ...events.map((one) => `${headline(me, one)}\n> ${gistForModel(one.body)}`),
    ...(cursor === null ? [] : [`more: cursor ${cursor}`]),
  ];
}

/** The facts of a headline. Facts that do not apply are left out. */
export function facts(me: string, message: EventView, asks: readonly string[], state: string): string {
  const { id, from, to, at, signal, claim, thread: answers } = message;
  return [
    `${idForModel(id)} ${name(from)} to ${inline(to)}`,
    inline(at),
    // An agent's own messages ask nothing of it.
    ...(from === me ? ['yours'] : asks),
    signal ? `reaction ${signal}` : '',
    answers ? `answers ${idForModel(answers)}` : '',
    from === me ? '' : state,
    claim ? `claimed by ${name(claim.holder)}` : '',
  ]
    .filter(Boolean)
    .join(' · ');
}

export function gistForModel(body: string | undefined): string {
  return body === undefined ? 'no longer kept' : phrase(body.replace(/\s+/g, ' ').trim(), 120);
}

function body({ id, body: text }: EventView): string {
  if (text === undefined) return '(no longer kept)';
  return quotedWhole(text, BODY_SHOWN, (left) => `… ${left} more characters: parley read ${idForModel(id)}`);
}

export function sent(
  { message, copies, first, leftOut = [] }: Sent,
  showing: ShownOutcome | null,
  by: 'tool' | 'c2a',
): string {
  const readers = copies.map(({ mailbox }) => name(mailbox));
  const stored = readers.length > 0 ? `for ${readers.slice(0, 10).join(', ')}` : `to ${inline(message.to)}`;
  const more = readers.length > 10 ? ` and ${readers.length - 10} more` : '';
  const without = leftOut.length > 0 ? `; no room left for ${leftOut.map((one) => name(one)).join(', ')}` : '';
  const there = showing ? atSurfaces(showing, by) : '';
  const said = `${first ? 'stored' : 'was stored before'} as ${idForModel(message.id)} ${stored}${more}${without}${there}`;
  return [said, ...heldLines(copies, by)].join('\n');
}

const SHOWN: Record<ShownOutcome['state'], string> = {
  shown: ', and shown there',
  waiting: '; not shown there yet: ',
  withdrawn: '; not shown there: it was withdrawn or removed before',
  refused: '',
};

/** What to do about a message that is not shown yet. A C2A caller can ask again, because its message has a key. */
const NOT_YET = { tool: 'it waits there, do not send it again', c2a: 'ask again with the same key' };

function atSurfaces({ state, refused }: ShownOutcome, face: 'tool' | 'c2a'): string {
  const reasons = refused.map(
    ({ box, by }) => `; refused at ${name(box)}: ${inline(String(by['reason'] ?? 'refused'), 200)}`,
  );
  return `${SHOWN[state]}${state === 'waiting' ? NOT_YET[face] : ''}${reasons.join('')}`;
}

export function reacted(id: MessageId, signal: Signal, { disposition, final }: Reacted): string {
  const means = disposition === null ? '' : `: ${disposition}${final ? '' : ', still owed'}`;
  return `reacted ${signal} to ${idForModel(id)}${means}`;
}

export function claimed(id: MessageId, { until }: EventClaim): string {
  return `you answer for ${idForModel(id)} until ${new Date(until).toISOString()}`;
}

export function released(id: MessageId, wasMine: boolean): string {
  return wasMine ? `you no longer answer for ${idForModel(id)}` : `${idForModel(id)} was not claimed by you`;
}

export function deferred({ id, due }: Obligation): string {
  return `deferred ${idForModel(id)}; owed again ${due === null ? 'later' : `at ${new Date(due).toISOString()}`}`;
}

export function resolved(id: MessageId, closed: readonly MessageId[]): string {
  if (closed.length === 0) return `nothing of yours is open in ${idForModel(id)}`;
  return `resolved ${closed.map((one) => idForModel(one)).join(', ')}`;
}

export async function whoIsHere(workspace: Workspace, who: Who): Promise<string> {
  const listed = await Promise.all(
    workspace.homes.map(async (home) => (await home.directory.list()).map((record) => ({ home: home.label, record }))),
  );
  const here = listed.flat();
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
    return `${name(record.name)}${where}${facts.length > 0 ? ` (${facts.join(', ')})` : ''} seen ${ago(lastSeen, workspace.now())}`;
  });
  const more = here.length > NAMES_SHOWN ? [`and ${here.length - NAMES_SHOWN} more`] : [];
  const shares = who.shares === undefined ? '' : `; mail for ${name(who.shares)} is for you or another session of it`;
  return [`you are ${name(who.name)}${shares}`, ...lines, ...more].join('\n');
}

/** `@name`, or a quoted text if another program wrote something that is not a name. */
export function name(text: string): string {
  return /^[\w.-]+$/.test(text) ? `@${text}` : inline(text);
}

export function idForModel(id: string): string {
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) ? id.slice(0, 8) : idText(id);
}

function ago(iso: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (!Number.isFinite(minutes)) return 'at an unknown time';
  if (minutes < 1) return 'just now';
  return minutes < 120 ? `${minutes} min ago` : `${Math.floor(minutes / 60)} h ago`;
}
