import { command } from '../../core/command.ts';
import { Refusal } from '../../core/refusal.ts';
import { nearest } from '../../core/nearest.ts';
import type { Env } from '../../core/env.ts';
import { isSure } from '../../platform/authority.ts';
import { isCompiled, MAIN, VERSION } from '../../platform/program.ts';
import { isTerminal } from '../../platform/terminal.ts';
import { backchannelHome, parleyHome, userHome } from '../../platform/env.ts';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Context } from '../context.ts';
import { endFollower } from '../start-follower.ts';
import { daemonNotice } from '../../platform/daemon-lock.ts';
import { isUserAsked, tablesLine } from '../../clients/codex/trust.ts';
import { Installer, removedLines } from '../../clients/settings/installer.ts';
import { dropFolders } from '../../clients/settings/file.ts';
import { readManifest } from '../../clients/settings/manifest.ts';
import { controlData, hasService, leaveControl, refuseServer } from '../self/leave-control.ts';
import { forgetHookState, isInClients, leaveClients } from '../self/leave-clients.ts';
import { installProgram, isSameFile, readInstalled, uninstallProgram } from '../../clients/program-files.ts';
import { holdings, purge, refuseUnsafe } from '../self/purge.ts';
import { copiesLeft, everythingWritten, staying } from '../self/written.ts';
import { isOnPath, onPath } from '../../platform/search-path.ts';
import { UserService } from '../../protocols/control/systemd-service.ts';
import type { ServiceReport } from '../../protocols/control/systemd-service.ts';

/** What the program can be called besides parley. */
const NAMES = ['bch', 'c2c', 'c2c-deliver-inbox', 'ccc'];

const selfCommand = command({
  usage: 'self <install|list|uninstall>',
  about:
    '`list` names everything that Parley wrote on this machine, which command wrote it, and what removes it.\n' +
    '`install` copies this program to a folder as `parley`, and links further names to it. It replaces no other program without --force, ' +
    'which keeps a copy that `uninstall` restores. A service that runs (`parley service`) is restarted with the new program.\n' +
    '`uninstall` removes Parley from the clients and its service, then what `install` installed. At a terminal it asks first. If a file of a client ' +
    'was changed by hand, it names the file and changes nothing. A program that npm installed stays: npm uninstall -g parley-mail.',
  options: {
    dir: { type: 'string', value: 'folder', help: 'install: into this folder (default ~/.local/bin)' },
    names: {
      type: 'string',
      value: 'list',
      help: `install: further names, with commas: ${NAMES.join(',')} (default: none)`,
    },
    force: { type: 'boolean', help: 'install: replace other programs, and keep copies of them' },
    purge: {
      type: 'boolean',
      help: "uninstall: also remove Parley's home with all mail in it, ~/.ccc.json and ~/.ccc",
    },
    yes: { type: 'boolean', help: 'uninstall: do not ask' },
  },
  words: [1, 1],
  examples: [
    'dist/parley self install',
    'dist/parley self install --dir /usr/local/bin --names bch',
    'parley self list',
    'parley self uninstall --purge --yes',
  ],
  async run(context: Context, values, [verb]) {
    const manifest = join(parleyHome(context.env), 'self.json');
    if (verb === 'install') {
      if (values.purge || values.yes) throw new Refusal('invalid_request', '--purge and --yes belong to uninstall');
      return installed(context, manifest, values.dir, namesFrom(values.names), values.force ?? false);
    }
    if (verb === 'list') return listed(context);
    if (verb !== 'uninstall') throw new Refusal('invalid_request', 'usage: parley self <install|list|uninstall>');
    if (values.dir ?? values.names ?? values.force)
      throw new Refusal('invalid_request', '--dir, --names and --force belong to install');
    await uninstalled(context, manifest, values.purge ?? false, values.yes ?? false);
  },
});

async function installed(
  context: Context,
  manifest: string,
  dir: string | undefined,
  names: string[],
  force: boolean,
): Promise<void> {
  if (!isCompiled()) {
    throw new Refusal(
      'invalid_request',
      'this Parley runs from its source; build the program first: npm run build, then dist/parley self install',
    );
  }
  const folder = resolve(context.cwd, dir ?? join(context.env['HOME'] || homedir(), '.local/bin'));
  const files = installProgram({ program: process.execPath, folder, names, force, manifest });
  const path = join(folder, 'parley');
  const found = onPath('parley', context.env);
  const shadowed = isOnPath(folder, context.env) && found !== null && !isSameFile(found, path) ? found : null;
  const service = await restartedService(context.env, path);
  if (context.json) {
    const facts = { onPath: isOnPath(folder, context.env), shadowedBy: shadowed };
    return context.sayJson({ version: VERSION, files, ...facts, ...(service && { service }) });
  }
  for (const file of files) {
    const before = file.before ? ` (the program that was there is now ${file.before})` : '';
    context.say(
      `${context.paint.green('installed')} ${file.path}${file.is.startsWith('link:') ? ' → parley' : ` ${VERSION}`}${before}`,
    );
  }
  for (const line of service?.done ?? []) context.say(line);
  for (const line of service?.notes ?? []) context.note(line);
  if (!isOnPath(folder, context.env))
    context.note(`${folder} is not on your PATH; add it: export PATH="${folder}:$PATH"`);
  else if (shadowed) context.note(`another program comes first on your PATH: ${shadowed}`);
  else context.say('Next: parley init <name>');
}

/** A service that runs goes on with the new program; null if none runs. */
async function restartedService(env: Env, program: string): Promise<ServiceReport | null> {
  const service = new UserService(env);
  if (!service.isActive) return null;
  if (service.program !== null && isSameFile(service.program, program)) return service.restart();
  const other = service.program ?? 'another program';
  return { done: [], notes: [`the service starts ${other}; to start this one: ${program} service install`] };
}

async function uninstalled(context: Context, manifest: string, withHome: boolean, sure: boolean): Promise<void> {
  const root = parleyHome(context.env);
  const inClients = isInClients(context.env);
  const { folders } = readManifest(new Installer(userHome(context.env), 'parley self uninstall').manifest);
  if (!withHome && !inClients && !hasService(context.env) && readInstalled(manifest).files.length === 0) {
    throw new Refusal(
      'not_found',
      `nothing was installed by \`parley self install\` (no ${manifest}); if npm installed it: npm uninstall -g parley-mail`,
    );
  }
  const there = withHome && existsSync(root);
  if (there) refuseUnsafe(root, [context.env['HOME'] || homedir(), backchannelHome(context.env), context.cwd]);
  const lost = withHome ? await holdingsOf(context, root) : [];
  const data = withHome ? controlData(context.env) : [];
  if (withHome) refuseServer(context.env);
  const isAsked = !sure && !context.json && isTerminal(0);
  const isListed = withHome && !sure && !context.json;
  if (isListed) {
    context.note(`with ${root} this would be deleted:`);
    for (const one of [...lost, ...data]) context.note(`  ${one}`);
  }
  const question = withHome ? `Remove Parley, and delete ${root} with all of this?` : 'Remove Parley?';
  if (isAsked && !isSure(context, question)) return context.note('nothing was removed');
  if (withHome && !sure && !isAsked)
    throw new Refusal(
      'invalid_request',
      `${root} would be deleted with everything in it; add --yes to do it (nothing was removed)`,
    );
  await endFollower(context.env);
  const daemon = daemonNotice(`${root}/daemon`);
  if (there && daemon)
    throw new Refusal(
      'already_claimed',
      `the daemon runs (pid ${daemon.pid}); end it first: parley down (nothing was removed)`,
    );
  // What npm installed is not ours to remove, but the clients and the service are.
  const left = leaveClients(context, sure);
  const service = leaveControl(context.env, withHome);
  const result = { ...left, ...uninstallProgram(manifest), service };
  if (withHome) forgetHookState(context.env);
  if (there) purge(root);
  // A folder that an addition was made in may have held the service, too.
  dropFolders(folders);
  if (context.json) return context.sayJson({ ...result, purged: there ? root : null });
  for (const line of removedLines(result.clients)) context.say(line.trim());
  for (const one of result.codexTables) context.say(tablesLine(one, isUserAsked(context, sure)).trim());
  for (const line of service.done) context.say(line);
  for (const path of result.removed) context.say(`removed ${path}`);
  for (const path of result.restored) context.say(`restored ${path}, which was there before`);
  for (const one of result.otherServers) context.note(`${one} still starts Parley; remove it there`);
  for (const line of service.notes) context.note(line);
  for (const path of result.left) context.note(`${path} stays: it was changed after it was installed`);
  if (there) context.say(`removed ${root}${isListed ? '' : ', with:'}`);
  else if (withHome) context.say(`there was no ${root}`);
  for (const one of there && !isListed ? lost : []) context.say(`  ${one}`);
  for (const path of data) context.say(`removed ${path}`);
  for (const line of whatStays(context, withHome, result.removed)) context.note(line);
}

/** What the user may believe to be gone: the program itself, the mail, and what is the user's own. */
function whatStays({ env, cwd }: Context, withHome: boolean, removed: readonly string[]): string[] {
  const program = isCompiled() ? process.execPath : MAIN;
  const isGone = removed.length > 0 || !existsSync(program);
  const how = MAIN.includes('/node_modules/') ? 'remove it with: npm uninstall -g parley-mail' : `it is ${program}`;
  return [
    ...(isGone ? [] : [`the program itself stays; ${how}`]),
    ...[...staying(env), ...copiesLeft(env, cwd)]
      .filter(({ goes }) => goes === 'by hand' || !withHome)
      .map(
        ({ path, what, goes }) =>
          `${path} stays: ${what}; ${goes === 'purge' ? '--purge deletes it' : 'delete it yourself if you do not need it'}`,
      ),
  ];
}

function listed(context: Context): void {
  const written = everythingWritten(context.env, context.cwd);
  if (context.json) return context.sayJson(written);
  const groups = [
    ['uninstall', '`parley self uninstall` removes:'],
    ['purge', 'Only with --purge:'],
    ['by hand', 'Yours to delete:'],
  ] as const;
  for (const [goes, title] of groups) {
    const some = Map.groupBy(
      written.filter((one) => one.goes === goes),
      ({ path }) => path,
    );
    if (some.size > 0) context.say(title);
    for (const [path, all] of some) {
      const byCommand = [...Map.groupBy(all, ({ by }) => by)];
      const words = byCommand.map(([by, ones]) => `${[...new Set(ones.map(({ what }) => what))].join(', ')} (${by})`);
      context.say(`  ${path}: ${words.join(', ')}`);
    }
  }
  if (written.length === 0) context.say('Parley wrote nothing here');
}

/** Who would lose what. A home that cannot be read is said to be so. */
async function holdingsOf(context: Context, root: string): Promise<string[]> {
  const home = existsSync(root) ? context.workspace.homes.find((one) => one.label === 'parley') : undefined;
  if (!home) return ['nothing'];
  const held = await holdings(home).catch((error: unknown) => [
    `what cannot be read (${error instanceof Error ? error.message : String(error)})`,
  ]);
  return held.length > 0 ? held : ['no mailboxes'];
}

function namesFrom(text = ''): string[] {
  const names = [...new Set(text.split(',').map((name) => name.trim()))].filter(Boolean);
  for (const name of names) {
    if (NAMES.includes(name)) continue;
    const [near] = nearest(name, NAMES);
    throw new Refusal(
      'invalid_request',
      `"${name.replace(/\p{Cc}/gu, '?').slice(0, 40)}" is not a name of this program; ${near ? `did you mean ${near}?` : `use ${NAMES.join(', ')}`}`,
    );
  }
  return names;
}

export const commands = {
  self: selfCommand,
};
