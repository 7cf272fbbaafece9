import { Refusal } from '../../../protocol/refusal.ts';
import type { Env } from '../../settings.ts';
import type { Config } from './config.ts';

/**
 * Mail of somebody who works with a relay must not land in the local spool, where nobody looks: whatever points elsewhere is
 * refused in one line.
 */
export function refuseElsewhere(env: Env, config: Config): void {
  for (const variable of ['UNISON_TOKEN', 'UNISON_API_URL']) if (env[variable]) throw noBrain(`${variable} is set`);
  refuseBackend(env['BACKCHANNEL_BACKEND'], 'BACKCHANNEL_BACKEND is set');
  if (env['BACKCHANNEL_URL']) throw noRelay('BACKCHANNEL_URL is set', 'unset it');
  refuseBackend(config.backend, 'config.json has a "backend"');
  if (config.url) throw noRelay('config.json has a "url"', 'remove it');
}

export function noRelay(because: string, remedy: string): Refusal {
  return new Refusal(
    'not_in_this_version',
    `relay mode is not in this version yet (${because}); ${remedy} to use the local spool`,
  );
}

export function noBrain(because: string): Refusal {
  return new Refusal(
    'not_in_this_version',
    `the brain backend is not part of this program (${because}); leave it out to use the local spool`,
  );
}

/** `fs` is the local spool. */
function refuseBackend(backend: unknown, because: string): void {
  if (backend === 'brain') throw noBrain(because);
  if (backend && backend !== 'fs') throw noRelay(because, 'remove it');
}
