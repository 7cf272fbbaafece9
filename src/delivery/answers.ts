import type { Delivered } from '../core/mail/deliver.ts';
import { reply } from '../core/mail/say.ts';
import type { Who, Workspace } from '../core/mail/workspace.ts';
import { isBlank } from '../core/message.ts';
import { AgentName } from '../core/names.ts';
import type { MessageId, SendKey } from '../core/names.ts';
import { allOwed } from '../core/obligations/owed.ts';
import type { Obligation } from '../core/obligations/rules.ts';
import type { LiveSession, RecordedProof } from '../core/ports/live-session.ts';
import type { Parcel } from '../core/ports/way-in.ts';
import { Refusal } from '../core/refusal.ts';
import type { Log } from '../core/service.ts';
import { shortBody } from './fit.ts';
import type { FittedMail, PushPhrases } from './fit.ts';
import { lastHandover } from './hand-over.ts';
import type { Handover } from './hand-over.ts';
import { HookSessionFolder, ALONE_MS } from './hook-session.ts';

/** Pause between two looks for answers, ms: the record of a model that writes changes all the time. */
const ANSWERS_MS = 250;
/** A turn that works longer than this no longer keeps back the notice that its question has no answer, ms. */
const LONGEST_WORK_MS = 60 * 60_000;

export interface AnswersDeps {
  workspace: Workspace;
  /** What the client's record says about a question. */
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  /** Whether answers go to senders behind a relay, too. */
  captureRemote: boolean;
  /** What this session does, as of the last look; null if it does not run. */
  statusOf(session: Handover['to']): LiveSession['status'] | null;
  /** Asks for another look, now or after this time, ms. */
  lookIn(ms: number): void;
  log: Log;
}

/**
 * Captured answers. The final text of the turn that a question began goes back to its sender, if the agent gave no answer by itself. A turn
 * that something else joined has no such text.
 */
export class Answers {
  /** Questions whose turn may still end, by mailbox and id, with the session that has them. */
  readonly #questions = new Map<string, { who: Who; handover: Handover }>();
  /** Sessions that answer a question which we gave them when they were idle: which one, and since when. */
  readonly #answering = new Map<string, { question: MessageId; since: number }>();
  #takenAt = -Infinity;

  constructor(readonly deps: AnswersDeps) {}

  get isWaiting(): boolean {
    return this.#questions.size > 0;
  }

  /** Whether a session works on this question now. One that waits for its user, or works for too long, may need help. */
  isWorkedOn({ mailbox, id }: Pick<Obligation, 'mailbox' | 'id'>): boolean {
    const handover = this.#questions.get(keyOf(mailbox, id))?.handover;
    if (!handover || this.deps.workspace.now() - handover.at > LONGEST_WORK_MS) return false;
    return this.deps.statusOf(handover.to) === 'active';
  }

  /** Whether this session works on a question that had a turn of its own, not longer than mail may wait for that. */
  isAnswering(session: string): boolean {
    const { since } = this.#answering.get(session) ?? { since: -Infinity };
    return Math.abs(this.deps.workspace.now() - since) < ALONE_MS;
  }

  /** The session is about to get this question, alone. Its hook shows it no other mail meanwhile. */
  begin(session: string, question: MessageId, since = this.deps.workspace.now()): void {
    this.#answering.set(session, { question, since });
    this.#folderOf(session)?.keepMail(since + ALONE_MS);
  }

  /** It has answered this one; or it did not get it, or its answer is not looked for. Another question keeps its turn. */
  end(session: string, question: MessageId): void {
    if (this.#answering.get(session)?.question !== question) return;
    this.#answering.delete(session);
    this.#folderOf(session)?.keepMail(null);
  }

  close(): void {
    for (const [session, { question }] of this.#answering) this.end(session, question);
  }

  /** The session was shown this message: if it is a question, its answer is looked for. */
  async expect(mailbox: Who, handover: Handover): Promise<void> {
    // What was taken from a shared mailbox is its taker's to answer.
    const who = handover.taker === undefined ? mailbox : { name: handover.taker, home: mailbox.home };
    const message = await who.home.journal.message(handover.id);
    const copy = message && (await who.home.journal.copy(who.name, handover.id));
    if (!copy || !wantsAnswer({ message, attention: copy.attention })) return;
    if (!(await this.#mayCapture(who, message.from))) return this.end(handover.to.id, handover.id);
    this.#questions.set(keyOf(who.name, handover.id), { who, handover });
    await this.#goOn(handover);
  }

  /** A process before this one kept mail from the turn of this question, or its handover was not proven at once: the turn still runs. */
  async #goOn(handover: Handover): Promise<void> {
    const { id: session } = handover.to;
    const age = Math.abs(this.deps.workspace.now() - handover.at);
    if (age >= ALONE_MS || this.#answering.has(session) || this.deps.statusOf(handover.to) !== 'active') return;
    const proof = await this.deps.proofOf(handover);
    if (proof?.step === 'shown' && proof.turn && !proof.turn.end) this.begin(session, handover.id, handover.at);
  }

  /** The same for what a process before this one had shown. */
  async expectOwed(who: Who): Promise<void> {
    for await (const { id } of allOwed(who)) {
      const handover = await lastHandover(who, id);
      if (handover && (await isSettledBy(who, handover))) await this.expect(who, handover);
    }
  }

  /** Sends the answers that are there by now. */
  async take(): Promise<void> {
    const now = performance.now();
    if (this.#questions.size === 0) return;
    if (now - this.#takenAt < ANSWERS_MS) return this.deps.lookIn(ANSWERS_MS);
    this.#takenAt = now;
    for (const [key, question] of this.#questions) {
      try {
        if (await this.#isDone(question)) this.#forget(key, question.handover);
      } catch (error) {
        // It stays, and the next look tries again: the key of the answer keeps it from being sent twice.
        const because = error instanceof Error ? error.message : String(error);
        this.deps.log('answer_trouble', { mailbox: question.who.name, question: question.handover.id, because });
      }
    }
  }

  /** Whether nothing more is to be done: its answer was sent, or there will be none. */
  async #isDone({ who, handover }: { who: Who; handover: Handover }): Promise<boolean> {
    if (!(await isOwed(who, handover.id))) return true;
    const proof = await this.deps.proofOf(handover);
    const isLive = this.deps.statusOf(handover.to) !== null;
    // The record does not have it: the session did not keep it, or a hook showed it.
    if (proof?.step === 'none') return proof.isOver || !isLive;
    if (proof?.step !== 'shown') return proof?.step === 'declined';
    const end = proof.turn?.end;
    if (proof.turn && !end && isLive) return false;
    if (end?.how === 'done' && !isBlank(end.text)) await this.#send(who, handover.id, end.text);
    return true;
  }

  async #mayCapture({ name, home }: Who, from: string): Promise<boolean> {
    if ((await home.directory.get(name))?.parley?.capture === 'off') return false;
    if (this.deps.captureRemote) return true;
    const sender = AgentName.safeParse(from);
    // Only a relay gives tokens.
    const hasToken = sender.success && (await home.directory.get(sender.data))?.tokenHash !== undefined;
    return home.remote === undefined && !hasToken;
  }

  #forget(key: string, { to, id }: Handover): void {
    this.#questions.delete(key);
    this.end(to.id, id);
    this.deps.lookIn(0);
  }

  #folderOf(session: string): HookSessionFolder | null {
    const [home] = this.deps.workspace.homes;
    return home ? HookSessionFolder.open(home.root, session) : null;
  }

  async #send(who: Who, id: MessageId, text: string): Promise<void> {
    const { workspace, log } = this.deps;
    try {
      const idempotencyKey = `captured-${id}` as SendKey;
      const sent = await reply(workspace, who, id, {
        text,
        idempotencyKey,
        intent: 'none',
        priority: 'normal',
        captured: true,
      });
      log('answer_captured', { mailbox: who.name, question: id, answer: sent.message.id });
    } catch (error) {
      // It was answered, withdrawn or is not to be answered: then what the model said stays in its window.
      if (!(error instanceof Refusal)) throw error;
      log('answer_not_sent', { mailbox: who.name, question: id, because: error.message });
    }
  }
}

/** Whether the final text of its turn is its answer. An answer is never answered so: two sessions would go on for ever. */
export function wantsAnswer({ message, attention }: Pick<Delivered, 'message' | 'attention'>): boolean {
  const isFirst = message.thread === undefined || message.parley?.intent === 'question';
  return isFirst && attention.policy === 'must_respond';
}

/**
 * What is handed over together is read together: the first has the greeting. A question that begins a turn of its own has one that does not
 * say that only `reply` reaches its sender.
 */
export function parcelsOf(say: PushPhrases, copies: readonly FittedMail[], isIdle: boolean): Parcel[] {
  return copies.map((mail, index) => {
    const { id, from } = mail.message;
    const whole = say.whole(mail);
    const ownTurn = isIdle && wantsAnswer(mail);
    const greeting = ownTurn ? say.ownTurnGreeting : say.greeting;
    const text = index === 0 || ownTurn ? `${greeting}\n${whole}` : whole;
    return { id, from, text, ownTurn, shortBody: shortBody(mail.message) };
  });
}

/** What the agent has claimed or put off it answers itself. */
async function isOwed(who: Who, id: MessageId): Promise<boolean> {
  const obligation = await who.home.journal.obligation(who.name, id);
  return !obligation || (obligation.ended === null && obligation.state === 'open');
}

/** Whether this handover ended the copy. A hook may have shown it after the handover was lost. */
async function isSettledBy(who: Who, { id, to }: Handover): Promise<boolean> {
  const copy = await who.home.journal.copy(who.name, id);
  const by = copy?.state === 'settled' ? copy.settledBy : null;
  return by?.['session'] === to.id && by['by'] !== 'hook';
}

function keyOf(mailbox: string, id: MessageId): string {
  return `${mailbox} ${id}`;
}
