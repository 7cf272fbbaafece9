import { c2cPhrases } from './envelope.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { signsFolder } from './loop-files.ts';
import { writeAll } from '../../platform/terminal.ts';
import type { C2c } from './workspace.ts';
import { TEXT, command } from '../../core/command.ts';
import { bringIntoOrder, isEmptyInbox, isHeld } from './empty.ts';
import { instanceAbove } from './instance.ts';
import { existsSync } from 'node:fs';
import { hookClient } from '../../clients/clients.ts';
import type { FittedMail } from '../../delivery/fit.ts';
import { answerEvent } from '../../delivery/hook.ts';
import type { HookMailbox } from '../../delivery/hook.ts';
import type { HookEvent } from '../../delivery/hook-event.ts';
import { waiting } from '../../core/mail/deliver.ts';
import { clientStatePath, writeClientState } from '../../sessions/client-state.ts';
import { complain, readEvent } from '../../delivery/hook-call.ts';
import { forgetOldC2cSessions, hookFolder, HookSession } from './hook-session.ts';
import type { HookBinding } from './hook-session.ts';
import { brokerRoot } from './broker-root.ts';

/**
 * What the hook's script calls when something may wait: the event of the client is on stdin. Whatever goes wrong, the client's turn
 * goes on: one line on stderr, and 0. spec: c2c#hook
 */
export default command({
  usage: 'hook [<client>]',
  options: { client: TEXT },
  words: [0, 1],
  async run(c2c: C2c, values, [client = values.client ?? 'claude']) {
    try {
      await answer(c2c, client, readEvent());
    } catch (error) {
      complain('c2c hook', error);
    }
  },
});

/** Binds the session of this event and says what waits for it. */
async function answer(c2c: C2c, clientName: string, event: HookEvent): Promise<void> {
  const folder = hookFolder(c2c.env);
  const session = HookSession.open(folder, event.session_id);
  const bound = await readerOf(c2c, clientName, event, session);
  if (!bound) return;
  if (session && !session.bound()) forgetOldC2cSessions(folder);
  session?.bind(bound);
  const { root, sessionId } = bound;
  if (isEmptyInbox(root, sessionId) && !isHeld(root)) return session?.lookAgain();
  const client = hookClient(clientName);
  const said = await answerEvent([brokerMailbox(c2c.at(root), bound, session, event)], client, event);
  if (said.length > 0 && client.endsTurn.includes(event.hook_event_name ?? '')) await noteBusy(c2c, event.session_id);
}

/** A session's inbox at a broker. What is printed is settled, and nothing is kept for a turn. */
function brokerMailbox(
  c2c: C2c,
  bound: HookBinding,
  session: HookSession | null,
  { session_id }: HookEvent,
): HookMailbox {
  return {
    session: session_id || bound.sessionId,
    evidence: { drained_by: 'hook' },
    silentAtStart: false,
    offered: null,
    phrases: c2cPhrases,
    write: writeAll,
    async look() {
      const look = session?.look(bound, 'seen');
      try {
        const who: Who = { name: await c2c.mailbox(bound.sessionId), home: c2c.home };
        await bringIntoOrder(who.home);
        const mail = await loudMail(who);
        if (mail.length > 0) await who.home.directory.seen(who.name);
        return { who, mail, nothingLeft: () => mail.length === 0 && look?.inVain(), close: () => look?.close() };
      } catch (error) {
        look?.close();
        throw error;
      }
    },
    skip() {
      const look = session?.look(bound, 'sub');
      look?.inVain();
      look?.close();
    },
    lookAtOnce: () => session?.lookAtOnce(),
    // Held mail may come back, and a session may be registered by now.
    lookAgain: () => session?.lookAgain(),
  };
}

/** What waits quietly is not said. Mail of other programs gets its decision here. */
async function loudMail(who: Who): Promise<FittedMail[]> {
  const loud: FittedMail[] = [];
  for (const { message } of await waiting(who, { any: true, loudOnly: true })) {
    const copy = await who.home.journal.copy(who.name, message.id);
    if (copy) loud.push({ message, attention: copy.attention, attempt: copy.attempt });
  }
  return loud;
}

/** What was said at the end of a turn makes the client go on. Another hook of ours, called at the same moment, may have said that it rests. */
async function noteBusy({ env }: C2c, session = ''): Promise<void> {
  const path = clientStatePath(signsFolder(env), session);
  if (session !== '' && existsSync(path)) await writeClientState(path, 'busy', Date.now());
}

/**
 * Which inbox this is about. The session that the event names is believed first: the environment may be inherited from another one.
 * Where it was registered is known from `bindHookSession`; otherwise its folder tells, and the environment names a session that was
 * started under a name of its own. In Codex the environment is that of any window, so it is not asked; a managed session is known by its
 * process, and comes before what was bound, because it may have resumed a thread of another session. Null if nothing names one.
 */
async function readerOf(
  c2c: C2c,
  client: string,
  event: HookEvent,
  session: HookSession | null,
): Promise<HookBinding | null> {
  const managed = client === 'codex' ? instanceAbove(c2c.env) : null;
  if (managed) return { root: managed.broker_root, sessionId: managed.session_id, sure: true };
  const known = session?.bound();
  if (known?.sure) return known;
  const root = brokerRoot(c2c.env, c2c.env['CLAUDE_PROJECT_DIR'] || event.cwd || c2c.cwd);
  const told = client === 'codex' ? [] : [c2c.env['C2C_MCP_SESSION_ID'], c2c.env['C2C_SESSION_ID']];
  const names = [session?.id, ...told].filter((name) => !!name);
  const [first] = names;
  if (first === undefined) return null;
  const { broker } = c2c.at(root);
  for (const sessionId of existsSync(root) ? names : []) {
    if (sessionId && (await broker.session(sessionId))) return { root, sessionId, sure: true };
  }
  // It has started again since it was bound, and nothing names another session.
  if (known && (await c2c.at(known.root).broker.session(known.sessionId))) return { ...known, sure: true };
  return { root, sessionId: first, sure: false };
}
