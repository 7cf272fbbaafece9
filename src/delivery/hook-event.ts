import * as v from 'valibot';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import type { HookClient } from './client.ts';
import { isMailText } from './fit.ts';

const text = () => v.fallback(v.optional(v.string()), undefined);

/** The fields that we use of the event which a client writes to its hook's stdin. Claude Code, Codex, Kimi and Gemini share these names. */
export const HookEvent = new Schema(() =>
  v.object({
    hook_event_name: text(),
    session_id: text(),
    /** Gemini CLI: its record of the session. */
    transcript_path: text(),
    cwd: text(),
    /** Gemini CLI: the user's prompt, or what a hook printed at the end of the turn before. */
    prompt: text(),
    /** Why a session starts: startup, resume, clear, compact. */
    source: text(),
    tool_name: text(),
    /** Claude Code: the same from one prompt to the next. */
    prompt_id: text(),
    /** Codex: the same within one turn. */
    turn_id: text(),
    tool_use_id: text(),
    /** Set inside a subagent. Kimi also names its main agent (`main`). */
    agent_id: text(),
  }),
);
export type HookEvent = Described<typeof HookEvent>;

/** Whether a subagent runs this hook. Its context ends with it: mail shown there would never reach the agent that it was sent to. */
export function isSubagent(client: HookClient, event: HookEvent): boolean {
  const { agent_id: id } = event;
  return (id !== undefined && id !== '' && id !== 'main') || client.isSubagent?.(event) === true;
}

/** Whether a text that is printed at this event reaches the model. */
export function isHeard(client: HookClient, { hook_event_name: name = '', tool_name = '' }: HookEvent): boolean {
  return Object.hasOwn(client.events, name) && !client.deafAfter.includes(tool_name);
}

/** Whether a session starts or is resumed. A compaction also sends `SessionStart`, and is not meant. */
export function isNewStart({ hook_event_name, source }: HookEvent): boolean {
  return hook_event_name === 'SessionStart' && source !== 'compact';
}

/** The facts about the event at which a text was printed that later events are compared with. */
export interface Moment {
  event: string;
  /** The prompt or turn of the event, if the client says it. */
  prompt: string | null;
  /** The tool call of the event, if it has one. */
  tool: string | null;
}

/** Events with a prompt: the client asks its model after them. */
const PROMPT = ['UserPromptSubmit', 'BeforeAgent'];
export function isPrompt(event: string): boolean {
  return PROMPT.includes(event);
}

/** Events that prove a request: a model that calls a tool, ends its turn or has its context compacted was asked. spec: hook#proof */
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
 * What an event says about a text that was printed at an earlier event of the same session. `asked`: the model was asked after the text was
 * printed. `not asked`: nothing proves that. `same moment`: another hook of the same prompt or tool call, which says neither.
 */
export type Proof = 'asked' | 'not asked' | 'same moment';

export function proofIn(client: HookClient, printed: Moment, event: HookEvent): Proof {
  const now = momentOf(event);
  if (isSameMoment(printed, now)) return 'same moment';
  // Our own text, printed at the end of a turn, has become this prompt.
  if (client.endsTurn.includes(printed.event) && isPrompt(now.event) && isMailText(event.prompt ?? ''))
    return 'same moment';
  if (TOOL.includes(now.event) || STOP.includes(now.event) || isCompaction(event)) return 'asked';
  // SessionStart and SessionEnd carry the last prompt's id even if no request was made.
  if (now.event === 'SessionStart' || now.event === 'SessionEnd') return 'not asked';
  if (client.prolongsOnce && client.endsTurn.includes(printed.event) && isPrompt(now.event)) return 'asked';
  return now.prompt !== null && now.prompt === printed.prompt ? 'asked' : 'not asked';
}

/**
 * Corrects a proof for a client that writes its record before it runs a hook, if the record does not show the text. A tool's result is
 * written when all tools of its step have run, so `asked` becomes `same moment`. At the end of a turn nothing more is written: then the model
 * was not asked with the text.
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

/** Whether the event is a compaction: what the model was shown before may be gone from its context. */
export function isCompaction(event: HookEvent): boolean {
  const { hook_event_name: name = '', source } = event;
  return COMPACTION.includes(name) || (name === 'SessionStart' && source === 'compact');
}

function isSameMoment(one: Moment, other: Moment): boolean {
  if (one.tool !== null && one.tool === other.tool) return true;
  return isPrompt(one.event) && one.event === other.event && one.prompt !== null && one.prompt === other.prompt;
}
