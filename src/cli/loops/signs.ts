import { readdirSync, rmSync } from 'node:fs';
import { clientNamed } from '../../clients/clients.ts';
import { HookStateFile, clientStatePath } from '../../sessions/client-state.ts';
import type { ClientState, StateReader } from '../../sessions/client-state.ts';
import { ifThere } from '../../storage/disk.ts';
import { HookSession, hookFolder } from '../dialects/c2c/hook-session.ts';
import { userHome } from '../env.ts';
import type { Env } from '../env.ts';
import { signsFolder } from './folders.ts';
import type { Wanted } from './wanted.ts';

/** What the client says of itself: its own register, its plugin's state, or what its hooks left. */
export async function signsOf(wanted: Wanted, env: Env): Promise<StateReader> {
  const { client, session, pid, options } = wanted;
  const place = { session, pid, instance: options.instance, env: { ...env, HOME: userHome(env) } };
  return clientNamed(client)?.state?.(place) ?? new HookSigns(wanted, env);
}

/** The newest of what hooks left under any name that this session has. */
class HookSigns implements StateReader {
  constructor(
    readonly wanted: Wanted,
    readonly env: Env,
  ) {}

  async latest(): Promise<ClientState | null> {
    const files = signFilesOf(this.wanted, this.env).map((path) => new HookStateFile(path));
    const signs = (await Promise.all(files.map((file) => file.latest()))).filter((sign) => sign !== null);
    return signs.toSorted((a, b) => b.at - a.at)[0] ?? null;
  }
}

type Whose = Pick<Wanted, 'session' | 'broker_root'>;

/** Removes what hooks said of a former run: a client that was killed could not take back that it was idle. */
export function forgetSigns(whose: Whose, env: Env): void {
  for (const path of signFilesOf(whose, env)) rmSync(path, { force: true });
}

function signFilesOf(whose: Whose, env: Env): string[] {
  const names = new Set([whose.session, ...otherNames(whose, env)]);
  return [...names].map((name) => clientStatePath(signsFolder(env), name));
}

/** The client's own names for it, where it is certain that they are: a guess by its folder may be another session's. */
function otherNames({ broker_root, session }: Whose, env: Env): string[] {
  const folder = hookFolder(env);
  return (ifThere(() => readdirSync(folder)) ?? []).filter((name) => {
    const bound = HookSession.open(folder, name)?.bound();
    return bound?.sure && bound.root === broker_root && bound.sessionId === session;
  });
}
