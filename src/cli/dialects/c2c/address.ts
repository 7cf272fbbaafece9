import { existsSync } from 'node:fs';
import { inShell } from '../../../clients/shell-word.ts';
import { nearest } from '../../../flow/nearest.ts';
import type { Address } from '../../../protocol/address.ts';
import { readAlias, readRoom } from '../../../protocols/c2c/shapes.ts';
import type { AgentName, ChannelName } from '../../../protocol/names.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { backchannelHome, parleyHome } from '../../env.ts';
import type { C2c } from './c2c.ts';
import { brokerRoot } from './root.ts';

/** A recipient as users of this dialect write it: an alias, with or without its @, or `#room`. */
export function readAddress(text: string): Address {
  if (text.startsWith('#')) return { kind: 'channel', channel: `#${readRoom(text)}` as ChannelName };
  return { kind: 'name', name: readAlias(text.replace(/^@/, '')) };
}

/** Nobody would get it: says who may have been meant, or how to write to an agent of another home. spec: c2c#recipients */
export async function unreachable(c2c: C2c, text: string, from: AgentName): Promise<Refusal> {
  const { broker } = c2c;
  const name = text.replace(/^[@#]/, '');
  const rooms = await broker.rooms();
  if (text.startsWith('#')) {
    const near = nearest(
      name,
      rooms.filter((room) => room !== name),
    );
    const known = rooms.includes(name) ? 'has no other members, so nobody would get this' : 'does not exist';
    return refused(`room #${name} ${known}`, near, '`c2c rooms list`');
  }
  if (rooms.includes(name)) {
    return new Refusal('unknown_recipient', `"${name}" is a room; write to it with \`c2c rooms send ${name} …\``);
  }
  const lines = await parleyLines(c2c, name as AgentName, from);
  if (lines.length > 0) {
    const what = `"${name}" is an agent of Parley and no session of c2c`;
    return new Refusal('unknown_recipient', `${what}; type: ${lines.join(' or ')}`);
  }
  const aliases = (await broker.sessions()).map(({ row }) => row.alias);
  return refused(`no session is called "${name}"`, nearest(name, aliases), '`c2c list`');
}

function refused(what: string, near: string[], list: string): Refusal {
  const hint = near.length > 0 ? `did you mean ${near.join(' or ')}?` : `see ${list}`;
  return new Refusal('unknown_recipient', `${what}; ${hint}`);
}

/** The lines by which a session writes to an agent of this name: one for each home that has one. An answer to what it wrote last, if it wrote. */
async function parleyLines(c2c: C2c, name: AgentName, from: AgentName): Promise<string[]> {
  const { env, home } = c2c;
  const homes = { parley: parleyHome(env), bch: backchannelHome(env) };
  const labels = (['parley', 'bch'] as const).filter((label) => existsSync(`${homes[label]}/agents/${name}.json`));
  if (labels.length === 0) return [];
  const { register, as } = await speaker(c2c, from);
  const parley = `${register}${brokerVariable(c2c)}parley`;
  const asked = labels.length === 1 ? await home.ledger.unanswered(name, from, 0) : null;
  if (asked) return [`${parley} reply ${asked.id.slice(0, 8)} "…" --as ${as}`];
  return labels.map((label) => `${parley} send @${name}${labels.length === 1 ? '' : `%${label}`} "…" --as ${as}`);
}

/** `--as` needs a mailbox: the one of this alias, else that of the session, else one that is made first. */
async function speaker({ broker, sessionId }: C2c, from: AgentName): Promise<{ register: string; as: AgentName }> {
  if (await broker.called(from)) return { register: '', as: from };
  const own = sessionId === null ? null : await broker.aliasOf(sessionId);
  return own === null ? { register: `c2c register ${from} && `, as: from } : { register: '', as: own };
}

/** `parley` looks for the broker of the folder it runs in; another one has to be named. */
function brokerVariable({ env, cwd, root }: C2c): string {
  const { C2C_MCP_BROKER_ROOT: _mcp, C2C_BROKER_ROOT: _broker, ...rest } = env;
  return brokerRoot(rest, cwd) === root ? '' : `C2C_MCP_BROKER_ROOT=${inShell(root)} `;
}
