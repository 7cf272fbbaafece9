import { dependencies } from '../../../package.json' with { type: 'json' };
import type { Env } from '../../core/env.ts';
import { isSameFile } from '../../clients/program-files.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';
import { scriptText } from '../hook-setup.ts';
import { onPath } from '../../platform/search-path.ts';
import { JOURNAL_FORMAT } from '../../daemon/homes.ts';
import { parleyHome } from '../../platform/env.ts';
import { VERSION, isCompiled } from '../../platform/program.ts';
import { isMissing } from '../../core/disk.ts';

/** The program itself, the system below it, and what the shell calls by our names. */
export function examineMachine(env: Env): Finding[] {
  return [program(), system(process.platform), ...names(env)];
}

function program(): Finding {
  const { ok, warn } = on('program');
  const what = `parley ${VERSION} on Bun ${Bun.version}, ledger format ${JOURNAL_FORMAT}, ${isCompiled() ? 'compiled' : 'from source'}`;
  if (Bun.version === dependencies.bun) return ok(what);
  return warn(
    `${what}; it is tested with Bun ${dependencies.bun}`,
    'run `npm ci` in its folder, or use the built program',
  );
}

export function system(platform: string): Finding {
  const { ok, warn, bad } = on('system');
  if (platform === 'linux') return ok('Linux');
  if (platform === 'darwin') {
    return warn('macOS: Parley has not been tested there', 'please report problems');
  }
  return bad(`${platform} is not supported`, 'use Linux, macOS or WSL');
}

function names(env: Env): Finding[] {
  const { ok, warn } = on('PATH');
  const own = onPath('parley', env);
  const first = own
    ? ok(`parley is ${own}`)
    : warn(
        'no `parley` on your PATH, so agents and hooks cannot call it by name',
        '`dist/parley self install`, or `npm i -g` of its tarball',
      );
  const others = ['bch', 'c2c', 'ccc'].flatMap((name) => {
    const found = onPath(name, env);
    if (!found) return [];
    const isOurs = isSameFile(found, process.execPath) || (own !== null && isSameFile(found, own));
    if (!isOurs) return [ok(`${name} is another program (${found}); Parley does not touch it`)];
    return [ok(`${name} is ${found}`)];
  });
  return [first, ...others];
}

/** The script that clients call after every tool call: is it there, and does it start this very program? */
export function examineHook(env: Env): Finding {
  const { ok, warn } = on('hook');
  const path = join(parleyHome(env), 'hook');
  try {
    if (readFileSync(path, 'utf8') === scriptText(env)) return ok(`${path} is current`);
    return warn(`${path} starts another Parley, or is an older script`, '`parley hook --write` writes it again');
  } catch (error) {
    if (!isMissing(error)) return warn(`${path} cannot be read`, '`parley hook --write` writes it again');
    return warn(`there is no ${path}, so no hook can show mail`, '`parley hook --write` writes it');
  }
}
