import type { AgentName, MessageId } from '../names.ts';
import type { Disposition, Evidence } from '../receipt.ts';
import type { Attention, Injection } from '../attention/attention.ts';
import type { Intent, Message } from '../message.ts';
import type { KnownSignal } from '../signal.ts';
import { outcomeOf } from '../attention/reply-rules.ts';

/**
 * What a reader owes for one copy. `reply`: an answer in any form ends it, and so does its deadline. `obligation`: only its author or delegate
 * discharges it; reading, answering and time do not. spec: c2a#duties
 */
export interface Obligation {
  id: MessageId;
  mailbox: AgentName;
  /** The author of the message, who waits for the answer. */
  from: string;
  kind: 'reply' | 'obligation';
  /** When the message was written (ms). Its age counts from here. */
  at: number;
  /** `claimed`: its reader works on it. `deferred`: put off. `paused`: waits for its author. All are still owed. */
  state: 'open' | 'claimed' | 'deferred' | 'paused';
  /** When the next step is due (ms); null if time changes nothing more. */
  due: number | null;
  /** The time between two reminders (ms): a third of the deadline, or an obligation's fixed interval. It never changes. */
  every: number;
  /** How many reminders there were. */
  returns: number;
  /** 0: only its reader knows of it. 1: escalated to a coordinator. 2: with a person, where it stays until it is discharged. */
  tier: 0 | 1 | 2;
  /** It has got more time, which happens once. */
  extended: boolean;
  /** The reader's reason for a defer, or its question back, masked. */
  note: string | null;
  /** How it ended; null if it is open. An end never changes. */
  ended: { as: Disposition; at: number; by: Evidence } | null;
}

/*
 * An obligation is a row that time and signals change. A *reply* gets reminders after a third and two thirds of its deadline, is escalated
 * at the deadline, and fails after the same time again. An *obligation* gets three reminders at a fixed interval and is escalated then, but
 * neither time nor its reader ends it: only its author or delegate. The recipient of an escalation owes an answer too, which is escalated
 * in the same way; a person keeps it. A crash leaves the row as it is. The next process finds it due and does the step once, even if
 * several were missed.
 */

/** The default deadline of a reply, counted from when the message was written. spec: c2a#duties */
export const DEADLINE_MS = 300_000;
/** How long a claim lasts without activity. */
export const CLAIM_MS = 600_000;
/** How long a message is reserved for a chosen agent that has not reacted. */
export const RESERVED_MS = 60_000;
/** The default time of a defer. */
export const DEFER_MS = 30 * 60_000;

/** Without a host, an answer that is later than this is not escalated. */
const LATE_MS = 24 * 60 * 60_000;

/** The number of reminders before the escalation. */
const RETURNS = { reply: 2, obligation: 3 } as const;

/** The interval of an obligation's reminders, by injection: louder messages get earlier reminders. */
const FLAT_MS: Record<Injection, number> = {
  immediate: 60_000,
  buffered: 300_000,
  notify: 900_000,
  tool_mailbox: 900_000,
  digest: 900_000,
  silent: 900_000,
};

/** The first state of an obligation. A person gets no reminders. */
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

/** The time after which the reply is late. After it, the reader must read the thread before it answers. */
export function deadlineOf({ at, every }: Pick<Obligation, 'at' | 'every'>): number {
  return at + 3 * every;
}

export type ObligationStep = { do: 'return' | 'escalate' | 'expire' | 'nothing'; obligation: Obligation };

/** The step that is due now, and the row after it. After a pause there is one reminder, not several. spec: c2a#duties */
export function step(obligation: Obligation, now: number): ObligationStep {
  if (obligation.ended || obligation.due === null || now < obligation.due) return { do: 'nothing', obligation };
  if (needsReminder(obligation)) return { do: 'return', obligation: returned(obligation, now) };
  if (wasEscalated(obligation)) return { do: 'expire', obligation: expired(obligation, now) };
  return { do: 'escalate', obligation: escalated(obligation, now) };
}

/** The step without a host: a late reply is escalated once, without reminders. Rows later than `LATE_MS` do not change. */
export function stepIfLate(obligation: Obligation, now: number): ObligationStep {
  const { ended, due, tier, state } = obligation;
  const lateMs = now - deadlineOf(obligation);
  const isLate = !ended && due !== null && tier === 0 && state === 'open' && lateMs >= 0 && lateMs < LATE_MS;
  return isLate ? { do: 'escalate', obligation: escalated(obligation, now) } : { do: 'nothing', obligation };
}

/** The obligation after a signal, and what must follow. An ended obligation does not change. spec: c2a#signals */
export function onSignal(
  obligation: Obligation,
  signal: KnownSignal,
  by: { isAuthor: boolean; isRecipient: boolean; isDelegate: boolean },
  at: number,
  intent: Intent,
): { obligation: Obligation; follow: 'nothing' | 'escalate' | 'ask_back' } {
  if (obligation.ended) return { obligation, follow: 'nothing' };
  // The author and the delegate may say that the work is done, no matter who did it.
  if (signal === 'done' && (by.isAuthor || by.isDelegate)) {
    const end = { as: 'responded', at, by: { signal, by: by.isAuthor ? 'author' : 'delegate' } } as const;
    return { obligation: { ...obligation, due: null, ended: end }, follow: 'nothing' };
  }
  if (!by.isRecipient) return { obligation, follow: 'nothing' };
  return obligation.kind === 'reply'
    ? onReplySignal(obligation, signal, at, intent)
    : onObligationSignal(obligation, signal, at);
}

/** The row after a defer. An obligation is deferred once, by one interval: otherwise its reader could defer it forever. */
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
  // A person has no deadline.
  const until = (ms: number): number | null => (obligation.due === null ? null : at + ms);
  if (disposition === 'claimed')
    return { obligation: { ...obligation, state: 'claimed', due: until(CLAIM_MS) }, follow: 'nothing' };
  if (disposition === 'deferred') {
    return { obligation: { ...obligation, state: 'deferred', due: until(DEFER_MS) }, follow: 'nothing' };
  }
  return { obligation, follow: 'nothing' };
}

/** A reader's signal does not end an obligation. `working` and `queued` give more time, once; `declined` and `blocked` escalate it. */
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

/** Pauses the row until its author answers a question back, which is asked once. A row without a due time is not paused. */
function pause(obligation: Obligation, until: number | null): ReturnType<typeof onSignal> {
  if (obligation.state === 'paused') return { obligation, follow: 'nothing' };
  if (isAtRest(obligation)) return { obligation, follow: 'ask_back' };
  return { obligation: { ...obligation, state: 'paused', due: until }, follow: 'ask_back' };
}

function extended(obligation: Obligation): Obligation {
  if (obligation.extended || obligation.due === null) return obligation;
  return { ...obligation, extended: true, due: obligation.due + obligation.every };
}

/** Is the row with a person, or escalated for good, so that time changes nothing more? */
function isAtRest({ due, state }: Obligation): boolean {
  return due === null && state !== 'paused';
}

/** Is the next step a reminder? A deferred, claimed or paused reply gets one more reminder before its escalation. */
function needsReminder({ kind, state, returns }: Obligation): boolean {
  return returns < RETURNS[kind] || (kind === 'reply' && state !== 'open');
}

/** Was the reply escalated already? A reply is escalated once. */
function wasEscalated({ kind, tier }: Obligation): boolean {
  return kind === 'reply' && tier > 0;
}

function returned(obligation: Obligation, now: number): Obligation {
  const { due, every, returns, kind } = obligation;
  // Missed reminders count: after a pause there is one reminder, then the escalation.
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
    // The escalation is an obligation of its own. A reply gets the same time again.
    due: obligation.kind === 'reply' ? from + 3 * obligation.every : null,
  };
}

function expired(obligation: Obligation, now: number): Obligation {
  return { ...obligation, due: null, ended: { as: 'failed', at: now, by: { reason: 'expired' } } };
}

/** The time from which the next interval counts. After a long delay it counts from now, so two reminders are never close together. */
function startOf(due: number | null, every: number, now: number): number {
  return due !== null && now >= due && now - due < every / 2 ? due : now;
}

function deadlineMs({ parley }: Message, at: number): number {
  const given = parley?.deadline === undefined ? NaN : Date.parse(parley.deadline) - at;
  return given > 0 ? given : DEADLINE_MS;
}
