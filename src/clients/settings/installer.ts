import type { Env } from '../../core/env.ts';
import { findCodexTables, offerRemoval } from '../codex/trust.ts';
import type { CodexTables } from '../codex/trust.ts';
import type { Asking } from '../../platform/authority.ts';
import type { InstallProfile, ClientSettings, InstallTarget } from './client-settings.ts';
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { applyChange, changeFor, rollBack, undo } from './changes.ts';
import type { Addition, Change, NoChange, ReadFile } from './changes.ts';
import { dropFolders } from './file.ts';
import { isSameAddition, readManifest } from './manifest.ts';
import type { Recorded } from './manifest.ts';
import { ChangedMeanwhile, NotEditable } from './text-edit.ts';
import { Refusal } from '../../core/refusal.ts';
import { codeOf, explained } from '../../core/disk.ts';
import { userHome } from '../../platform/env.ts';
import { lockedWhileNeeded } from '../../platform/lock-file.ts';
import { onPath } from '../../platform/search-path.ts';

/** The result of one addition. `replaced`: an older one of ours was there. `theirs`: an equivalent one is there that we did not add. */
export interface Applied {
  path: string;
  what: string;
  outcome: 'added' | 'replaced' | 'would add' | NoChange;
  /** The path of the copy of the file as it was before; null if there is none. */
  backup: string | null;
}

/** The result of one removal. `changed`: the addition is not as we wrote it, so it stays. */
export interface Removed {
  path: string;
  what: string;
  outcome: 'removed' | 'would remove' | 'gone' | 'changed' | 'refused';
  /** The path of the copy of the file as it was before, if the copy is kept because the file has other content now. */
  kept: string | null;
  why?: string;
}

/** Whether the client is on this machine: its settings folder exists, or its program is on the PATH. */
export function isHere(client: ClientSettings, target: InstallTarget): boolean {
  return (
    client.folders(target).some((folder) => existsSync(folder)) ||
    client.binaries.some((name) => onPath(name, target.env) !== null)
  );
}

/**
 * Adds install profiles to the clients of a home, and removes them. `parley install`, `c2c install` and `bch setup` share one manifest, because
 * they change the same files. No environment variable moves the manifest.
 */
export class Installer {
  readonly manifest: string;

  constructor(
    home: string,
    /** The command to run again after the user has repaired a file. */
    readonly again: string,
  ) {
    this.manifest = manifestIn(home);
  }

  /** The recorded additions of a profile to these clients. Without `by` or `owners`, those of all. */
  recorded(by?: string, owners?: readonly string[]): Recorded[] {
    const { noted } = this.#guarded(this.manifest, () => readManifest(this.manifest));
    return noted.filter((one) => (!by || one.by === by) && (!owners || owners.includes(one.owner)));
  }

  /** Makes all these additions or none: reads every file before the first change, and undoes everything if one fails. */
  apply(additions: readonly Addition[], dry: boolean): Applied[] {
    this.recorded();
    const plan = (one: Addition) => this.#guarded(one.path, () => changeFor(one, this.manifest));
    const planned = additions.map((one) => notApplied(one, plan(one)));
    if (dry) return planned;
    const before = readManifest(this.manifest);
    const changes: Change[] = [];
    try {
      return additions.map((one) => {
        const { change, backup } = this.#guarded(one.path, () => {
          // Plan again, because the addition before may have changed the same file.
          const found = changeFor(one, this.manifest);
          return { change: found, backup: typeof found === 'string' ? undefined : applyChange(found, this.manifest) };
        });
        if (typeof change === 'string') return notApplied(one, change);
        changes.push(change);
        const { target } = change.found;
        const outcome = before.noted.some((known) => isSameAddition(known, { ...one, target })) ? 'replaced' : 'added';
        return { path: one.path, what: one.what, outcome, backup: backup ?? null };
      });
    } catch (error) {
      rollBack(changes, before, this.manifest);
      throw error;
    }
  }

  /** Removes recorded additions, the last first. A file that cannot be edited keeps its addition and its record, and does not stop the others. */
  remove(recorded: readonly Recorded[], dry: boolean): Removed[] {
    return recorded.toReversed().map((one) => this.removeOne(one, dry));
  }

  removeOne(one: Recorded, dry: boolean, read?: ReadFile): Removed {
    const { path, what } = one;
    try {
      const { outcome, kept = null } = this.#guarded(path, () => undo(one, this.manifest, dry, read));
      return { path, what, outcome: dry && outcome === 'removed' ? 'would remove' : outcome, kept };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { path, what, outcome: 'refused', kept: null, why: error.message };
    }
  }

  /** Runs `act` on a file of another program, and again if that program writes the file meanwhile. Its refusal names the file and what to do. */
  #guarded<T>(path: string, act: () => T): T {
    try {
      return retried(act);
    } catch (error) {
      if (!(error instanceof NotEditable)) throw explained(error, path, 'it was left as it is');
      throw new Refusal(
        'bad_config',
        `${path} ${error.message}; it is left as it is. Mend it, then \`${this.again}\` again`,
      );
    }
  }
}

/** How often an edit is repeated: a running client may write its settings several times in a row. */
const TRIES = 20;
const AGAIN_MS = 25;

/** Runs `act` again while it throws ChangedMeanwhile. `act` must change nothing if it throws. */
function retried<T>(act: () => T): T {
  for (let tries = 1; ; tries += 1) {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof ChangedMeanwhile) || tries === TRIES) throw error;
      Bun.sleepSync(AGAIN_MS);
    }
  }
}

function notApplied({ path, what }: Addition, change: Change | NoChange): Applied {
  return { path, what, outcome: typeof change === 'string' ? change : 'would add', backup: null };
}

function manifestIn(home: string): string {
  return join(home, '.local/share/parley/installed.json');
}

/**
 * Runs one installer at a time, because two at once would each record only their own additions. The last one to remove an addition also
 * removes the lock file, and the folder if it is ours.
 */
export function oneAtATime<T>(env: Env, act: () => T): T {
  const folder = lockFolder(env);
  if (folder === null) return act();
  const path = installLock(env);
  const isNeeded = (): boolean => existsSync(manifestIn(userHome(env)));
  try {
    return lockedWhileNeeded(path, act, isNeeded);
  } catch (error) {
    // Another installer has just removed the folder.
    if (error instanceof Error && 'path' in error && error.path === path && codeOf(error) === 'ENOENT')
      return oneAtATime(env, act);
    throw error;
  } finally {
    if (!env['XDG_RUNTIME_DIR']) dropFolders([folder]);
  }
}

const LOCK = 'parley-install.lock';

/** The lock file of `oneAtATime`. It exists while additions are recorded. */
export function installLock(env: Env): string {
  return `${env['XDG_RUNTIME_DIR'] || ownLockFolder(env)}/${LOCK}`;
}

function ownLockFolder(env: Env): string {
  return `${env['TMPDIR'] || '/tmp'}/parley-${process.getuid?.() ?? 0}`;
}

/** A folder that only this user can write, outside the home, because an undo must leave nothing in the home. Null if there is none. */
function lockFolder(env: Env): string | null {
  const uid = process.getuid?.();
  const folder = env['XDG_RUNTIME_DIR'] || ownLockFolder(env);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {
    // It exists, or cannot be created: the check below decides.
  }
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() && found.uid === uid ? folder : null;
}

const APPLIED_WORDS = {
  added: 'added',
  replaced: 'replaced',
  'would add': 'would add',
  there: 'is there',
  theirs: 'left alone',
} as const;

const REMOVED_WORDS = {
  removed: 'removed',
  'would remove': 'would remove',
  gone: 'was gone',
  changed: 'left alone',
  refused: 'left alone',
} as const;

/** Joins the hooks of one file into one line: `hook at SessionStart, Stop`. */
function joinHooks<T extends { path: string; what: string; outcome: string; kept?: string | null }>(
  all: readonly T[],
): T[] {
  const joined: T[] = [];
  for (const one of all) {
    const last = joined.at(-1);
    const event = /^hook at (.+)/.exec(one.what)?.[1];
    const isSame = last?.path === one.path && last.outcome === one.outcome && last.what.startsWith('hook at ');
    if (isSame && event !== undefined) {
      last.what += `, ${event}`;
      // Name the copy of the file once, with the last hook.
      if (one.kept !== undefined) last.kept = one.kept;
    } else joined.push({ ...one });
  }
  return joined;
}

/** For people: a line for each addition, then one for each copy that was kept. `isListed`: the user has just seen the list, so only `theirs` is printed. */
export function appliedLines(applied: readonly Applied[], isListed = false): string[] {
  const lines = joinHooks(applied.filter(({ outcome }) => !isListed || outcome === 'theirs'));
  const copies = new Map(applied.flatMap(({ path, backup }) => (backup === null ? [] : [[path, backup]])));
  return [
    ...lines.map(({ path, what, outcome }) => {
      const why = outcome === 'theirs' ? '  (not written by this installer, or changed since: look at it)' : '';
      return `  ${APPLIED_WORDS[outcome].padEnd(10)} ${what}: ${path}${why}`;
    }),
    ...[...copies].map(([path, backup]) => `  ${'copied'.padEnd(10)} ${path} as it was: ${backup}`),
  ];
}

/** For people: a line for each removal. */
export function removedLines(removed: readonly Removed[]): string[] {
  return joinHooks(removed).map(removedLine);
}

function removedLine({ path, what, outcome, kept, why }: Removed): string {
  const reason = outcome === 'changed' ? '  (it was changed by hand)' : why ? `  (${why})` : '';
  return `  ${REMOVED_WORDS[outcome].padEnd(12)} ${what}: ${path}${reason}${kept === null ? '' : `  (as it was before: ${kept})`}`;
}

/** The removals by client, and the tables that Codex wrote about our hooks. */
interface Uninstalled {
  results: { client: ClientSettings; removed: Removed[] }[];
  codexTables: CodexTables[];
}

/** Removes what a profile added to these clients, and nothing else. A refused removal sets the exit code. */
export function uninstallProfile(
  context: Asking,
  installer: Installer,
  by: InstallProfile['by'],
  clients: readonly ClientSettings[],
  { dry, yes }: { dry: boolean; yes: boolean },
): Uninstalled {
  const names = clients.map(({ name }) => name);
  // Find Codex's tables before the hooks are removed: afterwards they cannot be matched to our hooks.
  const found = findCodexTables(installer.recorded(by, names));
  const codexTables = dry ? found : offerRemoval(context, found, yes);
  const results = clients.map((client) => ({
    client,
    removed: installer.remove(installer.recorded(by, [client.name]), dry),
  }));
  if (results.some(({ removed }) => isRefused(removed))) process.exitCode = 1;
  return { results, codexTables };
}

export function isRefused(removed: readonly Removed[]): boolean {
  return removed.some(({ outcome }) => outcome === 'refused');
}
