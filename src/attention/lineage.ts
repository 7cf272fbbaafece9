import type { Lineage } from '../protocol/message.ts';
import type { MessageId } from '../protocol/names.ts';
import { isNovel } from './novelty.ts';
import type { Said } from './novelty.ts';

/** The message that is answered, with the lineage that we worked out for it: what its file claims is not believed. */
interface Parent {
  id: MessageId;
  from: string;
  lineage?: Lineage | undefined;
}

/**
 * Where a message stands in its exchange; a message that answers nothing opens one and has no lineage.
 * `earlier` is what the thread holds so far, in any order. spec: message#lineage
 */
export function nextLineage(
  parent: Parent | null,
  thread: MessageId | undefined,
  said: Said,
  earlier: readonly Said[],
): Lineage | undefined {
  if (thread === undefined) return undefined;
  // An unknown parent (expired, or from another machine) is taken for the opening message.
  const { root, hop, visited, stale } = parent?.lineage ?? {
    root: parent?.id ?? thread,
    hop: 0,
    visited: [],
    stale: 0,
  };
  return {
    root,
    hop: hop + 1,
    visited: [...new Set(parent ? [...visited, parent.from] : visited)],
    stale: isNovel(said, earlier) ? 0 : stale + 1,
  };
}
