import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import { Installer, installLock } from '../../clients/settings/installer.ts';
import { readManifest } from '../../clients/settings/manifest.ts';
import { readInstalled } from '../../clients/program-files.ts';
import type { Env } from '../../core/env.ts';
import { backchannelHome, brokersFolder, parleyHome, userHome } from '../../platform/env.ts';
import { daemonsFolder, instancesFolder, loopsFolder } from '../../protocols/c2c/loop-files.ts';
import { UserService } from '../../protocols/control/systemd-service.ts';
import { possibleC2c } from '../doctor/ways.ts';
import { realPath } from '../../platform/files.ts';
import { gitTop } from '../../platform/git.ts';
import { possibleAdditions } from '../install/parley-profile.ts';
import { hookStateOf } from './leave-clients.ts';
import { controlData, hasService } from './leave-control.ts';

/** One file or folder that Parley wrote, or that names Parley. */
export interface Written {
  path: string;
  what: string;
  by: string;
  /** What removes it: `parley self uninstall`, the same with `--purge`, or only the user. */
  goes: 'uninstall' | 'purge' | 'by hand';
}

const BY: Record<string, string> = { parley: 'parley install', c2c: 'c2c install', bch: 'bch setup', ccc: 'ccc setup' };

/** Everything that Parley wrote on this machine, under all its names, as its records and homes say. Takes nothing for ours that is not. */
export function everythingWritten(env: Env, cwd: string): Written[] {
  const installer = new Installer(userHome(env), 'parley self list');
  const recorded = installer.recorded();
  const { files } = readManifest(installer.manifest);
  const programs = readInstalled(`${parleyHome(env)}/self.json`).files;
  return [
    ...recorded.map(({ path, what, by }) => ({ path, what, by: BY[by] ?? by, goes: 'uninstall' as const })),
    ...files.flatMap(({ target, copy }) =>
      copy ? [{ path: copy, what: `${target} as it was`, by: 'parley install', goes: 'uninstall' as const }] : [],
    ),
    ...(recorded.length > 0
      ? [{ path: installer.manifest, what: 'list of these changes', by: 'parley install', goes: 'uninstall' as const }]
      : []),
    ...programs.map(({ path }) => ({
      path,
      what: 'program',
      by: 'parley self install',
      goes: 'uninstall' as const,
    })),
    ...(hasService(env)
      ? [{ path: new UserService(env).path, what: 'service', by: 'parley service', goes: 'uninstall' as const }]
      : []),
    ...(recorded.length > 0 && existsSync(installLock(env))
      ? [{ path: installLock(env), what: 'lock of the installers', by: 'parley install', goes: 'uninstall' as const }]
      : []),
    ...staying(env),
    ...copiesLeft(env, cwd),
  ];
}

/**
 * Copies of settings that an uninstallation left, because a client had changed the file since: beside each file that an installer may change,
 * by their name. Those that are still recorded go with the addition.
 */
export function copiesLeft(env: Env, cwd: string): Written[] {
  const home = userHome(env);
  const target = { home, env, project: gitTop(cwd) ?? cwd };
  const { files } = readManifest(new Installer(home, 'parley self list').manifest);
  const recorded = new Set(files.map(({ copy }) => copy));
  const paths = SETTINGS_CLIENTS.flatMap((client) => [
    ...possibleAdditions(client, target),
    ...possibleC2c(client, target),
  ]).map(({ path }) => path);
  return [...new Set(paths.flatMap((path) => [path, realPath(path)]))].flatMap((path) =>
    namesIn(dirname(path))
      .filter((name) => name.startsWith(`${basename(path)}.before-parley`))
      .map((name) => `${dirname(path)}/${name}`)
      .filter((copy) => !recorded.has(copy))
      .map((copy) => ({ path: copy, what: `${path} as it was`, by: 'an uninstallation left it', goes: 'by hand' })),
  );
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
}

/** What `parley self uninstall` without `--purge` leaves. */
export function staying(env: Env): Written[] {
  const homes: Written[] = [
    { path: parleyHome(env), what: 'mail and mailboxes', by: 'parley', goes: 'purge' },
    ...controlData(env).map((path) => ({
      path,
      what: 'your sessions and their history',
      by: 'ccc',
      goes: 'purge' as const,
    })),
    { path: backchannelHome(env), what: 'the mail of bch', by: 'bch', goes: 'by hand' },
    { path: brokersFolder(env), what: 'the mail of c2c', by: 'c2c', goes: 'by hand' },
    ...[loopsFolder, daemonsFolder, instancesFolder].map((folder) => ({
      path: folder(env),
      what: 'what c2c keeps running',
      by: 'c2c',
      goes: 'by hand' as const,
    })),
    ...hookStateOf(env).map((path) => ({
      path,
      what: 'what hooks said of sessions',
      by: 'c2c',
      goes: 'purge' as const,
    })),
    ...completions(env),
  ];
  return homes.filter(({ path }) => existsSync(path));
}

/** Files of the user's shell that load our completion: Parley prints it and never writes there. */
function completions(env: Env): Written[] {
  const home = userHome(env);
  const config = env['XDG_CONFIG_HOME'] || `${home}/.config`;
  const files = [
    `${home}/.bashrc`,
    `${home}/.bash_profile`,
    `${home}/.zshrc`,
    `${config}/fish/config.fish`,
    `${config}/fish/completions/parley.fish`,
    `${home}/.local/share/bash-completion/completions/parley`,
  ];
  const names = (path: string): boolean => {
    try {
      return readFileSync(path, 'utf8').includes('parley completion');
    } catch {
      return false;
    }
  };
  return files
    .filter(names)
    .map((path) => ({ path, what: 'it loads `parley completion`', by: 'you', goes: 'by hand' as const }));
}
