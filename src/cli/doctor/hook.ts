import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMissing } from '../../storage/disk.ts';
import { scriptText } from '../hook-setup.ts';
import { parleyHome } from '../../platform/env.ts';
import type { Env } from '../../platform/env.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** The script that clients call after every tool call: is it there, and does it start this very program? */
export function examineHook(env: Env): Finding {
  const { ok, warn } = on('hook');
  const path = join(parleyHome(env), 'hook');
  try {
    if (readFileSync(path, 'utf8') === scriptText(env)) return ok(`${path} is current`);
    return warn(
      `${path} starts another Parley than this one, or is an older script`,
      '`parley hook --write` writes it again',
    );
  } catch (error) {
    if (!isMissing(error)) return warn(`${path} cannot be read`, '`parley hook --write` writes it again');
    return warn(`there is no ${path}, so no hook can bring mail`, '`parley hook --write` writes it');
  }
}
