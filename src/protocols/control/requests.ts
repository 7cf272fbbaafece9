import * as v from 'valibot';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import type { Choice } from '../../core/ports/session.ts';
import { textOf } from '../../wire/lines.ts';
import { ControlError, ERRORS } from './phrases.ts';

/** spec: control#limits */
export const LINE_LIMIT = 4 * 1024 * 1024;
const TEXT_LIMIT = 1024 * 1024;
const FROM_LIMIT = 200;
/** The deepest nesting of a request. */
const DEPTH_LIMIT = 1000;
const MOST_LINES = 10_000;
/** The longest `ask`: a day. */
export const MOST_ASK_SECONDS = 24 * 60 * 60;

const text = (): v.NullishSchema<v.StringSchema<undefined>, ''> => v.nullish(v.string(), '');
const count = () => v.nullish(v.pipe(v.number(), v.safeInteger()));

/** Every field of every command. Null counts as a missing field. Unknown fields are ignored. */
const ControlRequest = new Schema(() =>
  v.object({
    cmd: text(),
    session: text(),
    text: text(),
    from: text(),
    raw: v.nullish(v.boolean(), false),
    after: count(),
    limit: count(),
    from_filter: v.nullish(v.string()),
    sessions: v.nullish(v.array(v.string()), []),
    question_index: count(),
    option_index: count(),
    option_indexes: v.nullish(v.array(v.pipe(v.number(), v.safeInteger()))),
    timestamp: count(),
    message_id: count(),
    /** Ours: how long an `ask` may take, in seconds. */
    timeout_seconds: count(),
    /** Ours: an `ask` sends the id of its prompt before its answer. */
    progress: v.nullish(v.boolean(), false),
    /** Ours: `screenshot` with colours and styles. */
    styles: v.nullish(v.boolean(), false),
    /** Ours: the event that Claude Code gave its hook with a dialog. */
    event: v.nullish(v.unknown()),
    /** Ours: `history` also of a session that was removed. */
    deleted: v.nullish(v.boolean(), false),
  }),
);
export type ControlRequest = Described<typeof ControlRequest>;

/** Parses a line. Throws the error for the caller; as in the original, anything but such an object is `invalid JSON`. */
export function requestIn(line: Uint8Array): ControlRequest {
  // A byte order mark is not JSON, but the decoder would drop it.
  const written = line[0] === 0xef && line[1] === 0xbb ? null : textOf(line);
  if (written === null || isTooDeep(written)) throw new ControlError(ERRORS.invalidJson);
  const request = ControlRequest.safeParse(jsonIn(written));
  if (!request.success) throw new ControlError(ERRORS.invalidJson);
  return request.data;
}

function jsonIn(written: string): unknown {
  try {
    return JSON.parse(written);
  } catch {
    throw new ControlError(ERRORS.invalidJson);
  }
}

/** Depth of brackets outside of strings: a deep request would exhaust the parser's stack. */
function isTooDeep(written: string): boolean {
  let [depth, inText] = [0, false];
  for (let at = 0; at < written.length; at++) {
    const char = written[at];
    if (inText && char === '\\') at++;
    else if (char === '"') inText = !inText;
    else if (!inText && (char === '[' || char === '{') && ++depth > DEPTH_LIMIT) return true;
    else if (!inText && (char === ']' || char === '}')) depth--;
  }
  return false;
}

/** The text of `ask` and `send`. */
export function promptText({ session, text: words }: ControlRequest): string {
  if (session === '') throw new ControlError(ERRORS.sessionRequired);
  if (words.trim() === '') throw new ControlError(ERRORS.textRequired);
  if (Buffer.byteLength(words) > TEXT_LIMIT) throw new ControlError(ERRORS.textTooLong);
  return words;
}

/** The choice of an `answer`, which must name exactly one kind. */
export function choiceOf({ option_index: one, option_indexes: several, text: words }: ControlRequest): Choice {
  const given: Choice[] = [];
  if (one !== null && one !== undefined) given.push({ options: [one] });
  if (several) given.push({ options: several });
  if (words.trim() !== '') given.push({ text: words.trim() });
  const [choice, another] = given;
  if (!choice) throw new ControlError('option_index required');
  if (another) throw new ControlError('give one of option_index, option_indexes and text');
  return choice;
}

/** The sender's name, as one short line. */
export function agentOf({ from }: ControlRequest): string {
  if (from.length > FROM_LIMIT) throw new ControlError(`from too long (limit ${FROM_LIMIT} characters)`);
  return from.replace(/\p{Cc}+/gu, ' ').trim() || 'api';
}

/** How long an `ask` may take, in ms. */
export function askTimeOf({ timeout_seconds: seconds }: ControlRequest, otherwise: number): number {
  return seconds === null || seconds === undefined || seconds <= 0
    ? otherwise
    : Math.min(seconds, MOST_ASK_SECONDS) * 1000;
}

/** `limit`, from 1 to 10,000. */
export function limitOf({ limit }: ControlRequest, otherwise: number): number {
  return limit === null || limit === undefined || limit <= 0 ? otherwise : Math.min(limit, MOST_LINES);
}
