import { statSync } from 'node:fs';

/**
 * What to do about an error of ours, if our own files were replaced or removed after this process began: what it still had to load
 * does not fit what it has. Null while they are as they were. It is asked after something failed, so no start pays for it.
 */
export function staleAdvice(main = `${import.meta.dir}/main.ts`, since = performance.timeOrigin): string | null {
  // The compiled program carries all of it inside.
  return main.startsWith('/$bunfs') || changedAt(main) <= since
    ? null
    : 'its files were replaced or removed while it ran; start it again';
}

/** An upgrade may leave a file the time of its packing, but not hide when it was put there. */
function changedAt(path: string): number {
  try {
    return statSync(path).ctimeMs;
  } catch {
    return Infinity;
  }
}
