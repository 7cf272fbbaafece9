import type { Env } from '../../core/env.ts';
import { withLimit } from '../../core/wait.ts';
import { EXPIRES_MS } from '../../core/questions/questions.ts';
import type { SessionControl } from '../../core/sessions/control.ts';
import { type Decision, PermissionEvent, printed, addHook } from '../../clients/claude/permission-hook.ts';
import { ControlClient } from './client.ts';

/** By this time the client's registry says that the client waits. */
const OPENED_MS = 10_000;

/**
 * The server's half: waits until a caller answers the hook's dialog, or the dialog is closed. The hook ends when this returns, so it does
 * not outlive its dialog, the server, or the time limit of a question. Null: no decision, and the dialog stays open.
 */
export async function decisionBeside(
  control: SessionControl,
  told: unknown,
  gone: AbortSignal,
): Promise<Decision | null> {
  const event = PermissionEvent.safeParse(told);
  if (!event.success) return null;
  const { session_id: conversation, tool_name: tool, tool_input: input } = event.data;
  const all = await control.sessions();
  const session = all.find(({ client, state }) => client === 'claude' && state.conversation === conversation);
  if (!session || gone.aborted) return null;
  const { promise, resolve } = Promise.withResolvers<Decision | null>();
  const end = (): void => resolve(null);
  const leave = addHook({ conversation, tool, input, decide: resolve, end });
  let isWaiting = false;
  const unwatch = control.watch([session.name], (_name, state) => {
    if (state?.status === 'waiting') isWaiting = true;
    else if (isWaiting) end();
  });
  const timers = [setTimeout(end, EXPIRES_MS), setTimeout(() => isWaiting || end(), OPENED_MS)];
  gone.addEventListener('abort', end, { once: true });
  try {
    return await promise;
  } finally {
    for (const timer of timers) clearTimeout(timer);
    gone.removeEventListener('abort', end);
    unwatch();
    leave();
  }
}

/** The hook's half: returns what the hook prints, or null for nothing. Returns at once if no server runs. */
export async function answerBeside(env: Env, stdin: string): Promise<string | null> {
  const event: unknown = JSON.parse(stdin);
  const client = await ControlClient.open(env);
  try {
    const answer = await withLimit(client.request({ cmd: 'dialog', event }), EXPIRES_MS + OPENED_MS);
    return answer?.['decision'] === undefined ? null : printed(answer['decision'] as Decision);
  } finally {
    client.close();
  }
}
