import type { Env } from '../../core/env.ts';
import { stableProgram } from '../../clients/own-program.ts';
import type { Bch } from './workspace.ts';
import { FLAG, command } from '../../core/command.ts';
import { wakeService } from './wake.ts';
import type { WakeService } from './wake.ts';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, resolve } from 'node:path';
import type { InstallTarget } from '../../clients/settings/client-settings.ts';
import type { Addition } from '../../clients/settings/changes.ts';
import type { Recorded } from '../../clients/settings/manifest.ts';
import { Refusal } from '../../core/refusal.ts';
import { BCH_CLIENTS, bchAdditions } from './install-profile.ts';
import { Installer, isHere, oneAtATime } from '../../clients/settings/installer.ts';
import type { Applied } from '../../clients/settings/installer.ts';

export default command({
  usage: 'setup',
  options: { 'no-hooks': FLAG, wake: FLAG, 'dry-run': FLAG, uninstall: FLAG },
  words: [0, 0],
  async run(bch: Bch, values) {
    const dry = values['dry-run'] ?? false;
    if (values.uninstall) {
      if (values.wake || values['no-hooks'])
        throw new Refusal(
          'invalid_request',
          '--uninstall removes everything that was added; combine it only with --dry-run',
        );
      return takeDown(bch, dry);
    }
    setUp(bch, { hooks: !values['no-hooks'], wake: values.wake ?? false, dry });
    if (!bch.identity)
      bch.say('\nno agent yet — run `bch init <name>` first, or set BACKCHANNEL_AGENT for your client');
  },
});

type Speaker = Pick<Bch, 'env' | 'say'>;

/** The texts for each addition, in this order: when it was made, and when it exists already. */
const TEXTS: Readonly<Record<string, { done(path: string): string; there(path: string): string }>> = {
  hook: {
    done: (path) => `${path} reads your mail before each prompt from now on`,
    there: () => 'a hook that reads mail is already installed',
  },
  skill: {
    done: (path) => `the skill is written to ${path}`,
    there: (path) => `the skill is already present in ${path}`,
  },
  'MCP server': {
    done: (path) => `${path} starts the mail tools from now on`,
    there: () => 'the mail tools are already registered',
  },
  'section on mail': {
    done: (path) => `${path} has a section on mail from now on`,
    there: (path) => `a section on mail is already present in ${basename(path)}`,
  },
};

/** The home to set up. Variables that move client folders count only in the user's own home. */
function targetOf(env: Env): InstallTarget & { isOwn: boolean } {
  const other = env['BACKCHANNEL_SETUP_HOME'];
  const home = resolve(other || env['HOME'] || homedir());
  return { home, project: home, isOwn: !other, env: other ? { PATH: env['PATH'] } : env };
}

/** Adds mail to the installed clients. If one file must not be changed, no file is. */
export function setUp(bch: Speaker, order: { hooks: boolean; wake: boolean; dry: boolean }): void {
  const { env } = bch;
  const say = (line: string): void => bch.say(line);
  const target = targetOf(env);
  const clients = order.hooks ? BCH_CLIENTS.filter(({ client }) => isHere(client, target)) : [];
  const program = clients.length > 0 || order.wake ? stableProgram(env, 'bch setup') : '';
  const additions = clients.flatMap((one) => inOrder(bchAdditions(one, target, program)));
  const service = order.wake ? wakeService(process.platform, target.home, { program, words: ['bch'] }, env) : null;
  const installer = new Installer(target.home, 'bch setup');
  oneAtATime(env, () => {
    if (service) installer.apply([service.step], true);
    const applied = installer.apply(additions, order.dry);
    for (const [at, { owner }] of additions.entries()) say(`[${owner}] ${textOf(applied[at])}`);
    if (!order.hooks && !order.wake) say('[none] nothing to do: --no-hooks leaves the clients alone');
    if (order.hooks && clients.length === 0)
      say('[none] no known harness detected — let your agent run `bch drain`, or start `bch mcp` from it');
    if (service) say(`[wake] ${installService(installer, service, order.dry, env, target.isOwn)}`);
    else if (order.wake)
      say(`[wake] no service is known for ${process.platform}; let this run: bch watch --urgent-only --peek --exec …`);
  });
}

function inOrder(additions: readonly Addition[]): Addition[] {
  return Object.keys(TEXTS).flatMap((what) => additions.filter((one) => one.what === what));
}

function textOf(applied: Applied | undefined): string {
  const { what = '', path = '', outcome } = applied ?? {};
  if (outcome === 'would add') return `would add the ${what} in ${path}`;
  const isDone = outcome === 'added' || outcome === 'replaced';
  return TEXTS[what]?.[isDone ? 'done' : 'there'](path) ?? '';
}

/** Installs the service and returns the outcome in one line. */
function installService(installer: Installer, service: WakeService, dry: boolean, env: Env, isOwn: boolean): string {
  const { step, done, others, start, byHand } = service;
  const other = others.find((path) => existsSync(path));
  if (other) return `one that does the same is already installed (${other})`;
  const [applied] = installer.apply([step], dry);
  if (applied?.outcome === 'would add') return `would add the ${step.what} in ${step.path}`;
  if (applied?.outcome !== 'added' && applied?.outcome !== 'replaced')
    return 'the service for urgent mail is already installed';
  if (!isOwn) return `${done} (not started: it is not in your own home)`;
  return start.every((command) => succeeds(command, env)) ? done : byHand;
}

/** Removes everything that `setUp` added, and nothing else. */
function takeDown(bch: Speaker, dry: boolean): void {
  const { env } = bch;
  const say = (line: string): void => bch.say(line);
  const { home, isOwn } = targetOf(env);
  const installer = new Installer(home, 'bch setup --uninstall');
  oneAtATime(env, () => {
    const recorded = installer.recorded('bch');
    if (recorded.length === 0) say(`[none] nothing was added by \`bch setup\` in ${home}`);
    for (const one of recorded.toReversed()) {
      const remove = () => installer.removeOne(one, dry);
      const { outcome, kept, why = '' } = isOwn && !dry ? stopping(env, one, remove) : remove();
      if (outcome === 'refused') throw new Refusal('bad_config', why);
      const words = {
        removed: `${one.what} removed from ${one.path}`,
        'would remove': `${one.what} would be removed from ${one.path}`,
        gone: `${one.what} was gone already from ${one.path}`,
        changed: `${one.what} in ${one.path} was changed since; it is left unchanged`,
      };
      say(`[${one.owner}] ${words[outcome]}`);
      if (kept !== null) say(`[${one.owner}] the file as it was before the setup is kept as ${kept}`);
    }
  });
}

/** Removes an addition. The service is stopped before, and the system reloads its units after. */
export function stopping<T>(env: Env, { path }: Pick<Recorded, 'path'>, remove: () => T): T {
  const service = wakeService(process.platform, resolve(env['HOME'] || homedir()), { program: '', words: [] }, {});
  if (path !== service?.step.path) return remove();
  // A service that does not run cannot be stopped; its file is removed anyway.
  for (const command of service.stop) succeeds(command, env);
  const result = remove();
  for (const command of service.forget) succeeds(command, env);
  return result;
}

function succeeds(command: string[], env: Env): boolean {
  try {
    const options = { env, stdin: 'ignore', stdout: 'ignore', stderr: 'ignore', timeout: 20_000 } as const;
    return Bun.spawnSync(command, options).exitCode === 0;
  } catch {
    return false;
  }
}
