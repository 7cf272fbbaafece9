import { onPath } from '../../platform/search-path.ts';
import type { Env } from '../../core/env.ts';
import type { ClientSettings } from '../../clients/settings/client-settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import { accessSync, constants, existsSync, readdirSync, statSync, statfsSync } from 'node:fs';
import { clientBindings, clientOf } from '../../delivery/client-bindings.ts';
import { SessionNames } from '../../delivery/session-names.ts';
import { counted, on } from './finding.ts';
import type { Finding } from './finding.ts';
import { JOURNAL_FORMAT, inspectJournal } from '../../daemon/homes.ts';
import { ownersOf } from '../../core/obligations/owners.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { parleyHome } from '../../platform/env.ts';
import type { AgentName } from '../../core/names.ts';
import { platform } from '../../platform/os.ts';
import type { Platform } from '../../platform/os.ts';

/** Below this a full disk is near. */
const SPACE = 64 * 1024 * 1024;

/** The folder of a home: is it there, is it ours, can it be written, does its file system keep promises? */
export function examinePlace({ label, root }: Home, system: Pick<Platform, 'networkFileSystem'> = platform): Finding[] {
  const { ok, warn, bad } = on(`home ${label}`);
  if (!existsSync(root)) return [warn(`${root} is not there yet`, '`parley init <name>` makes it')];
  if (!statSync(root).isDirectory()) return [bad(`${root} is not a folder`, 'move it away, or set another home')];
  const findings: Finding[] = [];
  const network = system.networkFileSystem(root);
  if (network) {
    findings.push(
      bad(
        `${root} is on ${network}, where locks and renames are not reliable: mail can be lost or doubled`,
        'set the home to a local folder',
      ),
    );
  }
  const uid = process.getuid?.();
  const owner = statSync(root).uid;
  if (uid !== undefined && uid !== 0 && owner !== uid)
    findings.push(bad(`${root} belongs to another user (${owner})`, 'use a home of your own'));
  if (!isWritable(root))
    findings.push(bad(`${root} cannot be written`, 'check its permissions and how its disk is mounted'));
  const { bavail, bsize } = statfsSync(root);
  if (bavail * bsize < SPACE) {
    findings.push(
      warn(
        `only ${Math.floor((bavail * bsize) / 1024 / 1024)} MiB are free below ${root}`,
        'free some space, or sends will be refused',
      ),
    );
  }
  return findings.length > 0 ? findings : [ok(`${root} is local and can be written`)];
}

function isWritable(root: string): boolean {
  try {
    accessSync(root, constants.R_OK | constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The journal of a home, and older ones kept beside it. `usable` says whether it may be opened for more. */
export function examineLedger({ label, root }: Home): { usable: boolean; findings: Finding[] } {
  const { ok, bad } = on(`home ${label}`);
  const state = inspectJournal(root);
  const kept = keptBeside(label, root);
  if (!state) return { usable: false, findings: [ok('no ledger yet; the first message makes one'), ...kept] };
  const { format, trouble, odd } = state;
  if (trouble) {
    const next =
      'the next command keeps it as a copy and builds a new one from the messages on disk; if that fails, check permissions and disk space';
    return { usable: false, findings: [bad(`the ledger cannot be used: ${trouble}`, next), ...kept] };
  }
  if (format !== null && format > JOURNAL_FORMAT) {
    const what = `the ledger was written by a newer Parley (format ${format}; this one knows ${JOURNAL_FORMAT}), so it is not touched`;
    return { usable: false, findings: [bad(what, 'update Parley'), ...kept] };
  }
  if (odd.length > 0) {
    const what = `the ledger says format ${format}, but ${odd.join(', ')} in it ${odd.length === 1 ? 'is' : 'are'} not of that format: another build made it`;
    const next = `stop the programs that use it and move ${root}/ledger.db* away; the next command rebuilds the ledger from the messages on disk`;
    return { usable: false, findings: [bad(what, next), ...kept] };
  }
  if (format !== null && format < JOURNAL_FORMAT) {
    return {
      usable: false,
      findings: [ok(`the ledger has format ${format}; the next command upgrades it, and keeps a copy`), ...kept],
    };
  }
  return { usable: true, findings: [ok(`the ledger is intact (format ${JOURNAL_FORMAT})`), ...kept] };
}

/** Damaged journals, and copies from before a change of format. They hold bodies, and nobody but their owner removes them. */
function keptBeside(label: string, root: string): Finding[] {
  const { warn } = on(`home ${label}`);
  const names = readdirSync(root).filter((name) => /^ledger\.db\.(damaged-\d+|v\d+)$/.test(name));
  if (names.length === 0) return [];
  const bytes = names.reduce((sum, name) => sum + statSync(`${root}/${name}`).size, 0);
  const what = `${counted(names.length, 'older or damaged ledger is', 'older or damaged ledgers are')} kept beside it (${Math.ceil(bytes / 1024)} KiB)`;
  return [warn(what, `when you need nothing from them: rm ${names.map((name) => `${root}/${name}*`).join(' ')}`)];
}

/** The person who gets a notice when nobody else can decide. Homes of other programs have no people. */
export async function examineOwner(home: Home): Promise<Finding[]> {
  const { ok, warn, bad } = on('owner');
  const records = await home.directory.list();
  if (home.remote || home.label === 'c2c' || records.every(({ parley }) => !parley)) return [];
  const [owner, ...others] = await ownersOf(home);
  if (!owner) {
    const next = '`parley init <your name> --human --owner`; until then these notices wait';
    return [warn('there is no owner: no person gets a notice when agents loop or nobody answers', next)];
  }
  if (others.length === 0) return [ok(`@${owner} is the owner`)];
  const names = [owner, ...others].map((name) => `@${name}`).join(', ');
  return [
    bad(
      `${names} are all marked as owner; only one can be`,
      `remove "owner" from the other records in ${home.root}/agents`,
    ),
  ];
}

/** How many messages wait in a mailbox that must be answered. */
export interface WaitingMail {
  home: Home['label'];
  mailbox: AgentName;
  count: number;
}

/** The mailboxes of agents in which mail waits that must be answered. People read their mail themselves. */
export async function waitingIn({ label, directory, journal }: Home): Promise<WaitingMail[]> {
  const found: WaitingMail[] = [];
  for (const { name, parley } of await directory.list()) {
    if (parley?.kind === 'human') continue;
    const copies = [...(await journal.open(name)).values()];
    const count = copies.filter(
      ({ state, attention }) => state === 'stored' && attention.policy === 'must_respond',
    ).length;
    if (count > 0) found.push({ home: label, mailbox: name, count });
  }
  return found;
}

/** Says so in one clause: `2 messages that must be answered wait for @bob`. */
export function waits({ mailbox, count }: WaitingMail): string {
  return `${counted(count, 'message that must be answered waits', 'messages that must be answered wait')} for @${mailbox}`;
}

/** Mail in Parley's own home that waits for a mailbox without a running session that is known. `missing` says what a client lacks; null if its hook runs. */
export function examineWaiting(
  env: Env,
  waiting: readonly WaitingMail[],
  missing: (client: ClientSettings) => string | null,
): Finding[] {
  const bindings = clientBindings(parleyHome(env));
  return waiting
    .filter(({ home }) => home === 'parley')
    .map((one) => {
      const { warn } = on(`mailbox ${one.mailbox}`);
      const look = `\`parley inbox --as ${one.mailbox}\` shows it`;
      const client = SETTINGS_CLIENTS.find(({ name }) => name === clientOf(bindings, one.mailbox));
      const last = client === undefined && new SessionNames(parleyHome(env)).lastSeen(one.mailbox, Date.now());
      if (last)
        return warn(
          `${waits(one)}, and no running session has this name`,
          `the next ${last.client} session in ${last.folder} gets it; ${look}`,
        );
      if (client === undefined)
        return warn(
          `${waits(one)}, and no client has this mailbox`,
          `${look}; \`parley install <client> --as ${one.mailbox}\` gives it to a client`,
        );
      const { title } = client;
      if (onPath(client.name, env) === null)
        return warn(`${waits(one)}, and ${title} is not installed: it is not in your PATH`, `install it, or ${look}`);
      const next = missing(client);
      return next === null
        ? warn(
            `${waits(one)}, and no running ${title} has it`,
            `start ${title}, or give it a prompt, which brings it; ${look}`,
          )
        : warn(`${waits(one)}, and nothing brings it to ${title}`, `${next}; ${look}`);
    });
}
