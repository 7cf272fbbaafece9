import type { AgentName, MessageId } from '../names.ts';
import type { Disposition, Evidence } from '../receipt.ts';
import type { Attention, Injection } from '../attention/attention.ts';
import type { Intent, Message } from '../message.ts';
import type { KnownSignal } from '../signal.ts';
import { outcomeOf } from '../attention/reply-rules.ts';

/**
 * What somebody owes for one copy. `reply`: an answer in any form ends it, and so does its deadline. `obligation`: only its author
 * or delegate discharges it; reading, answering and time do not. spec: c2a#duties
 */
export interface Obligation {
  id: MessageId;
  mailbox: AgentName;
  /** Who waits for it. */
  from: string;
  kind: 'reply' | 'obligation';
  /** When its message was made (ms). Age counts from here, never from receipt. */
  at: number;
  /** `claimed`: being worked on. `deferred`: accepted, later. `paused`: waits for a word of its author. All are still owed. */
  state: 'open' | 'claimed' | 'deferred' | 'paused';
  /** When somebody should look at it next (ms); null if time does nothing more to it. */
  due: number | null;
  /** The time between two returns (ms): a third of the deadline, or an obligation's flat interval. It never changes. */
  every: number;
  /** How often it came back. */
  returns: number;
  /** 0: with its recipient. 1: with a coordinator. 2: with a person, where it stays until it is discharged. */
  tier: 0 | 1 | 2;
  /** Its time was prolonged; that is done once. */
  extended: boolean;
  /** Why it was deferred, or what is asked back. Of its holder's own words, masked. */
  note: string | null;
  /** How it ended, once and for all. */
  ended: { as: Disposition; at: number; by: Evidence } | null;
}

/*
 * A duty is a row that time and signals move on. What is owed as a *reply* comes back after a third and after two thirds of its
 * deadline, goes to somebody above at the deadline, and ends as failed after as long again. What is owed as an *obligation* comes
 * back three times at a flat interval and then goes up too; but neither time nor its reader ends it: only its author or delegate.
 * Who is above answers for an escalation of its own, which climbs in the same way; with a person it stays. A crash leaves the row as
 * it is: anyone who looks next finds it due, and does once what should have been done several times.
 */

/** When a reply is due, unless its message says another time. Counted from when the message was made. spec: c2a#duties */
export const DEADLINE_MS = 300_000;
/** How long a claim holds without a sign of work. */
export const CLAIM_MS = 600_000;
/** How long a claim is kept for somebody who was chosen and has not spoken yet. */
export const RESERVED_MS = 60_000;
/** When what was deferred without a time is owed again. */
export const DEFER_MS = 30 * 60_000;

/** Where no host runs, what is late by more than this raises no alarm any more. */
const LATE_MS = 24 * 60 * 60_000;

const RETURNS = { reply: 2, obligation: 3 } as const;

/** The louder something came, the sooner it comes back. What stands still in silence is no obligation. */
const FLAT_MS: Record<Injection, number> = {
  immediate: 60_000,
  buffered: 300_000,
  notify: 900_000,
  tool_mailbox: 900_000,
  digest: 900_000,
  silent: 900_000,
};

/** What is owed for a copy that must be answered, as it begins. People are not hurried: with a person it only stays. */
export function newObligation(mail: {
  message: Message;
  mailbox: AgentName;
  attention: Attention;
  isPerson: boolean;
}): Obligation {
  const { message, mailbox, attention, isPerson } = mail;
  const at = Date.parse(message.ts);
  const kind = message.parley?.obligation ? 'obligation' : 'reply';
  const every = kind === 'obligation' ? FLAT_MS[attention.injection] : Math.ceil(deadlineMs(message, at) / 3);
  return {
    id: message.id,
    mailbox,
    from: message.from,
    kind,
    at,
    state: 'open',
    due: isPerson ? null : at + every,
    every,
    returns: 0,
    tier: isPerson ? 2 : attention.reason === 'escalation' ? 1 : 0,
    extended: false,
    note: null,
    ended: null,
  };
}

/** When a reply to this duty is late. After that it needs a look at the thread. */
export function deadlineOf({ at, every }: Pick<Obligation, 'at' | 'every'>): number {
  return at + 3 * every;
}

export type ObligationStep = { do: 'return' | 'escalate' | 'expire' | 'nothing'; obligation: Obligation };

/** What is due now, and the duty after it. After a time in which nobody looked it comes back once. spec: c2a#duties */
export function step(obligation: Obligation, now: number): ObligationStep {
  if (obligation.ended || obligation.due === null || now < obligation.due) return { do: 'nothing', obligation };
  if (isOwedAgain(obligation)) return { do: 'return', obligation: returned(obligation, now) };
  if (isAbove(obligation)) return { do: 'expire', obligation: expired(obligation, now) };
  return { do: 'escalate', obligation: escalated(obligation, now) };
}

/** The same where nobody keeps time: what is late goes up once, also if it never came back. What is older is left alone. */
export function stepIfLate(obligation: Obligation, now: number): ObligationStep {
  const { ended, due, tier, state } = obligation;
  const lateMs = now - deadlineOf(obligation);
  const isLate = !ended && due !== null && tier === 0 && state === 'open' && lateMs >= 0 && lateMs < LATE_MS;
  return isLate ? { do: 'escalate', obligation: escalated(obligation, now) } : { do: 'nothing', obligation };
}

/** What a signal does to a duty, and what must be done besides. An ended one stays as it is. spec: c2a#signals */
export function onSignal(
  obligation: Obligation,
  signal: KnownSignal,
  by: { isAuthor: boolean; isRecipient: boolean; isDelegate: boolean },
  at: number,
  intent: Intent,
): { obligation: Obligation; follow: 'nothing' | 'escalate' | 'ask_back' } {
  if (obligation.ended) return { obligation, follow: 'nothing' };
  // Anyone who waits for it may say that it is done, no matter who did it.
  if (signal === 'done' && (by.isAuthor || by.isDelegate)) {
    const end = { as: 'responded', at, by: { signal, by: by.isAuthor ? 'author' : 'delegate' } } as const;
    return { obligation: { ...obligation, due: null, ended: end }, follow: 'nothing' };
  }
  if (!by.isRecipient) return { obligation, follow: 'nothing' };
  return obligation.kind === 'reply'
    ? onReplySignal(obligation, signal, at, intent)
    : onObligationSignal(obligation, signal, at);
}

/** Puts it off until a time. An obligation is put off once, and by one interval: otherwise its reader could do so forever. */
export function deferredUntil(obligation: Obligation, until: number, note: string): Obligation {
  if (obligation.ended) return obligation;
  if (obligation.kind === 'obligation') return { ...extended(obligation), state: 'deferred', note };
  return { ...obligation, state: 'deferred', due: until, note };
}

function onReplySignal(
  obligation: Obligation,
  signal: KnownSignal,
  at: number,
  intent: Intent,
): ReturnType<typeof onSignal> {
  const { disposition, final } = outcomeOf('must_respond', intent, signal);
  if (signal === 'unclear') return pause(obligation, at + DEFER_MS);
  if (disposition !== null && final) {
    const end = { as: disposition, at, by: { signal } };
    return { obligation: { ...obligation, due: null, ended: end }, follow: 'nothing' };
  }
  // A person's time is never counted.
  const until = (ms: number): number | null => (obligation.due === null ? null : at + ms);
  if (disposition === 'claimed')
    return { obligation: { ...obligation, state: 'claimed', due: until(CLAIM_MS) }, follow: 'nothing' };
  if (disposition === 'deferred') {
    return { obligation: { ...obligation, state: 'deferred', due: until(DEFER_MS) }, follow: 'nothing' };
  }
  return { obligation, follow: 'nothing' };
}

/** Its reader's words are evidence. Those that say "not yet" give it more time, once; those that say "not me" send it up. */
function onObligationSignal(obligation: Obligation, signal: KnownSignal, at: number): ReturnType<typeof onSignal> {
  switch (signal) {
    case 'working':
      return { obligation: { ...extended(obligation), state: 'claimed' }, follow: 'nothing' };
    case 'queued':
      return { obligation: { ...extended(obligation), state: 'deferred' }, follow: 'nothing' };
    case 'declined':
    case 'blocked':
      if (isAtRest(obligation)) return { obligation, follow: 'nothing' };
      return { obligation: escalated(obligation, at), follow: 'escalate' };
    case 'unclear':
      return pause(obligation, null);
    default:
      return { obligation, follow: 'nothing' };
  }
}

/** It waits for its author's word, who is asked once. One that time no longer moves has nothing to wait with. */
function pause(obligation: Obligation, until: number | null): ReturnType<typeof onSignal> {
  if (obligation.state === 'paused') return { obligation, follow: 'nothing' };
  if (isAtRest(obligation)) return { obligation, follow: 'ask_back' };
  return { obligation: { ...obligation, state: 'paused', due: until }, follow: 'ask_back' };
}

function extended(obligation: Obligation): Obligation {
  if (obligation.extended || obligation.due === null) return obligation;
  return { ...obligation, extended: true, due: obligation.due + obligation.every };
}

/** With a person, or sent up already: time does nothing more to it. */
function isAtRest({ due, state }: Obligation): boolean {
  return due === null && state !== 'paused';
}

/** A reply that was put off, claimed or paused is asked for once more before anything else happens to it. */
function isOwedAgain({ kind, state, returns }: Obligation): boolean {
  return returns < RETURNS[kind] || (kind === 'reply' && state !== 'open');
}

/** A reply goes up once. */
function isAbove({ kind, tier }: Obligation): boolean {
  return kind === 'reply' && tier > 0;
}

function returned(obligation: Obligation, now: number): Obligation {
  const { due, every, returns, kind } = obligation;
  // What was missed counts as having come: anyone who was away is asked once, and then it goes up.
  const missed = Math.floor((now - (due ?? now)) / every);
  return {
    ...obligation,
    state: 'open',
    returns: Math.max(returns + 1, Math.min(returns + 1 + missed, RETURNS[kind])),
    due: startOf(due, every, now) + every,
  };
}

function escalated(obligation: Obligation, now: number): Obligation {
  const from = startOf(obligation.due, obligation.every, now);
  return {
    ...obligation,
    state: 'open',
    tier: obligation.tier === 0 ? 1 : 2,
    // An obligation goes on in the escalation, which is a duty of its own. A reply has as long again.
    due: obligation.kind === 'reply' ? from + 3 * obligation.every : null,
  };
}

function expired(obligation: Obligation, now: number): Obligation {
  return { ...obligation, due: null, ended: { as: 'failed', at: now, by: { reason: 'expired' } } };
}

/** A little late keeps the beat; much late begins it again, so that two never come close together. */
function startOf(due: number | null, every: number, now: number): number {
  return due !== null && now >= due && now - due < every / 2 ? due : now;
}

function deadlineMs({ parley }: Message, at: number): number {
  const told = parley?.deadline === undefined ? NaN : Date.parse(parley.deadline) - at;
  return told > 0 ? told : DEADLINE_MS;
}
