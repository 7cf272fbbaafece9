import { closeSync, constants, lstatSync, openSync, readdirSync, readSync, rmSync } from 'node:fs';
import { basename } from 'node:path';
import type { Home } from '../../core/mail/workspace.ts';
import type { Env } from '../../core/env.ts';
import { Refusal } from '../../core/refusal.ts';
import { parleyHome } from '../../platform/env.ts';
import { relayMailboxes } from '../relay-mailboxes.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import { codeOf, isMissing, isNoPlainFile } from '../../core/disk.ts';
import { refuseOdd } from '../../platform/files.ts';
import { counted, on } from './finding.ts';
import type { Finding } from './finding.ts';

/** An older draft belongs to a sender that crashed before anything was promised. */
const DRAFT_MS = 60 * 60 * 1000;
/** A reader that holds a message for longer than this is worth a look. */
const LONG_HELD_MS = 60 * 60 * 1000;
/** How often a reader may begin and not finish. */
const ATTEMPTS = 3;
/** How many files one line names. */
const NAMED = 3;
/** What is said of a file that cannot be a message, and what to do. */
const ODD = 'not a regular file, or too large';
const NEXT: Readonly<Record<string, string>> = { [ODD]: 'move it away; `parley inbox` sets it aside if it can' };
/** Clocks of one machine agree; those of several may differ a little. */
const SKEW_MS = 5 * 60 * 1000;

/** Who is here: records that cannot be read, and mailboxes of nobody. */
export async function examineAgents({ label, root, directory }: Home): Promise<Finding[]> {
  const { ok, warn, bad } = on(`home ${label}`);
  const unreadable = await directory.unreadable();
  const records = await directory.list();
  const known = new Set<string>([
    ...records.map((record) => record.name),
    ...unreadable.map((path) => basename(path, '.json')),
  ]);
  const findings = unreadable.map((path) =>
    bad(`the record ${path} cannot be read`, 'correct it or remove it; its mail waits until then'),
  );
  for (const name of mailboxes(root).filter((mailbox) => !known.has(mailbox))) {
    const waiting = ['new', 'quiet'].flatMap((folder) => messages(`${root}/spool/${name}/${folder}`)).length;
    const what = `${counted(waiting, 'message waits', 'messages wait')} for ${name}, which has no record`;
    if (waiting > 0) findings.push(warn(what, `\`parley init ${name}\` to read, or remove ${root}/spool/${name}`));
  }
  return findings.length > 0 ? findings : [ok(counted(records.length, 'agent'))];
}

/** Mail that does not move: files set aside, unreadable files, drafts of crashed senders, copies held too long or by nobody, wrong clocks. */
export async function examineMail(home: Home, now: number, fix: boolean): Promise<Finding[]> {
  const { ok } = on(`home ${home.label}`);
  const findings = [
    ...(await asides(home)),
    ...shut(home),
    ...(await drafts(home, now, fix)),
    ...(await held(home, now)),
    ...(await clocks(home, now)),
  ];
  return findings.length > 0 ? findings : [ok('no mail is set aside, half sent or held too long')];
}

async function asides({ label, root, mailboxes }: Home): Promise<Finding[]> {
  const files = await mailboxes.asides();
  if (files.length === 0) return [];
  const why = files.length === 1 ? 'it is not a message, or a duplicate' : 'they are not messages, or duplicates';
  const names = namedAndMore(files.map((path) => path.slice(`${root}/aside/`.length)));
  const what = `${counted(files.length, 'file is', 'files are')} set aside in ${root}/aside, because ${why}: ${names}`;
  return [on(`home ${label}`).warn(what, 'look at them, then `parley prune --asides` removes them')];
}

/** Waiting messages that the system does not let us read now. Every command passes them over, so nobody else names them. */
function shut({ label, root }: Home): Finding[] {
  const findings: Finding[] = [];
  for (const mailbox of mailboxes(root)) {
    const paths = ['new', 'quiet'].flatMap((folder) => {
      const place = `${root}/spool/${mailbox}/${folder}`;
      return messages(place).map((name) => `${place}/${name}`);
    });
    const refused = paths.map((path) => ({ path, code: refusalOf(path) })).filter(({ code }) => code !== null);
    const [first] = refused;
    if (!first) continue;
    const names = namedAndMore(refused.map(({ path }) => path));
    const what = `${counted(refused.length, 'message waits', 'messages wait')} for @${mailbox} and cannot be read (${first.code}): ${names}`;
    const isForbidden = first.code === 'EACCES' || first.code === 'EPERM';
    const next = isForbidden
      ? `\`chmod u+rw ${first.path}\`; if it is not yours, its owner can`
      : (NEXT[first.code ?? ''] ?? 'check the disk');
    const they = refused.length === 1 ? 'it waits' : 'they wait';
    findings.push(on(`home ${label}`).bad(what, `${next}; until then ${they}`));
  }
  return findings;
}

function namedAndMore(paths: string[]): string {
  const more = paths.length > NAMED ? ` and ${paths.length - NAMED} more` : '';
  return `${paths.slice(0, NAMED).join(', ')}${more}`;
}

/** The system's word for why a file may not be read; null if it may, if it is gone, or if it never was a message. */
function refusalOf(path: string): string | null {
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      refuseOdd(fd, path);
      readSync(fd, Buffer.alloc(1));
    } finally {
      closeSync(fd);
    }
    return null;
  } catch (error) {
    if (isNoPlainFile(error)) return ODD;
    return isMissing(error) ? null : (codeOf(error) ?? String(error));
  }
}

async function drafts({ label, root, journal }: Home, now: number, fix: boolean): Promise<Finding[]> {
  const { warn, fixed } = on(`home ${label}`);
  const stale: string[] = [];
  for (const mailbox of mailboxes(root)) {
    for (const name of messages(`${root}/spool/${mailbox}/tmp`)) {
      const path = `${root}/spool/${mailbox}/tmp/${name}`;
      const changed = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now;
      const id = MessageId.safeParse(name.replace(/\.json$/, ''));
      if (now - changed > DRAFT_MS && id.success && !(await journal.message(id.data))) stale.push(path);
    }
  }
  if (stale.length === 0) return [];
  const what = `${counted(stale.length, 'draft', 'drafts')} of senders that crashed before anything was stored`;
  if (!fix) return [warn(`${what}, such as ${stale[0] ?? ''}`, '`parley doctor --fix` removes them')];
  for (const path of stale) rmSync(path, { force: true, recursive: true });
  return [fixed(`${what}, removed`)];
}

async function held({ label, root, directory, journal }: Home, now: number): Promise<Finding[]> {
  const { warn } = on(`home ${label}`);
  const findings: Finding[] = [];
  for (const { name } of await directory.list()) {
    const open = (await journal.open(name)).values();
    // Listed after the rows were read: what was claimed meanwhile is asked for once more.
    const inHand = new Set(messages(`${root}/spool/${name}/held`));
    for (const copy of open) {
      const id = copy.id.slice(0, 8);
      if (copy.attempt >= ATTEMPTS) {
        findings.push(
          warn(
            `@${name} began to read ${id} ${copy.attempt} times and never finished`,
            `\`parley trace ${id}\`; end it with \`parley ack ${id} --as ${name}\``,
          ),
        );
      } else if (copy.state === 'held' && copy.owner !== null && (copy.until ?? 0) - now > LONG_HELD_MS) {
        findings.push(
          warn(
            `${id} is held by a reader of @${name} until ${new Date(copy.until ?? 0).toISOString()}`,
            `\`parley release ${id} --as ${name}\` if that reader is gone`,
          ),
        );
      } else if (
        copy.state === 'stored' &&
        inHand.has(`${copy.id}.json`) &&
        (await journal.copy(name, copy.id))?.state === 'stored'
      ) {
        findings.push(
          warn(
            `${id} waits for @${name}, but its file is in held/ and nobody holds it`,
            `\`parley inbox --as ${name}\` puts it back`,
          ),
        );
      }
    }
  }
  return findings;
}

async function clocks({ label, directory, journal }: Home, now: number): Promise<Finding[]> {
  const { warn } = on(`home ${label}`);
  const ahead = (iso: string): boolean => Date.parse(iso) - now > SKEW_MS;
  const rows = await journal.history({ limit: 100 });
  const message = rows.find((row) => ahead(row.message.ts))?.message;
  const agent = (await directory.list()).find((record) => ahead(record.lastSeen));
  const what = message
    ? `message ${message.id.slice(0, 8)} is dated ${message.ts}`
    : agent
      ? `@${agent.name} was last seen ${agent.lastSeen}`
      : null;
  return what ? [warn(`${what}, which is in the future`, "check this machine's clock, and the sender's")] : [];
}

/** The mailboxes at relays, of which the homes of this machine know nothing. No relay is asked. */
export function examineRelayMailboxes(env: Env): Finding[] {
  try {
    return relayMailboxes(parleyHome(env)).map(({ agent, url, room, unsent }) => {
      const { ok, warn } = on(`mailbox ${agent}`);
      const what = `@${agent} is at ${url}${room === undefined ? '' : ` (room ${room})`}`;
      if (unsent === 0) return ok(what);
      const waiting = counted(unsent, 'message waits', 'messages wait');
      return warn(`${what}; ${waiting} in its outbox`, `\`parley outbox send --as ${agent}\` sends it`);
    });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [on('relays').bad(error.message, 'until then its mailbox cannot be used')];
  }
}

function mailboxes(root: string): string[] {
  return namesIn(`${root}/spool`).filter((name) => AgentName.safeParse(name).success);
}

function messages(folder: string): string[] {
  return namesIn(folder).filter((name) => name.endsWith('.json'));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
