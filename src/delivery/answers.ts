import type { Delivered } from '../core/mail/deliver.ts';
import { reply } from '../core/mail/say.ts';
import type { Who, Workspace } from '../core/mail/workspace.ts';
import { isBlank } from '../core/message.ts';
import { AgentName } from '../core/names.ts';
import type { MessageId, SendKey } from '../core/names.ts';
import { owe } from '../core/obligations/owed.ts';
import type { RecordedProof } from '../core/ports/live-session.ts';
import { Refusal } from '../core/refusal.ts';
import type { Log } from '../core/service.ts';
import { lastHandover } from './hand-over.ts';
import type { Handover } from './hand-over.ts';

const MOST_OWED = 100;
/** Pause between two looks for answers, ms: the record of a model that writes changes all the time. */
const ANSWERS_MS = 250;
/** Limit for mail that waits for the end of a turn that a question began, ms. If it joined that turn, the question would get no answer. */
const ALONE_MS = 60_000;

export interface AnswersDeps {
  workspace: Workspace;
  /** What the client's record says about a question. */
  proofOf(handover: Handover): Promise<RecordedProof | null>;
  /** Whether answers go to senders behind a relay, too. */
  captureRemote: boolean;
  /** Whether this session still runs, as of the last look. */
  isLive(session: Handover['to']): boolean;
  /** Asks for another look, now or after this time, ms. */
  lookIn(ms: number): void;
  log: Log;
}

/**
 * Captured answers. The final text of the turn that a question began goes back to its sender, if the agent gave no answer by itself. A turn
 * that something else joined has no such text.
 */
export class Answers {
  /** Questions whose turn may still end, with the session that has them. */
  readonly #questions = new Map<MessageId, { who: Who; handover: Handover }>();
  /** Sessions that answer a question which we gave them when they were idle, and since when. */
  readonly #answering = new Map<string, number>();
  #takenAt = 0;

  constructor(readonly deps: AnswersDeps) {}

  get isWaiting(): boolean {
    return this.#questions.size > 0;
  }

  /** Whether the turn that this question began has not ended. */
  isPending(id: MessageId): boolean {
    return this.#questions.has(id);
  }

  /** Whether this session works on a question that had a turn of its own, not longer than mail may wait for that. */
  isAnswering(session: string): boolean {
    const since = this.#answering.get(session) ?? -Infinity;
    return this.deps.workspace.now() - since < ALONE_MS;
  }

  /** The session is about to get a question, alone. */
  begin(session: string): void {
    this.#answering.set(session, this.deps.workspace.now());
  }

  /** It did not get it, or its answer is not looked for. */
  cancel(session: string): void {
    this.#answering.delete(session);
  }

  /** The session was shown this message: if it is a question, its answer is looked for. */
  async expect(mailbox: Who, handover: Handover): Promise<void> {
    // What was taken from a shared mailbox is its taker's to answer.
    const who = handover.taker === undefined ? mailbox : { name: handover.taker, home: mailbox.home };
    const message = await who.home.journal.message(handover.id);
    const copy = message && (await who.home.journal.copy(who.name, handover.id));
    if (!copy || !wantsAnswer({ message, attention: copy.attention })) return;
    if (await this.#mayCapture(who, message.from)) this.#questions.set(handover.id, { who, handover });
    else this.cancel(handover.to.id);
  }

  /** The same for what a process before this one had shown. */
  async expectOwed(who: Who): Promise<void> {
    for (const { id } of (await owe(who, { limit: MOST_OWED })).obligations) {
      const handover = await lastHandover(who, id);
      if (handover) await this.expect(who, handover);
    }
  }

  /** Sends the answers that are there by now. */
  async take(): Promise<void> {
    const now = Date.now();
    if (this.#questions.size === 0) return;
    if (now - this.#takenAt < ANSWERS_MS) return this.deps.lookIn(ANSWERS_MS);
    this.#takenAt = now;
    for (const [id, { who, handover }] of this.#questions) {
      if (!(await isOwed(who, id))) {
        this.#forget(id);
        continue;
      }
      const proof = await this.deps.proofOf(handover);
      if (proof?.step !== 'shown') continue;
      const end = proof.turn?.end;
      if (proof.turn && !end && this.deps.isLive(handover.to)) continue;
      this.#forget(id);
      if (end?.how === 'done' && !isBlank(end.text)) await this.#send(who, id, end.text);
    }
  }

  async #mayCapture({ name, home }: Who, from: string): Promise<boolean> {
    if ((await home.directory.get(name))?.parley?.capture === 'off') return false;
    if (this.deps.captureRemote) return true;
    const sender = AgentName.safeParse(from);
    // Only a relay gives tokens.
    const hasToken = sender.success && (await home.directory.get(sender.data))?.tokenHash !== undefined;
    return home.remote === undefined && !hasToken;
  }

  #forget(id: MessageId): void {
    const session = this.#questions.get(id)?.handover.to.id;
    this.#questions.delete(id);
    if (session !== undefined) this.#answering.delete(session);
    this.deps.lookIn(0);
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

/** What the agent has claimed or put off it answers itself. */
async function isOwed(who: Who, id: MessageId): Promise<boolean> {
  const obligation = await who.home.journal.obligation(who.name, id);
  return !obligation || (obligation.ended === null && obligation.state === 'open');
}
