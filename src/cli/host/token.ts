import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Refusal } from '../../protocol/refusal.ts';
import { newAgentToken } from '../../protocol/tokens.ts';
import { codeOf, explained } from '../../storage/disk.ts';

/** The token for WebSockets, made at the first start and kept. A file that others can read is refused: they know it by now. */
export function hostToken(path: string): string {
  try {
    make(path);
    const { mode } = statSync(path);
    if ((mode & 0o077) !== 0)
      throw new Refusal('bad_config', `others can read ${path}; remove it, and the next start makes a new one`);
    const token = readFileSync(path, 'utf8').trim();
    if (token.length >= 32) return token;
    throw new Refusal('bad_config', `${path} holds no token; remove it, and the next start makes one`);
  } catch (error) {
    throw explained(error, path, 'nothing was started');
  }
}

/** Of several who start at once one makes it, whole; the others find it. */
function make(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })) return;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${newAgentToken()}\n`, { mode: 0o600 });
  try {
    linkSync(draft, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}
