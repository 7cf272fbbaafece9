import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { claudeFolder } from '../../clients/claude/install.ts';
import { claudeSessions } from '../../clients/claude/signs.ts';
import type { ClaudeSession } from '../../clients/claude/signs.ts';
import { CLIENT_NAMES } from '../../clients/install-client.ts';
import type { ClientName, Gift, InstallClient, Place } from '../../clients/install-client.ts';
import { INSTALL_CLIENTS } from '../../clients/install-clients.ts';
import type { Wish } from '../../clients/settings/apply.ts';
import { inToml } from '../../clients/settings/text-block.ts';
import { UNUSED_WAYS, wayOf } from '../../clients/ways.ts';
import type { WayFacts } from '../../clients/ways.ts';
import type { Session } from '../../storage/c2c/broker.ts';
import { c2cGift } from '../install/c2c-gift.ts';
import { parleyGift } from '../install/parley-gift.ts';
import { whoIsOnDuty } from '../duty.ts';
import { wantedFor } from '../loops/wanted.ts';
import { daemonsFolder, loopsFolder } from '../loops/folders.ts';
import { gitTop } from '../origin.ts';
import { isHere } from '../install/here.ts';
import { userHome } from '../env.ts';
import type { Env } from '../env.ts';
import type { Finding } from './finding.ts';

/** What of ours a client's settings hold. */
interface Installed {
  hook: boolean;
  /** A hook of ours stands there, and the client is not known to run it. */
  unproven: boolean;
  server: boolean;
  plugin: boolean;
}

/** By which way the mail of each session comes, and why. It reads settings and registers, and changes nothing. spec: c2c#ways */
export async function examineWays(env: Env, cwd: string, rows: readonly Session[]): Promise<Finding[]> {
  const place: Place = { home: userHome(env), env, project: gitTop(cwd) ?? cwd };
  const here = INSTALL_CLIENTS.filter((client) => isHere(client, place));
  const running = await claudeSessions(claudeFolder(place));
  const registered = rows.filter(({ alive }) => alive !== false);
  const ids = registered.map(({ row }) => row.session_id);
  return [
    ...here.map((client) => clientFinding(client, place)),
    ...registered.map((session) => sessionFinding(session, running, place)),
    ...running.filter(({ sessionId }) => !ids.includes(sessionId)).map((one) => strangerFinding(one, place)),
  ];
}

/** A client that is here: which of our names are in it. */
function clientFinding(client: InstallClient, place: Place): Finding {
  const parts = (['parley', 'c2c'] as const).map((by) => {
    const { hook, unproven, server, plugin } = installedIn(client, place, by);
    const has = [
      hook && 'hook',
      unproven && 'hook that is not known to be trusted',
      plugin && 'plugin',
      server && 'tools',
    ]
      .filter(Boolean)
      .join(' and ');
    return has ? `${by} is in it (${has})` : `${by} is not in it`;
  });
  const isIn = parts.some((part) => part.includes(' is in it'));
  const next = isIn ? UNUSED_WAYS[client.name] : `\`parley install ${client.name}\` or \`c2c install ${client.name}\``;
  return {
    level: 'ok',
    about: client.name,
    what: `${client.title} is here; ${parts.join(', ')}`,
    ...(next && { next }),
  };
}

function sessionFinding({ row, alive }: Session, running: readonly ClaudeSession[], place: Place): Finding {
  const { session_id: id, alias, client_type: type } = row;
  const known = running.find(({ sessionId }) => sessionId === id);
  const client = CLIENT_NAMES.find((name) => name === type) ?? (known ? 'claude' : guessed(id));
  const facts = factsOf(client, id, known?.cwd, place);
  const { way, rank, because, better } = wayOf(client, facts);
  const next = facts.loop === null ? (idleLoop(place.env, id) ?? better) : better;
  const state = known?.status ? `, ${known.status} now` : alive === null ? ', perhaps not running' : '';
  const what = `${client ?? 'a client that it does not name'}${state}: ${way} (${rank}), because ${because}`;
  return { level: 'ok', about: `session ${alias}`, what, ...(next !== null && { next }) };
}

/** A loop that is wanted for the session and that nobody runs brings nothing. */
function idleLoop(env: Env, id: string): string | null {
  const wanted = wantedFor(loopsFolder(env), id);
  return wanted && `the ${wanted.kind} loop that is wanted for it does not run: \`parley up --with loops\``;
}

/** The loop that somebody runs for the session: the daemon, or a process of its own. */
function runningLoop(env: Env, id: string): WayFacts['loop'] {
  const duties = [`${loopsFolder(env)}/run/${id}`, `${daemonsFolder(env)}/${id}`];
  const names = duties.flatMap((duty) => whoIsOnDuty(duty)?.doors.map(({ name }) => name) ?? []);
  return (['wire', 'deliver', 'wake'] as const).find((kind) => names.includes(kind)) ?? null;
}

/** A session of Claude Code that is no session of c2c: only Parley's own hook can reach it. */
function strangerFinding({ sessionId, status }: ClaudeSession, place: Place): Finding {
  const client = INSTALL_CLIENTS.find(({ name }) => name === 'claude');
  const isReached = client !== undefined && installedIn(client, place, 'parley').hook;
  const about = `session ${sessionId.slice(0, 8)}`;
  const state = status ? `claude, ${status} now` : 'claude';
  if (isReached)
    return { level: 'ok', about, what: `${state}: hook (primary), because Parley's hook is in its settings` };
  const next = '`parley install claude`, or `c2c install claude` and let it register';
  return { level: 'ok', about, what: `${state}: no way, because no hook of ours is in its settings`, next };
}

function guessed(id: string): ClientName | null {
  return id.startsWith('opencode-') ? 'opencode' : null;
}

function factsOf(client: ClientName | null, id: string, cwd: string | undefined, place: Place): WayFacts {
  const known = INSTALL_CLIENTS.find(({ name }) => name === client);
  const at = cwd === undefined ? place : { ...place, project: gitTop(cwd) ?? cwd };
  const nothing = { hook: false, unproven: false, server: false, plugin: false };
  const loop = runningLoop(place.env, id);
  return { ...(known ? installedIn(known, at, 'c2c') : nothing), loop, hasWire: existsSync(join(place.home, '.kimi')) };
}

/** Asks each thing that we would add whether it is there: the same question as before an installation. */
function installedIn(client: InstallClient, place: Place, by: 'c2c' | 'parley'): Installed {
  const gifts = [true, false].map((global) => giftFor(client.name, place, by, global));
  const wishes = gifts.flatMap((gift) => client.wishes(place, gift));
  const isAnywhere = (what: RegExp): boolean => wishes.some((wish) => what.test(wish.what) && isThere(wish));
  const hooks = wishes.filter(({ what }) => /^hook(?! script)/.test(what));
  const stands = hooks.length > 0 && hooks.every(isThere);
  const trusted = isTrusted(client.name, place);
  return {
    hook: stands && trusted,
    unproven: stands && !trusted,
    server: isAnywhere(/^MCP server$/),
    plugin: isAnywhere(/^plugin$/) && isAnywhere(/^sidecar$/),
  };
}

function giftFor(client: ClientName, place: Place, by: 'c2c' | 'parley', global: boolean): Gift {
  const program = '';
  if (by === 'parley') return parleyGift(place.env, { client, program, project: !global, hooks: true });
  return c2cGift(place, { client, program, alias: null, global, hooks: true, projectPlugin: true });
}

/** Files of our own count if they are there: another version of them does its work too. */
function isThere({ path, content, isThere: holds }: Wish): boolean {
  try {
    return existsSync(path) && (content.format === 'whole' || holds(readFileSync(path, 'utf8')));
  } catch {
    return false;
  }
}

/** Codex notes which hooks its user trusts, by the path of their file. Which of them are ours is not told there. */
function isTrusted(client: ClientName, place: Place): boolean {
  if (client !== 'codex') return true;
  const [config = ''] = INSTALL_CLIENTS.find(({ name }) => name === client)?.servers(place, false) ?? [];
  try {
    const state = inToml(readFileSync(config, 'utf8'), ['hooks', 'state']);
    const hooks = join(config, '../hooks.json');
    return Object.keys(state ?? {}).some((name) => name.startsWith(hooks));
  } catch {
    return false;
  }
}
