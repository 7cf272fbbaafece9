import {
  isRefused,
  uninstallProfile,
  appliedLines,
  Installer,
  oneAtATime,
  removedLines,
} from '../../clients/settings/installer.ts';
import { userHome } from '../../platform/env.ts';
import { stableProgram } from '../../clients/own-program.ts';
import { gitTop } from '../../platform/git.ts';
import type { C2c } from './workspace.ts';
import { FLAG, TEXT, command } from '../../core/command.ts';
import { brokerRoot } from './broker-root.ts';
import { resolve } from 'node:path';
import { CLIENT_NAMES } from '../../clients/client-names.ts';
import { additionsOf } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import { nearest } from '../../core/nearest.ts';
import { readAlias } from './shapes.ts';
import { Refusal } from '../../core/refusal.ts';
import { c2cProfile, defaultAlias, isForProject } from './install-profile.ts';
import type { C2cOrder } from './install-profile.ts';
import { isUserAsked, recordChangedHooks, tablesLine } from '../../clients/codex/trust.ts';

export default command({
  usage: `install ${CLIENT_NAMES.join('|')} [--global] [--alias <alias>] [--hooks] [--project-plugin] [--target-dir <folder>] [--broker-root <folder>] [--dry-run] [--uninstall [--yes]] [--json]`,
  options: {
    global: FLAG,
    alias: { ...TEXT, short: 'a' },
    hooks: FLAG,
    'project-plugin': FLAG,
    // Accepted without effect: the plugin is always installed for the user.
    'install-global-plugin': FLAG,
    'target-dir': TEXT,
    'broker-root': TEXT,
    // Accepted without effect: a second run is always allowed, and settings of others are never replaced.
    force: FLAG,
    'dry-run': FLAG,
    uninstall: FLAG,
    yes: FLAG,
    json: { ...FLAG, short: 'j' },
  },
  words: [1, 1],
  async run(given: C2c, values, [name = '']) {
    const c2c = given.at(values['broker-root']);
    const client = clientCalled(name);
    const dry = values['dry-run'] ?? false;
    const folder = values['target-dir'] === undefined ? undefined : resolve(c2c.cwd, values['target-dir']);
    const target = { home: userHome(c2c.env), env: c2c.env, project: folder ?? gitTop(c2c.cwd) ?? c2c.cwd };
    if (values.uninstall) {
      if (values.global || values.alias !== undefined || values.hooks || values['project-plugin'])
        throw new Refusal(
          'invalid_request',
          '--uninstall removes everything that was added to this client; it takes only --yes, --dry-run and --json',
        );
      const how = { dry, json: values.json ?? false, yes: values.yes ?? false };
      return oneAtATime(c2c.env, () => uninstall(c2c, client, target, how));
    }
    const order = {
      client: client.name,
      alias: values.alias === undefined ? undefined : readAlias(values.alias),
      global: values.global ?? false,
      hooks: values.hooks ?? false,
      projectPlugin: values['project-plugin'] ?? false,
    };
    return oneAtATime(c2c.env, () => install(c2c, client, target, order, { dry, json: values.json ?? false }));
  },
});

function clientCalled(name: string): ClientSettings {
  const found = SETTINGS_CLIENTS.find((one) => one.name === name);
  if (found) return found;
  const [near] = nearest(name, [...CLIENT_NAMES]);
  throw new Refusal(
    'invalid_request',
    `no client is called "${name.replace(/\p{Cc}/gu, '?').slice(0, 40)}"${near ? `; did you mean ${near}?` : ''}; use one of ${CLIENT_NAMES.join(', ')}`,
  );
}

type Order = Omit<C2cOrder, 'program' | 'alias'> & { alias: string | undefined };

/** Adds c2c to a client, all or nothing. spec: c2c#install */
function install(
  c2c: C2c,
  client: ClientSettings,
  target: InstallTarget,
  order: Order,
  how: { dry: boolean; json: boolean },
): void {
  const again = `c2c install ${client.name}`;
  const installer = new Installer(target.home, again);
  const alias = order.alias ?? aliasFor(installer, client, target, order.global);
  const profile = c2cProfile(target, { ...order, program: stableProgram(target.env, again), alias });
  const applied = installer.apply(additionsOf(client, target, profile), how.dry);
  recordChangedHooks(target.env, applied);
  const advice = [...client.advice(target, profile), ...rootAdvice(profile.server.env)];
  const root = brokerRoot(target.env, target.project);
  if (how.json) {
    const [config] = client.serverFiles(target, profile.forProject);
    const paths = (what: string): string[] => profile.files.filter((one) => one.what === what).map(({ path }) => path);
    return c2c.sayJson({
      ok: true,
      client: client.name,
      alias,
      broker_root: root,
      config,
      dry_run: how.dry,
      ...(client.name === 'opencode' && { session_id: sessionIn(profile.files), plugin: paths('plugin')[0] }),
      ...(paths('hook script')[0] !== undefined && { hook_script: paths('hook script')[0] }),
      changes: applied,
      advice,
    });
  }
  c2c.say(`${how.dry ? '[DRY-RUN] ' : ''}${client.title}${alias === null ? '' : `, as ${alias}`}:`);
  for (const line of appliedLines(applied)) c2c.say(line);
  for (const one of advice) c2c.say(`  note: ${one}`);
  if (!how.dry && applied.some(({ outcome }) => outcome === 'added'))
    c2c.say(`  restart ${client.title} to use it; \`${again} --uninstall\` takes everything out again`);
}

/** The alias that is already installed for the client, else the default. Codex gets none: its one settings file serves all its sessions. */
function aliasFor(installer: Installer, client: ClientSettings, target: InstallTarget, global: boolean): string | null {
  const paths = client.serverFiles(target, isForProject(client.name, global));
  const recorded = installer.recorded('c2c', [client.name]).filter(({ path }) => paths.includes(path));
  const texts = recorded.map(({ content }) => JSON.stringify(content));
  const named = texts.map((text) => /C2C_MCP_AUTO_REGISTER_ALIAS[^A-Za-z0-9]+([\w.-]+)/.exec(text)?.[1]).find(Boolean);
  return named ?? (client.name === 'codex' ? null : defaultAlias(client.name, target.home, target.project));
}

function rootAdvice(env: Readonly<Record<string, string>>): string[] {
  if (env['C2C_MCP_BROKER_ROOT']) return [];
  return ['these settings serve every repository, so they name no broker: each session uses the broker of its folder'];
}

function sessionIn(files: readonly { what: string; text: string }[]): string | undefined {
  const sidecar = files.find(({ what }) => what === 'sidecar');
  return sidecar && (JSON.parse(sidecar.text) as { session_id: string }).session_id;
}

/** Removes what `c2c install` added to a client, in every project, and nothing else. */
function uninstall(
  c2c: C2c,
  client: ClientSettings,
  target: InstallTarget,
  { dry, json, yes }: { dry: boolean; json: boolean; yes: boolean },
): void {
  const installer = new Installer(target.home, `c2c install ${client.name} --uninstall`);
  const asking = { json, note: (text: string) => c2c.note(text) };
  const { results, codexTables } = uninstallProfile(asking, installer, 'c2c', [client], { dry, yes });
  const removed = results.flatMap((one) => one.removed);
  if (json) return c2c.sayJson({ ok: !isRefused(removed), client: client.name, dry_run: dry, removed, codexTables });
  c2c.say(
    removed.length > 0
      ? `${client.title}:`
      : `nothing was added to ${client.title} by \`c2c install\` (${installer.manifest})`,
  );
  for (const line of removedLines(removed)) c2c.say(line);
  for (const one of codexTables) c2c.say(tablesLine(one, !dry && isUserAsked(asking, yes)));
}
