import { command } from '../../core/command.ts';
import { Refusal } from '../../core/refusal.ts';
import { isSure, startedByClient, whyNotUser } from '../../platform/authority.ts';
import { userHome } from '../../platform/env.ts';
import { onPath } from '../../platform/search-path.ts';
import { controlAnswers } from '../../protocols/control/listen-service.ts';
import { ControlFile, controlPlaces } from '../../protocols/control/config.ts';
import { installDialogHook, removeDialogHook } from '../../protocols/control/hook-install.ts';
import { LINGER, notInstalled, UserService } from '../../protocols/control/systemd-service.ts';
import type { ServiceReport } from '../../protocols/control/systemd-service.ts';
import type { Context } from '../context.ts';
import { counted } from '../doctor/finding.ts';

const SKIP = '--dangerously-skip-permissions';

/** As `systemctl status` has it: the service does not run. */
const NOT_RUNNING = 3;

const FORCE = {
  type: 'boolean',
  help: 'install: replace a unit that you wrote (it is kept); uninstall: one that you changed',
} as const;

const serviceCommand = command({
  usage: 'service <install|status|logs|restart|uninstall>',
  about:
    'Keeps the control server (`ccc listen`) running from your log-in on: a systemd user unit, ~/.config/systemd/user/ccc.service. On a Mac ' +
    'it writes a file for launchd, which is not tested yet.\n' +
    '`install` writes the unit, starts it and adds the hook for dialogs to Claude Code, as `ccc install-service` does. A unit that you wrote is shown and left alone without --force. ' +
    '`uninstall` ends the service, removes the unit and the hook, and restores what was there before; sessions live on. It needs no root rights and asks for none.\n' +
    '`status` ends with exit code 3 if the service does not run.',
  options: {
    force: FORCE,
    follow: { type: 'boolean', short: 'f', help: 'logs: go on with what comes' },
    lines: { type: 'string', short: 'n', value: 'count', help: 'logs: how many lines (default 50)' },
    'if-active': { type: 'boolean', help: 'restart: only if it runs' },
  },
  words: [1, 1],
  examples: ['parley service install', 'parley service status', 'parley service logs --follow'],
  async run(context: Context, values, [verb = '']) {
    const service = new UserService(context.env);
    refuseOptions(verb, values);
    switch (verb) {
      case 'install':
        return install(context, service, values.force ?? false);
      case 'uninstall':
        return uninstall(context, service, values.force ?? false);
      case 'status':
        return status(context, service);
      case 'logs':
        return logs(context, service, values.lines ?? '50', values.follow ?? false);
      case 'restart':
        if (values['if-active'] && !service.isActive) return tell(context, { done: [], notes: [] });
        return tell(context, await service.restart());
      default:
        throw new Refusal('invalid_request', 'usage: parley service <install|status|logs|restart|uninstall>');
    }
  },
});

/** Which words an option belongs to. */
const OPTION_OF: Record<string, readonly string[]> = {
  force: ['install', 'uninstall'],
  follow: ['logs'],
  lines: ['logs'],
  'if-active': ['restart'],
};

function refuseOptions(verb: string, values: Record<string, unknown>): void {
  for (const [name, verbs] of Object.entries(OPTION_OF))
    if (values[name] !== undefined && !verbs.includes(verb))
      throw new Refusal('invalid_request', `--${name} belongs to ${verbs.join(' and ')}`);
}

const installServiceCommand = command({
  usage: 'install-service [--force]',
  options: { force: FORCE },
  async run(context: Context, values) {
    await install(context, new UserService(context.env), values.force ?? false);
  },
});

const uninstallServiceCommand = command({
  usage: 'uninstall-service [--force]',
  options: { force: FORCE },
  async run(context: Context, values) {
    uninstall(context, new UserService(context.env), values.force ?? false);
  },
});

async function install(context: Context, service: UserService, isForced: boolean): Promise<void> {
  refuseClients(context, 'install the service');
  const report = await service.install(isForced);
  if (report) {
    const hook = dialogHook(context);
    return tell(context, { done: [...report.done, ...hook.done], notes: [...report.notes, ...hook.notes] });
  }
  if (!context.json) context.say((service.text ?? '').trimEnd());
  throw new Refusal(
    'name_taken',
    `${service.path} ${whose(service)}; it was left alone: --force replaces it and keeps a copy`,
  );
}

function uninstall(context: Context, service: UserService, isForced: boolean): void {
  refuseClients(context, 'remove the service');
  // No other command takes the hook out.
  if (service.file === 'foreign' || service.file === 'missing') {
    const done = removeDialogHook(context.env);
    if (!context.json) for (const line of done) context.say(line);
  }
  const report = service.uninstall(isForced);
  if (report) return tell(context, { ...report, done: [...report.done, ...removeDialogHook(context.env)] });
  const how = service.file === 'changed' ? '--force removes it' : 'remove it yourself';
  throw new Refusal('name_taken', `${service.path} ${whose(service)}; it was left alone: ${how}`);
}

function whose({ file }: UserService): string {
  return file === 'changed' ? 'was changed by hand' : 'was not written by Parley';
}

/** A model must not make a program that outlives its session and types as the user. */
function refuseClients({ env }: Context, what: string): void {
  const why = startedByClient(env);
  if (why) throw new Refusal('not_yours', `Only the user can ${what}. ${why}. Run it in your own terminal.`);
}

function tell(context: Context, { done, notes }: ServiceReport): void {
  if (context.json) return context.sayJson({ done, notes });
  for (const line of done) context.say(line);
  for (const line of notes) context.note(line);
}

async function status(context: Context, service: UserService): Promise<void> {
  const state = service.state();
  const { socket } = controlPlaces(context.env);
  const answers = await controlAnswers(socket);
  const isUnknown = state.active === null && state.file !== 'missing';
  process.exitCode = state.active === 'active' || (isUnknown && answers) ? 0 : NOT_RUNNING;
  if (context.json) return context.sayJson({ ...state, socket, answers });
  if (state.file === 'missing') context.say(`not installed (no ${state.path})`);
  else {
    const written = { ours: '', changed: ', changed by hand', foreign: ', not written by Parley' }[state.file];
    context.say(`unit     ${state.path}${written}`);
    const pid = state.pid === null ? '' : ` (pid ${state.pid})`;
    const start = state.isEnabled ? ', starts at log-in' : '';
    context.say(`service  ${state.active ?? `unknown: ${state.why ?? ''}`}${pid}${start}`);
  }
  context.say(`socket   ${socket}  ${answers ? 'answers' : 'does not answer'}`);
  if (state.file === 'missing') context.say('Next: parley service install');
  else if (!state.isLingering) context.note(LINGER);
}

function logs(context: Context, service: UserService, lines: string, isFollowed: boolean): void {
  if (!/^\d{1,6}$/.test(lines)) throw new Refusal('invalid_request', '--lines is a number');
  if (service.file === 'missing') throw notInstalled(service.path);
  const words =
    service.platform === 'darwin'
      ? ['tail', '-n', lines, ...(isFollowed ? ['-F'] : []), `${userHome(context.env)}/Library/Logs/ccc.log`]
      : ['journalctl', '--user', '-u', 'ccc', '-n', lines, '--no-pager', ...(isFollowed ? ['-f'] : [])];
  if (onPath(words[0] ?? '', context.env) === null)
    throw new Refusal('not_found', `there is no ${words[0]} here, so the log cannot be shown`);
  const stdio = ['ignore', 'inherit', 'inherit'] as const;
  process.exitCode = Bun.spawnSync(words, { env: context.env, stdio: [...stdio] }).exitCode;
}

const setupCommand = command({
  usage: 'setup [TOKEN] [--yes]',
  options: { yes: { type: 'boolean', help: 'ask nothing; permissions are not skipped' } },
  words: [0, 1],
  async run(context: Context, values, [token]) {
    refuseClients(context, 'set this up');
    if (token !== undefined && !/^\d+:[\w-]{3,}$/.test(token))
      throw new Refusal('invalid_request', 'a bot token is digits, a colon and letters, as the chat gave it to you');
    const why = values.yes || context.json ? null : whyNotUser(context.env);
    if (why)
      throw new Refusal('invalid_request', `${why}, so it cannot ask you; add --yes (permissions are not skipped)`);
    const service = new UserService(context.env);
    const file = ControlFile.of(context.env);
    const { sessions, hosts, flags } = file.read();
    const isAsked = !values.yes && !context.json && flags['claude'] === undefined;
    const claude = isAsked ? { claudeFlags: wantsToSkip(context) ? [SKIP] : [] } : {};
    const isChanged = file.set({ ...(token !== undefined && { botToken: token }), ...claude });
    const kept = `${counted(Object.keys(sessions).length, 'session')}, ${counted(Object.keys(hosts).length, 'host')}`;
    const done = [isChanged ? `wrote ${file.path} (kept: ${kept})` : `${file.path} is as it was (${kept})`];
    const skips = file.read().flags['claude']?.includes(SKIP) ?? false;
    done.push(`permissions of Claude Code are ${skips ? 'skipped' : 'not skipped'} ("flags" in ${file.path})`);
    if (token !== undefined) done.push('the token is stored; the chat is not in this version');
    const hook = dialogHook(context);
    const report = await service.install(false);
    const left = `${service.path} ${whose(service)}; it was left alone: parley service install --force replaces it`;
    tell(context, {
      done: [...done, ...hook.done, ...(report?.done ?? [])],
      notes: [...hook.notes, ...(report?.notes ?? [left])],
    });
    if (!context.json && Object.keys(sessions).length === 0) context.say('Next: ccc new <name> <folder>');
  },
});

/** Settings of the client that cannot be read stop nothing: its dialogs are then answered by keys. */
function dialogHook({ env }: Context): ServiceReport {
  try {
    return { done: installDialogHook(env), notes: [] };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { done: [], notes: [error.message] };
  }
}

function wantsToSkip(context: Context): boolean {
  return isSure(
    context,
    `Start Claude Code with ${SKIP}? It then runs every command without asking you, also those that a prompt from a program asks for. No is the default.`,
  );
}

export const commands = {
  service: serviceCommand,
  setup: setupCommand,
  'install-service': installServiceCommand,
  'uninstall-service': uninstallServiceCommand,
};
