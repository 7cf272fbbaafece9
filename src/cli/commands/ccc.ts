import { realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { command } from '../../core/command.ts';
import { ifThere } from '../../core/disk.ts';
import type { SessionDriver } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import type { OpenService } from '../../core/service.ts';
import { servingLog } from '../../platform/log.ts';
import { VERSION } from '../../platform/program.ts';
import { writeAll } from '../../platform/terminal.ts';
import { serveUntilSignal, tellWarnings } from '../../platform/serve.ts';
import { control } from '../../daemon/control.ts';
import { requestControl } from '../../protocols/control/client.ts';
import { ControlFile } from '../../protocols/control/config.ts';
import { answerBeside } from '../../protocols/control/dialog-hook.ts';
import { serveDrive } from '../../protocols/control/drive.ts';
import { Hosts } from '../../protocols/control/hosts.ts';
import { configuredTargets, driverFor } from '../../protocols/control/targets.ts';
import { tmuxTrouble } from '../../sessions/tmux.ts';
import { tmuxNameOf } from '../../sessions/tmux-session.ts';
import type { Context } from '../context.ts';
import { addSession, tellConfigured } from './control.ts';

const listenCommand = command({
  usage: 'listen',
  options: { 'json-logs': { type: 'boolean', help: 'log as JSON lines' } },
  async run(context: Context, values) {
    const log = servingLog({ json: values['json-logs'] ?? false, verbose: context.verbose });
    const open = async (): Promise<OpenService[]> => {
      const service = await control.open(context, {}, log);
      tellWarnings(service, values['json-logs'] === true ? log : null);
      if (context.json) context.sayJson({ socket: service.address, pid: process.pid });
      else context.say(`ccc listening on ${service.address}`);
      return [service];
    };
    await serveUntilSignal(open, log, () => {});
  },
});

const newCommand = command({
  usage: 'new [host:]name [path]',
  options: {
    client: { type: 'string', value: 'client', help: 'which client (default claude)' },
    flag: { type: 'string', multiple: true, value: 'word', help: 'an option that the client is started with' },
  },
  words: [1, 2],
  async run(context: Context, values, [name = '', path]) {
    const entry = addSession(context, ControlFile.of(context.env), name, path, values);
    if (context.json) return context.sayJson({ name, ...entry });
    context.say(`new session ${name} (${entry.path})`);
  },
});

const killCommand = command({
  usage: 'kill <name>',
  words: [1, 1],
  async run(context: Context, _values, [name = '']) {
    const file = ControlFile.of(context.env);
    if (!file.session(name)) throw new Refusal('not_found', 'session not found');
    await stop(context, file, name);
    file.remove(name);
    if (context.json) return context.sayJson({ killed: name });
    context.say(`killed ${name}; its history stays`);
  },
});

/** A server that runs must know: prompts may wait there. */
async function stop(context: Context, file: ControlFile, name: string): Promise<void> {
  try {
    await requestControl(context.env, { cmd: 'stop', session: name });
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'unreachable') throw error;
    const driver = await driverNamed(context, file, name);
    try {
      await driver.stop();
    } finally {
      await driver.close();
    }
  }
}

const listCommand = command({
  usage: 'list',
  async run(context: Context) {
    tellConfigured(context, ControlFile.of(context.env));
  },
});

const versionCommand = command({
  usage: '--version',
  async run(context: Context) {
    context.say(`ccc ${VERSION}`);
  },
});

/** Not for people: what a control server on another machine starts here by ssh. spec: control#drive */
const driveCommand = command({
  usage: 'drive',
  async run(context: Context) {
    await serveDrive(context.env);
  },
});

/** Not for people: Claude Code runs it beside each dialog. It never makes the client fail. spec: control#dialog-hook */
const dialogCommand = command({
  usage: 'dialog',
  async run(context: Context) {
    const said = await answerBeside(context.env, await Bun.stdin.text()).catch(() => null);
    if (said !== null) writeAll(1, said);
  },
});

/** `ccc` alone. */
export const alone = command({
  usage: '',
  async run(context: Context) {
    if (!process.stdin.isTTY || !process.stdout.isTTY)
      throw new Refusal(
        'invalid_request',
        '`ccc` alone attaches your terminal to a session; see `ccc help` for the rest',
      );
    const noTmux = tmuxTrouble(context.env);
    if (noTmux !== null) throw new Refusal('unreachable', noTmux);
    const file = ControlFile.of(context.env);
    const name = sessionHere(context, file) ?? makeHere(context, file);
    const driver = await driverNamed(context, file, name);
    try {
      const { status, pid } = await driver.state();
      if (status === 'stopped') {
        context.note(`starting ${name} …`);
        await driver.start();
      } else if (!isInTmux(context, name))
        throw new Refusal(
          'already_claimed',
          `${name} runs in a terminal of its own (pid ${pid ?? 'unknown'}); use it there`,
        );
    } finally {
      await driver.close();
    }
    process.exitCode = attach(context, name);
  },
});

/** The session of the current folder. */
function sessionHere({ cwd }: Context, file: ControlFile): string | undefined {
  const here = realpathSync(cwd);
  const isHere = (path: string): boolean => path === cwd || ifThere(() => realpathSync(path)) === here;
  return file.sessions().find(([, entry]) => !entry.host && isHere(entry.path))?.[0];
}

/** Makes one with the name of the folder; if that is taken, with a number behind it. */
function makeHere(context: Context, file: ControlFile): string {
  const base =
    basename(context.cwd)
      .replace(/[:,\p{C}]/gu, '_')
      .replace(/^[-.\s]+/, '')
      .trimEnd() || 'home';
  let name = base;
  for (let count = 2; file.session(name); count++) name = `${base}-${count}`;
  addSession(context, file, name, context.cwd);
  context.note(`new session ${name} (${context.cwd})`);
  return name;
}

async function driverNamed(context: Context, file: ControlFile, name: string): Promise<SessionDriver> {
  const home = context.workspace.homes.find(({ label }) => label === 'parley');
  if (!home) throw new Error('a workspace has a home of its own');
  const targets = await configuredTargets(file, home.journal.sessionStore(), context.env);
  const target = targets.find((one) => one.name === name);
  if (!target) throw new Refusal('not_found', 'session not found');
  // A connection to another host ends with this process.
  return driverFor(target, context.env, new Hosts({ config: file, env: context.env, log: () => {} }));
}

function isInTmux({ env }: Context, name: string): boolean {
  const { exitCode } = Bun.spawnSync(['tmux', 'has-session', '-t', `=${tmuxNameOf(name)}`], { env, stderr: 'ignore' });
  return exitCode === 0;
}

/** Gives this terminal to tmux until its user leaves. */
function attach({ env }: Context, name: string): number {
  const verb = env['TMUX'] ? 'switch-client' : 'attach-session';
  const stdio = ['inherit', 'inherit', 'inherit'] as const;
  return Bun.spawnSync(['tmux', verb, '-t', `=${tmuxNameOf(name)}`], { env, stdio: [...stdio] }).exitCode;
}

/** The original has it, and this version does not. */
const hostsCommand = command({
  usage: 'hosts',
  words: [0, Infinity],
  async run() {
    throw new Refusal(
      'not_in_this_version',
      'ccc hosts is not in this version; write "hosts" into ~/.ccc.json by hand (docs/protocol/control.md)',
    );
  },
});

export const commands = {
  listen: listenCommand,
  new: newCommand,
  kill: killCommand,
  list: listCommand,
  version: versionCommand,
  drive: driveCommand,
  dialog: dialogCommand,
  hosts: hostsCommand,
};
