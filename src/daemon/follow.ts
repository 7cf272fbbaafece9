import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Env } from '../core/env.ts';
import type { AgentName } from '../core/names.ts';
import type { Service } from '../core/service.ts';
import { mailboxesOf } from '../core/mail/shared.ts';
import { receiptsOf } from '../core/mail/workspace.ts';
import type { Home, Who } from '../core/mail/workspace.ts';
import type { Message } from '../core/message.ts';
import type { Receipt } from '../core/receipt.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import { clientNamed, liveClients } from '../clients/clients.ts';
import { IdleTimes, waitMs } from '../delivery/choose-session.ts';
import type { Candidate, SessionMailbox } from '../delivery/choose-session.ts';
import { clientBindings, isShared, sharedMailbox } from '../delivery/client-bindings.ts';
import { phrasesFor } from '../delivery/fit.ts';
import { Follower } from '../delivery/follower.ts';
import { HookSessionFolder } from '../delivery/hook-session.ts';
import { hasLiveProcess, isShown, SessionNames } from '../delivery/session-names.ts';
import type { NamedSession } from '../delivery/session-names.ts';
import { parleyHome } from '../platform/env.ts';
import { gitOrigin } from '../platform/git.ts';

/** With `--ends-when-idle`, the daemon ends after this time without work. */
const IDLE_MS = 30 * 60 * 1000;
const IDLE_LOOK_MS = 10_000;

/** The service that gives running sessions their mail. It has no socket or port. */
export const follow: Service = {
  async open(context, values, log) {
    const home = parleyHome(context.env);
    const workspace = context.openWorkspace();
    const own = workspace.homes.find(({ label }) => label === 'parley');
    if (!own) throw new Error('the home could not be opened');
    const names = new SessionNames(home);
    const idleTimes = new IdleTimes();
    /** The names of sessions, read once for each list of sessions. */
    let known: { all: readonly LiveSession[]; named: NamedSession[] } = { all: [], named: [] };
    const follower = new Follower({
      workspace: { ...workspace, homes: [own] },
      clients: liveClients(context.env),
      mailboxesOf(live, all) {
        if (known.all !== all) known = { all, named: names.all() };
        return sessionMailboxes({ home: own, names, idleTimes, named: known.named }, live, all);
      },
      hookRecordOf: (client, session, ids, since) =>
        clientNamed(client)?.hookRecord?.({ session, env: context.env }, ids, since) ?? null,
      phrases: phrasesFor,
      settings: {
        wakesPerHour: context.settings.wakesPerHour,
        captureRemote: context.settings.captureRemote === 'on',
      },
      log,
    });
    const idle = values['ends-when-idle'] === true ? endWhenIdle(follower, home) : undefined;
    return {
      name: 'follow',
      address: home,
      about: ['gives running sessions the mail that waits for them'],
      warnings: [],
      renew() {},
      async close() {
        clearInterval(idle);
        await follower.close();
      },
    };
  },

  /** The service has no address to ask: if its process runs, it answers. */
  async answers(address) {
    return address !== '';
  },

  async details(address: string, env: Env) {
    const names = new SessionNames(address);
    const lines: string[] = [];
    for (const sessions of liveClients(env).values()) {
      for (const live of await sessions.list()) {
        const name = names.nameOf(live);
        if (name) lines.push(`@${name}: ${live.client} in ${live.folder}, ${live.status}`);
      }
      await sessions.close();
    }
    return lines;
  },
};

/** Identifies a folder. A folder that was deleted and made again at the same path has another id. */
function folderId(path: string): string | null {
  const found = statSync(path, { throwIfNoEntry: false });
  return found ? `${found.ino} ${found.birthtimeMs}` : null;
}

/** Ends this process with SIGTERM, so that work under way is finished, after `IDLE_MS` without work or when its home was deleted. */
function endWhenIdle(follower: Follower, home: string): ReturnType<typeof setInterval> {
  let since = Date.now();
  const before = folderId(home);
  return setInterval(() => {
    if (follower.isBusy) since = Date.now();
    if (Date.now() - since > IDLE_MS || folderId(home) !== before) process.kill(process.pid, 'SIGTERM');
  }, IDLE_LOOK_MS);
}

/** The mailboxes that a running session reads, its own first. */
async function sessionMailboxes(
  { home, names, idleTimes, named }: { home: Home; names: SessionNames; idleTimes: IdleTimes; named: NamedSession[] },
  live: LiveSession,
  all: readonly LiveSession[],
): Promise<SessionMailbox[]> {
  const idleSince = idleTimes.note(live, Date.now());
  if (isLeftBehind(names, live, all, named)) return [];
  const known = names.nameOf(live, named) ?? nameByElimination(names, live, all, named);
  const name = known ?? (isOpening(live, named) ? null : await nameWithoutHook(home, names, live, all));
  if (name === null || !(await home.directory.get(name))) return [];
  const own = named.find((one) => one.name === name);
  const isCertain = own?.pid === live.pid || own?.session === null;
  if (own && isCertain && own.session !== live.id) names.bind(name, live.id);
  const bound = HookSessionFolder.open(names.home, live.id)?.binding();
  const match = bound?.agent === name ? bound.match : (gitOrigin(live.folder) ?? live.folder);
  const shares = sharedMailbox(names.home, name);
  let others: Candidate[] | undefined;
  // Computed once for all messages of this look, and only if one waits.
  const candidates = (): Candidate[] =>
    (others ??= all.flatMap((one) => {
      const other = names.nameOf(one, named);
      return other !== null && sharedMailbox(names.home, other) === shares ? [{ name: other, folder: one.folder }] : [];
    }));
  const leaveMs = async (shared: Who, message: Message): Promise<number> => {
    const stored = (await receiptsOf(shared, message.id)).filter(({ step }) => step === 'stored');
    const folder = senderFolder(message.from, stored, named);
    const at = Date.parse(stored[0]?.at ?? message.ts);
    return waitMs({ name, folder: live.folder }, { from: message.from, at, folder }, candidates(), Date.now());
  };
  return mailboxesOf({ name, home, shares }).map((one) =>
    one.taker === undefined
      ? { ...one, match }
      : { ...one, match, idleSince, waitMs: (message) => leaveMs(one.who, message) },
  );
}

/**
 * Names a session whose hook has not run yet: its client has no hooks, or runs the first one with the first prompt of its user. The session
 * gets a name of its own, or the mailbox that was chosen for all sessions of its client. Null: the hook decides, for example by a
 * `.parley.json` of the project.
 */
async function nameWithoutHook(
  home: Home,
  names: SessionNames,
  live: LiveSession,
  all: readonly LiveSession[],
): Promise<AgentName | null> {
  const { client, folder, pid, id: session, isUncertain } = live;
  const { hook = null, isWindowed } = clientNamed(client) ?? {};
  if (isUncertain || (hook !== null && (!isWindowed || hasProjectFile(folder)))) return null;
  if (!isShared(names.home, client)) return clientBindings(names.home)[client] ?? null;
  if (pid === undefined) return null;
  const taken = new Set((await home.directory.list()).map((one) => one.name));
  const acting = { client, folder, pid, session };
  const { name } = names.give(
    acting,
    (one) => taken.has(one),
    (one) => isShown(one, all),
  );
  if (!taken.has(name)) await home.directory.register(name, 'agent');
  return name;
}

/** Whether a `.parley.json` of this folder, or of one above it, may say who its sessions are. */
function hasProjectFile(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(`${at}/.parley.json`)) return true;
    if (at === dirname(at)) return false;
  }
}

/** Whether the session was begun for a window that does not show it yet. */
function isOpening({ id, pid }: LiveSession, named: readonly NamedSession[]): boolean {
  return named.some((one) => one.isOpening && (one.session === id || one.pid === pid) && hasLiveProcess(one));
}

/** The folder of a sender: for a session its own folder, for any other sender the one in which `parley send` was called. Null: not known. */
function senderFolder(from: string, stored: readonly Receipt[], named: readonly NamedSession[]): string | null {
  const session = named.find(({ name }) => name === from);
  if (session) return session.folder;
  const said = stored.find(({ evidence }) => 'folder' in evidence);
  return said ? String(said.evidence['folder']) : null;
}

/** Whether no window shows this conversation any more: after `/new` a window of Codex shows another conversation than the one with its name. */
function isLeftBehind(
  names: SessionNames,
  live: LiveSession,
  all: readonly LiveSession[],
  named: NamedSession[],
): boolean {
  const own = named.find((one) => one.session === live.id && one.pid !== live.pid && hasLiveProcess(one));
  if (own && all.some(({ pid }) => pid === own.pid)) return true;
  if (!live.isUncertain) return false;
  // The ids of Codex are in the order of their times.
  return all.some((one) => one.folder === live.folder && one.id > live.id && names.nameOf(one, named) === null);
}

/**
 * The name of a session whose process the client does not say. If it is the only session without a name in its folder, and only one named
 * process of that client there has no session, the name is that of the process. Null otherwise.
 */
function nameByElimination(
  names: SessionNames,
  live: LiveSession,
  all: readonly LiveSession[],
  named: NamedSession[],
): AgentName | null {
  if (live.pid !== undefined || live.isUncertain || isOpening(live, named)) return null;
  const strangers = all.filter((one) => one.folder === live.folder && names.nameOf(one, named) === null);
  const isFree = ({ client, folder, session, ...process }: NamedSession): boolean =>
    client === live.client &&
    folder === live.folder &&
    !all.some(({ id }) => id === session) &&
    hasLiveProcess(process);
  const [only, ...others] = named.filter(isFree);
  return only && others.length === 0 && strangers.length === 1 ? only.name : null;
}
