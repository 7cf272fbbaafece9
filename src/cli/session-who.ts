import { clientNamed } from '../clients/clients.ts';
import type { ClientName } from '../clients/client-names.ts';
import type { Env } from '../core/env.ts';
import type { Who } from '../core/mail/workspace.ts';
import { isShared, sharedMailbox } from '../delivery/client-bindings.ts';
import { hasLiveProcess, SessionNames } from '../delivery/session-names.ts';
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
  const acting = { client, folder: context.cwd, pid: sharesProcess ? 0 : clientProcess(), session };
  const { name } = await nameFor(context, acting, sharesProcess === true);
  if (!(await who.home.directory.get(name))) await makeMailbox(who.home, name);
  return { name, home: who.home, shares: sharedMailbox(home, name) };
}

async function nameFor(context: Context, acting: ActingSession, sharesProcess: boolean): Promise<NamedSession> {
  const names = new SessionNames(parleyHome(context.env));
  const known = names.of(acting);
  if (known && (acting.session === null || acting.session === known.session)) return known;
  const taken = await takenNames(context);
  const isRunning = sharesProcess ? await loadedSessions(acting.client, context.env) : hasLiveProcess;
  return names.give(acting, (one) => taken.has(one), isRunning);
}

/** The process of the client that started us: the same for its hooks and its tools. */
function clientProcess(): number {
  return starterOf(process.pid) ?? ancestors().find(isClient)?.pid ?? 0;
}

/** Says whether the last session of a name is still there, where its process tells nothing about it. */
async function loadedSessions(client: string, env: Env): Promise<(one: NamedSession) => boolean> {
  const sessions = clientNamed(client)?.live?.(env);
  const loaded = new Set((await sessions?.list().catch(() => []))?.map(({ id }) => id));
  await sessions?.close();
  return (one) => (one.pid > 0 ? hasLiveProcess(one) : one.session !== null && loaded.has(one.session));
}
