import type { Directedness, Attention, Reason } from './attention.ts';
import { isQuiet, Injection } from './attention.ts';
import type { Intent, Priority } from '../message.ts';
import type { Signal } from '../signal.ts';
import type { Guard } from './loop.ts';

/** Directedness by recipient, mention and ownership. The first line that applies decides. spec: c2a#directedness */
const AIMS: readonly [Directedness, (facts: AttentionFacts) => boolean][] = [
  // The sender says that the message is for nobody, so names in it address nobody.
  ['ambient', (f) => f.aim === 'ambient'],
  ['to_me', (f) => f.via === 'dm' || f.mentionsMe],
  ['to_my_role', (f) => f.via === 'role' || f.mentionsMyRole],
  // A message that names another agent is for that one, even in the reader's own thread.
  ['to_other', (f) => f.mentionsOther],
  ['to_me', (f) => takesPart(f) && asks(f)],
  ['to_my_role', (f) => takesPart(f) || f.ownsStream],
  // A reply is for the participants of its thread. A post that opens a thread is for nobody yet.
  ['to_other', (f) => f.fromAgent && f.threadReply && !hasTask(f)],
];

export function directednessOf(facts: AttentionFacts): Directedness {
  return AIMS.find(([, applies]) => applies(facts))?.[0] ?? 'ambient';
}

function takesPart({ inThreadIHaveJoined, ownsThread }: AttentionFacts): boolean {
  return inThreadIHaveJoined || ownsThread;
}

/** Does the message ask a question? A message with intent `fyi` does not, even with a question mark. */
function asks({ intent, asksQuestion }: AttentionFacts): boolean {
  return intent === 'question' || (asksQuestion && intent !== 'fyi');
}

function hasTask(facts: AttentionFacts): boolean {
  return asks(facts) || facts.intent === 'assignment' || facts.intent === 'approval' || facts.intent === 'blocker';
}

/** Does the message address the reader by name? */
export function callsMe({ mentionsMe, aim }: AttentionFacts): boolean {
  return mentionsMe && aim !== 'ambient';
}

/** The facts that decide one copy, from its reader's point of view. spec: c2a#attention */
export interface AttentionFacts {
  /** How the copy was addressed: to the reader alone, to a channel, or to a role the reader holds. */
  via: 'dm' | 'channel' | 'role';
  fromAgent: boolean;
  fromMe: boolean;
  mentionsMe: boolean;
  /** The message names another of its recipients before the reader. */
  calledAfter: boolean;
  mentionsOther: boolean;
  mentionsMyRole: boolean;
  inThreadIHaveJoined: boolean;
  /** The reader wrote the message that opened the thread, or the thread was given to it. */
  ownsThread: boolean;
  ownsStream: boolean;
  threadReply: boolean;
  /** The message answers one that the reader wrote. */
  answersMe: boolean;
  intent: Intent;
  priority: Priority;
  onlyThanks: boolean;
  asksQuestion: boolean;
  /** The guard that would hold the message back, because its exchange goes in circles. */
  guard: Guard | null;
  /** The reader is in a quiet time. */
  quietTime: boolean;
  /** The reader was asked to leave this channel or exchange. */
  left: boolean;
  /** Set if the message is a reaction. */
  signal?: Signal | undefined;
  /** The reaction changes what the reader owes or waits for. */
  changesObligation: boolean;
  /** The directedness that the sender gives. It counts only if it makes the message quieter. */
  aim?: Directedness | undefined;
  /** The message replaces one that the reader had answered. */
  edited: boolean;
  /** The message escalates what another agent should have answered. Only Parley itself sets this. */
  escalation: boolean;
}

type Row = Exclude<Reason, 'digest' | 'edited_after_response' | 'loop' | 'no_policy'>;

/** The draft's matrix in its order; a row of the draft with several causes has one line per cause. spec: c2a#matrix */
const MATRIX: Record<Row, Omit<Attention, 'reason'>> = {
  direct_message: { directedness: 'to_me', policy: 'must_respond', injection: 'buffered' },
  thanks: { directedness: 'to_me', policy: 'ack_only', injection: 'silent' },
  direct_mention: { directedness: 'to_me', policy: 'must_respond', injection: 'buffered' },
  assignment: { directedness: 'to_me', policy: 'must_respond', injection: 'buffered' },
  approval: { directedness: 'to_me', policy: 'must_respond', injection: 'immediate' },
  blocker: { directedness: 'to_me', policy: 'must_respond', injection: 'immediate' },
  thread_question: { directedness: 'to_me', policy: 'must_respond', injection: 'buffered' },
  role_mention: { directedness: 'to_my_role', policy: 'may_respond', injection: 'notify' },
  thread_reply: { directedness: 'to_my_role', policy: 'may_respond', injection: 'notify' },
  owned_stream: { directedness: 'to_my_role', policy: 'may_respond', injection: 'notify' },
  changes_owned_work: { directedness: 'to_my_role', policy: 'may_respond', injection: 'notify' },
  addressed_elsewhere: { directedness: 'to_other', policy: 'must_not_respond', injection: 'tool_mailbox' },
  no_task: { directedness: 'to_other', policy: 'must_not_respond', injection: 'tool_mailbox' },
  ambient: { directedness: 'ambient', policy: 'must_not_respond', injection: 'tool_mailbox' },
  status: { directedness: 'ambient', policy: 'must_not_respond', injection: 'digest' },
  // Not in the draft's table, but in its text: reactions, and the escalation of unanswered obligations.
  reaction: { directedness: 'to_me', policy: 'must_not_respond', injection: 'tool_mailbox' },
  escalation: { directedness: 'to_me', policy: 'must_respond', injection: 'buffered' },
};

/** Decides who is meant, whether they must answer, and how they see it. spec: c2a#attention */
export function decide(facts: AttentionFacts): Attention {
  const reason = rowFor(facts);
  return overridden(facts, { ...MATRIX[reason], reason });
}

/**
 * Rules on top of the matrix, in this order. Urgency makes only those messages louder that the reader sees in full anyway. One function,
 * because a table with a function per rule made a send 0.15 ms longer.
 */
function overridden(f: AttentionFacts, d: Attention): Attention {
  // A message for information is shown and needs no answer.
  if (f.intent === 'fyi' && d.policy === 'must_respond') d = { ...d, policy: 'may_respond' };
  // If a message calls several agents, the first one must answer.
  if (f.calledAfter && callsMe(f) && d.policy === 'must_respond') d = { ...d, policy: 'may_respond' };
  // An answer to the reader's own message is shown like any DM, but it ends an obligation and begins none.
  if (d.reason === 'direct_message' && isAnswer(f)) d = { ...d, policy: 'may_respond', reason: 'thread_reply' };
  if (d.reason === 'thanks' && maySayMore(f)) d = { ...d, injection: 'notify' };
  // An edit of a message that the reader has answered: the reader decides whether it changes anything, unless it asks for something.
  if (f.edited && d.policy === 'must_respond' && !asksForSomething(f)) d = { ...d, policy: 'may_respond' };
  if (f.edited && isMeant(d)) d = { ...d, reason: 'edited_after_response' };
  // A reaction starts no turn. One that changes an obligation is announced by a knock.
  if (d.reason === 'reaction' && f.changesObligation) d = { ...d, injection: 'notify' };
  if (f.priority === 'urgent' && d.injection === 'buffered') d = { ...d, injection: 'immediate' };
  // A quiet message needs no guard.
  if (f.guard !== null && !insists(f) && !isQuiet(d)) {
    d = { ...d, policy: 'must_not_respond', reason: 'loop', injection: heldMode(f) };
  }
  // A reader that was asked to leave sees messages of this place only if they name it.
  if (f.left && isGone(f) && !isQuiet(d)) d = { ...d, policy: 'must_not_respond', injection: 'tool_mailbox' };
  // In a quiet time, a message that must be answered waits in the mailbox and stays owed. All others come later in one digest.
  if (f.quietTime && isHeldInQuietTime(f) && !isQuiet(d)) {
    d = { ...d, injection: d.policy === 'must_respond' ? 'tool_mailbox' : 'digest' };
  }
  return f.fromMe ? { ...MATRIX.addressed_elsewhere, injection: 'silent', reason: 'addressed_elsewhere' } : d;
}

/** The row of the matrix: directedness selects its part, and intent the row. */
function rowFor(facts: AttentionFacts): Row {
  if (facts.signal !== undefined) return 'reaction';
  if (facts.escalation) return 'escalation';
  const directedness = directednessOf(facts);
  if (facts.intent === 'status') return 'status';
  if (directedness === 'ambient') return 'ambient';
  if (directedness === 'to_other') return facts.mentionsOther ? 'addressed_elsewhere' : 'no_task';
  if (isThanks(facts)) return 'thanks';
  return directedness === 'to_me' ? rowToMe(facts) : rowToMyRole(facts);
}

function rowToMe({ intent, via, mentionsMe }: AttentionFacts): Row {
  if (isWork(intent)) return intent;
  if (via === 'dm') return 'direct_message';
  return mentionsMe ? 'direct_mention' : 'thread_question';
}

function rowToMyRole({
  intent,
  via,
  mentionsMyRole,
  ownsThread,
  ownsStream,
  inThreadIHaveJoined,
}: AttentionFacts): Row {
  if (via === 'role' || mentionsMyRole) return 'role_mention';
  if (isWork(intent) && (ownsThread || ownsStream)) return 'changes_owned_work';
  return inThreadIHaveJoined || ownsThread ? 'thread_reply' : 'owned_stream';
}

function isWork(intent: Intent): intent is 'assignment' | 'approval' | 'blocker' {
  return intent === 'assignment' || intent === 'approval' || intent === 'blocker';
}

/** Another declared intent outweighs thanks in the words. A question outweighs the declared intent `thanks`. */
function isThanks({ intent, onlyThanks, asksQuestion }: AttentionFacts): boolean {
  if (intent === 'thanks') return !asksQuestion;
  return onlyThanks && (intent === 'none' || intent === 'fyi');
}

/** Does the message get through the guards, because its sender declares that it asks for something? spec: c2a#loops */
export function insists({ intent, priority, signal, escalation = false }: Insistence): boolean {
  return priority === 'urgent' || signal !== undefined || escalation || isWork(intent) || intent === 'question';
}

type Insistence = Pick<AttentionFacts, 'intent' | 'priority' | 'signal'> & { escalation?: boolean };

/** How a held message waits: an echo waits in the mailbox. Others, and an echo that asks, are shown in full with the reader's next own turn. */
function heldMode({ guard, asksQuestion }: AttentionFacts): Injection {
  return guard === 'echo' && !asksQuestion ? 'tool_mailbox' : 'digest';
}

function asksForSomething({ intent, asksQuestion }: AttentionFacts): boolean {
  return isWork(intent) || intent === 'question' || asksQuestion;
}

function isMeant({ directedness, reason }: Attention): boolean {
  return (
    (directedness === 'to_me' || directedness === 'to_my_role') && reason !== 'reaction' && reason !== 'escalation'
  );
}

/** Does the message belong to the place that the reader left, without naming the reader? A new direct message does not belong there. */
function isGone(facts: AttentionFacts): boolean {
  return !callsMe(facts) && (facts.via !== 'dm' || facts.threadReply);
}

/** In a quiet time everything is held, except urgent mail of a person. */
function isHeldInQuietTime({ priority, fromAgent }: AttentionFacts): boolean {
  return !(priority === 'urgent' && !fromAgent);
}

function isAnswer({ answersMe, asksQuestion, intent }: AttentionFacts): boolean {
  return answersMe && !asksQuestion && intent === 'none';
}

/**
 * Thanks that may say something new: a message with more words than thanks, the "ok" of a person that an agent waits for, and the "LGTM" in
 * a thread that the reader owns. The thanks of an agent for such a reply are silent again, so there is no ping-pong.
 */
function maySayMore({ onlyThanks, fromAgent, ownsThread }: AttentionFacts): boolean {
  return !onlyThanks || !fromAgent || ownsThread;
}

/** The mode itself if it is possible, else the next quieter mode that is possible. Never a louder one. spec: c2a#fallback */
export function quieter(mode: Injection, can: Partial<Record<Injection, boolean>>): Injection {
  const modes = Injection.inner.options;
  const possible = (one: Injection): boolean => can[one] === true || one === 'tool_mailbox' || one === 'silent';
  return modes.slice(modes.indexOf(mode)).find(possible) ?? 'silent';
}
