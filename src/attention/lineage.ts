import type { Intent, Lineage } from '../protocol/message.ts';
import type { MessageId } from '../protocol/names.ts';
import { unstamped } from './checkable.ts';
import { isEcho } from './echo.ts';
import type { Line } from './echo.ts';
import { isNovel } from './novelty.ts';
import type { Said } from './novelty.ts';
import { asksQuestion } from './thanks.ts';

const NUMBER = /\d+(?:[.,]\d+)*/g;

/** The message that is answered, with the lineage that we worked out for it: what its file claims is not believed. */
interface Parent {
  id: MessageId;
  from: string;
  lineage?: Lineage | undefined;
}

/** A message that the exchange holds, with the lineage that we stored for it. */
type Earlier = Said &
  Line & {
    thread?: string | undefined;
    parley?: { lineage?: Lineage | undefined; intent?: Intent | undefined } | undefined;
  };

/** A new message. `insists`: its sender asks for something so it is no echo, whatever it says. */
export interface Spoken extends Said, Line {
  /** The message that its sender says it answers. */
  thread?: string | undefined;
  byAgent: boolean;
  insists: boolean;
}

/**
 * Where a message stands in its exchange; a message that answers nothing opens one and has no lineage.
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
