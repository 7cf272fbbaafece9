import type { Choice, OpenQuestion } from '../ports/session.ts';

/** Older questions are not answered from here. Their dialogs stay open for the user at the terminal. */
export const EXPIRES_MS = 5 * 60_000;

/** The questions of a session that wait, and what was chosen so far: a choice or null for each. */
export interface PendingQuestions extends OpenQuestion {
  choices: readonly (Choice | null)[];
}

/** Questions that were answered from here, and what was chosen for each, in words. */
export interface AnsweredQuestions {
  call: string;
  words: string[];
  /** Who gave the last answer, if they said so. */
  agent?: string;
}

/** One answer of a caller. */
export interface AnswerRequest {
  /** Index of the question, from 0. */
  question: number;
  choice: Choice;
  /** Only these questions are meant: the Unix second in which they were asked. Without it, those that are open now. */
  askedAt?: number | undefined;
  agent?: string | undefined;
  /** The user answers in person, and may approve what the client is about to do. */
  mayApprove?: boolean;
}

/** Why an answer is not taken. */
export type AnswerRefusal =
  | { outcome: 'none' }
  | { outcome: 'already_answered' }
  /** A permission or a plan, and the user has not allowed to approve from here. */
  | { outcome: 'approving_off' }
  /** The largest index that there is. */
  | { outcome: 'question_range'; last: number }
  | { outcome: 'option_range'; last: number }
  | { outcome: 'invalid'; because: string };

/** `answered`: the client went on with it, or, if `left` questions of the set have no answer yet, it is kept until they have. */
export type AnswerEnd =
  | { outcome: 'answered'; words: string; left: number }
  | AnswerRefusal
  /** The dialog is still open, or that is not known. */
  | { outcome: 'failed'; because: string };

/** Why this answer cannot be one to these questions; null if it can. */
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

/** What was chosen, in words: `PostgreSQL`, `Ham, Nut`, or the text. */
export function wordsOf({ questions }: OpenQuestion, at: number, choice: Choice): string {
  if ('text' in choice) return choice.text;
  return choice.options.map((one) => questions[at]?.options[one]?.label ?? '').join(', ');
}

const invalid = (because: string): AnswerRefusal => ({ outcome: 'invalid', because });
