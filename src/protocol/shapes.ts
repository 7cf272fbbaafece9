import type * as Words from './shape-words.ts';

/**
 * The words in which shapes are described, read when the first shape is built. Most commands meet only what a cheap look knows already
 * (see schema.ts), and should not make fifty functions ready for nothing.
 */
export const v = new Proxy({} as typeof Words, {
  get: (_, name) => Reflect.get(words(), name) as unknown,
});

let read: typeof Words | undefined;
function words(): typeof Words {
  read ??= require('./shape-words.ts') as typeof Words;
  return read;
}
