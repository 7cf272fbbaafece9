import * as v from 'valibot';
import type { AskedQuestion, Choice, OpenQuestion } from '../../core/ports/session.ts';
import { Schema } from '../../core/schema.ts';

/**
 * The PermissionRequest hook of Claude Code 2.1.325. The client opens one dialog at a time and runs the hook beside it. Output of the hook,
 * however late, answers that dialog; without output the dialog stays open. So an answer by the hook reaches its own tool call or none.
 * The event on stdin has no id of the call, so the call is found by the tool and its input.
 */

/** The event that the hook gets on stdin. */
export const PermissionEvent = new Schema(() =>
  v.object({
    hook_event_name: v.literal('PermissionRequest'),
    session_id: v.string(),
    tool_name: v.string(),
    tool_input: v.record(v.string(), v.unknown()),
  }),
);

/** The answer to a dialog. */
export type Decision =
  | { behavior: 'allow'; updatedInput?: Record<string, unknown> }
  | { behavior: 'deny'; message: string; interrupt: true };

/** A hook that waits beside a dialog. */
export interface WaitingHook {
  conversation: string;
  tool: string;
  input: Record<string, unknown>;
  /** The id of the call in the transcript, once it is known. */
  call?: string | undefined;
  decide(decision: Decision): void;
  /** Ends the hook, because its dialog is closed. */
  end(): void;
}

const waiting = new Set<WaitingHook>();

/** Registers a hook that waits in this process. Returns a function that removes it. */
export function addHook(hook: WaitingHook): () => void {
  waiting.add(hook);
  return () => void waiting.delete(hook);
}

/** The waiting hooks of a conversation, oldest first. */
export function hooksBeside(conversation: string): WaitingHook[] {
  return [...waiting].filter((hook) => hook.conversation === conversation);
}

/** The answer to one question as text. Claude Code joins several labels, in the order of the dialog. */
export function answerWords({ options }: AskedQuestion, choice: Choice): string {
  if ('text' in choice) return choice.text;
  const inOrder = choice.options.toSorted((a, b) => a - b);
  return inOrder.map((one) => options[one]?.label ?? '').join(', ');
}

/** The decision with the same effect as the chosen option of the dialog; null if only the dialog itself can do it. */
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
    // Without the original input Claude Code treats the questions as unanswered.
    return { behavior: 'allow', updatedInput: { ...input, answers: Object.fromEntries(answers) } };
  }
  const [choice] = choices;
  // Only the dialog can choose the mode in which a plan continues, and a rule for later calls.
  if (kind === 'plan' || !choice || 'text' in choice) return null;
  const label = questions[0]?.options[choice.options[0] ?? -1]?.label;
  if (label === 'Yes') return { behavior: 'allow' };
  return label === 'No' ? { behavior: 'deny', message: 'The user said no.', interrupt: true } : null;
}

/** The output of the hook. */
export function printed(decision: Decision): string {
  return JSON.stringify({ hookSpecificOutput: { hookEventName: 'PermissionRequest', decision } });
}
