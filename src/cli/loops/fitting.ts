import type { Waiting } from '../../storage/spool/spool.ts';

/** The first of what waits that goes out together: so many at most, and so many characters, unless a single one has more. */
export function fitting(
  waiting: readonly Waiting[],
  isDone: (id: Waiting['message']['id']) => boolean,
  most: number,
  characters: number,
): Waiting[] {
  let size = 0;
  const open = waiting.filter(({ message }) => !isDone(message.id)).slice(0, most);
  return open.filter(({ message }, at) => {
    size += message.body.length;
    return at === 0 || size <= characters;
  });
}
