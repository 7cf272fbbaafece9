import * as v from 'valibot';
import { Refusal } from './refusal.ts';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';

/** UTC with milliseconds, as `Date.toISOString` writes it. */
const Moment = () =>
  v.pipe(v.string(), v.regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'is no UTC time with milliseconds'));
const Count = () => v.pipe(v.number(), v.integer(), v.minValue(0));
const Details = () => v.nullable(v.record(v.string(), v.unknown()));

/** What OpenCode can have in front: only `prompt` takes a text. spec: statefile#state */
export const FOCUS = ['permission', 'question', 'prompt', 'menu', 'unknown'] as const;

/** What is known of one OpenCode and its root session. Fields that we do not know are kept. spec: statefile#state */
export const OpenCodeState = new Schema(() =>
  v.looseObject({
    c2c_session_id: v.string(),
    c2c_alias: v.nullable(v.string()),
    root_opencode_session_id: v.nullable(v.string()),
    opencode_pid: Count(),
    plugin_started_at: Moment(),
    state_last_updated_at: Moment(),
    agent: v.looseObject({
      is_idle: v.nullable(v.boolean()),
      turn_count: Count(),
      step_count: Count(),
      last_step: v.nullable(v.looseObject({ event_type: v.string(), at: Moment(), details: Details() })),
      provider_id: v.nullable(v.string()),
      model_id: v.nullable(v.string()),
    }),
    tui_focus: v.looseObject({ ty: v.picklist(FOCUS), details: Details() }),
    prompt: v.looseObject({ has_text: v.nullable(v.boolean()) }),
    pendingQuestion: v.nullable(
      v.looseObject({ id: v.string(), text: v.string(), header: v.string(), options: v.array(v.string()) }),
    ),
  }),
);
export type OpenCodeState = Described<typeof OpenCodeState>;

/** The file: the whole state, and when its plugin last said something. spec: statefile#file */
export const StateFile = new Schema(() =>
  v.looseObject({ event: v.literal('state.snapshot'), ts: v.string(), state: OpenCodeState.inner }),
);
export type StateFile = Described<typeof StateFile>;

/** The name of a managed instance. It becomes a folder: nothing that could leave its place passes. spec: statefile#place */
export function readInstanceName(text: string): string {
  if (/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/.test(text)) return text;
  const shown = text.replace(/\p{Cc}/gu, '?').slice(0, 80);
  throw new Refusal(
    'invalid_request',
    `"${shown}" is no name of an instance; use 1 to 64 letters, digits, . _ - and no dot in front`,
  );
}
