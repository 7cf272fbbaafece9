import { clientNamed } from '../clients/clients.ts';
import type { ClientName } from '../clients/client-names.ts';
import type { Env } from '../core/env.ts';
import type { Who } from '../core/mail/workspace.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import { isShared, sharedMailbox } from '../delivery/client-bindings.ts';
import { hasManySessions, isShown, SessionNames } from '../delivery/session-names.ts';
import type { ActingSession, NamedSession } from '../delivery/session-names.ts';
import { parleyHome } from '../platform/env.ts';
import { ancestors, isClient, starterOf } from '../platform/process.ts';
import { refuseClientWithoutMailbox } from './context.ts';
import type { Context } from './context.ts';
import { makeMailbox, takenNames } from './make-mailbox.ts';

/**
 * Who a session of this client is, as its hook (`by`) or its tools ask. If somebody chose a mailbox, by `--as`, a variable, a trusted
 * project or `parley install --as`, it is that one. Otherwise the session gets a name of its own, `<client>.<folder>`, and reads the
 * client's mailbox together with the other sessions. `context` works in the session's folder. spec: hook#session
 */
export async function sessionWho(
  context: Context,
  client: ClientName,
  by: 'hook' | 'mcp',
  session: string | null,
): Promise<Who> {
  refuseClientWithoutMailbox(context, client, by);
  const who = await context.who('serve');
  const home = parleyHome(context.env);
  const from = context.loaded.origins.find(({ name }) => name === 'agent')?.from;
  const isChosen = from !== `client ${client}` || who.home.label !== 'parley' || !isShared(home, client);
  if (isChosen) return who;
  const { sharesProcess } = clientNamed(client) ?? {};
  // Without its id, a session in a process that has many cannot be told from the others.
  if (sharesProcess && session === null) return who;
  const acting = { client, folder: context.cwd, pid: clientProcess(sharesProcess === true), session };
  const { name } = await nameFor(context, acting, sharesProcess === true);
  if (!(await who.home.directory.get(name))) await makeMailbox(who.home, name);
  return { name, home: who.home, shares: sharedMailbox(home, name) };
}

async function nameFor(context: Context, acting: ActingSession, sharesProcess: boolean): Promise<NamedSession> {
  const names = new SessionNames(parleyHome(context.env));
  const known = names.of(acting);
  if (known && (acting.session === null || acting.session === known.session)) return known;
  const taken = await takenNames(context);
  if (!sharesProcess) return names.give(acting, (one) => taken.has(one));
  const all = await shownSessions(acting, context.env);
  // The name belongs to the window: after `/new` it shows another session.
  const pid = all?.find(({ id }) => id === acting.session)?.pid ?? acting.pid;
  return names.give(
    { ...acting, pid },
    (one) => taken.has(one),
    (one) => isShown(one, all),
  );
}

/** The process of the client that started us: the same for its hooks and its tools. 0: it has many sessions, or is not known. */
function clientProcess(sharesProcess: boolean): number {
  const above = [...ancestors()];
  const starter = starterOf(process.pid) ?? above.find(isClient)?.pid ?? 0;
  // Codex also runs without its daemon; then the session has a process of its own.
  const isDaemon = above.some(({ pid, words }) => pid === starter && hasManySessions(words));
  return sharesProcess && isDaemon ? 0 : starter;
}

/** The sessions that windows of the client show; null if nobody can tell. */
async function shownSessions({ client, pid }: ActingSession, env: Env): Promise<LiveSession[] | null> {
  const sessions = clientNamed(client)?.live?.(env);
  const all = (await sessions?.list().catch(() => null)) ?? null;
  await sessions?.close();
  // The daemon that runs us has one session at least: without any, it was not reached.
  return all !== null && (all.length > 0 || pid > 0) ? all : null;
}
