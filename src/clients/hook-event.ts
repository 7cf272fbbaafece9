import * as v from 'valibot';
import { Schema } from '../protocol/schema.ts';
import type { Described } from '../protocol/schema.ts';

const text = () => v.fallback(v.optional(v.string()), undefined);

/** What a client tells its hook on stdin, as far as we use it. Claude Code, Codex, Kimi and Gemini share these names. */
export const HookEvent = new Schema(() =>
  v.object({
    hook_event_name: text(),
    session_id: text(),
    cwd: text(),
    /** Why a session starts: startup, resume, clear, compact. */
    source: text(),
    tool_name: text(),
    /** Claude Code: the same from one prompt to the next. */
    prompt_id: text(),
    /** Codex: the same within one turn. */
    turn_id: text(),
    tool_use_id: text(),
    /** Only inside a subagent (Kimi names its main agent too). */
    agent_id: text(),
  }),
);
export type HookEvent = Described<typeof HookEvent>;

/** A subagent's context is thrown away with it: mail shown there would never reach the agent it was sent to. */
export function isSubagent(event: HookEvent): boolean {
  return event.agent_id !== undefined && event.agent_id !== '' && event.agent_id !== 'main';
}
