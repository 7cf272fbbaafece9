import { clientNamed } from '../clients/clients.ts';
import type { ClientName } from '../clients/client-names.ts';
import type { Env } from '../core/env.ts';
import type { Who } from '../core/mail/workspace.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import { isShared, sharedMailbox } from '../delivery/client-bindings.ts';
import { isShown, SessionNames } from '../delivery/session-names.ts';
import type { ActingSession, NamedSession } from '../delivery/session-names.ts';
import { parleyHome, userHome } from '../platform/env.ts';
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
  const starter = clientProcess();
  const hasMany = sharesProcess?.(starter, { ...context.env, HOME: userHome(context.env) }) === true;
  // Without its id, a session in a process that has many cannot be told from the others.
  if (session === null && (hasMany || (sharesProcess && starter.pid === 0))) return who;
  const acting = { client, folder: context.cwd, pid: hasMany ? 0 : starter.pid, session };
  const { name } = await nameFor(context, acting, sharesProcess !== undefined);
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
  const shown = clientNamed(acting.client)?.isWindowed ? all?.find(({ id }) => id === acting.session) : undefined;
  const pid = shown?.pid ?? acting.pid;
  return names.give(
    { ...acting, pid },
    (one) => taken.has(one),
    (one) => isShown(one, all),
  );
}

/** The process of the client that started us: the same for its hooks and its tools. Its number is 0 if it is not known. */
function clientProcess(): { pid: number; words: readonly string[] } {
  const above = [...ancestors()];
  const pid = starterOf(process.pid) ?? above.find(isClient)?.pid ?? 0;
  return { pid, words: above.find((one) => one.pid === pid)?.words ?? [] };
}

/** The sessions that windows of the client show; null if nobody can tell. */
async function shownSessions({ client, pid }: ActingSession, env: Env): Promise<LiveSession[] | null> {
  const sessions = clientNamed(client)?.live?.(env);
  const all = (await sessions?.list().catch(() => null)) ?? null;
  await sessions?.close();
  // The daemon that runs us has one session at least: without any, it was not reached.
  return all !== null && (all.length > 0 || pid > 0) ? all : null;
}
