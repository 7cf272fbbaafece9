import * as v from 'valibot';
import type { AskedQuestion, Choice, OpenQuestion } from '../../core/ports/session.ts';
import { Schema } from '../../core/schema.ts';

/**
 * The PermissionRequest hook of Claude Code 2.1.325. The client runs it beside each dialog that it opens, one dialog after the other, and
 * takes what it prints as the answer to that dialog, however late; without a word the dialog stays. So an answer by it reaches this
 * call of a tool or none. What it is told on stdin names no call: that is found by the tool and its input.
 */

/** What the hook is told. */
export const PermissionEvent = new Schema(() =>
  v.object({
    hook_event_name: v.literal('PermissionRequest'),
    session_id: v.string(),
    tool_name: v.string(),
    tool_input: v.record(v.string(), v.unknown()),
  }),
);

/** What decides a dialog. */
export type Decision =
  | { behavior: 'allow'; updatedInput?: Record<string, unknown> }
  | { behavior: 'deny'; message: string; interrupt: true };

/** A hook that waits beside a dialog. */
export interface WaitingHook {
  conversation: string;
  tool: string;
  input: Record<string, unknown>;
  /** The call in the transcript, once that is known. */
  call?: string | undefined;
  decide(decision: Decision): void;
  /** Its dialog is closed. */
  end(): void;
}

const waiting = new Set<WaitingHook>();

/** From now on this hook waits in this process. Returns how to leave. */
export function addHook(hook: WaitingHook): () => void {
  waiting.add(hook);
  return () => void waiting.delete(hook);
}

/** The hooks that wait beside dialogs of a conversation, oldest first. */
export function hooksBeside(conversation: string): WaitingHook[] {
  return [...waiting].filter((hook) => hook.conversation === conversation);
}

/** The words for one question. Claude Code joins several labels, in the order of the dialog. */
export function answerWords({ options }: AskedQuestion, choice: Choice): string {
  if ('text' in choice) return choice.text;
  const inOrder = choice.options.toSorted((a, b) => a - b);
  return inOrder.map((one) => options[one]?.label ?? '').join(', ');
}

/** The decision that does what the option of the dialog does; null where only the dialog itself can. */
export function decisionFor(
  { kind, questions }: OpenQuestion,
  choices: readonly Choice[],
  input: Record<string, unknown>,
): Decision | null {
  if (kind === 'question') {
    const answers = questions.map((question, at) => [
      question.question,
      answerWords(question, choices[at] ?? { options: [] }),
    ]);
    // Without the input the client takes the questions for not answered.
    return { behavior: 'allow', updatedInput: { ...input, answers: Object.fromEntries(answers) } };
  }
  const [choice] = choices;
  // What a plan goes on with, and what is allowed from then on, is chosen only in the dialog.
  if (kind === 'plan' || !choice || 'text' in choice) return null;
  const label = questions[0]?.options[choice.options[0] ?? -1]?.label;
  if (label === 'Yes') return { behavior: 'allow' };
  return label === 'No' ? { behavior: 'deny', message: 'The user said no.', interrupt: true } : null;
}

/** What the hook prints. */
export function printed(decision: Decision): string {
  return JSON.stringify({ hookSpecificOutput: { hookEventName: 'PermissionRequest', decision } });
}
