import type { Choice, OpenQuestion } from '../ports/session.ts';

/** Questions older than this cannot be answered through control. Their dialogs stay open for the user at the terminal. */
export const EXPIRES_MS = 5 * 60_000;

/** The open questions of a session, and the choices so far: a choice or null for each question. */
export interface PendingQuestions extends OpenQuestion {
  choices: readonly (Choice | null)[];
}

/** Questions that were answered through control, and the choice for each, in words. */
export interface AnsweredQuestions {
  call: string;
  words: string[];
  /** The agent that gave the last answer, if it named itself. */
  agent?: string;
}

/** One answer of a caller. */
export interface AnswerRequest {
  /** Index of the question, from 0. */
  question: number;
  choice: Choice;
  /** The Unix second in which the questions were asked: the answer is only for them. Absent: for the questions that are open now. */
  askedAt?: number | undefined;
  agent?: string | undefined;
  /** The user answers in person, and may approve what the client is about to do. */
  mayApprove?: boolean;
}

/** Why an answer is refused. */
export type AnswerRefusal =
  | { outcome: 'none' }
  | { outcome: 'already_answered' }
  /** The question is a permission or a plan, and the user does not allow programs to approve. */
  | { outcome: 'approving_off' }
  /** `last`: the largest valid index. */
  | { outcome: 'question_range'; last: number }
  | { outcome: 'option_range'; last: number }
  | { outcome: 'invalid'; because: string };

/** The result of an answer. `answered`: the client continued with it; or, while `left` questions have no answer yet, the answer is kept. */
export type AnswerEnd =
  | { outcome: 'answered'; words: string; left: number }
  | AnswerRefusal
  /** The dialog is still open, or its state is unknown. */
  | { outcome: 'failed'; because: string };

/** Why this answer does not fit these questions; null if it does. */
export function answerRefusal(
  { kind, questions, choices }: PendingQuestions,
  { question: at, choice }: AnswerRequest,
  mayApprove: boolean,
): AnswerRefusal | null {
  if (kind !== 'question' && !mayApprove) return { outcome: 'approving_off' };
  const question = questions[at];
  if (!question) return { outcome: 'question_range', last: questions.length - 1 };
  if (choices[at]) return { outcome: 'already_answered' };
  if ('text' in choice) {
    if (kind !== 'question') return invalid('a permission takes one of its options, and no text');
    return choice.text.trim() === '' ? invalid('the text is empty') : null;
  }
  const last = question.options.length - 1;
  if (choice.options.some((one) => !Number.isInteger(one) || one < 0 || one > last))
    return { outcome: 'option_range', last };
  if (choice.options.length === 0) return invalid('no option is named');
  if (choice.options.length > 1 && !question.multiSelect) return invalid('this question takes one option');
  return null;
}

/** A choice in words: `PostgreSQL`, `Ham, Nut`, or the text. */
export function wordsOf({ questions }: OpenQuestion, at: number, choice: Choice): string {
  if ('text' in choice) return choice.text;
  return choice.options.map((one) => questions[at]?.options[one]?.label ?? '').join(', ');
}

const invalid = (because: string): AnswerRefusal => ({ outcome: 'invalid', because });
