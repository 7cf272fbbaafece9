import { Refusal } from './refusal.ts';

/** The error code of the system, such as ENOENT. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Thrown for a path that is not a plain file, or a file that is larger than any of ours. */
export class NoPlainFile extends Error {
  override readonly name = 'NoPlainFile';
}

/** Does this error mean that the path is a link, a folder, a socket or anything else but a plain file? */
export function isNoPlainFile(error: unknown): boolean {
  return (
    error instanceof NoPlainFile || ['ELOOP', 'EISDIR', 'ENXIO', 'ENODEV', 'EOPNOTSUPP'].includes(codeOf(error) ?? '')
  );
}

export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';
}

/** The result of `act`; null if it fails because a file is missing. */
export function ifThere<T>(act: () => T): T | null {
  try {
    return act();
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** An output that failed after a part of it was written. */
export class PartlyShown extends Error {
  override readonly name = 'PartlyShown';
  readonly code: string | undefined;

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.code = codeOf(cause);
  }
}

/** What happened at a place, and what the user can do about it. */
interface Answer {
  what: (place: string, code: string) => string;
  todo: string;
}

const FULL: Answer = { what: (place) => `no space left for ${place}`, todo: 'free some space and run it again' };
const NOT_WRITABLE: Answer = {
  what: (place, code) => `${place} cannot be written (${code})`,
  todo: 'check its permissions',
};
const FAILING: Answer = {
  what: (place, code) => `the disk of ${place} failed (${code})`,
  todo: 'check the disk and run it again',
};
const TOO_MANY_OPEN: Answer = {
  what: (_place, code) => `too many files are open (${code})`,
  todo: 'end some programs, or raise the limit with `ulimit -n`, and run it again',
};
const NOT_LOCKED: Answer = {
  what: (place, code) => `${place} cannot be locked (${code})`,
  todo: 'run it again; if that does not help, move the home to a disk that has locks',
};
const NO_MEMORY: Answer = {
  what: (_place, code) => `no memory is left (${code})`,
  todo: 'end some programs and run it again',
};
const NO_FOLDER: Answer = {
  what: (place) => `${place} is not a folder`,
  todo: 'move what is there away, or set another home',
};
const BUSY: Answer = {
  what: (place) => `${place} is busy with other writers for over 10 s`,
  todo: 'run it again',
};

/** Our texts for the error codes of the system and of SQLite. A longer code counts before a shorter one. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  SQLITE_FULL: FULL,
  // SQLite could not make room for its shared memory.
  SQLITE_IOERR_SHMSIZE: FULL,
  EROFS: NOT_WRITABLE,
  EACCES: NOT_WRITABLE,
  EPERM: NOT_WRITABLE,
  SQLITE_READONLY: NOT_WRITABLE,
  SQLITE_PERM: NOT_WRITABLE,
  EMFILE: TOO_MANY_OPEN,
  ENFILE: TOO_MANY_OPEN,
  ENOLCK: NOT_LOCKED,
  EDEADLK: NOT_LOCKED,
  SQLITE_IOERR_LOCK: NOT_LOCKED,
  SQLITE_IOERR_RDLOCK: NOT_LOCKED,
  SQLITE_IOERR_UNLOCK: NOT_LOCKED,
  SQLITE_IOERR_SHMLOCK: NOT_LOCKED,
  SQLITE_PROTOCOL: NOT_LOCKED,
  ENOMEM: NO_MEMORY,
  SQLITE_NOMEM: NO_MEMORY,
  SQLITE_IOERR_NOMEM: NO_MEMORY,
  ENOTDIR: NO_FOLDER,
  EEXIST: NO_FOLDER,
  EIO: FAILING,
  // Bun's `rm` reports every unexpected error with this code.
  EFAULT: FAILING,
  EFBIG: FAILING,
  ESTALE: FAILING,
  ETIMEDOUT: FAILING,
  EBUSY: FAILING,
  ENXIO: FAILING,
  ENODEV: FAILING,
  SQLITE_IOERR: FAILING,
  SQLITE_CANTOPEN: FAILING,
  SQLITE_BUSY: BUSY,
};

/** A failure of the disk. A caller that knows the outcome makes it with `explained`. */
export class StorageFailure extends Refusal {
  constructor(
    readonly what: string,
    outcome: string,
    readonly todo: string,
    readonly isFull = false,
  ) {
    super('storage_failed', `${what}; ${outcome}: ${todo}`);
  }
}

/** Turns an error of the disk into a Refusal of one line that says what to do. Returns any other error unchanged: it is our bug. */
export function explained(error: unknown, place: string, outcome = 'nothing was stored'): unknown {
  const code = codeOf(error) ?? '';
  if (code === 'ENAMETOOLONG') {
    return new Refusal('invalid_request', 'that name is too long for a file: use a shorter one');
  }
  const answer = answerFor(code);
  if (!answer) return error;
  return new StorageFailure(answer.what(place, code), outcome, answer.todo, answer === FULL);
}

/** Like `explained`, for a caller that does not know the place: the error names it. */
export function storageTrouble(error: unknown, outcome = 'it was not finished'): unknown {
  const path = error instanceof Error && 'path' in error && typeof error.path === 'string' ? error.path : 'this home';
  return explained(error, path, outcome);
}

/** A failure of the disk after the reader had seen the mail. */
export function shownNotSettled(error: unknown, place: string): unknown {
  const failure = explained(error, place);
  if (!(failure instanceof StorageFailure)) return failure;
  const outcome = 'what was shown is not settled and comes again, marked as redelivered';
  return new StorageFailure(failure.what, outcome, failure.todo, failure.isFull);
}

export function isDiskFull(error: unknown): boolean {
  return (error instanceof StorageFailure && error.isFull) || answerFor(codeOf(error) ?? '') === FULL;
}

function answerFor(code: string): Answer | undefined {
  for (let part = code; part !== ''; part = part.slice(0, Math.max(part.lastIndexOf('_'), 0))) {
    if (Object.hasOwn(ANSWERS, part)) return ANSWERS[part];
  }
  return undefined;
}
