import type { Who } from '../flow/desk.ts';
import type { MessageId } from '../protocol/names.ts';

/** My open copies whose id begins so: those that wait, those that I hold, and files that have no row yet. */
export async function openId(who: Who, prefix: string): Promise<{ id: MessageId }[]> {
  await bringHere(who, prefix);
  await who.home.spool.adopt(who.name);
  const open = await who.home.ledger.open(who.name);
  const ids = [...open.keys()].filter((id) => id.startsWith(prefix));
  // A settled one is named too, so that the answer can say what became of it.
  if (ids.length === 0) ids.push(...(await who.home.ledger.idsLike(prefix)));
  return ids.map((id) => ({ id }));
}

/** What waits on another machine is fetched first, so that it can be answered and ended like everything else. */
export async function bringHere({ name, home }: Who, prefix: string): Promise<void> {
  if (!home.far || (await home.ledger.idsLike(prefix)).length > 0) return;
  await home.far.bring(name, ({ id }) => prefix !== '' && id.startsWith(prefix));
}
