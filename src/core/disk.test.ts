// One table from what the system says to what we answer.
import { describe, expect, it } from 'bun:test';
import { Refusal } from './refusal.ts';
import { explained, isDiskFull, shownNotSettled, StorageFailure, storageTrouble } from './disk.ts';

const failed = (code: string, more = {}): Error => Object.assign(new Error(`${code}: trouble`), { code, ...more });

describe('a disk that fails', () => {
  it.each([
    ['ENOSPC', 'no space left for /home; nothing was stored: free some space and run it again'],
    ['SQLITE_FULL', 'no space left for /home; nothing was stored: free some space and run it again'],
    ['SQLITE_IOERR_SHMSIZE', 'no space left for /home; nothing was stored: free some space and run it again'],
    ['EROFS', '/home cannot be written (EROFS); nothing was stored: check its permissions'],
    [
      'SQLITE_READONLY_DIRECTORY',
      '/home cannot be written (SQLITE_READONLY_DIRECTORY); nothing was stored: check its permissions',
    ],
    ['EIO', 'the disk of /home failed (EIO); nothing was stored: check the disk and run it again'],
    [
      'SQLITE_IOERR_WRITE',
      'the disk of /home failed (SQLITE_IOERR_WRITE); nothing was stored: check the disk and run it again',
    ],
  ])('is one line for %s', (code, line) => {
    expect(explained(failed(code), '/home')).toMatchObject({ code: 'storage_failed', message: line });
  });

  it.each(['EMFILE', 'ENFILE', 'ENOLCK', 'ENOMEM', 'SQLITE_IOERR_LOCK', 'SQLITE_CANTOPEN', 'SQLITE_BUSY'])(
    'says what to do for %s',
    (code) => {
      const told = explained(failed(code), '/home', 'nothing was changed');
      expect(told).toBeInstanceOf(StorageFailure);
      expect((told as Error).message).toMatch(/; nothing was changed: (end|run|check) /);
      expect((told as Error).message).not.toContain('\n');
    },
  );

  it('names the file that the error names', () => {
    expect((storageTrouble(failed('EIO', { path: '/home/x' })) as Error).message).toContain(
      'the disk of /home/x failed',
    );
  });

  it('is known as full, no matter who says so', () => {
    expect([failed('EDQUOT'), failed('SQLITE_FULL'), explained(failed('ENOSPC'), '/home')].map(isDiskFull)).toEqual([
      true,
      true,
      true,
    ]);
    expect(isDiskFull(failed('EIO'))).toBe(false);
  });

  it('says after a showing that the mail comes again', () => {
    const told = shownNotSettled(explained(failed('SQLITE_FULL'), '/home', 'nothing was changed'), '/home');
    expect((told as Error).message).toBe(
      'no space left for /home; what was shown is not settled and comes again, marked as redelivered: free some space and run it again',
    );
  });

  it('leaves what is our own bug as it is', () => {
    const bug = new TypeError('x is not a function');
    expect([explained(bug, '/home'), storageTrouble(bug), shownNotSettled(bug, '/home')]).toEqual([bug, bug, bug]);
    expect(explained(failed('SQLITE_ERROR'), '/home')).not.toBeInstanceOf(Refusal);
  });
});
