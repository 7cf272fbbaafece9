import { readdirSync } from 'node:fs';
import { anyChannel } from '../protocol/backchannel.ts';
import type { AgentName } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import { folderFor, readIdentity, writeIdentity } from '../storage/relay/identity.ts';
import { firstAbilities, registerAt, relayAddress } from '../storage/relay/register.ts';
import type { Context } from './context.ts';
import { prepareHook } from './hook-setup.ts';
import { becomeDefault } from './settings-file.ts';
import { parleyHome } from './env.ts';
import { openFarHome } from './wiring.ts';

/** Who wants to be at which relay, and what admits it there. */
export interface Application {
  agent: AgentName;
  url: string;
  room?: string | undefined;
  /** The room's token. */
  token?: string | undefined;
  channels?: readonly string[] | undefined;
  insecure: boolean;
  /** A session of a client that is to be this agent's. */
  session?: string | undefined;
  /** Be this agent from now on, even if there is one already. */
  byDefault: boolean;
}

export interface Enlisted {
  url: string;
  root: string;
  /** We were there before, under this name. */
  existed: boolean;
  isDefault: boolean;
}

/** Registers an agent at a relay and keeps its token in a folder of its own: no other agent's is touched. */
export async function enlist(context: Context, application: Application): Promise<Enlisted> {
  const { agent, room, token } = application;
  const url = relayAddress(application.url, application.insecure);
  await refuseLocalName(context, agent);
  const place = { agent, url, ...(room && { room }) };
  const root = folderFor(parleyHome(context.env), place);
  const saved = readIdentity(root);
  const known = await registerAt(place, agent, { room: token, own: saved?.token });
  const abilities = await firstAbilities(place);
  writeIdentity(root, { v: 1, ...place, ...(known.token && { token: known.token }), ...(abilities && { abilities }) });
  const home = openFarHome({ root, durability: context.settings.durability });
  await home.spool.adopt(agent);
  for (const channel of application.channels ?? []) {
    await home.directory.subscribe(agent, anyChannel(channel));
  }
  prepareHook(context, { name: agent, home }, application.session);
  const config = `${parleyHome(context.env)}/config.json`;
  const isDefault = becomeDefault(config, agent, application.byDefault) === agent;
  const all = readdirSync(`${parleyHome(context.env)}/relays`).filter((name) => name.startsWith(`${agent}@`));
  if (all.length > 1)
    context.note(`@${agent} is at several relays now; PARLEY_RELAY says which is meant: ${all.join(', ')}`);
  return { url, root, existed: saved !== null && !known.issued, isDefault };
}

/** One name, one inbox: mail of a local mailbox and of a relay would wait in two places, and one of them would not be looked at. */
async function refuseLocalName(context: Context, agent: AgentName): Promise<void> {
  const local = context.desk.homes.find((home) => home.label === 'parley');
  if (!(await local?.directory.get(agent))) return;
  throw new Refusal(
    'name_taken',
    `@${agent} has a mailbox on this machine; join under another name, or remove that one first: parley forget ${agent}`,
  );
}

/** What an agent says when it is at a relay from now on, and how to go on. */
export function welcome(context: Context, agent: AgentName, { url, root, isDefault }: Enlisted): void {
  context.say(
    isDefault
      ? `You are @${agent} here. Next: parley send @<someone> "hello"   (parley agents lists who is there)`
      : `Act as it with --as ${agent} or PARLEY_AGENT=${agent}; to make it the default: parley init ${agent} --url ${url} --default`,
  );
  context.note(`its token is in ${root}/relay.json, readable by you only`);
}
