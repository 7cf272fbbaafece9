import type { Intent, Lineage } from '../message.ts';
import type { MessageId } from '../names.ts';
import { unstamped, checkableIn } from './checkable.ts';
import { isEcho } from './echo.ts';
import type { Line } from './echo.ts';
import { asksQuestion } from './thanks.ts';
import type { Checkable } from './checkable.ts';

const NUMBER = /\d+(?:[.,]\d+)*/g;

/** The answered message, with the lineage that Parley computed for it. A lineage in its file is ignored. */
interface Parent {
  id: MessageId;
  from: string;
  lineage?: Lineage | undefined;
}

/** An earlier message of the exchange, with the lineage that Parley stored for it. */
type Earlier = SpokenText &
  Line & {
    thread?: string | undefined;
    parley?: { lineage?: Lineage | undefined; intent?: Intent | undefined } | undefined;
  };

/** A new message. `insists`: its sender asks for something, so it is never an echo. */
export interface Spoken extends SpokenText, Line {
  /** The message that its sender says it answers. */
  thread?: string | undefined;
  byAgent: boolean;
  insists: boolean;
}

/**
 * The place of a message in its exchange. A message without a thread opens an exchange and has no lineage. `earlier`: the earlier messages
 * of the exchange, oldest first. spec: message#lineage
 */
export function nextLineage(
  parent: Parent | null,
  thread: MessageId | undefined,
  said: Spoken,
  earlier: readonly Earlier[],
): Lineage | undefined {
  if (thread === undefined) return undefined;
  // An unknown parent (expired, or from another machine) counts as the opening message.
  const { root, hop, visited, stale } = parent?.lineage ?? {
    root: parent?.id ?? thread,
    hop: 0,
    visited: [],
    stale: 0,
  };
  const isNews = !said.byAgent || isNovel(said, earlier);
  const isRepetition = !isNews && !said.insists && !isAnswer(said, earlier) && isEcho(said, earlier);
  const echoes = isRepetition ? (earlier.at(-1)?.parley?.lineage?.echoes ?? 0) + 1 : 0;
  return {
    root,
    hop: hop + 1,
    visited: [...new Set(parent ? [...visited, parent.from] : visited)],
    stale: isNews ? 0 : stale + 1,
    ...(echoes > 0 && { echoes }),
  };
}

/**
 * An answer says something new even if its words were used before: "yes" to the next question, "fixed" to each of several remarks, "build 42
 * green" after "build 41 green". A question back is not an answer, and neither is a second reply to the same message.
 */
function isAnswer(said: Spoken, earlier: readonly Earlier[]): boolean {
  const last = earlier.at(-1);
  if (!last || asksQuestion(said.body)) return false;
  const isAsked = last.parley?.intent === 'question' || asksQuestion(last.body);
  return (isAsked && last.from !== said.from) || isFirstReplyTo(said, last, earlier) || isReport(said, last, earlier);
}

/** Is this its author's first reply to a message other than the last one? */
function isFirstReplyTo({ from, thread }: Spoken, last: Earlier, earlier: readonly Earlier[]): boolean {
  if (thread === undefined || thread === last.id) return false;
  return !earlier.some((one) => one.from === from && one.thread === thread);
}

/** A new number after a message without numbers: the author reports on one thing after another. An echo of another author's message is no report. */
function isReport(said: Spoken, last: Earlier, earlier: readonly Earlier[]): boolean {
  if (numbersIn(last.body).length > 0) return false;
  const known = new Set(earlier.flatMap(({ body }) => numbersIn(body)));
  if (numbersIn(said.body).every((number) => known.has(number))) return false;
  return !isEcho(
    said,
    earlier.filter(({ from }) => from !== said.from),
  );
}

function numbersIn(body: string): string[] {
  return unstamped(body).match(NUMBER) ?? [];
}

/** The parts of a message that decide whether it is novel. With `id`, a quoted id of that message does not count as a new commit. */
export interface SpokenText {
  id?: string | undefined;
  body: string;
  refs?: readonly string[] | undefined;
}

/** The step between two counters of one agent, if two agents count in turn. */
const COUNTER_STEP = 2;

/**
 * Does this message have something checkable that the thread did not have? Other words are not new. A number that only counts on is not new
 * either: one next to a number of the thread ("ping 7" after "ping 6"), or one in a sentence that the thread has with another number. This
 * stops echoes, not liars: an invented path is new. spec: c2a#novelty
 */
export function isNovel(said: SpokenText, earlier: readonly SpokenText[]): boolean {
  const found = checkableIn(said.body, said.refs);
  if (found.length === 0) return false;
  if (found.some((one) => isNowhereIn(one, earlier))) return true;
  const held = earlier.flatMap((message) => [...idsOf(message), ...checkableIn(message.body, message.refs)]);
  const keys = new Set(held.map(({ key }) => key));
  const numbers = held.flatMap(({ counter }) => counter ?? []);
  const values = new Set(numbers.map(({ value }) => value));
  const sentences = new Set(numbers.map(({ sentence }) => sentence));
  return found.some(({ key, counter }) => {
    if (keys.has(key)) return false;
    return !counter || !(sentences.has(counter.sentence) || isNextTo(counter.value, values));
  });
}

/** A link or path that no earlier text contains is new. This quick test needs no parsing of the earlier messages. */
function isNowhereIn({ key }: Checkable, earlier: readonly SpokenText[]): boolean {
  if (!key.startsWith('link:') && !key.startsWith('path:')) return false;
  const text = key.slice('link:'.length);
  return !earlier.some(({ body, refs }) => body.includes(text) || refs?.some((ref) => ref.includes(text)));
}

function isNextTo(value: number, values: ReadonlySet<number>): boolean {
  if (!Number.isInteger(value)) return false;
  for (let step = 1; step <= COUNTER_STEP; step += 1) {
    if (values.has(value - step) || values.has(value + step)) return true;
  }
  return false;
}

/** The ways in which a text may refer to this message: by the first digits of its id, which look like a commit or, rarely, like a number. */
function idsOf({ id }: SpokenText): Checkable[] {
  if (id === undefined) return [];
  const short = id.slice(0, 8).toLowerCase();
  return [{ key: `ref:${id}` }, { key: `commit:${short.slice(0, 7)}` }, { key: `number:${short}` }];
}
