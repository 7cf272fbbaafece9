import { CLIENT_NAMES } from '../clients/client-names.ts';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import type { Home } from '../core/mail/workspace.ts';
import type { AgentName } from '../core/names.ts';
import type { AgentRecord } from '../core/ports/directory.ts';
import { clientBindings, clientOf } from '../delivery/client-bindings.ts';
import { isProcessAlive } from '../platform/process.ts';

/** A mailbox counts as read for this long after mail was taken from it, or its agent sent something. */
const RECENT_MS = 30 * 24 * 60 * 60 * 1000;

/**
 * Is it likely that nobody reads this mailbox? True if no client and no session is bound to it, nothing was taken out of it for 30
 * days, and its agent sent nothing in that time. People, and mailboxes of other programs and of relays, always count as read.
 */
export async function hasNoReader(home: Home, record: AgentRecord, now: number): Promise<boolean> {
  const { label, root, remote, journal } = home;
  const { name } = record;
  if (label !== 'parley' || remote || record.parley?.kind === 'human') return false;
  // A session that `parley run` started has this name, or the next one in its folder will.
  if (existsSync(`${root}/names/${name}.json`)) return false;
  if (hasClient(root, name) || isRecent(lastActive(root, record), now) || hasSession(root, name)) return false;
  return !(await journal.sessions()).some(({ identities }) => identities.includes(name));
}

/** What to do about it, in one line. */
export function noReaderAdvice(names: readonly AgentName[]): string {
  const [first = '<name>', ...others] = names;
  const name = others.length > 0 ? '<name>' : first;
  const isClient = CLIENT_NAMES.some((client) => client === name);
  const install = isClient ? `parley install ${name}` : `parley install <client> --as ${name}`;
  const all = names.map((one) => `@${one}`).join(', ');
  return `nobody reads ${all} yet. Next: ${install}, or parley inbox --as ${name}`;
}

/** Clients that nothing wakes unless `parley run` started them. */
const UNWOKEN: Readonly<Record<string, string>> = {
  kimi: 'Kimi shows it with the next prompt of its user, or at the end of a turn; one that `parley run kimi` starts, or that is on `kimi web`, is woken',
  gemini:
    'Gemini CLI shows it with the next prompt of its user, or while it works; one that `parley run gemini` starts is woken',
};

/** How the client of this mailbox gets what was sent, if nothing wakes it; null otherwise. */
export function unwokenAdvice({ label, root }: Home, name: AgentName): string | null {
  if (label !== 'parley') return null;
  const client = clientOf(clientBindings(root), name);
  if (client === undefined || isAnyHeld(root, client)) return null;
  return UNWOKEN[client] ?? null;
}

/** Whether a terminal of this client is held: see delivery/held-session.ts, which a send would have to load for this alone. */
function isAnyHeld(root: string, client: string): boolean {
  const folder = `${root}/terminals`;
  const files = existsSync(folder) ? readdirSync(folder) : [];
  return files.some((file) => {
    const pid = Number(/^(\d+)\.json$/.exec(file)?.[1] ?? 0);
    return isProcessAlive(pid) && fieldIn(`${folder}/${file}`, 'client') === client;
  });
}

/** A file that cannot be read is no reason to warn: `parley doctor` and the hook name it. */
function hasClient(root: string, name: AgentName): boolean {
  try {
    return clientOf(clientBindings(root), name) !== undefined;
  } catch {
    return true;
  }
}

/** When its agent last sent or read something. Being made does not count. */
function lastActive(root: string, { name, createdAt, lastSeen }: AgentRecord): number {
  const sent = lastSeen === createdAt ? 0 : Date.parse(lastSeen) || 0;
  return Math.max(sent, lastTaken(`${root}/spool/${name}`));
}

/** The folders of a mailbox are made together. Only a reader changes held/ after that. */
function lastTaken(mailbox: string): number {
  const made = statSync(mailbox, { throwIfNoEntry: false })?.mtimeMs;
  const taken = statSync(`${mailbox}/held`, { throwIfNoEntry: false })?.mtimeMs;
  return made === undefined || taken === undefined || taken <= made ? 0 : taken;
}

function isRecent(at: number, now: number): boolean {
  return now - at < RECENT_MS;
}

/** Reads the bindings without the rest of sessions.ts, which a send would have to load for this alone. spec: hook#files */
function hasSession(root: string, name: AgentName): boolean {
  const folder = `${root}/sessions`;
  return existsSync(folder) && readdirSync(folder).some((id) => isBoundTo(`${folder}/${id}/session.json`, name));
}

function isBoundTo(path: string, name: AgentName): boolean {
  return fieldIn(path, 'agent') === name;
}

/** One field of a JSON file; undefined if it cannot be read. */
function fieldIn(path: string, field: string): unknown {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>)[field];
  } catch {
    return undefined;
  }
}
