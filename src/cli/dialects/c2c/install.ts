import { join, resolve } from 'node:path';
import { CLIENT_NAMES } from '../../../clients/install-client.ts';
import type { ClientName, InstallClient, Place } from '../../../clients/install-client.ts';
import { INSTALL_CLIENTS } from '../../../clients/install-clients.ts';
import { nearest } from '../../../flow/nearest.ts';
import { readAlias } from '../../../protocols/c2c/shapes.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { BadArguments } from '../../arguments.ts';
import { c2cGift, isForProject } from '../../install/c2c-gift.ts';
import { findCodexTables, offerRemoval, tablesLine } from '../../install/codex-tables.ts';
import { noteChangedHooks } from '../../install/codex-trust.ts';
import { fulfil, notedFor, takeOut } from '../../install/carry-out.ts';
import { defaultAlias } from '../../install/default-alias.ts';
import { manifestIn } from '../../install/manifest-place.ts';
import { doneLine, removedLine } from '../../install/told.ts';
import { inTurn } from '../../install/turn.ts';
import { lastingProgram } from '../../lasting.ts';
import { gitTop } from '../../origin.ts';
import { userHome } from '../../env.ts';
import type { C2c } from './c2c.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { brokerRoot } from './root.ts';

export default c2cCommand({
  usage: `install ${CLIENT_NAMES.join('|')} [--global] [--alias <alias>] [--hooks] [--project-plugin] [--target-dir <folder>] [--dry-run] [--uninstall [--yes]] [--json]`,
  options: {
    global: FLAG,
    alias: { ...TEXT, short: 'a' },
    hooks: FLAG,
    'project-plugin': FLAG,
    // The plugin is installed for the user in any case.
    'install-global-plugin': FLAG,
    'target-dir': TEXT,
    'dry-run': FLAG,
    uninstall: FLAG,
    yes: FLAG,
    json: { ...FLAG, short: 'j' },
  },
  words: [1, 1],
  async run(c2c, values, [name = '']) {
    const client = clientCalled(name);
    const dry = values['dry-run'] ?? false;
    const folder = values['target-dir'] === undefined ? undefined : resolve(c2c.cwd, values['target-dir']);
    const place = { home: userHome(c2c.env), env: c2c.env, project: folder ?? gitTop(c2c.cwd) ?? c2c.cwd };
    if (values.uninstall) {
      if (values.global || values.alias !== undefined || values.hooks || values['project-plugin'])
        throw new BadArguments(
          '--uninstall removes everything that was added to this client; it takes only --yes, --dry-run and --json',
        );
      const how = { dry, json: values.json ?? false, yes: values.yes ?? false };
      return inTurn(c2c.env, () => uninstall(c2c, client, place, how));
    }
    const order = {
      client: client.name,
      alias: values.alias === undefined ? undefined : readAlias(values.alias),
      global: values.global ?? false,
      hooks: values.hooks ?? false,
      projectPlugin: values['project-plugin'] ?? false,
    };
    return inTurn(c2c.env, () => install(c2c, client, place, order, { dry, json: values.json ?? false }));
  },
});

function clientCalled(name: string): InstallClient {
  const found = INSTALL_CLIENTS.find((one) => one.name === name);
  if (found) return found;
  const [near] = nearest(name, [...CLIENT_NAMES]);
  throw new Refusal(
    'invalid_request',
    `no client is called "${name.replace(/\p{Cc}/gu, '?').slice(0, 40)}"${near ? `; did you mean ${near}?` : ''}; use one of ${CLIENT_NAMES.join(', ')}`,
  );
}

interface Order {
  client: ClientName;
  alias: string | undefined;
  global: boolean;
  hooks: boolean;
  projectPlugin: boolean;
}

/** Adds c2c to a client, all or nothing. spec: c2c#install */
function install(
  c2c: C2c,
  client: InstallClient,
  place: Place,
  order: Order,
  how: { dry: boolean; json: boolean },
): void {
  const again = `c2c install ${client.name}`;
  const manifest = manifestIn(place.home);
  const alias = order.alias ?? aliasFor(client, place, order.global);
  const program = lastingProgram(place.env, again);
  const gift = c2cGift(place, { ...order, program, alias });
  const done = fulfil(client.wishes(place, gift), manifest, { dry: how.dry, again });
  noteChangedHooks(place.env, done);
  const advice = [...client.advice(place, gift), ...rootAdvice(gift.server.env)];
  const root = brokerRoot(place.env, place.project);
  if (how.json) {
    const [config] = client.servers(place, gift.forProject);
    const paths = (what: string): string[] => gift.files.filter((one) => one.what === what).map(({ path }) => path);
    return c2c.sayJson({
      ok: true,
      client: client.name,
      alias,
      broker_root: root,
      config,
      dry_run: how.dry,
      ...(client.name === 'opencode' && { session_id: sessionIn(gift.files), plugin: paths('plugin')[0] }),
      ...(paths('hook script')[0] !== undefined && { hook_script: paths('hook script')[0] }),
      changes: done,
      advice,
    });
  }
  c2c.say(`${client.title}${alias === null ? '' : `, as ${alias}`}:`);
  for (const one of done) c2c.say(doneLine(one));
  for (const one of advice) c2c.say(`  note: ${one}`);
  if (!how.dry && done.some(({ outcome }) => outcome === 'added'))
    c2c.say(`  start ${client.title} anew to use it; \`${again} --uninstall\` takes everything out again`);
}

/** Who was named once stays who they were. Codex has one file for all its sessions, which cannot all have one alias. */
function aliasFor(client: InstallClient, place: Place, global: boolean): string | null {
  const paths = client.servers(place, isForProject(client.name, global));
  const noted = notedFor(manifestIn(place.home), 'c2c', [client.name], `c2c install ${client.name}`);
  const texts = noted.filter(({ path }) => paths.includes(path)).map(({ content }) => JSON.stringify(content));
  const named = texts.map((text) => /C2C_MCP_AUTO_REGISTER_ALIAS[^A-Za-z0-9]+([\w.-]+)/.exec(text)?.[1]).find(Boolean);
  return named ?? (client.name === 'codex' ? null : defaultAlias(client.name, place.home, place.project));
}

function rootAdvice(env: Readonly<Record<string, string>>): string[] {
  if (env['C2C_MCP_BROKER_ROOT']) return [];
  return [
    'these settings serve every repository, so no broker is written into them: each session uses that of its folder',
  ];
}

function sessionIn(files: readonly { what: string; text: string }[]): string | undefined {
  const sidecar = files.find(({ what }) => what === 'sidecar');
  return sidecar && (JSON.parse(sidecar.text) as { session_id: string }).session_id;
}

/** Takes out what `c2c install` added to a client, in every project, and nothing else. */
function uninstall(
  c2c: C2c,
  client: InstallClient,
  place: Place,
  { dry, json, yes }: { dry: boolean; json: boolean; yes: boolean },
): void {
  const again = `c2c install ${client.name} --uninstall`;
  const manifest = manifestIn(place.home);
  const noted = notedFor(manifest, 'c2c', [client.name], again);
  // Before the hooks go: afterwards nobody can tell which of Codex's tables were about them.
  const found = findCodexTables(noted);
  const codexTables = dry ? found : offerRemoval({ json, note: (text) => c2c.note(text) }, found, yes);
  const removed = takeOut(noted, manifest, { dry, again });
  const refused = removed.filter(({ outcome }) => outcome === 'refused');
  if (refused.length > 0) process.exitCode = 1;
  if (json) return c2c.sayJson({ ok: refused.length === 0, client: client.name, dry_run: dry, removed, codexTables });
  c2c.say(
    removed.length > 0
      ? `${client.title}:`
      : `nothing was added to ${client.title} by \`c2c install\` (${join(manifest)})`,
  );
  for (const one of removed) c2c.say(removedLine(one));
  for (const one of codexTables) c2c.say(tablesLine(one));
}
