import { c2cPhrases } from './envelope.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { signsFolder } from './loop-files.ts';
import { writeAll } from '../../platform/terminal.ts';
import type { C2c } from './workspace.ts';
import { TEXT, command } from '../../core/command.ts';
import { hasHeldMail, healBroker, isEmptyInbox } from './empty.ts';
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
 * The hook's script calls this when mail may wait, with the client's event on stdin. An error must not stop the client's turn: it becomes one
 * line on stderr, and the exit code is 0. spec: c2c#hook
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

/** Records the inbox of this event's session, and prints the mail that waits in it. */
async function answer(c2c: C2c, clientName: string, event: HookEvent): Promise<void> {
  const folder = hookFolder(c2c.env);
  const session = HookSession.open(folder, event.session_id);
  const bound = await bindingOf(c2c, clientName, event, session);
  if (!bound) return;
  if (session && !session.bound()) forgetOldC2cSessions(folder);
  session?.bind(bound);
  const { root, sessionId } = bound;
  if (isEmptyInbox(root, sessionId) && !hasHeldMail(root)) return session?.lookAgain();
  const client = hookClient(clientName);
  const said = await answerEvent([brokerMailbox(c2c.at(root), bound, session, event)], client, event);
  if (said.length > 0 && client.endsTurn.includes(event.hook_event_name ?? '')) await noteBusy(c2c, event.session_id);
}

/** A session's inbox at a broker. Printed mail is settled immediately, not at the session's next event. */
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
        await healBroker(who.home);
        const mail = await loudMail(who);
        if (mail.length > 0) await who.home.directory.seen(who.name);
        return { who, mail, nothingLeft: () => mail.length === 0 && look?.markSearched(), close: () => look?.close() };
      } catch (error) {
        look?.close();
        throw error;
      }
    },
    skip() {
      const look = session?.look(bound, 'sub');
      look?.markSearched();
      look?.close();
    },
    lookAtOnce: () => session?.lookAtOnce(),
    // Held mail may come back, and a session may be registered by now.
    lookAgain: () => session?.lookAgain(),
  };
}

/** The waiting mail without quiet mail. Mail that other programs left gets its attention decision here. */
async function loudMail(who: Who): Promise<FittedMail[]> {
  const loud: FittedMail[] = [];
  for (const { message } of await waiting(who, { any: true, loudOnly: true })) {
    const copy = await who.home.journal.copy(who.name, message.id);
    if (copy) loud.push({ message, attention: copy.attention, attempt: copy.attempt });
  }
  return loud;
}

/** Mail at the end of a turn prolongs the turn, so the state is `busy`. Our state hook runs at the same moment and may have written `idle`. */
async function noteBusy({ env }: C2c, session = ''): Promise<void> {
  const path = clientStatePath(signsFolder(env), session);
  if (session !== '' && existsSync(path)) await writeClientState(path, 'busy', Date.now());
}

/**
 * The inbox of this event's session; null if nothing names a session. In this order:
 * 1. In Codex, the managed session whose process started this hook. It comes before a recorded inbox, because it may have resumed a thread of
 *    another session.
 * 2. The inbox that `bindHookSession` recorded for the session in the event.
 * 3. At the broker of the folder: the session in the event, then the session that the environment names. The environment comes second, because
 *    it may be inherited from another session. In Codex it is not used: it can be the environment of any window.
 */
async function bindingOf(
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
  // The recorded inbox is a guess, because the session has started again, and nothing names another session.
  if (known && (await c2c.at(known.root).broker.session(known.sessionId))) return { ...known, sure: true };
  return { root, sessionId: first, sure: false };
}
