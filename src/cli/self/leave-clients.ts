import { rmdirSync, rmSync } from 'node:fs';
import { INSTALL_CLIENTS } from '../../clients/install-clients.ts';
import { textWithoutOurs } from '../../clients/settings/apply.ts';
import type { Look, Wish } from '../../clients/settings/apply.ts';
import { find } from '../../clients/settings/file.ts';
import { readManifest } from '../../clients/settings/manifest.ts';
import type { Noted } from '../../clients/settings/manifest.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { clientBindings, unbindClient } from '../client-bindings.ts';
import type { Context } from '../context.ts';
import { stopping } from '../dialects/bch/set-up.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import type { Env } from '../../platform/env.ts';
import { takeOut } from '../install/carry-out.ts';
import type { Removed } from '../install/carry-out.ts';
import { findCodexTables, isRemovalWanted, removeTables, withoutThem } from '../install/codex-tables.ts';
import type { CodexTables } from '../install/codex-tables.ts';
import { guarded } from '../install/guarded.ts';
import { manifestIn } from '../install/manifest-place.ts';
import { parleyGift } from '../install/parley-gift.ts';
import { inTurn } from '../install/turn.ts';
import { dataFolder } from '../../protocols/c2c/loop-files.ts';
import { gitTop } from '../../platform/git.ts';

const AGAIN = 'parley self uninstall';

/** What was taken out of the clients, and what Codex wrote about it. */
export interface Left {
  clients: Removed[];
  codexTables: CodexTables[];
  /** Servers that start Parley and that its installers did not write. They block nothing. */
  otherServers: string[];
}

/** Everything that `parley install`, `c2c install` and `bch setup` added to clients. */
export function addedToClients(env: Env): Noted[] {
  const manifest = manifestIn(userHome(env));
  return guarded(manifest, AGAIN, () => readManifest(manifest).noted);
}

/**
 * Takes Parley out of all clients, or refuses and names what is in the way: a client must never be left with a line that starts a
 * program that is gone. Everything is found first; a refusal changes nothing.
 */
export function leaveClients(context: Context, yes: boolean): Left {
  return inTurn(context.env, () => {
    const manifest = manifestIn(userHome(context.env));
    const noted = addedToClients(context.env);
    const found = findCodexTables(noted);
    const isWanted = isRemovalWanted(context, found, yes);
    const look = isWanted ? withoutThem(found) : find;
    const planned = takenOut(noted, manifest, { dry: true, look });
    refuseStuck([...planned, ...othersIn(context, /^hook/, manifest, look)]);
    const otherServers = othersIn(context, /^MCP server/, manifest, look);
    // Before the server goes: a server with tables of Codex below it is not as we wrote it.
    const codexTables = isWanted ? found.map(removeTables) : found;
    const clients = noted
      .toReversed()
      .flatMap((one) => stopping(context.env, one, () => takenOut([one], manifest, { dry: false })));
    // A file may have changed since the first look.
    refuseStuck(clients);
    // All that is ours is out of these files: the copies from before hold nothing that they lack.
    for (const one of clients) if (one.kept !== null) rmSync(one.kept, { force: true });
    const home = parleyHome(context.env);
    for (const client of Object.keys(clientBindings(home))) unbindClient(home, client);
    return {
      clients: clients.map(({ owner: _owner, ...one }) => ({ ...one, kept: null })),
      codexTables,
      otherServers: otherServers.map(({ owner, what, path }) => `${owner}: ${what} in ${path}`),
    };
  });
}

function takenOut(
  noted: readonly Noted[],
  manifest: string,
  order: { dry: boolean; look?: Look },
): (Removed & { owner: string })[] {
  return noted
    .toReversed()
    .flatMap((one) =>
      takeOut([one], manifest, { ...order, again: AGAIN }).map((done) => ({ ...done, owner: one.owner })),
    );
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
function othersIn({ env, cwd }: Context, kind: RegExp, manifest: string, look: Look): InTheWay[] {
  const place = { home: userHome(env), env, project: gitTop(cwd) ?? cwd };
  const found = INSTALL_CLIENTS.flatMap((client) =>
    [true, false]
      .flatMap((project) =>
        client.wishes(place, parleyGift(env, { client: client.name, program: '', project, hooks: true })),
      )
      .filter((wish) => kind.test(wish.what) && staysThere(wish, manifest, look))
      .map(({ what, path }) => ({ owner: client.name, what, path, outcome: 'changed' as const })),
  );
  return [...new Map(found.map((one) => [`${one.owner} ${one.what} ${one.path}`, one])).values()];
}

function staysThere({ path, isThere }: Wish, manifest: string, look: Look): boolean {
  try {
    const text = textWithoutOurs(path, manifest, look);
    return text !== null && isThere(text);
  } catch {
    // A file that cannot be read holds nothing that its client could use either.
    return false;
  }
}

/** What hooks of c2c noted about sessions. It can be deleted at any time; the rest of that folder is shared. */
export function forgetHookState(env: Env): void {
  for (const name of ['sessions', 'signs']) rmSync(`${dataFolder(env)}/${name}`, { recursive: true, force: true });
  try {
    rmdirSync(dataFolder(env));
  } catch {
    // It is not there, or holds something else.
  }
}
