import type { Lineage } from '../protocol/message.ts';
import type { MessageId } from '../protocol/names.ts';
import { isEcho } from './echo.ts';
import type { Line } from './echo.ts';
import { isNovel } from './novelty.ts';
import type { Said } from './novelty.ts';

/** The message that is answered, with the lineage that we worked out for it: what its file claims is not believed. */
interface Parent {
  id: MessageId;
  from: string;
  lineage?: Lineage | undefined;
}

/** A message that the exchange holds, with the lineage that we stored for it. */
type Earlier = Said & Line & { parley?: { lineage?: Lineage | undefined } | undefined };

/** A new message. `insists`: its sender asks for something so it is no echo, whatever it says. */
export interface Spoken extends Said, Line {
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
  const isRepetition = !isNews && !said.insists && isEcho(said, earlier);
  const echoes = isRepetition ? (earlier.at(-1)?.parley?.lineage?.echoes ?? 0) + 1 : 0;
  return {
    root,
    hop: hop + 1,
    visited: [...new Set(parent ? [...visited, parent.from] : visited)],
    stale: isNews ? 0 : stale + 1,
    ...(echoes > 0 && { echoes }),
  };
}
