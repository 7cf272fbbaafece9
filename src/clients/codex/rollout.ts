import { existsSync, readdirSync, statSync } from 'node:fs';
import type { RecordPlace, TurnEvent } from '../../core/ports/session.ts';
import { isMailText } from '../../delivery/fit.ts';
import { endOfLines, linesFrom } from '../../sessions/follow.ts';
import { isRecord } from '../../wire/jsonrpc.ts';

/**
 * The rollout: the file in which Codex 0.166 records a conversation. Codex appends one JSON object per line. A turn consists of `task_started`,
 * its prompts, and `task_complete` or `turn_aborted`. A turn that was cut off by the end of Codex's daemon has no end. Other lines are ignored.
 *
 * Mail that our hook brings at the end of a turn prolongs it. The model's reply to that mail is not part of the answer; its reply to any other
 * hook is.
 */

/** A place in a rollout. `turn` is the turn that is open at this place. */
export interface RolloutPlace {
  path: string;
  offset: number;
  turn?: string;
  /** The offset of the line with the model's last message in that turn. */
  said?: number;
  /** The offset of the line with the answer, if mail prolonged the turn. */
  answer?: number;
  /** The number of prompts in the turn. */
  prompts?: number;
}

/** The most conversations that are read to find the newest one of a folder. */
const MOST_LOOKED_AT = 300;
/** Only lines that match are parsed: others can have megabytes. */
const OURS = /"type":"(task_started|task_complete|turn_aborted|user_message|UserMessage|AgentMessage|HookPrompt)"/;

export function placeIn(text: RecordPlace): RolloutPlace | null {
  try {
    const value: unknown = JSON.parse(text);
    if (!isRecord(value) || typeof value['path'] !== 'string' || !Number.isSafeInteger(value['offset'])) return null;
    const { path, offset, turn, said, answer, prompts } = value;
    return {
      path,
      offset: Number(offset),
      ...(typeof turn === 'string' && { turn }),
      ...(typeof said === 'number' && { said }),
      ...(typeof answer === 'number' && { answer }),
      ...(typeof prompts === 'number' && { prompts }),
    };
  } catch {
    return null;
  }
}

/** The end of a rollout; offset 0 if it does not exist yet. */
export function endOfRollout(path: string): RolloutPlace {
  return { path, offset: endOfLines(path) };
}

/** The events since a place, and the place after the last complete line. */
export function readRollout(since: RolloutPlace): { events: TurnEvent[]; next: RolloutPlace } {
  const events: TurnEvent[] = [];
  let { path, offset, ...open }: RolloutPlace = since;
  for (const { text, from, to } of linesFrom(path, offset)) {
    open = readLine(text, from, { path, ...open }, events);
    offset = to;
  }
  return { events, next: { path, offset, ...open } };
}

/** How many bytes at the end of a rollout are searched for a call of the model. */
const CALL_TAIL = 4 * 1024 * 1024;

/** A tool call of the model: its time (Unix ms), and its output or null while there is none. Null if the call is not recorded. */
export function callIn(path: string, call: string): { at: number; output: string | null } | null {
  const from = Math.max(0, (statSync(path, { throwIfNoEntry: false })?.size ?? 0) - CALL_TAIL);
  let found: { at: number; output: string | null } | null = null;
  for (const { text } of linesFrom(path, from)) {
    if (!text.includes(JSON.stringify(call))) continue;
    const { at, payload } = entryIn(text, 'response_item') ?? { at: 0, payload: {} };
    if (payload['call_id'] !== call) continue;
    if (payload['type'] === 'function_call') found = { at, output: null };
    if (payload['type'] === 'function_call_output') found = { at: found?.at ?? at, output: textOf(payload['output']) };
  }
  return found;
}

/** The end event of a turn that the end of Codex's daemon cut off: the record has no end for it. */
export function cutOff({ path, turn = '', answer, prompts }: Open & { path: string }, at: number): TurnEvent {
  return { kind: 'end', turn, at, ...(answered(path, answer) ?? FAILED), ...sharedBy(prompts) };
}

const FAILED = { how: 'failed', text: 'Codex ended before its turn did' } as const;

interface Outcome {
  how: 'done' | 'failed';
  text: string;
}

/** The open turn and its messages. */
type Open = Pick<RolloutPlace, 'turn' | 'said' | 'answer' | 'prompts'>;

/** Adds the events of a line; returns the turn that is open after it. */
function readLine(line: string, from: number, { path, ...open }: Open & { path: string }, events: TurnEvent[]): Open {
  const entry = OURS.test(line) ? eventIn(line) : null;
  if (!entry) return open;
  const { at, payload } = entry;
  const turn = typeof payload['turn_id'] === 'string' ? payload['turn_id'] : (open.turn ?? '');
  const answer = (): Outcome | null => answered(path, open.answer);
  switch (payload['type']) {
    case 'task_started':
      if (open.turn !== undefined && open.turn !== turn) events.push(cutOff({ path, ...open }, at));
      return { turn };
    case 'task_complete':
      events.push({ kind: 'end', turn, at, ...(answer() ?? outcomeOf(payload)), ...sharedBy(open.prompts) });
      return {};
    case 'turn_aborted':
      events.push({
        kind: 'end',
        turn,
        at,
        ...(answer() ?? { how: 'interrupted', text: '' }),
        ...sharedBy(open.prompts),
      });
      return {};
    // In conversations of older versions of Codex.
    case 'user_message':
      events.push({ kind: 'prompt', turn, at, text: textOf(payload['message']), ...keyOf(payload) });
      return joined(open);
    case 'item_completed': {
      const item = isRecord(payload['item']) ? payload['item'] : {};
      if (item['type'] === 'UserMessage') {
        events.push({ kind: 'prompt', turn, at, text: contentOf(item['content']), ...keyOf(item) });
        return joined(open);
      }
      if (item['type'] === 'AgentMessage') return { ...open, said: from };
      return item['type'] === 'HookPrompt' ? prolonged(open, item['fragments']) : open;
    }
    default:
      return open;
  }
}

/** Counts one more prompt of the turn. A prompt after the answer does not share that answer. */
function joined(open: Open): Open {
  return open.answer === undefined ? { ...open, prompts: (open.prompts ?? 0) + 1 } : open;
}

function sharedBy(prompts = 0): { shared?: true } {
  return prompts > 1 ? { shared: true } : {};
}

/** Hooks returned these texts at the end of the turn. If one of them is not our mail, the turn continues for that hook as well. */
function prolonged({ answer, ...open }: Open, fragments: unknown): Open {
  const texts: unknown[] = Array.isArray(fragments) ? fragments : [];
  if (!texts.every((one) => isRecord(one) && isMailText(textOf(one['text'])))) return open;
  const said = answer ?? open.said;
  return { ...open, ...(said !== undefined && { answer: said }) };
}

/** The answer of a turn that mail prolonged: the message in the line at this offset. Null without an offset. */
function answered(path: string, from: number | undefined): Outcome | null {
  if (from === undefined) return null;
  const [line] = linesFrom(path, from);
  const item = eventIn(line?.text ?? '')?.payload['item'];
  return isRecord(item) ? { how: 'done', text: contentOf(item['content']) } : null;
}

function eventIn(line: string): { at: number; payload: Record<string, unknown> } | null {
  return entryIn(line, 'event_msg');
}

function entryIn(line: string, type: string): { at: number; payload: Record<string, unknown> } | null {
  try {
    const entry: unknown = JSON.parse(line);
    if (!isRecord(entry) || entry['type'] !== type || !isRecord(entry['payload'])) return null;
    const at = Date.parse(textOf(entry['timestamp']));
    return { at: Number.isNaN(at) ? 0 : at, payload: entry['payload'] };
  } catch {
    return null;
  }
}

function outcomeOf({ error, last_agent_message: said }: Record<string, unknown>): Outcome {
  if (isRecord(error)) return { how: 'failed', text: textOf(error['message']) };
  return { how: 'done', text: textOf(said) };
}

/** The id of a prompt. Prompts from Codex's own window have one, too. */
function keyOf({ client_id: id }: Record<string, unknown>): { key?: string } {
  return typeof id === 'string' ? { key: id } : {};
}

function contentOf(content: unknown): string {
  const parts: unknown[] = Array.isArray(content) ? content : [];
  return parts.map((part) => (isRecord(part) ? textOf(part['text']) : '')).join('');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The rollout of a conversation; null if there is none, and then Codex cannot resume the conversation. */
export function rolloutOf(home: string, conversation: string): string | null {
  for (const path of rollouts(home)) if (path.endsWith(`-${conversation}.jsonl`)) return path;
  return null;
}

/** The user's last used conversation in this folder that `mayTake` accepts; null if there is none. */
export function newestConversation(home: string, folder: string, mayTake: (id: string) => boolean): string | null {
  let newest: { id: string; at: number } | null = null;
  let looked = 0;
  for (const path of rollouts(home)) {
    looked += 1;
    if (looked > MOST_LOOKED_AT) break;
    const at = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    if (newest && at <= newest.at) continue;
    const { id, cwd } = metaOf(path);
    if (typeof id === 'string' && cwd === folder && isUsers(path) && mayTake(id)) newest = { id, at };
  }
  return newest?.id ?? null;
}

/** Is this a conversation of the user, and not of a subagent or `codex exec`? */
export function isUsers(path: string): boolean {
  const { source, thread_source: kind } = metaOf(path);
  return source !== 'exec' && (kind === undefined || kind === null || kind === 'user');
}

/** All rollouts, newest first: `sessions/2026/11/18/rollout-<time>-<id>.jsonl`. */
function* rollouts(home: string): Generator<string> {
  for (const day of days(`${home}/sessions`, 3))
    for (const name of namesIn(day)) if (/^rollout-.*\.jsonl$/.test(name)) yield `${day}/${name}`;
}

function* days(folder: string, depth: number): Generator<string> {
  if (depth === 0) yield folder;
  else for (const name of namesIn(folder)) if (/^\d+$/.test(name)) yield* days(`${folder}/${name}`, depth - 1);
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).toSorted().toReversed() : [];
}

/** The metadata of the conversation, from the first line. */
function metaOf(path: string): Record<string, unknown> {
  const [line] = linesFrom(path, 0);
  try {
    const entry: unknown = JSON.parse(line?.text ?? '');
    return isRecord(entry) && isRecord(entry['payload']) ? entry['payload'] : {};
  } catch {
    return {};
  }
}
