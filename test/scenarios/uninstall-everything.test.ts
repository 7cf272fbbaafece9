// Everything that Parley can put on a machine, by all its names, and what is left when it goes.
import { describe, expect, it } from 'bun:test';
import { existsSync, readdirSync } from 'node:fs';
import { InstallMachine } from '../support/install-home.ts';
import { personAt } from '../support/program.ts';

const CLIENTS = ['claude', 'codex', 'opencode', 'kimi', 'gemini'];

/** An empty home in which every installer of Parley ran with all that it has. */
async function anInstalledMachine() {
  const machine = new InstallMachine().with({ '.bashrc': '# mine\n' });
  const before = machine.snapshot();
  const bin = machine.at('.local/bin');
  const env = { ...machine.env(), PATH: `${bin}:${machine.env()['PATH']}` };
  const types = async (command: string[]): Promise<string> => {
    const { shown, code } = await personAt({ command, env, cwd: machine.at('project'), typed: 'no' });
    if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}: ${shown}`);
    return shown;
  };
  await machine.does('parley', ['self', 'install', '--names', 'bch,c2c,c2c-deliver-inbox,ccc']);
  const parley = `${bin}/parley`;
  await types([parley, 'install', ...CLIENTS, '--allow', 'tools', '--inbound', 'allow']);
  await types([parley, 'install', 'claude', 'opencode', '--project']);
  for (const client of ['claude', 'codex', 'opencode', 'kimi']) await types([`${bin}/c2c`, 'install', client]);
  await types([`${bin}/c2c`, 'install', 'opencode', '--project-plugin']);
  await types([`${bin}/bch`, 'setup', '--wake']);
  await types([`${bin}/ccc`, 'setup']);
  return { machine, before, types, parley };
}

describe('`parley self list`', () => {
  it('names every file that an installer wrote, and nothing that it did not', async () => {
    const { machine, before, types, parley } = await anInstalledMachine();
    const written = JSON.parse(await types([parley, 'self', 'list', '--json'])) as { path: string; goes: string }[];
    const named = written.map(({ path }) => path);
    const after = machine.snapshot();
    const isNew = (path: string): boolean => before[path] !== after[path] && !after[path]?.startsWith('folder');
    const unnamed = Object.keys(after)
      .filter(isNew)
      .filter((path) => !named.some((one) => machine.at(path) === one || machine.at(path).startsWith(`${one}/`)));
    expect(unnamed).toEqual([]);
    expect(named.filter((path) => path === machine.at('.bashrc'))).toEqual([]);
    machine.with({ '.bashrc': 'eval "$(parley completion bash)"\n' });
    const said = await types([parley, 'self', 'list']);
    expect(said).toContain(`Yours to delete:\n  ${machine.at('.bashrc')}: it loads \`parley completion\` (you)\n`);
    expect(said).toContain(`${machine.at('.config/systemd/user/ccc.service')}: service (parley service)`);
    const [goes = '', stays = ''] = said.split('Only with --purge:');
    expect(goes).toContain(`  ${machine.bin}/parley-install.lock: lock of the installers (parley install)\n`);
    expect(stays).not.toContain('lock');
  });

  it('names the copies of settings that an uninstallation left', async () => {
    const machine = new InstallMachine().with({ '.claude/settings.json': '{"a": 1}' });
    await machine.does('parley', ['install', 'claude']);
    const copy = machine.at('.claude/settings.json.before-parley');
    expect(await machine.does('parley', ['self', 'list'])).toContain(`  ${copy}: `);
    const settings = machine.json('.claude/settings.json');
    machine.with({ '.claude/settings.json': JSON.stringify({ ...settings, a: 2 }, null, 2) });
    await machine.does('parley', ['install', '--uninstall']);
    const named = `  ${copy}: ${machine.at('.claude/settings.json')} as it was (an uninstallation left it)\n`;
    expect((await machine.does('parley', ['self', 'list'])).split('Yours to delete:\n')[1]).toBe(named);
    const { err } = await machine.run('parley', ['self', 'uninstall', '--purge', '--yes']);
    expect(err).toContain(`${copy} stays: ${machine.at('.claude/settings.json')} as it was; delete it yourself`);
  });

  it('names what c2c keeps running, and its uninstallation says that it stays', async () => {
    const { machine, types, parley } = await anInstalledMachine();
    const [loops, wires] = ['loops', 'wire-daemons'].map((name) => machine.at(`.local/share/c2c/${name}`));
    machine.with({ '.local/share/c2c/loops/s.json': '{}', '.local/share/c2c/wire-daemons/s.log': '' });
    const said = await types([parley, 'self', 'list']);
    for (const path of [loops, wires]) expect(said).toContain(`  ${path}: what c2c keeps running (c2c)\n`);
    const gone = await types([parley, 'self', 'uninstall', '--purge', '--yes']);
    for (const path of [loops, wires]) expect(gone).toContain(`${path} stays: what c2c keeps running; delete it`);
  });
});

describe('`parley self uninstall` after every installer', () => {
  it('leaves nothing with --purge but what it names', async () => {
    const { machine, before, types, parley } = await anInstalledMachine();
    const said = await types([parley, 'self', 'uninstall', '--purge', '--yes']);
    expect(left(machine, before, said)).toEqual([]);
    expect(existsSync(`${machine.bin}/parley-install.lock`)).toBe(false);
  });

  it('leaves no lock of the installers in the folder for temporary files either', async () => {
    const machine = new InstallMachine().with({ 'tmp/': '', '.claude/': '' });
    const env = { XDG_RUNTIME_DIR: '', TMPDIR: machine.at('tmp') };
    await machine.does('parley', ['install', 'claude'], { env });
    expect(readdirSync(machine.at('tmp')).filter((name) => name.startsWith('parley-'))).toHaveLength(1);
    await machine.does('parley', ['install', '--uninstall'], { env });
    expect(readdirSync(machine.at('tmp')).filter((name) => name.startsWith('parley-'))).toEqual([]);
  });

  it('leaves nothing without --purge but mail and settings, and names those', async () => {
    const { machine, before, types, parley } = await anInstalledMachine();
    const said = await types([parley, 'self', 'uninstall', '--yes']);
    expect(left(machine, before, said)).toEqual([]);
    expect(existsSync(machine.at('.parley/ledger.db'))).toBe(true);
  });
});

/** What is new or changed in the home and not named, nor below a folder that is named. */
function left(machine: InstallMachine, before: Record<string, string>, said: string): string[] {
  const after = machine.snapshot();
  const differs = Object.keys({ ...before, ...after }).filter((path) => before[path] !== after[path]);
  const named = [...said.matchAll(/^(\S+) stays\b/gm)].map(([, path = '']) => path);
  const isNamed = (path: string): boolean => named.some((one) => one === path || path.startsWith(`${one}/`));
  return differs.filter((path) => !isNamed(machine.at(path)));
}
