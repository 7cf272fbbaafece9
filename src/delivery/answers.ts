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

/** The least time between two looks for answers: a record changes all the time while its model writes. */
const ANSWERS_MS = 250;
/** The notice that a question has no answer waits while its turn runs, but no longer than this. */
const LONGEST_WORK_MS = 60 * 60_000;

export interface AnswersDeps {
  workspace: Workspace;
  /** What the client's record says about a question. */
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  /** Whether answers go to senders behind a relay, too. */
  captureRemote: boolean;
  /** The status of this session, as of the last look; null if it does not run. */
  statusOf(session: Handover['to']): LiveSession['status'] | null;
  /** Asks for another look, now or after this time, ms. */
  lookIn(ms: number): void;
  log: Log;
}

/**
 * Captured answers: the final text of the turn that a question began is sent to the asker as the reply, if the agent sent none. A turn that
 * other mail or another prompt joined has no such text.
 */
export class Answers {
  /** Questions that were shown and may still get a captured answer, by mailbox and id. */
  readonly #questions = new Map<string, { who: Who; handover: Handover }>();
  /** By session: the question that we handed over alone while the session was idle, and since when its turn runs. */
  readonly #answering = new Map<string, { question: MessageId; since: number }>();
  #takenAt = -Infinity;

  constructor(readonly deps: AnswersDeps) {}

  get isWaiting(): boolean {
    return this.#questions.size > 0;
  }

  /**
   * Whether a session works on this question now. False if the session waits for its user, or has had the question for longer than
   * `LONGEST_WORK_MS`: then its owner should hear of it.
   */
  isWorkedOn({ mailbox, id }: Pick<Obligation, 'mailbox' | 'id'>): boolean {
    const handover = this.#questions.get(keyOf(mailbox, id))?.handover;
    if (!handover || this.deps.workspace.now() - handover.at > LONGEST_WORK_MS) return false;
    return this.deps.statusOf(handover.to) === 'active';
  }

  /** Whether other mail must wait because this session answers a question in a turn of its own: for `ALONE_MS` at most. */
  isAnswering(session: string): boolean {
    const { since } = this.#answering.get(session) ?? { since: -Infinity };
    return Math.abs(this.deps.workspace.now() - since) < ALONE_MS;
  }

  /** The session is about to get this question, alone. Until `end` its hook shows only urgent mail. */
  begin(session: string, question: MessageId, since = this.deps.workspace.now()): void {
    this.#answering.set(session, { question, since });
    this.#folderOf(session)?.delayMail(since + ALONE_MS);
  }

  /** This question no longer needs the turn: it was answered, did not arrive, or is not captured. Does nothing if another question has the turn. */
  end(session: string, question: MessageId): void {
    if (this.#answering.get(session)?.question !== question) return;
    this.#answering.delete(session);
    this.#folderOf(session)?.delayMail(null);
  }

  close(): void {
    for (const [session, { question }] of this.#answering) this.end(session, question);
  }

  /** The session was shown this message. If it is a question, its answer is expected from now on. */
  async expect(mailbox: Who, handover: Handover): Promise<void> {
    // A message from a shared mailbox is answered by its taker.
    const who = handover.taker === undefined ? mailbox : { name: handover.taker, home: mailbox.home };
    const message = await who.home.journal.message(handover.id);
    const copy = message && (await who.home.journal.copy(who.name, handover.id));
    if (!copy || !wantsAnswer({ message, attention: copy.attention })) return;
    if (!(await this.#mayCapture(who, message.from))) return this.end(handover.to.id, handover.id);
    this.#questions.set(keyOf(who.name, handover.id), { who, handover });
    await this.#resumeTurn(handover);
  }

  /** If the turn of this question still runs, keeps other mail out of it: an earlier follower gave the question, or its proof came late. */
  async #resumeTurn(handover: Handover): Promise<void> {
    const { id: session } = handover.to;
    const age = Math.abs(this.deps.workspace.now() - handover.at);
    if (age >= ALONE_MS || this.#answering.has(session) || this.deps.statusOf(handover.to) !== 'active') return;
    const proof = await this.deps.proofOf(handover);
    if (proof?.step === 'shown' && proof.turn && !proof.turn.end) this.begin(session, handover.id, handover.at);
  }

  /** Expects the answers to the questions that an earlier follower handed over and settled. */
  async expectOwed(who: Who): Promise<void> {
    for await (const { id } of allOwed(who)) {
      const handover = await lastHandover(who, id);
      if (handover && (await isSettledBy(who, handover))) await this.expect(who, handover);
    }
  }

  /** Sends the answers that the records show by now. */
  async take(): Promise<void> {
    const now = performance.now();
    if (this.#questions.size === 0) return;
    if (now - this.#takenAt < ANSWERS_MS) return this.deps.lookIn(ANSWERS_MS);
    this.#takenAt = now;
    for (const [key, question] of this.#questions) {
      try {
        if (await this.#finish(question)) this.#forget(key, question.handover);
      } catch (error) {
        // The question stays, and the next look tries again. The key of the answer keeps it from being sent twice.
        const because = error instanceof Error ? error.message : String(error);
        this.deps.log('answer_trouble', { mailbox: question.who.name, question: question.handover.id, because });
      }
    }
  }

  /** Sends the answer if its turn has ended. Returns true if nothing is left to do: the answer was sent, or there will be none. */
  async #finish({ who, handover }: { who: Who; handover: Handover }): Promise<boolean> {
    if (!(await isOwed(who, handover.id))) return true;
    const proof = await this.deps.proofOf(handover);
    const isLive = this.deps.statusOf(handover.to) !== null;
    // The record does not have the question: the session lost it, or a hook showed it.
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
    // Only a relay gives tokens: a sender with one is behind a relay.
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
      // The question was answered or withdrawn, or must not be answered: the model's words stay in its window.
      if (!(error instanceof Refusal)) throw error;
      log('answer_not_sent', { mailbox: who.name, question: id, because: error.message });
    }
  }
}

/** Whether this message is a question that may get a captured answer. An answer never does: two sessions would go on for ever. */
export function wantsAnswer({ message, attention }: Pick<Delivered, 'message' | 'attention'>): boolean {
  const isFirst = message.thread === undefined || message.parley?.intent === 'question';
  return isFirst && attention.policy === 'must_respond';
}

/**
 * The texts of messages that are handed over together; the first begins with the greeting. A question that begins a turn of its own gets
 * another greeting, which does not say that only `reply` reaches its sender.
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

/** Whether an answer is still open. False if the agent has claimed the question or put it off: then the agent answers it itself. */
async function isOwed(who: Who, id: MessageId): Promise<boolean> {
  const obligation = await who.home.journal.obligation(who.name, id);
  return !obligation || (obligation.ended === null && obligation.state === 'open');
}

/** Whether this handover settled the copy. If the handover was lost, a hook may have shown the message. */
async function isSettledBy(who: Who, { id, to }: Handover): Promise<boolean> {
  const copy = await who.home.journal.copy(who.name, id);
  const by = copy?.state === 'settled' ? copy.settledBy : null;
  return by?.['session'] === to.id && by['by'] !== 'hook';
}

function keyOf(mailbox: string, id: MessageId): string {
  return `${mailbox} ${id}`;
}
