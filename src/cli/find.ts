import { nearest } from '../core/nearest.ts';
import { visible } from '../core/history/sight.ts';
import { takeShared } from '../core/mail/shared.ts';
import { findMessage } from '../core/mail/workspace.ts';
import type { Workspace, Who } from '../core/mail/workspace.ts';
import { parseAddress } from '../core/address.ts';
import { shortId } from '../core/names.ts';
import type { MessageId } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import type { Context } from './context.ts';

/** The message that a command is about, and who acts, in the home where it is. It must be one that this agent may see. */
export async function eventFrom(context: Context, prefix: string): Promise<{ who: Who; id: MessageId }> {
  const own = await context.who();
  // Mail of other programs, or at a relay, may not have been looked at yet.
  await bringHere(own, prefix);
  await own.home.mailboxes.adopt(own.name);
  const { home, id } = await findMessage(context.workspace, prefix);
  const who = { ...own, home };
  await visible([who], id).catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal('not_yours', `message ${shortId(id)} is neither from you nor to you; see \`parley events\``);
  });
  return { who, id };
}

/** My open copies whose id begins so: those that wait, those that I hold, and files that have no row yet. */
export async function openId(who: Who, prefix: string): Promise<{ id: MessageId }[]> {
  await bringHere(who, prefix);
  await who.home.mailboxes.adopt(who.name);
  const open = await who.home.journal.open(who.name);
  const ids = [...open.keys()].filter((id) => id.startsWith(prefix));
  // A settled one is named too, so that the answer can say what became of it.
  if (ids.length === 0) ids.push(...(await who.home.journal.idsLike(prefix)));
  return ids.map((id) => ({ id }));
}

/** What waits on another machine, or in a mailbox that is shared, is fetched first: then it is answered and ended like everything else. */
export async function bringHere(who: Who, prefix: string): Promise<void> {
  const { name, home } = who;
  await takeShared(who, prefix);
  if (!home.remote || (await home.journal.idsLike(prefix)).length > 0) return;
  await home.remote.bring(name, ({ id }) => prefix !== '' && id.startsWith(prefix));
}

/** The one agent that is meant; an unknown name is refused with the nearest, one in several homes with its full forms. */
export async function agentFrom(workspace: Workspace, text: string): Promise<Who> {
  const address = parseAddress(text);
  if (address.kind !== 'name') throw new Refusal('invalid_request', `name an agent; ${address.channel} is a channel`);
  const homes = workspace.homes.filter((home) => !address.home || home.label === address.home);
  const found: Who[] = [];
  for (const home of homes) if (await home.directory.get(address.name)) found.push({ name: address.name, home });
  const [only, ...others] = found;
  if (!only) {
    const names = (await Promise.all(homes.map((home) => home.directory.list()))).flat().map((record) => record.name);
    const [near] = nearest(address.name, names);
    throw new Refusal(
      'not_found',
      `no agent is called ${address.name}; ${near ? `did you mean ${near}?` : 'see `parley agents`'}`,
    );
  }
  if (others.length === 0) return only;
  const forms = found.map(({ name, home }) => `${name}%${home.label}`).join(' or ');
  throw new Refusal('ambiguous', `${address.name} is in several homes; write ${forms}`);
}
