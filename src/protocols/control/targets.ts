import { clientNamed } from '../../clients/clients.ts';
import type { Env } from '../../core/env.ts';
import type { SessionDriver, SessionTarget } from '../../core/ports/session.ts';
import type { SessionStore } from '../../core/ports/session-store.ts';
import { userHome } from '../../platform/env.ts';
import { targetOf } from './config.ts';
import type { ControlFile } from './config.ts';
import type { Hosts } from './hosts.ts';
import { NoDriver } from './no-driver.ts';
import { RemoteDriver } from './remote-driver.ts';

/** Every configured session for its driver: the settings of the file, and the conversation from the store. */
export async function configuredTargets(
  file: ControlFile,
  store: Pick<SessionStore, 'binding'>,
  env: Env,
): Promise<SessionTarget[]> {
  const settings = file.read();
  const plain = file.sessions().map(([name, entry]) => targetOf(name, entry, settings, userHome(env)));
  const inFolder = Map.groupBy(plain, ({ host, folder }) => `${host}:${folder}`);
  return Promise.all(
    plain.map(async (target) => ({
      ...target,
      conversation: (await store.binding(target.name))?.conversation ?? null,
      sharesFolder: (inFolder.get(`${target.host}:${target.folder}`)?.length ?? 0) > 1,
    })),
  );
}

/** The driver of a session; a `NoDriver` if we cannot drive it. */
export function driverFor(target: SessionTarget, env: Env, hosts: Hosts): SessionDriver {
  const driver = localDriver(target, env);
  return target.host === 'local' ? driver : new RemoteDriver(target, driver, hosts);
}

/** The driver of a session on this host. */
export function localDriver(target: SessionTarget, env: Env): SessionDriver {
  const client = clientNamed(target.client);
  if (client?.session) return client.session(target, { ...env, HOME: userHome(env), PATH: env['PATH'] ?? '' });
  return new NoDriver(`${target.client} cannot be controlled in this version`);
}
