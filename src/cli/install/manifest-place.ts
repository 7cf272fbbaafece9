import { join } from 'node:path';

/**
 * Where it stands what we added to the clients of a home. `bch setup`, `c2c install` and `parley install` share it: they change the
 * same files, and each must know what the others put there. No variable moves it, so that none of them looks elsewhere.
 */
export function manifestIn(home: string): string {
  return join(home, '.local/share/parley/installed.json');
}
