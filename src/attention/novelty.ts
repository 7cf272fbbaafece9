import { checkableIn } from './checkable.ts';
import type { Checkable } from './checkable.ts';

/** One message as far as its news goes. With `id`, quoting that message's id is not taken for a commit. */
export interface Said {
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
export function isNovel(said: Said, earlier: readonly Said[]): boolean {
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

/** A link or path that stands nowhere in what was said is new, whatever else was: no need to look closer. */
function isNowhereIn({ key }: Checkable, earlier: readonly Said[]): boolean {
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
function idsOf({ id }: Said): Checkable[] {
  if (id === undefined) return [];
  const short = id.slice(0, 8).toLowerCase();
  return [{ key: `ref:${id}` }, { key: `commit:${short.slice(0, 7)}` }, { key: `number:${short}` }];
}
