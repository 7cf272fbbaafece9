import { existsSync } from '../../../storage/fs.ts';
import { nearest } from '../../../flow/nearest.ts';
import type { Address } from '../../../protocol/address.ts';
import { readAlias, readRoom } from '../../../protocol/c2c.ts';
import type { ChannelName } from '../../../protocol/names.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import type { Broker } from '../../../storage/c2c/broker.ts';

/** A recipient as users of this dialect write it: an alias, with or without its @, or `#room`. */
export function readAddress(text: string): Address {
  if (text.startsWith('#')) return { kind: 'channel', channel: `#${readRoom(text)}` as ChannelName };
  return { kind: 'name', name: readAlias(text.replace(/^@/, '')) };
}

/** Nobody would get it: says who may have been meant. spec: c2c#recipients */
export async function unreachable(broker: Broker, text: string, parley: string): Promise<Refusal> {
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
  // An agent of Parley can write here, and a session that answers it would not know where that one is.
  if (existsSync(`${parley}/agents/${name}.json`)) {
    return new Refusal(
      'unknown_recipient',
      `"${name}" is an agent of Parley and no session of c2c; answer with \`parley reply <message id> "…" --as <your alias>\``,
    );
  }
  const aliases = (await broker.sessions()).map(({ row }) => row.alias);
  return refused(`no session is called "${name}"`, nearest(name, aliases), '`c2c list`');
}

function refused(what: string, near: string[], list: string): Refusal {
  const hint = near.length > 0 ? `did you mean ${near.join(' or ')}?` : `see ${list}`;
  return new Refusal('unknown_recipient', `${what}; ${hint}`);
}
