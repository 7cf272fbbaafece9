import type { Answering, Choice, OpenQuestion, QuestionDriver } from '../ports/session.ts';
import { EXPIRES_MS, answerRefusal, wordsOf } from './questions.ts';
import type { AnswerEnd, AnswerRequest, PendingQuestions } from './questions.ts';

/** What the answers of one session work with. */
export interface AnswerDeps {
  /** The driver as it is now; undefined if its client's questions cannot be answered. */
  driver(): QuestionDriver | undefined;
  /** The user lets programs approve what the client is about to do. */
  mayApprove(): Promise<boolean>;
  /** Stores what was chosen in the history. */
  record(words: string, agent: string | undefined): Promise<void>;
  now(): number;
}

/**
 * The answers to what one session asks. Several questions in one dialog are answered in any order; when the last answer is there, all of them
 * are entered in their order. Until then they are kept in memory: after a restart such a set waits for all its answers again.
 *
 * One answer at a time: of two to the same question the first wins.
 */
export class SessionAnswers {
  #given: { call: string; choices: Map<number, Choice> } | null = null;
  /** Whose answers are being entered. */
  #entering: OpenQuestion | null = null;
  /** The set that was answered last. */
  #last: OpenQuestion | null = null;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #stop = new AbortController();

  constructor(readonly deps: AnswerDeps) {}

  async pending(): Promise<PendingQuestions | null> {
    const open = await this.#open();
    return open && this.#withChoices(open);
  }

  async answer(request: AnswerRequest): Promise<AnswerEnd> {
    // While answers are entered the next dialog may open. Its questions are not meant by a request that came before.
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
    if (meant.call === this.#last?.call) return this.#lastAnswered(request);
    if (open?.call !== meant.call) return { outcome: 'none' };
    const refusal = answerRefusal(
      this.#withChoices(open),
      request,
      request.mayApprove === true || (await this.deps.mayApprove()),
    );
    if (refusal) return refusal;
    const { question: at, choice } = request;
    this.#given = this.#given?.call === open.call ? this.#given : { call: open.call, choices: new Map() };
    const { choices } = this.#given;
    choices.set(at, choice);
    const words = wordsOf(open, at, choice);
    const left = open.questions.length - choices.size;
    if (left > 0) return { outcome: 'answered', words, left };
    const end = await this.#enter(open, choices);
    if (end.outcome === 'gone') return { outcome: 'none' };
    if (end.outcome !== 'answered') {
      // It can be answered again, if it is still open then.
      choices.delete(at);
      return { outcome: 'failed', because: end.because };
    }
    this.#last = open;
    for (const question of open.questions.keys()) {
      const chosen = choices.get(question);
      if (chosen) await this.deps.record(wordsOf(open, question, chosen), request.agent);
    }
    return { outcome: 'answered', words, left };
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

  /** Nothing waits; but a caller who is late by a moment is told that another one was first. */
  #lastAnswered({ question, askedAt }: AnswerRequest): AnswerEnd {
    const last = this.#last;
    const isMeant = last && (askedAt === undefined || Math.floor(last.askedAt / 1000) === askedAt);
    const isRecent = last && this.deps.now() - last.askedAt <= EXPIRES_MS;
    return { outcome: isMeant && isRecent && question in last.questions ? 'already_answered' : 'none' };
  }

  async #open(): Promise<OpenQuestion | null> {
    const open = (await this.deps.driver()?.open()) ?? null;
    return open && this.deps.now() - open.askedAt <= EXPIRES_MS ? open : null;
  }

  #withChoices(open: OpenQuestion): PendingQuestions {
    const given = this.#given?.call === open.call ? this.#given.choices : null;
    return { ...open, choices: open.questions.map((_question, at) => given?.get(at) ?? null) };
  }
}
