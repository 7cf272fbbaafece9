import type { Desk, Who } from '../flow/desk.ts';
import { nearest } from '../flow/nearest.ts';
import { parseAddress } from '../protocol/address.ts';
import { Refusal } from '../protocol/refusal.ts';

/** The one agent that is meant; an unknown name is refused with the nearest, one in several homes with its full forms. */
export async function agentFrom(desk: Desk, text: string): Promise<Who> {
  const address = parseAddress(text);
  if (address.kind !== 'name') throw new Refusal('invalid_request', `name an agent; ${address.channel} is a channel`);
  const homes = desk.homes.filter((home) => !address.home || home.label === address.home);
  const found: Who[] = [];
  for (const home of homes) if (await home.directory.get(address.name)) found.push({ name: address.name, home });
  const [only, ...others] = found;
  if (!only) {
    const names = (await Promise.all(homes.map((home) => home.directory.list()))).flat().map((record) => record.name);
    const [near] = nearest(address.name, names);
    throw new Refusal(
      'not_found',
      `no agent is called ${address.name}; ${near ? `did you mean ${near}?` : 'see `parley agents` for who is here'}`,
    );
  }
  if (others.length === 0) return only;
  const forms = found.map(({ name, home }) => `${name}%${home.label}`).join(' or ');
  throw new Refusal('ambiguous', `${address.name} is in several homes; write ${forms}`);
}
