import { lstatSync, readdirSync, rmSync } from 'node:fs';
import { basename } from 'node:path';
import type { Home } from '../../flow/desk.ts';
import { AgentName, MessageId } from '../../protocol/names.ts';
import { isMissing } from '../../storage/disk.ts';
import { counted, on } from './finding.ts';
import type { Finding } from './finding.ts';

/** A draft that is older belongs to a sender that died before anything was promised. */
const DRAFT_MS = 60 * 60 * 1000;
/** A reader that holds a message longer than this ahead should be asked about it. */
const LONG_HELD_MS = 60 * 60 * 1000;
/** So often a reader began and did not finish. */
const ATTEMPTS = 3;
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
    bad(`the record ${path} cannot be read`, 'mend it or remove it; its mail waits meanwhile'),
  );
  for (const name of mailboxes(root).filter((mailbox) => !known.has(mailbox))) {
    const waiting = ['new', 'quiet'].flatMap((folder) => messages(`${root}/spool/${name}/${folder}`)).length;
    const what = `${counted(waiting, 'message waits', 'messages wait')} for ${name}, who has no record`;
    if (waiting > 0) findings.push(warn(what, `\`parley init ${name}\` to read, or remove ${root}/spool/${name}`));
  }
  return findings.length > 0 ? findings : [ok(counted(records.length, 'agent'))];
}

/** What lies between sending and reading: files set aside, drafts of the dead, copies in a hand for long, clocks that disagree. */
export async function examineMail(home: Home, now: number, fix: boolean): Promise<Finding[]> {
  const { ok } = on(`home ${home.label}`);
  const findings = [
    ...(await asides(home)),
    ...(await drafts(home, now, fix)),
    ...(await held(home, now)),
    ...(await clocks(home, now)),
  ];
  return findings.length > 0 ? findings : [ok('nothing set aside, half sent or held for long')];
}

async function asides({ label, root, spool }: Home): Promise<Finding[]> {
  const files = await spool.asides();
  if (files.length === 0) return [];
  const what = `${counted(files.length, 'file is', 'files are')} set aside in ${root}/aside, because ${files.length === 1 ? 'it is no message or came' : 'they are no messages or came'} twice`;
  return [on(`home ${label}`).warn(what, 'look at them, then `parley prune --asides` removes them')];
}

async function drafts({ label, root, ledger }: Home, now: number, fix: boolean): Promise<Finding[]> {
  const { warn, fixed } = on(`home ${label}`);
  const stale: string[] = [];
  for (const mailbox of mailboxes(root)) {
    for (const name of messages(`${root}/spool/${mailbox}/tmp`)) {
      const path = `${root}/spool/${mailbox}/tmp/${name}`;
      const changed = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now;
      const id = MessageId.safeParse(name.replace(/\.json$/, ''));
      if (now - changed > DRAFT_MS && id.success && !(await ledger.message(id.data))) stale.push(path);
    }
  }
  if (stale.length === 0) return [];
  const what = `${counted(stale.length, 'draft', 'drafts')} of senders that died before anything was stored`;
  if (!fix) return [warn(`${what}, such as ${stale[0] ?? ''}`, '`parley doctor --fix` removes them')];
  for (const path of stale) rmSync(path, { force: true, recursive: true });
  return [fixed(`${what}, removed`)];
}

async function held({ label, directory, ledger }: Home, now: number): Promise<Finding[]> {
  const { warn } = on(`home ${label}`);
  const findings: Finding[] = [];
  for (const { name } of await directory.list()) {
    for (const copy of (await ledger.open(name)).values()) {
      const id = copy.id.slice(0, 8);
      if (copy.attempt >= ATTEMPTS) {
        findings.push(
          warn(
            `${id} was begun ${copy.attempt} times by @${name} and never ended`,
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
      }
    }
  }
  return findings;
}

async function clocks({ label, directory, ledger }: Home, now: number): Promise<Finding[]> {
  const { warn } = on(`home ${label}`);
  const ahead = (iso: string): boolean => Date.parse(iso) - now > SKEW_MS;
  const rows = await ledger.history({ limit: 100 });
  const message = rows.find((row) => ahead(row.message.ts))?.message;
  const agent = (await directory.list()).find((record) => ahead(record.lastSeen));
  const what = message
    ? `message ${message.id.slice(0, 8)} is dated ${message.ts}`
    : agent
      ? `@${agent.name} was last seen ${agent.lastSeen}`
      : null;
  return what ? [warn(`${what}, which is still to come`, "check this machine's clock, and its writer's")] : [];
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
