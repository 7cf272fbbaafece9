import { HOOK_CLIENTS } from '../../clients/hook-clients.ts';
import type { ClientName, Gift, Hooks } from '../../clients/install-client.ts';
import { hookWord } from '../hook-setup.ts';
import type { Env } from '../env.ts';

export interface ParleyOrder {
  client: ClientName;
  program: string;
  agent: string;
  /** The hook says whose mail it is about, instead of finding that out where it runs. */
  named: boolean;
  project: boolean;
  /** Codex makes its user trust hooks: it gets them only when asked for. */
  hooks: boolean;
}

/** What `parley install` brings to a client: the hook of `parley hook`, and `parley mcp`. spec: c2c#install */
export function parleyGift(env: Env, { client, program, agent, named, project, hooks }: ParleyOrder): Gift {
  const home = env['PARLEY_HOME'];
  const server = { command: program, args: ['mcp', '--as', agent], env: home ? { PARLEY_HOME: home } : {} };
  const wanted = client === 'codex' && !hooks ? [] : hooksOf(env, client, named ? ` --as ${agent}` : '');
  return { by: 'parley', forProject: project, server, hooks: wanted, files: [] };
}

function hooksOf(env: Env, client: ClientName, further: string): Hooks[] {
  const known = HOOK_CLIENTS.find(({ name }) => name === client);
  if (!known) return [];
  const call = `${hookWord(env)} ${client}`;
  return [
    {
      what: 'hook',
      command: () => `sh ${call}${further}`,
      mark: call,
      events: known.registers,
      timeout: known.timeout,
    },
  ];
}
