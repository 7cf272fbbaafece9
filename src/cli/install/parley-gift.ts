import { resolve } from 'node:path';
import { HOOK_CLIENTS } from '../../clients/clients.ts';
import type { ClientName, Gift, Hooks } from '../../clients/install-client.ts';
import { hookLine, hookWord } from '../hook-setup.ts';
import type { Env } from '../env.ts';

export interface ParleyOrder {
  client: ClientName;
  program: string;
  project: boolean;
  hooks: boolean;
}

/**
 * What `parley install` brings to a client: the hook of `parley hook`, and `parley mcp`. Both name the client only: its mailbox is
 * looked up when they run. spec: c2c#install
 */
export function parleyGift(env: Env, { client, program, project, hooks }: ParleyOrder): Gift {
  const home = env['PARLEY_HOME'];
  const server = {
    command: program,
    args: ['mcp', '--client', client],
    env: home ? { PARLEY_HOME: resolve(home) } : {},
  };
  return { by: 'parley', forProject: project, server, hooks: hooks ? hooksOf(env, client) : [], files: [] };
}

function hooksOf(env: Env, client: ClientName): Hooks[] {
  const known = HOOK_CLIENTS.find(({ name }) => name === client);
  if (!known) return [];
  return [
    {
      what: 'hook',
      command: () => hookLine(env, client),
      mark: `${hookWord(env)} ${client}`,
      events: known.registers,
      timeout: known.timeout,
    },
  ];
}
