import type { Intent, Lineage } from '../message.ts';
import type { MessageId } from '../names.ts';
import { unstamped, checkableIn } from './checkable.ts';
import { isEcho } from './echo.ts';
import type { Line } from './echo.ts';
import { asksQuestion } from './thanks.ts';
import type { Checkable } from './checkable.ts';

const NUMBER = /\d+(?:[.,]\d+)*/g;

/** The message that is answered, with the lineage that we worked out for it: what its file claims is not believed. */
interface Parent {
  id: MessageId;
  from: string;
  lineage?: Lineage | undefined;
}

/** A message that the exchange holds, with the lineage that we stored for it. */
type Earlier = SpokenText &
  Line & {
    thread?: string | undefined;
    parley?: { lineage?: Lineage | undefined; intent?: Intent | undefined } | undefined;
  };

/** A new message. `insists`: its sender asks for something so it is no echo, whatever it says. */
export interface Spoken extends SpokenText, Line {
  /** The message that its sender says it answers. */
  thread?: string | undefined;
  byAgent: boolean;
  insists: boolean;
}

/**
 * The place of a message in its exchange; a message that answers nothing opens one and has no lineage.
 * `earlier` is what the exchange holds so far, oldest first. spec: message#lineage
 */
export function nextLineage(
  parent: Parent | null,
  thread: MessageId | undefined,
  said: Spoken,
  earlier: readonly Earlier[],
): Lineage | undefined {
  if (thread === undefined) return undefined;
  // An unknown parent (expired, or from another machine) is taken for the opening message.
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
 * An answer says something new even in words that were said before: "yes" to the next question, "fixed" to one after the other of
 * several remarks, "build 42 green" after "build 41 green". To ask back is no answer, and neither is a second word on the same message.
 */
function isAnswer(said: Spoken, earlier: readonly Earlier[]): boolean {
  const last = earlier.at(-1);
  if (!last || asksQuestion(said.body)) return false;
  const isAsked = last.parley?.intent === 'question' || asksQuestion(last.body);
  return (isAsked && last.from !== said.from) || isFirstWordOn(said, last, earlier) || isReport(said, last, earlier);
}

/** Its author's first answer to a message other than the last one. */
function isFirstWordOn({ from, thread }: Spoken, last: Earlier, earlier: readonly Earlier[]): boolean {
  if (thread === undefined || thread === last.id) return false;
  return !earlier.some((one) => one.from === from && one.thread === thread);
}

/** A new number, after a message without any: its author reports on one thing after another. If another said the same, both count. */
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

/** One message as far as its news goes. With `id`, quoting that message's id is not taken for a commit. */
export interface SpokenText {
  id?: string | undefined;
  body: string;
  refs?: readonly string[] | undefined;
}

/** Two agents that take turns counting are two apart. */
const COUNTER_STEP = 2;

/**
 * Does this message hold something checkable that the thread did not? Other words are not new, nor is a number that
 * only counts on: one next to a number the thread holds ("ping 7" after "ping 6"), or one in a sentence that it holds
 * with another number. This stops echoes, not liars: who invents a path has said something new. spec: c2a#novelty
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

/** A link or path that is nowhere in what was said is new, whatever else was: no need to look closer. */
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

/** People and agents call a message by the first digits of its id, which look like a commit or, rarely, like a number. */
function idsOf({ id }: SpokenText): Checkable[] {
  if (id === undefined) return [];
  const short = id.slice(0, 8).toLowerCase();
  return [{ key: `ref:${id}` }, { key: `commit:${short.slice(0, 7)}` }, { key: `number:${short}` }];
}
