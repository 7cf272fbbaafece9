import { Refusal } from '../protocol/refusal.ts';

/** The system's own word for what went wrong, such as ENOENT. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** A link, a folder, a socket stands there: whatever rights we have, it is no plain file. */
export function isNoPlainFile(error: unknown): boolean {
  return ['ELOOP', 'EISDIR', 'ENXIO'].includes(codeOf(error) ?? '');
}

export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';
}

/** What `act` finds out about a file; null if there is none. */
export function ifThere<T>(act: () => T): T | null {
  try {
    return act();
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** What a failing disk says, in one line that says what to do. Anything else is our bug and goes on as it is. */
export function explained(error: unknown, root: string, outcome = 'nothing was stored'): unknown {
  const code = codeOf(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new Refusal('storage_failed', `no space left for ${root}; ${outcome}: free some space and run it again`);
  }
  if (code === 'EROFS' || code === 'EACCES' || code === 'EPERM') {
    return new Refusal('storage_failed', `${root} cannot be written (${code}); ${outcome}: check its permissions`);
  }
  if (code === 'ENOTDIR' || code === 'EEXIST') {
    return new Refusal(
      'storage_failed',
      `${root} is not a folder; ${outcome}: move what is there away, or set another home`,
    );
  }
  if (code === 'ENAMETOOLONG') {
    return new Refusal('invalid_request', 'that name is too long for a file: use a shorter one');
  }
  return error;
}
