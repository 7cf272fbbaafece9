import { shortId } from '../protocol/names.ts';
import { findMessage } from '../flow/desk.ts';
import type { Who } from '../flow/desk.ts';
import { visible } from '../flow/sight.ts';
import type { MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Context } from './context.ts';
import { bringHere } from './mine.ts';

/** The message that a command is about, and who acts, in the home where it is. It must be one that this agent may see. */
export async function eventFrom(context: Context, prefix: string): Promise<{ who: Who; id: MessageId }> {
  const own = await context.who();
  // Mail of other programs, or at a relay, may not have been looked at yet.
  await bringHere(own, prefix);
  await own.home.spool.adopt(own.name);
  const { home, id } = await findMessage(context.desk, prefix);
  const who = { ...own, home };
  await visible([who], id).catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal('not_yours', `message ${shortId(id)} is neither from you nor to you; see \`parley events\``);
  });
  return { who, id };
}
