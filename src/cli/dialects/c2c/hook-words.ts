import { existsSync } from 'node:fs';
import { hookClient } from '../../../clients/hook-clients.ts';
import { isSubagent } from '../../../clients/hook-event.ts';
import type { HookEvent } from '../../../clients/hook-event.ts';
import { c2cPhrases } from '../../../delivery/c2c-phrases.ts';
import type { Mail } from '../../../delivery/fence.ts';
import { waiting } from '../../../flow/deliver.ts';
import type { Who } from '../../../flow/desk.ts';
import { clientStatePath, writeClientState } from '../../../sessions/client-state.ts';
import { sayRound } from '../../hook-say.ts';
import { signsFolder } from '../../loops/folders.ts';
import type { C2c } from './c2c.ts';
import { bringIntoOrder } from './emptiness.ts';
import type { Bound, HookSession } from './hook-session.ts';

/**
 * Says what is loud, as far as it fits into one text; where nothing is, the script need not start us again for this inbox. A subagent's
 * context is thrown away with it: nothing is said there. Nor is it after a tool whose client drops what a hook says.
 */
export async function sayTo(
  c2c: C2c,
  bound: Bound,
  session: HookSession | null,
  clientName: string,
  event: HookEvent,
): Promise<void> {
  const client = hookClient(clientName);
  const { hook_event_name: name = '', session_id = '', tool_name = '' } = event;
  const isSub = isSubagent(event);
  const look = session?.look(bound, isSub ? 'sub' : 'seen');
  try {
    if (isSub) return look?.inVain();
    if (!Object.hasOwn(client.events, name) || client.deafAfter.includes(tool_name)) return;
    const who: Who = { name: await c2c.mailbox(bound.sessionId), home: c2c.home };
    await bringIntoOrder(c2c.home);
    const mail = await loudMail(who);
    const opening = { client, event: name, session: session_id || bound.sessionId, further: { drained_by: 'hook' } };
    if (mail.length === 0) return look?.inVain();
    const said = await sayRound(who, opening, c2cPhrases(who.name), mail, Date.now());
    if (said.length > 0 && client.endsTurn.includes(name)) await noteBusy(c2c, session_id);
    await c2c.home.directory.seen(who.name);
  } finally {
    look?.close();
  }
}

/** What waits quietly is not said. Mail of other programs gets its decision here. */
async function loudMail(who: Who): Promise<Mail[]> {
  const loud: Mail[] = [];
  for (const { message } of await waiting(who, { any: true, loudOnly: true })) {
    const copy = await who.home.ledger.copy(who.name, message.id);
    if (copy) loud.push({ message, attention: copy.attention, attempt: copy.attempt });
  }
  return loud;
}

/** What was said at the end of a turn makes the client go on. Another hook of ours, called at the same moment, may have said that it rests. */
async function noteBusy({ env }: C2c, session: string): Promise<void> {
  const path = clientStatePath(signsFolder(env), session);
  if (session !== '' && existsSync(path)) await writeClientState(path, 'busy', Date.now());
}
