import * as v from 'valibot';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import type { HookClient } from './client.ts';
import { isMailText } from './fit.ts';

const text = () => v.fallback(v.optional(v.string()), undefined);

/** What a client tells its hook on stdin, as far as we use it. Claude Code, Codex, Kimi and Gemini share these names. */
export const HookEvent = new Schema(() =>
  v.object({
    hook_event_name: text(),
    session_id: text(),
    /** Gemini CLI: its record of the session. */
    transcript_path: text(),
    cwd: text(),
    /** Gemini CLI: what its user said, or what a hook said at the end of the turn before. */
    prompt: text(),
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
export function isSubagent(client: HookClient, event: HookEvent): boolean {
  const { agent_id: id } = event;
  return (id !== undefined && id !== '' && id !== 'main') || client.isSubagent?.(event) === true;
}

/** Does a text that is printed at this event reach the model? */
export function isHeard(client: HookClient, { hook_event_name: name = '', tool_name = '' }: HookEvent): boolean {
  return Object.hasOwn(client.events, name) && !client.deafAfter.includes(tool_name);
}

/** A session starts, or goes on another day. */
export function isNewStart({ hook_event_name, source }: HookEvent): boolean {
  return hook_event_name === 'SessionStart' && source !== 'compact';
}

/** The event at which a text was printed, as far as the next event can be compared with it. */
export interface Moment {
  event: string;
  /** The prompt or turn that it belongs to, where the client says so. */
  prompt: string | null;
  /** The tool call that it belongs to. */
  tool: string | null;
}

/** At these a prompt begins: the model is asked after them. */
const PROMPT = ['UserPromptSubmit', 'BeforeAgent'];
export function isPrompt(event: string): boolean {
  return PROMPT.includes(event);
}

/** A model that calls a tool, ends its turn or has its context compacted was asked. spec: hook#proof */
const TOOL = [
  'PreToolUse',
  'PermissionRequest',
  'PostToolUse',
  'PostToolUseFailure',
  'PostToolBatch',
  'BeforeTool',
  'AfterTool',
];
const STOP = ['Stop', 'AfterAgent'];
const COMPACTION = ['PreCompact', 'PostCompact', 'PreCompress'];

/**
 * What an event says about a text that was printed at an earlier event of the same session. `asked`: the model was asked after it.
 * `not asked`: nothing shows that. `same moment`: another hook of the same prompt or tool call, which says neither.
 */
export type Proof = 'asked' | 'not asked' | 'same moment';

export function proofIn(client: HookClient, printed: Moment, event: HookEvent): Proof {
  const now = momentOf(event);
  if (isSameMoment(printed, now)) return 'same moment';
  // The mail itself is the prompt.
  if (client.endsTurn.includes(printed.event) && isPrompt(now.event) && isMailText(event.prompt ?? ''))
    return 'same moment';
  if (TOOL.includes(now.event) || STOP.includes(now.event) || isCompaction(event)) return 'asked';
  // SessionStart and SessionEnd carry the last prompt's id even if no request was made.
  if (now.event === 'SessionStart' || now.event === 'SessionEnd') return 'not asked';
  if (client.prolongsOnce && client.endsTurn.includes(printed.event) && isPrompt(now.event)) return 'asked';
  return now.prompt !== null && now.prompt === printed.prompt ? 'asked' : 'not asked';
}

/**
 * The same where the client has a record that does not show the text, and that is written before a hook runs. The result of a tool is
 * written when all tools of a step have run; a turn that has ended has nothing more to write.
 */
export function proofUnrecorded(proof: Proof, { hook_event_name: name = '' }: HookEvent): Proof {
  if (proof !== 'asked') return proof;
  return STOP.includes(name) ? 'not asked' : 'same moment';
}

export function momentOf(event: HookEvent): Moment {
  return {
    event: event.hook_event_name ?? '',
    prompt: event.prompt_id ?? event.turn_id ?? null,
    tool: event.tool_use_id ?? null,
  };
}

/** What a model was shown before may be gone from its context after this. */
export function isCompaction(event: HookEvent): boolean {
  const { hook_event_name: name = '', source } = event;
  return COMPACTION.includes(name) || (name === 'SessionStart' && source === 'compact');
}

function isSameMoment(one: Moment, other: Moment): boolean {
  if (one.tool !== null && one.tool === other.tool) return true;
  return isPrompt(one.event) && one.event === other.event && one.prompt !== null && one.prompt === other.prompt;
}
