import { rmdirSync, rmSync } from 'node:fs';
import { INSTALL_CLIENTS } from '../../clients/install-clients.ts';
import type { Wish } from '../../clients/settings/apply.ts';
import { find } from '../../clients/settings/file.ts';
import { readManifest } from '../../clients/settings/manifest.ts';
import type { Noted } from '../../clients/settings/manifest.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { clientBindings, unbindClient } from '../client-bindings.ts';
import type { Context } from '../context.ts';
import { stopping } from '../dialects/bch/set-up.ts';
import { parleyHome, userHome } from '../env.ts';
import type { Env } from '../env.ts';
import { takeOut } from '../install/carry-out.ts';
import type { Removed } from '../install/carry-out.ts';
import { findCodexTables, offerRemoval } from '../install/codex-tables.ts';
import type { CodexTables } from '../install/codex-tables.ts';
import { guarded } from '../install/guarded.ts';
import { manifestIn } from '../install/manifest-place.ts';
import { parleyGift } from '../install/parley-gift.ts';
import { inTurn } from '../install/turn.ts';
import { dataFolder } from '../loops/folders.ts';
import { gitTop } from '../origin.ts';

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
 * program that is gone. Every file is looked at before the first one is changed.
 */
export function leaveClients(context: Context, yes: boolean): Left {
  return inTurn(context.env, () => {
    const manifest = manifestIn(userHome(context.env));
    const noted = addedToClients(context.env);
    // Before the hooks go: afterwards nobody can tell which of Codex's tables were about them.
    const codexTables = offerRemoval(context, findCodexTables(noted), yes);
    refuseStuck(noted, takeOut(noted, manifest, { dry: true, again: AGAIN }));
    const clients = noted
      .toReversed()
      .flatMap((one) => stopping(context.env, one, () => takeOut([one], manifest, { dry: false, again: AGAIN })));
    const otherServers = othersIn(context, /^MCP server/);
    refuseOtherHooks(othersIn(context, /^hook/));
    // All that is ours is out of these files: the copies from before hold nothing that they lack.
    for (const one of clients) if (one.kept !== null) rmSync(one.kept, { force: true });
    const home = parleyHome(context.env);
    for (const client of Object.keys(clientBindings(home))) unbindClient(home, client);
    return { clients: clients.map((one) => ({ ...one, kept: null })), codexTables, otherServers };
  });
}

function refuseStuck(noted: readonly Noted[], planned: readonly Removed[]): void {
  const owners = noted.toReversed().map(({ owner }) => owner);
  const stuck = planned.flatMap(({ path, what, outcome, why }, at) => {
    if (outcome === 'changed') return [`${owners[at]}: ${what} in ${path} was changed since; remove it by hand`];
    return outcome === 'refused' ? [`${owners[at]}: ${why ?? path}`] : [];
  });
  if (stuck.length > 0)
    throw new Refusal('bad_config', `Parley is still in these clients, so it was not uninstalled: ${stuck.join('; ')}`);
}

function refuseOtherHooks(hooks: readonly string[]): void {
  if (hooks.length === 0) return;
  throw new Refusal(
    'bad_config',
    `these hooks start Parley and were written or edited by hand; remove them, then \`${AGAIN}\` again (the program is still here): ${hooks.join('; ')}`,
  );
}

/** What clients still have of ours from another source: written by hand, or edited after it was added. */
function othersIn({ env, cwd }: Context, kind: RegExp): string[] {
  const place = { home: userHome(env), env, project: gitTop(cwd) ?? cwd };
  const found = INSTALL_CLIENTS.flatMap((client) =>
    [true, false]
      .flatMap((project) =>
        client.wishes(place, parleyGift(env, { client: client.name, program: '', project, hooks: true })),
      )
      .filter((wish) => kind.test(wish.what) && isStillThere(wish))
      .map(({ what, path }) => `${client.name}: ${what} in ${path}`),
  );
  return [...new Set(found)];
}

function isStillThere({ path, isThere }: Wish): boolean {
  try {
    const { text } = find(path);
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
