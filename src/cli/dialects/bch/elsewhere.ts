import type { AgentName } from '../../../protocol/names.ts';
import { RoomId } from '../../../protocol/names.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import type { Env } from '../../env.ts';
import type { Config } from './config.ts';

/** A relay, and a room in it. */
export interface Elsewhere {
  url: string;
  room?: string;
}

/**
 * Where the mail of whoever is set up so waits: at a relay; null for the local spool. The environment beats the config, even when
 * it is set to nothing. Any other place is refused in one line: that mail must not land where nobody looks.
 */
export function elsewhere(env: Env, config: Config): Elsewhere | null {
  const place = relayInUse(env, config);
  if (!place && isLocalSpool(env, config) === false)
    throw new Refusal('bad_config', 'a relay is wanted and none is named; run `bch init <name> --url <relay>`');
  return place;
}

/** The same for whoever is about to name a relay: that none was named before is no fault then. */
export function relayInUse(env: Env, config: Config): Elsewhere | null {
  const local = isLocalSpool(env, config);
  const url = (env['BACKCHANNEL_URL'] ?? config.url)?.replace(/\/+$/, '');
  if (local || !url) return null;
  if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
    throw new Refusal('bad_config', `"${url}" is no address of a relay; write https://host or http://localhost:7117`);
  }
  const room = roomAt(url, env, config);
  return { url, ...(room && { room }) };
}

/** The room that is meant at this relay; that of another relay means nothing there. A bad one means the default room. */
export function roomAt(url: string, env: Env, config: Config): string | undefined {
  const given = env['BACKCHANNEL_RELAY_ROOM'] ?? (config.url?.replace(/\/+$/, '') === url ? config.room : undefined);
  const room = RoomId.safeParse(given?.trim());
  return room.success && room.data !== 'default' ? room.data : undefined;
}

/** The agent token that the config or the environment holds for this agent at this relay. */
export function tokenAt({ url, room }: Elsewhere, agent: AgentName, env: Env, config: Config): string | undefined {
  const own = env['BACKCHANNEL_TOKEN'];
  if (own) return own;
  const isThere =
    config.url === undefined || (config.url.replace(/\/+$/, '') === url && roomAt(url, {}, config) === room);
  if (config.agent === agent && isThere) return config.token;
  return undefined;
}

export function noBrain(because: string): Refusal {
  return new Refusal(
    'not_in_this_version',
    `the brain backend is not part of this program (${because}); leave it out to use the local spool`,
  );
}

/** Whether the local spool is asked for by name; undefined if nothing is said. */
function isLocalSpool(env: Env, config: Config): boolean | undefined {
  for (const variable of ['UNISON_TOKEN', 'UNISON_API_URL']) if (env[variable]) throw noBrain(`${variable} is set`);
  return (
    isLocal(env['BACKCHANNEL_BACKEND'], 'BACKCHANNEL_BACKEND is set') ??
    isLocal(config.backend, 'config.json has a "backend"')
  );
}

/** `fs` is the local spool; undefined if nothing is said. */
function isLocal(backend: unknown, because: string): boolean | undefined {
  if (!backend) return undefined;
  if (backend === 'brain') throw noBrain(because);
  if (backend === 'fs') return true;
  if (backend === 'relay' || backend === 'http') return false;
  throw new Refusal('bad_config', `no such backend (${because}); leave it out`);
}
