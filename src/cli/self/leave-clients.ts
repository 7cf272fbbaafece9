import type { Env } from '../../core/env.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { dataFolder } from '../../protocols/c2c/loop-files.ts';
import { gitTop } from '../../platform/git.ts';
import { rmdirSync, rmSync } from 'node:fs';
import type { InstallTarget } from '../../clients/settings/client-settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import { textWithoutOurs } from '../../clients/settings/changes.ts';
import type { Addition, ReadFile } from '../../clients/settings/changes.ts';
import { find } from '../../clients/settings/file.ts';
import { Refusal } from '../../core/refusal.ts';
import { clientBindings, unbindClient } from '../../delivery/client-bindings.ts';
import type { Context } from '../context.ts';
import { stopping } from '../../protocols/backchannel/setup.ts';
import { findCodexTables, isRemovalWanted, readWithout, removeTables } from '../../clients/codex/trust.ts';
import type { CodexTables } from '../../clients/codex/trust.ts';
import { Installer, oneAtATime } from '../../clients/settings/installer.ts';
import type { Removed } from '../../clients/settings/installer.ts';
import { forgetAllConsents } from '../install/consent.ts';
import { possibleAdditions } from '../install/parley-profile.ts';

const AGAIN = 'parley self uninstall';

/** What was taken out of the clients, and what Codex wrote about it. */
interface Left {
  clients: Removed[];
  codexTables: CodexTables[];
  /** Servers that start Parley and that its installers did not write. They block nothing. */
  otherServers: string[];
}

/** Did `parley install`, `c2c install` or `bch setup` add anything to a client? */
export function isInClients(env: Env): boolean {
  return new Installer(userHome(env), AGAIN).recorded().length > 0;
}

/**
 * Takes Parley out of all clients, or refuses and names what prevents it: a client must never keep a line that starts a program
 * that is gone. Everything is found first; a refusal changes nothing.
 */
export function leaveClients(context: Context, yes: boolean): Left {
  const { env, cwd } = context;
  const target = { home: userHome(env), env, project: gitTop(cwd) ?? cwd };
  const installer = new Installer(target.home, AGAIN);
  return oneAtATime(env, () => {
    const found = findCodexTables(installer.recorded());
    const recorded = installer.recorded().toReversed();
    const isWanted = isRemovalWanted(context, found, yes);
    const read = isWanted ? readWithout(found) : find;
    const planned = recorded.map((one) => ({ ...installer.removeOne(one, true, read), owner: one.owner }));
    const others = othersIn(target, installer.manifest, read);
    refuseStuck([...planned, ...others.filter(({ what }) => what.startsWith('hook'))]);
    // Before the server goes: a server with tables of Codex below it is not as we wrote it.
    const codexTables = isWanted ? found.map(removeTables) : found;
    const removed = recorded.map((one) => ({
      ...stopping(env, one, () => installer.removeOne(one, false)),
      owner: one.owner,
    }));
    // A file may have changed since the first look.
    refuseStuck(removed);
    // All that is ours is out of these files: the copies from before hold nothing that they lack.
    for (const { kept } of removed) if (kept !== null) rmSync(kept, { force: true });
    const home = parleyHome(env);
    for (const client of Object.keys(clientBindings(home))) unbindClient(home, client);
    // Also those of clients that only `parley run` started.
    forgetAllConsents(env);
    return {
      clients: removed.map(({ owner: _owner, ...one }) => ({ ...one, kept: null })),
      codexTables,
      otherServers: others
        .filter(({ what }) => what === 'MCP server')
        .map(({ owner, what, path }) => `${owner}: ${what} in ${path}`),
    };
  });
}

/** Something of Parley that is, or may be, in the way of its removal. */
type InTheWay = Pick<Removed, 'path' | 'what' | 'outcome' | 'why'> & { owner: string };

/** Refuses while Parley is in a file of a client. Each file is named once. */
function refuseStuck(found: readonly InTheWay[]): void {
  const stuck = found.filter(({ outcome }) => outcome === 'changed' || outcome === 'refused');
  if (stuck.length === 0) return;
  const files = [...Map.groupBy(stuck, ({ path }) => path)].map(([path, inFile]) => stuckFile(path, inFile));
  throw new Refusal('bad_config', `Parley is still in these clients, so it was not uninstalled: ${files.join('; ')}`);
}

function stuckFile(path: string, inFile: readonly InTheWay[]): string {
  const owner = [...new Set(inFile.map((one) => one.owner))].join(', ');
  const why = inFile.find(({ outcome }) => outcome === 'refused')?.why;
  if (why !== undefined) return `${owner}: ${why}`;
  const what = [...new Set(inFile.map((one) => one.what))].join(', ');
  return `${owner}: ${path} was changed by hand; remove ${what} there, then \`${AGAIN}\` again`;
}

/** What clients would still have of ours from another source: written by hand, or edited after it was added. */
function othersIn(target: InstallTarget, manifest: string, read: ReadFile): InTheWay[] {
  const found = SETTINGS_CLIENTS.flatMap((client) => possibleAdditions(client, target))
    .filter((one) => /^(?:hook|MCP server)/.test(one.what) && staysThere(one, manifest, read))
    .map(({ owner, what, path }) => ({ owner, what, path, outcome: 'changed' as const }));
  return [...new Map(found.map((one) => [`${one.owner} ${one.what} ${one.path}`, one])).values()];
}

function staysThere({ path, isThere }: Addition, manifest: string, read: ReadFile): boolean {
  try {
    const text = textWithoutOurs(path, manifest, read);
    return text !== null && isThere(text);
  } catch {
    // A file that cannot be read holds nothing that its client could use either.
    return false;
  }
}

/** What hooks of c2c wrote about sessions. It can be deleted at any time; the rest of that folder is shared. */
export function hookStateOf(env: Env): string[] {
  return ['sessions', 'signs'].map((name) => `${dataFolder(env)}/${name}`);
}

export function forgetHookState(env: Env): void {
  for (const folder of hookStateOf(env)) rmSync(folder, { recursive: true, force: true });
  try {
    rmdirSync(dataFolder(env));
  } catch {
    // It is not there, or holds something else.
  }
}
