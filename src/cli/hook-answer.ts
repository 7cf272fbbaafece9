import { existsSync, writeFileSync } from 'node:fs';
import type { HookClient } from '../clients/hook-client.ts';
import type { HookEvent } from '../clients/hook-event.ts';
import { isSubagent } from '../clients/hook-event.ts';
import type { Who } from '../flow/workspace.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import { Context, refuseClientWithoutMailbox } from './context.ts';
import { Offers } from './hook-offers.ts';
import { look, sayWaiting } from './hook-round.ts';
import type { Outcome, Turn } from './hook-round.ts';
import { contextOf, renewScript } from './hook-setup.ts';
import { forgetOldSessions, mailboxOf, namesIn, Session } from './sessions.ts';
import type { Binding } from './sessions.ts';
import { parleyHome } from '../platform/env.ts';
import type { Env } from '../platform/env.ts';

export interface Circumstances {
  /** Who the settings of the client say that it is. */
  as: string | undefined;
  /** Can the script that called us tell times apart that lie within one second? */
  fineTimes: boolean;
}

/** Answers one event of a client. Sets the exit code with which the client understands the answer. */
export async function answerEvent(
  context: Context,
  client: HookClient,
  event: HookEvent,
  { as, fineTimes }: Circumstances,
): Promise<void> {
  const root = parleyHome(context.env);
  const session = Session.open(root, event.session_id);
  if (!session) throw new Refusal('invalid_request', 'the event names no session; nothing was taken');
  const isStart = event.hook_event_name === 'SessionStart';
  if (isStart) forgetOldSessions(root);
  const { who, match } = await readerOf(context, client, event, session, as);
  const inbox = `${mailboxOf(who)}/new`;
  const quiet = `${mailboxOf(who)}/quiet`;
  session.lookAtOnce();
  if (isSubagent(event)) {
    session.noteSeen('sub', inbox, new Set(namesIn(inbox)), fineTimes);
  } else {
    const offers = new Offers(session);
    const readerNamed = async (name: AgentName) => (name === who.name ? who : agentNamed(context.env, name));
    await offers.resolve(client, event, readerNamed);
    if (client.oneSession && isNewStart(event)) await offers.endEarlier(client, event, readerNamed);
    const { looked, lookedLater, nothingLeft } = await speak(who, offers, { client, event, match });
    for (const kind of nothingLeft ? (['seen', 'sub'] as const) : []) session.noteSeen(kind, inbox, looked, fineTimes);
    if (nothingLeft && lookedLater) session.noteSeen('turn', quiet, lookedLater, fineTimes);
  }
  await lookAgainInTime(session, who);
  if (isStart) renewScript(context.env);
}

/**
 * Says what waits, where a text reaches the model. At the start of a session it would do so only with the first prompt, and a session that
 * is left without one asks its model nothing: so nothing is said there, and the first prompt brings the mail.
 */
async function speak(who: Who, offers: Offers, turn: Turn): Promise<Outcome> {
  const { client, event } = turn;
  const { hook_event_name: name = '', tool_name = '' } = event;
  if (name === 'SessionStart') return look(who, turn);
  const isHeard = Object.hasOwn(client.events, name) && !client.deafAfter.includes(tool_name);
  return isHeard
    ? sayWaiting(who, offers, turn, Date.now())
    : { looked: new Set(), lookedLater: null, nothingLeft: false };
}

/** Whose mail this session gets, and for which context: as it is bound; if it is new or not bound, as its folder says. spec: hook#session */
async function readerOf(
  context: Context,
  client: HookClient,
  event: HookEvent,
  session: Session | null,
  as: string | undefined,
): Promise<{ who: Who; match: string }> {
  const env = trusted(context.env, client);
  const bound = session?.binding();
  const known = bound?.agent && !isOutdated(bound, event) && (await agentNamed(env, bound.agent));
  if (known) return { who: known, match: bound.match };
  const cwd = event.cwd ?? context.cwd;
  try {
    const there = new Context(env, cwd, { as, client: client.name });
    refuseClientWithoutMailbox(there, client.name, 'hook');
    const who = await there.who('serve');
    const match = contextOf(there);
    session?.bind({ v: 1, by: client.name, agent: who.name, match, cwd }, mailboxOf(who));
    return { who, match };
  } catch (error) {
    const isLasting = error instanceof Refusal && (error.code === 'no_identity' || error.code === 'bad_config');
    if (isLasting) session?.bindToNobody(client.name, cwd);
    throw error;
  }
}

/** A session that starts, or goes on another day, is what its folder says today. One that an agent bound itself stays so. */
function isOutdated(bound: Binding, event: HookEvent): boolean {
  return isNewStart(event) && bound.by !== 'init';
}

function isNewStart({ hook_event_name, source }: HookEvent): boolean {
  return hook_event_name === 'SessionStart' && source !== 'compact';
}

/** Null if there is no such mailbox any more. Needs nothing of the folder at work, whatever settings stand there. */
async function agentNamed(env: Env, name: string): Promise<Who | null> {
  try {
    return await new Context(env, '/', { as: name }).who('serve');
  } catch (error) {
    if (error instanceof Refusal && error.code === 'no_identity') return null;
    throw error;
  }
}

/** Codex runs the hooks of every session with the environment of whichever came first: it says nothing about this one. */
function trusted(env: Env, client: HookClient): Env {
  return client.name === 'codex' ? { ...env, PARLEY_AGENT: undefined, PARLEY_MATCH: undefined } : env;
}

/** Copies in another reader's hand may come back: the script must start us again then. */
async function lookAgainInTime(session: Session, who: Who): Promise<void> {
  if (who.home.remote) standWatch(mailboxOf(who));
  const held = namesIn(`${mailboxOf(who)}/held`).map((name) => name.replace(/\.json$/, '') as MessageId);
  if (held.length === 0) return;
  const copies = await Promise.all(held.map((id) => who.home.ledger.copy(who.name, id)));
  session.lookAgain(Math.min(...copies.map((copy) => copy?.until ?? Infinity)));
}

/**
 * The script cannot ask a relay. A name in held/ that is no message's makes it start us again every half minute, and we ask.
 */
function standWatch(mailbox: string): void {
  const mark = `${mailbox}/held/~relay.json`;
  if (!existsSync(mark)) writeFileSync(mark, '', { mode: 0o600 });
}
