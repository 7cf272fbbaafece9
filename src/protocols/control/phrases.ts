import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import { visibleLine } from '../../core/gate.ts';
import type { AnswerEnd } from '../../core/questions/questions.ts';
import type { PromptEnd } from '../../core/sessions/control.ts';
import { Refusal } from '../../core/refusal.ts';
import { storageTrouble } from '../../core/disk.ts';

/** The fixed error texts of the document. spec: control#errors */
export const ERRORS = {
  invalidJson: 'invalid JSON',
  unknownCommand: 'unknown command',
  sessionRequired: 'session required',
  textRequired: 'session and text required',
  notFound: 'session not found',
  noHost: 'host not configured',
  textTooLong: 'text too long (limit 1 MiB)',
  lineTooLong: 'request too long (limit 4 MiB)',
  timeout: 'timeout waiting for response',
  notRestarted: 'failed to restart',
  interrupted: 'interrupted',
  stopped: 'session stopped',
  withdrawn: 'failed to send: it was withdrawn',
  closing: 'server stopping: the answer will be in the history',
  commandsOff: 'client commands are off (allow_commands)',
  noQuestions: 'no pending questions for this session',
  alreadyAnswered: 'question already answered',
  approvingOff: 'answering permissions is off',
} as const;

/** The reason for a prompt that was a command of the client: its model makes no turn. */
const NO_TURN = 'no turn';

/** An error of the socket, with the document's text and further fields of the answer. */
export class ControlError extends Error {
  override readonly name = 'ControlError';
  constructor(
    message: string,
    readonly fields: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

/** The text for a client that was started but did not become ready. */
export function notInitialized(client: string): string {
  return `session started but ${clientWord(client)} failed to initialize`;
}

/** The document's name for Claude Code, and the titles of other clients that we know. */
function clientWord(client: string): string {
  return client === 'claude' ? 'Claude' : (SETTINGS_CLIENTS.find(({ name }) => name === client)?.title ?? client);
}

/** The text for a prompt without an answer. Callers look for `failed to restart`. */
export function endSaid(end: Exclude<PromptEnd, { outcome: 'answered' }>, client: string, isLate: boolean): string {
  switch (end.outcome) {
    case 'timeout':
      return ERRORS.timeout;
    case 'withdrawn':
      return isLate ? ERRORS.timeout : ERRORS.withdrawn;
    case 'not_started':
      return `${ERRORS.notRestarted} ${clientWord(client)}: ${line(end.because)}`;
    case 'unreachable':
      return line(end.because);
    case 'failed':
      return end.because === NO_TURN ? NO_TURN : `failed to send: ${line(end.because)}`;
    case 'interrupted':
      return ERRORS.interrupted;
    case 'stopped':
      return ERRORS.stopped;
    case 'closed':
      return ERRORS.closing;
  }
}

/** The text for an answer to a question that was refused. */
export function answerSaid(end: Exclude<AnswerEnd, { outcome: 'answered' }>): string {
  switch (end.outcome) {
    case 'none':
      return ERRORS.noQuestions;
    case 'already_answered':
      return ERRORS.alreadyAnswered;
    case 'approving_off':
      return ERRORS.approvingOff;
    case 'question_range':
      return `question_index out of range (0-${end.last})`;
    case 'option_range':
      return `option_index out of range (0-${end.last})`;
    case 'invalid':
      return line(end.because);
    case 'failed':
      return `failed to send keys: ${line(end.because)}`;
  }
}

/** The answer to a failed request. An error that is no refusal is our bug: the server logs it, and the caller sees no details. */
export function errorAnswer(error: unknown): { ok: false; error: string } & Record<string, unknown> {
  if (error instanceof ControlError) return { ok: false, error: error.message, ...error.fields };
  const told = storageTrouble(error);
  if (told instanceof Refusal) return { ok: false, error: line(told.message) };
  return { ok: false, error: 'internal error; see the log of the server' };
}

/** One line of another program's words. */
export function line(text: string): string {
  return visibleLine(text, 1000);
}
