import type { Answering, Choice, OpenQuestion, QuestionDriver } from '../ports/session.ts';
import { EXPIRES_MS, answerRefusal, wordsOf } from './questions.ts';
import type { SessionStore } from '../ports/session-store.ts';
import type { AnsweredQuestions, AnswerEnd, AnswerRequest, PendingQuestions } from './questions.ts';

/** What `SessionAnswers` needs from outside. */
export interface AnswerDeps {
  session: string;
  /** The current driver; undefined if the questions of its client cannot be answered. */
  driver(): QuestionDriver | undefined;
  /** Whether the user lets programs approve what the client is about to do. */
  mayApprove(): Promise<boolean>;
  store: Pick<SessionStore, 'record' | 'choices' | 'keepChoices'>;
  /** Writes what was stored to the history files. */
  publish(): Promise<void>;
  now(): number;
}

interface Given {
  call: string;
  choices: Map<number, Choice>;
}

/**
 * Answers the questions of one session. The questions of one dialog may be answered in any order. When the last answer arrives, all answers
 * are entered in the order of the questions. Until then they are kept in the store, so a caller need not repeat a kept answer after a
 * restart.
 *
 * One answer is handled at a time: of two answers to the same question the first wins.
 */
export class SessionAnswers {
  /** Null until the store was read. */
  #given: Given | null = null;
  /** The dialog into which answers are being entered. */
  #entering: OpenQuestion | null = null;
  /** The dialog that was answered last. */
  #last: { open: OpenQuestion; answered: AnsweredQuestions } | null = null;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #stop = new AbortController();

  constructor(readonly deps: AnswerDeps) {}

  /** The questions that were answered last through `answer`. */
  get last(): AnsweredQuestions | null {
    return this.#last?.answered ?? null;
  }

  async pending(): Promise<PendingQuestions | null> {
    const open = await this.#open();
    return open && this.#withChoices(open);
  }

  async answer(request: AnswerRequest): Promise<AnswerEnd> {
    // While answers are entered, the next dialog may open. A request that came before it does not mean that dialog.
    const meant = this.#entering ?? (await this.#open());
    const turn = this.#turn.then(() => this.#answer(meant, request));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  close(): void {
    this.#stop.abort();
  }

  async #answer(meant: OpenQuestion | null, request: AnswerRequest): Promise<AnswerEnd> {
    const open = await this.#open();
    if (!meant || (request.askedAt !== undefined && Math.floor(meant.askedAt / 1000) !== request.askedAt))
      return this.#lastAnswered(request);
    if (meant.call === this.#last?.open.call) return this.#lastAnswered(request);
    if (open?.call !== meant.call) return { outcome: 'none' };
    const refusal = answerRefusal(
      await this.#withChoices(open),
      request,
      request.mayApprove === true || (await this.deps.mayApprove()),
    );
    if (refusal) return refusal;
    const { question: at, choice } = request;
    if (this.#given?.call !== open.call) this.#given = { call: open.call, choices: new Map() };
    const { choices } = this.#given;
    choices.set(at, choice);
    const words = wordsOf(open, at, choice);
    const left = open.questions.length - choices.size;
    if (left > 0) {
      await this.#keep(open, choices);
      return { outcome: 'answered', words, left };
    }
    const end = await this.#enter(open, choices);
    if (end.outcome !== 'answered') {
      // The question can be answered again if its dialog is still open.
      choices.delete(at);
      return end.outcome === 'gone' ? { outcome: 'none' } : { outcome: 'failed', because: end.because };
    }
    const { agent } = request;
    const inWords = open.questions.map((_question, one) => wordsOf(open, one, choices.get(one) ?? { options: [] }));
    this.#last = { open, answered: { call: open.call, words: inWords, ...(agent !== undefined && { agent }) } };
    await this.#record(inWords, agent);
    if (open.questions.length > 1) await this.deps.store.keepChoices(this.deps.session, null);
    return { outcome: 'answered', words, left };
  }

  async #record(words: readonly string[], agent: string | undefined): Promise<void> {
    const { session, store } = this.deps;
    const line = {
      session,
      ts: Math.floor(this.deps.now() / 1000),
      from: 'human' as const,
      ...(agent !== undefined && { agent }),
    };
    for (const one of words) await store.record({ ...line, text: `Selected: ${one}` });
    await this.deps.publish();
  }

  async #keep({ call, questions }: OpenQuestion, choices: ReadonlyMap<number, Choice>): Promise<void> {
    const kept = questions.map((_question, at) => choices.get(at) ?? null);
    await this.deps.store.keepChoices(this.deps.session, { call, choices: kept });
  }

  /** The choices so far, of the open dialog or of an earlier one. */
  async #loaded(): Promise<Given> {
    if (this.#given) return this.#given;
    const kept = await this.deps.store.choices(this.deps.session);
    const known = (kept?.choices ?? []).flatMap((choice, at): [number, Choice][] => (choice ? [[at, choice]] : []));
    this.#given ??= { call: kept?.call ?? '', choices: new Map(known) };
    return this.#given;
  }

  async #enter(open: OpenQuestion, choices: ReadonlyMap<number, Choice>): Promise<Answering> {
    const driver = this.deps.driver();
    if (!driver) return { outcome: 'gone' };
    this.#entering = open;
    try {
      const inOrder = open.questions.map((_question, at) => choices.get(at) ?? { options: [] });
      return await driver.answer(open.call, inOrder, this.#stop.signal);
    } finally {
      this.#entering = null;
    }
  }

  /** The refusal if no question is open: `already_answered` for a late answer to the last dialog, else `none`. */
  #lastAnswered({ question, askedAt }: AnswerRequest): AnswerEnd {
    const last = this.#last?.open;
    const isMeant = last && (askedAt === undefined || Math.floor(last.askedAt / 1000) === askedAt);
    const isRecent = last && this.deps.now() - last.askedAt <= EXPIRES_MS;
    return { outcome: isMeant && isRecent && question in last.questions ? 'already_answered' : 'none' };
  }

  async #open(): Promise<OpenQuestion | null> {
    const open = (await this.deps.driver()?.open()) ?? null;
    return open && this.deps.now() - open.askedAt <= EXPIRES_MS ? open : null;
  }

  async #withChoices(open: OpenQuestion): Promise<PendingQuestions> {
    const { call, choices } = await this.#loaded();
    return {
      ...open,
      choices: open.questions.map((_question, at) => (call === open.call ? choices.get(at) : null) ?? null),
    };
  }
}
