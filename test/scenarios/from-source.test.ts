// The program from its sources, as npm installs it. All other tests start the compiled one.
import { describe, expect, it } from 'bun:test';
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { version } from '../../package.json' with { type: 'json' };
import { until } from '../support/bch.ts';
import { Caller } from '../support/caller.ts';
import { Program } from '../support/program.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
const LAUNCHER = `${ROOT}bin/parley`;

function aHome(extra: Record<string, string> = {}) {
  const { home, env } = new Program(undefined, extra);
  const start = (program: string, ...args: string[]) => {
    const { exitCode, stdout, stderr } = Bun.spawnSync([program, ...args], { cwd: home, env });
    return { code: exitCode, out: stdout.toString(), err: stderr.toString() };
  };
  return { home, start, run: (...args: string[]) => start(LAUNCHER, ...args) };
}

describe('from source the program', () => {
  it('says that it is not compiled', () => {
    const { run } = aHome();
    expect(run('--version').out).toBe(`parley ${version} (Bun ${Bun.version}, ledger format 5, from source)\n`);
    expect(JSON.parse(run('version', '--json').out)).toMatchObject({ version, compiled: false });
  });

  it('says how to make the one that can install itself', () => {
    const refused = aHome().run('self', 'install');
    expect(refused).toMatchObject({ code: 64, out: '' });
    expect(refused.err).toContain('npm run build');
  });

  it('says how npm removes it, after it was taken out of the clients', () => {
    const { home, run, start } = aHome();
    const folder = `${home}/lib/node_modules/parley-mail`;
    for (const name of ['bin', 'src', 'plugins', 'package.json', 'SKILL.md'])
      cpSync(`${ROOT}${name}`, `${folder}/${name}`, { recursive: true });
    symlinkSync(`${ROOT}node_modules`, `${folder}/node_modules`);
    run('init', 'alice');
    const { code, err } = start(`${folder}/bin/parley`, 'self', 'uninstall', '--purge', '--yes');
    expect(err).toBe('the program itself stays; remove it with: npm uninstall -g parley-mail\n');
    expect(code).toBe(0);
  });

  it('is started by its launcher in a client that it was installed in', () => {
    const { home, run } = aHome({ TMPDIR: '/nowhere' });
    expect(run('install', 'claude').code).toBe(0);
    const settings = JSON.parse(readFileSync(`${home}/.claude.json`, 'utf8')) as object;
    expect(settings).toMatchObject({ mcpServers: { parley: { command: LAUNCHER } } });
  });

  it('runs the demo from send to settled', () => {
    const demo = aHome().run('demo');
    expect(demo.code).toBe(0);
    expect(demo.out).toContain('responded, reply ');
  });

  it('speaks the other dialects by a first word', () => {
    const { run } = aHome();
    for (const name of ['bch', 'c2c']) expect(run(name, '--help')).toMatchObject({ code: 0, err: '' });
  });

  it('serves as a relay: it finds the worker beside it', async () => {
    const { home, run } = aHome();
    expect(run('up', '--with', 'relay', '--port', '0', '--detach').err).toBe('');
    const daemon = JSON.parse(readFileSync(`${home}/.parley/daemon.json`, 'utf8')) as { doors: { address: string }[] };
    const alice = await Caller.register(daemon.doors[0]?.address ?? '', 'alice');
    const { id } = await alice.send('@alice', 'hello');
    await until('its file', () => existsSync(`${home}/.backchannel/spool/alice/new/${id}.json`));
    expect(run('down').code).toBe(0);
  });
});
