import type { Env } from '../../core/env.ts';
import { visibleLine } from '../../core/gate.ts';
import type { AgentName } from '../../core/names.ts';
import { SessionNames } from '../../delivery/session-names.ts';
import { SessionLines } from '../agent-sessions.ts';
import type { AgentSession } from '../agent-sessions.ts';
import { claudeSessions } from '../../clients/claude/state.ts';
import type { ClaudeSession } from '../../clients/claude/state.ts';
import { HOOK_CLIENTS, clientNamed } from '../../clients/clients.ts';
import type { WayFacts } from '../../delivery/client.ts';
import { daemonNotice } from '../../platform/daemon-lock.ts';
import { readLoopOrder, daemonsFolder, loopsFolder } from '../../protocols/c2c/loop-files.ts';
import { gitTop } from '../../platform/git.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { claudeFolder } from '../../clients/claude/settings.ts';
import { CLIENT_NAMES } from '../../clients/client-names.ts';
import type { ClientName } from '../../clients/client-names.ts';
import { additionsOf } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import type { Addition } from '../../clients/settings/changes.ts';
import { wayOf } from '../../clients/ways.ts';
import type { BrokerSession as Registered } from '../../protocols/c2c/broker.ts';
import { clientBindings, sharedMailbox } from '../../delivery/client-bindings.ts';
import { asksBeforeReply } from '../install/allow.ts';
import { isTrusted } from '../../clients/codex/trust.ts';
import { c2cProfile } from '../../protocols/c2c/install-profile.ts';
import { isHere } from '../../clients/settings/installer.ts';
import { possibleAdditions } from '../install/parley-profile.ts';
import { on } from './finding.ts';
import { openQuestions } from '../install/consent.ts';
import type { Finding } from './finding.ts';
import { examineWaiting, waits } from './home.ts';
import type { WaitingMail } from './home.ts';

/** What of ours a client's settings hold. */
interface Installed {
  hook: boolean;
  /** A hook of ours is there, and the client does not run it before the user trusts it. */
  unproven: boolean;
  server: boolean;
  plugin: boolean;
}

/**
 * By which way the mail of each session comes, and why; and mail that must be answered and comes to nobody. It reads settings and
 * registers, and changes nothing. Without `usesC2c`, nothing is said about c2c where it is not installed. `agents` are the sessions of Parley,
 * as `parley agents` lists them. spec: c2c#ways
 */
export async function examineWays(
  env: Env,
  cwd: string,
  rows: readonly Registered[],
  waiting: readonly WaitingMail[] = [],
  usesC2c = true,
  agents: ReadonlyMap<AgentName, readonly AgentSession[]> = new Map(),
): Promise<Finding[]> {
  const place: InstallTarget = { home: userHome(env), env, project: gitTop(cwd) ?? cwd };
  const here = SETTINGS_CLIENTS.filter((client) => isHere(client, place));
  const running = await claudeSessions(claudeFolder(place));
  const registered = rows.filter(({ alive }) => alive !== false);
  const ids = registered.map(({ row }) => row.session_id);
  const strangers = running.filter(({ sessionId }) => !ids.includes(sessionId));
  const named = [...agents].flatMap(([name, sessions]) =>
    sessions.flatMap((session) => (session.state === 'not running' ? [] : [{ name, session }])),
  );
  const others = named.filter(({ session }) => !strangers.some((one) => isSame(one, session)));
  const served = new Set([
    ...running.flatMap((one) => mailboxesRead(env, one, true)),
    ...named.flatMap(({ name }) => mailboxesOf(env, name)),
  ]);
  const lines = new SessionLines(env);
  return [
    ...here.flatMap((client) => [
      clientFinding(
        client,
        place,
        usesC2c,
        named.some(({ session }) => session.client === client.name),
      ),
      ...answerFinding(client, place),
    ]),
    ...registered.map((session) => sessionFinding(session, running, place, waiting)),
    ...strangers.map((one) => strangerFinding(one, place, waiting, usesC2c)),
    ...others.map(({ name, session }) => agentFinding(name, session, mailboxesOf(env, name), waiting, lines)),
    ...examineWaiting(
      env,
      waiting.filter(({ mailbox }) => !served.has(mailbox)),
      (client) => {
        const parley = { by: 'parley', ...installedIn(client, place, 'parley') };
        return parley.hook
          ? null
          : (missingStep(client, [parley]) ?? `\`parley install ${client.name}\` adds the hook`);
      },
    ),
  ];
}

/** A client that is here: which of our names are in it, and what keeps mail from its model. `runs`: it has sessions of Parley. */
function clientFinding(client: ClientSettings, place: InstallTarget, usesC2c: boolean, runs: boolean): Finding {
  const { ok, warn } = on(client.name);
  const both = (['parley', 'c2c'] as const).map((by) => ({ by, ...installedIn(client, place, by) }));
  const held = both.filter((one) => usesC2c || one.by === 'parley' || isInstalled(one));
  const parts = held.map(({ by, hook, unproven, server, plugin }) => {
    const has = [hook && 'hook', unproven && 'untrusted hook', plugin && 'plugin', server && 'tools']
      .filter(Boolean)
      .join(' and ');
    return has ? `${by} (${has})` : `${by} not installed`;
  });
  if (runs && !held.some(isInstalled))
    return ok(
      `${client.title}: its sessions were started by \`parley run\`; \`parley install ${client.name}\` is for those that you start as usual`,
    );
  const what = `${client.title}: ${parts.join(', ')}`;
  const next = missingStep(client, held);
  return next === null ? ok(what) : warn(what, next);
}

function isInstalled({ hook, unproven, server, plugin }: Installed): boolean {
  return hook || unproven || server || plugin;
}

/** What the user has to do before mail comes to the model of a client; null if it comes. */
function missingStep({ name, title }: ClientSettings, held: readonly (Installed & { by: string })[]): string | null {
  if (held.some(({ unproven }) => unproven))
    return `start ${title} and trust the hooks when it asks; until then it runs none of them`;
  if (!held.some(isInstalled)) return held.map(({ by }) => `\`${by} install ${name}\``).join(' or ');
  const parley = held.find(({ by }) => by === 'parley');
  if (!parley?.server || parley.hook || parley.plugin) return null;
  return HOOK_CLIENTS.some((client) => client.name === name)
    ? `mail waits until its model asks for it: \`parley install ${name}\` adds the hook`
    : `mail waits until its model asks for it: \`parley install ${name}\` adds the plugin`;
}

/** A client whose model has our tools, and may stop at a dialog when it answers. */
function answerFinding(client: ClientSettings, place: InstallTarget): Finding[] {
  if (!installedIn(client, place, 'parley').server || !asksBeforeReply(client, place)) return [];
  const { ok, warn } = on(client.name);
  // The user was asked, and said no.
  if (openQuestions(place.env, place, [client]).every(({ topic }) => topic !== 'reply'))
    return [ok(`${client.title} asks you before its model answers mail, as you decided`)];
  const what = `${client.title} may ask you before its model answers mail: it has no allow rule for replies`;
  const next = `\`parley install ${client.name} --allow reply\` adds one; without it, answer the dialogs`;
  return [warn(what, next)];
}

function sessionFinding(
  { row, alive }: Registered,
  running: readonly ClaudeSession[],
  place: InstallTarget,
  waiting: readonly WaitingMail[],
): Finding {
  const { session_id: id, alias, client_type: type } = row;
  const { ok, warn } = on(`session ${alias}`);
  const known = running.find(({ sessionId }) => sessionId === id);
  const client = CLIENT_NAMES.find((name) => name === type) ?? (known ? 'claude' : guessed(id));
  const facts = factsOf(client, id, known?.cwd, place);
  const { way, rank, because, better } = wayOf(client && clientNamed(client), facts);
  const state = known?.status ? `, ${known.status} now` : alive === null ? ', perhaps not running' : '';
  const what = `${client ?? unknownClient(type)}${state}: ${way} (${rank}), because ${because}`;
  const idle = facts.loop === null ? idleLoop(place.env, id) : null;
  if (idle !== null) return warn(what, idle);
  if (way === 'poll') return warn(what, better ?? 'its model must ask: `c2c poll-inbox`');
  const mail = waiting.find(({ home, mailbox }) => home === 'c2c' && mailbox === alias);
  if (mail && known?.status === 'idle' && facts.loop === null)
    return warn(`${what}; ${waits(mail)}`, 'give it a prompt: nothing wakes an idle session');
  return { ...ok(what), ...(better !== null && { next: better }) };
}

/** A loop that is wanted for the session and that nobody runs brings nothing. */
function idleLoop(env: Env, id: string): string | null {
  const wanted = readLoopOrder(loopsFolder(env), id);
  return wanted && `the ${wanted.kind} loop that is wanted for it does not run: \`parley up --with loops\``;
}

/** The loop of the session: run by the daemon, or by a process of its own. */
function runningLoop(env: Env, id: string): WayFacts['loop'] {
  const obligations = [`${loopsFolder(env)}/run/${id}`, `${daemonsFolder(env)}/${id}`];
  const names = obligations.flatMap((obligation) => daemonNotice(obligation)?.doors.map(({ name }) => name) ?? []);
  return (['wire', 'deliver', 'wake'] as const).find((kind) => names.includes(kind)) ?? null;
}

/** A session of Claude Code that is no session of c2c: the daemon reaches it, or Parley's own hook. */
function strangerFinding(
  session: ClaudeSession,
  place: InstallTarget,
  waiting: readonly WaitingMail[],
  usesC2c: boolean,
): Finding {
  const { ok, warn } = on(`session ${session.sessionId.slice(0, 8)}`);
  const client = SETTINGS_CLIENTS.find(({ name }) => name === 'claude');
  const state = session.status ? `claude, ${session.status} now` : 'claude';
  const hasHook = client !== undefined && installedIn(client, place, 'parley').hook;
  const [own, ...shared] = mailboxesRead(place.env, session, hasHook);
  if (own === undefined)
    return warn(
      `${state}: no way, because it is no session of Parley`,
      `start it with \`parley run claude\`; or \`parley install claude\`${usesC2c ? ', or `c2c install claude` and let it register' : ''}`,
    );
  const owed = waiting.find(({ home, mailbox }) => home === 'parley' && [own, ...shared].includes(mailbox));
  if (owed && session.status === 'waiting')
    return warn(`${state}: it asks its user something; ${waits(owed)}`, 'answer it in its window; then mail comes');
  const isFollowed = daemonNotice(`${parleyHome(place.env)}/daemon`)?.doors.some(({ name }) => name === 'follow');
  if (isFollowed) return ok(`${state}: socket (primary), because the daemon gives @${own} its mail`);
  const what = `${state}: hook (fallback), because Parley's hook looks after every tool call`;
  const next = 'give it a prompt, or start the daemon, which wakes idle sessions: `parley up --detach`';
  return owed && session.status !== 'busy' ? warn(`${what}; ${waits(owed)}`, next) : { ...ok(what), next };
}

/** A session that `parley agents` lists, in the same words; and mail that it gets only if its user does something. */
function agentFinding(
  name: AgentName,
  session: AgentSession,
  mailboxes: readonly string[],
  waiting: readonly WaitingMail[],
  lines: SessionLines,
): Finding {
  const { ok, warn } = on(`session ${name}`);
  const what = visibleLine(lines.of(name, session), 400);
  const owed = waiting.find(({ home, mailbox }) => home === 'parley' && mailboxes.includes(mailbox));
  if (!owed || session.way !== null || session.state === 'busy') return ok(what);
  const isAsking = session.state === 'waiting';
  const next = isAsking ? 'answer it in its window; then mail comes' : 'look at its window, or give it a prompt';
  return warn(`${what}; ${waits(owed)}`, next);
}

/** Whether this is the session of Claude Code that has a line already. */
function isSame({ pid, sessionId }: ClaudeSession, session: AgentSession): boolean {
  return session.client === 'claude' && (session.pid === pid || session.session === sessionId);
}

function mailboxesOf(env: Env, name: AgentName): string[] {
  return [name, sharedMailbox(parleyHome(env), name)].flatMap((one) => one ?? []);
}

/** The mailboxes that a session reads, its own first: its name and what it shares; before its hook has seen it, the one of its client. */
function mailboxesRead(env: Env, { sessionId, pid, cwd }: ClaudeSession, hasHook: boolean): string[] {
  const home = parleyHome(env);
  const live = { client: 'claude', id: sessionId, pid, folder: cwd, status: 'idle' } as const;
  const name = new SessionNames(home).nameOf(live);
  const all = name === null ? [hasHook && clientBindings(home)['claude']] : [name, sharedMailbox(home, name)];
  return all.flatMap((one) => one || []);
}

/** c2c lets any program register. Of one that Parley does not know only the inbox is there. */
function unknownClient(type: string | null | undefined): string {
  return type ? `${visibleLine(type, 40)}, a client that Parley does not know` : 'a client without a name';
}

function guessed(id: string): ClientName | null {
  return id.startsWith('opencode-') ? 'opencode' : null;
}

function factsOf(client: ClientName | null, id: string, cwd: string | undefined, place: InstallTarget): WayFacts {
  const known = SETTINGS_CLIENTS.find(({ name }) => name === client);
  const at = cwd === undefined ? place : { ...place, project: gitTop(cwd) ?? cwd };
  const nothing = { hook: false, unproven: false, server: false, plugin: false };
  const loop = runningLoop(place.env, id);
  return { ...(known ? installedIn(known, at, 'c2c') : nothing), loop, hasWire: existsSync(join(place.home, '.kimi')) };
}

/** Asks each thing that we would add whether it is there: the same question as before an installation. */
function installedIn(client: ClientSettings, place: InstallTarget, by: 'c2c' | 'parley'): Installed {
  const additions = by === 'parley' ? possibleAdditions(client, place) : possibleC2c(client, place);
  const isAnywhere = (what: RegExp): boolean => additions.some((one) => what.test(one.what) && isThere(one));
  const hooks = additions.filter(({ what }) => /^hook(?! script)/.test(what));
  const isIn = hooks.length > 0 && hooks.every(isThere);
  const trusted = client.name !== 'codex' || hooks.filter(isThere).every((hook) => isTrusted(hook, place.env));
  return {
    hook: isIn && trusted,
    unproven: isIn && !trusted,
    server: isAnywhere(/^MCP server$/),
    plugin: isAnywhere(/^plugin$/) && (by === 'parley' || isAnywhere(/^sidecar$/)),
  };
}

/** Everything that `c2c install` may add to a client. */
export function possibleC2c(client: ClientSettings, place: InstallTarget): Addition[] {
  return [true, false].flatMap((global) => {
    const order = { client: client.name, program: '', alias: null, global, hooks: true, projectPlugin: true };
    return additionsOf(client, place, c2cProfile(place, order));
  });
}

/** Files of our own count if they are there: another version of them does its work too. */
function isThere({ path, content, isThere: holds }: Addition): boolean {
  try {
    return existsSync(path) && (content.format === 'whole' || holds(readFileSync(path, 'utf8')));
  } catch {
    return false;
  }
}
