import text from '../../../SKILL.md' with { type: 'text' };
import { HOOK_CLIENTS } from '../../clients/clients.ts';
import { join, resolve } from 'node:path';
import { additionsOf } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, Hook, InstallProfile, InstallTarget } from '../../clients/settings/client-settings.ts';
import type { Addition } from '../../clients/settings/changes.ts';
import { hookLine, hookWord } from '../hook-setup.ts';

export interface ParleyOrder {
  program: string;
  project: boolean;
  hooks: boolean;
}

/**
 * What `parley install` adds to a client: the hook of `parley hook` or a plugin, the server `parley mcp`, and the skill. Hook and server name
 * only the client: its mailbox is looked up when they run. spec: c2c#install
 */
export function parleyProfile(
  client: ClientSettings,
  target: InstallTarget,
  { program, project, hooks }: ParleyOrder,
): InstallProfile {
  const home = target.env['PARLEY_HOME'];
  const skills = client.skills(target);
  return {
    by: 'parley',
    serverName: 'parley',
    server: {
      command: program,
      args: ['mcp', '--client', client.name],
      env: home ? { PARLEY_HOME: resolve(home) } : {},
    },
    forProject: project,
    hooks: hooks ? hooksOf(client, target) : [],
    files: [
      ...(skills === null ? [] : [{ path: join(skills, 'parley/SKILL.md'), what: 'skill', text }]),
      ...(hooks ? (client.mailFiles?.(target) ?? []) : []),
    ],
    allow: [],
  };
}

function hooksOf({ name }: ClientSettings, { env }: InstallTarget): Hook[] {
  return HOOK_CLIENTS.filter((client) => client.name === name).map(({ registers: events, timeout }) => ({
    what: 'hook',
    command: () => hookLine(env, name),
    mark: `${hookWord(env)} ${name}`,
    events,
    timeout,
  }));
}

/** Everything that `parley install` may add to a client, for the user or for the project: to look whether it is there. */
export function possibleAdditions(client: ClientSettings, target: InstallTarget): Addition[] {
  return [true, false].flatMap((project) =>
    additionsOf(client, target, parleyProfile(client, target, { program: '', project, hooks: true })),
  );
}
