import type { Done, Removed } from './carry-out.ts';

/** One line for everything that was done, or was there. */
export function doneLine({ path, what, outcome, backup }: Done): string {
  const before = backup === null ? '' : `  (as it was: ${backup})`;
  const words = {
    added: 'added',
    replaced: 'replaced',
    'would add': 'would add',
    there: 'is there',
    theirs: 'left alone',
  } as const;
  const why = outcome === 'theirs' ? '  (not written by this installer, or changed since: look at it)' : '';
  return `  ${words[outcome].padEnd(10)} ${what}: ${path}${before}${why}`;
}

/** One line for everything that was removed, or could not be. */
export function removedLine({ path, what, outcome, kept, why }: Removed): string {
  const words = {
    removed: 'removed',
    'would remove': 'would remove',
    gone: 'was gone',
    changed: 'left alone',
    refused: 'left alone',
  } as const;
  const reason = outcome === 'changed' ? '  (somebody changed it)' : why ? `  (${why})` : '';
  return `  ${words[outcome].padEnd(12)} ${what}: ${path}${reason}${kept === null ? '' : `  (as it was before: ${kept})`}`;
}
