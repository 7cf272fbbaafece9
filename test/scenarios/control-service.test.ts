import { afterEach, describe, expect, it } from 'bun:test';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { version } from '../../package.json';
import { isProcessAlive } from '../../src/platform/process.ts';
import { PARLEY } from '../support/program.ts';
import { ServiceRig } from '../support/service-rig.ts';
import { temporaryHome } from '../support/home.ts';

const ROOT = new URL('../..', import.meta.url).pathname;

const rigs: ServiceRig[] = [];
function aRig(...args: ConstructorParameters<typeof ServiceRig>): ServiceRig {
  const rig = new ServiceRig(...args);
  rigs.push(rig);
  return rig;
}
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

const ENABLED = ['systemctl --user daemon-reload', 'systemctl --user enable --now ccc.service'];

const WRITTEN_BY_HAND = '[Service]\nExecStart=/usr/bin/my-own-ccc listen\n';

function writeByHand({ unit }: ServiceRig): void {
  mkdirSync(unit.slice(0, unit.lastIndexOf('/')), { recursive: true });
  writeFileSync(unit, WRITTEN_BY_HAND);
}

describe('ccc install-service', () => {
  it('writes a unit, starts it, and the server answers; uninstall-service leaves no trace of it [CCC-8, CCC-199]', async () => {
    const rig = aRig();
    const installed = await rig.person(['ccc', 'install-service']);
    expect(installed).toMatchObject({
      code: 0,
      out: expect.stringContaining(`wrote ${rig.unit}\nstarted the service`),
    });
    expect(rig.calls()).toEqual(ENABLED);
    expect(statSync(rig.unit).mode & 0o777).toBe(0o644);
    const text = readFileSync(rig.unit, 'utf8');
    expect(text).toContain(`\nExecStart="${PARLEY}" ccc listen\n`);
    expect(await rig.request({ cmd: 'ping' })).toMatchObject({ ok: true, version });
    const removed = await rig.person(['ccc', 'uninstall-service']);
    expect(removed).toMatchObject({ code: 0, err: '' });
    expect(rig.calls()).toEqual(['systemctl --user disable --now ccc.service', 'systemctl --user daemon-reload']);
    expect(existsSync(`${rig.home}/.config/systemd`)).toBe(false);
    expect(existsSync(rig.socket)).toBe(false);
    expect((await rig.person(['ccc', 'uninstall-service'])).err).toContain('no service is installed');
  });

  it('is `parley service install`, too, and twice is as good as once [CCC-8]', async () => {
    const rig = aRig();
    await rig.person(['service', 'install']);
    const pid = rig.servicePid;
    const text = readFileSync(rig.unit, 'utf8');
    rig.calls();
    const again = await rig.person(['service', 'install']);
    const hook = `hook for dialogs is in ${rig.home}/.claude/settings.json\n`;
    expect(again).toMatchObject({ code: 0, out: `${rig.unit} is up to date\nthe service runs\n${hook}` });
    expect([rig.calls(), rig.servicePid, readFileSync(rig.unit, 'utf8')]).toEqual([[], pid, text]);
  });

  it('adds the hook for dialogs to Claude Code, and uninstall takes it out, also if the unit is another one by then [CCC-199]', async () => {
    const rig = aRig();
    const file = `${rig.home}/.claude/settings.json`;
    writeFileSync(file, '{}\n');
    expect((await rig.person(['service', 'install'])).out).toContain(`hook for dialogs added to ${file}\n`);
    expect(readFileSync(file, 'utf8')).toContain('ccc dialog');
    writeByHand(rig);
    const refused = await rig.person(['service', 'uninstall']);
    expect(refused).toMatchObject({ code: 73, out: `hook for dialogs removed from ${file}\n` });
    expect([readFileSync(file, 'utf8'), readFileSync(rig.unit, 'utf8')]).toEqual(['{}\n', WRITTEN_BY_HAND]);
  });

  it('starts the copy that npm installed, or the source, in the same way [CCC-8, CCC-12]', async () => {
    const rig = aRig();
    await rig.person(['service', 'install'], {}, `${ROOT}bin/parley`);
    expect(readFileSync(rig.unit, 'utf8')).toContain(`\nExecStart="${ROOT}bin/parley" ccc listen\n`);
    expect(await rig.request({ cmd: 'ping' })).toMatchObject({ ok: true, version });
    const before = rig.servicePid;
    const upgraded = await rig.person(['service', 'restart', '--if-active'], {}, `${ROOT}bin/parley`);
    expect([upgraded.code, rig.servicePid === before]).toEqual([0, false]);
  });

  it('says how to keep it after the log-out, and never does that itself [CCC-11, CCC-199]', async () => {
    const rig = aRig();
    const { err } = await rig.person(['ccc', 'install-service']);
    expect(err).toMatch(/end when you log out; to keep them: loginctl enable-linger \$USER\n/);
    expect(rig.calls().filter((call) => /^(loginctl|sudo)/.test(call))).toEqual([]);
    expect((await rig.person(['doctor'])).out).toMatch(/^warn +service +lingering is off.*loginctl enable-linger/m);
  });

  it('shows a unit that a person wrote and leaves it alone; --force keeps it, and uninstall brings it back [CCC-199]', async () => {
    const rig = aRig();
    writeByHand(rig);
    const refused = await rig.person(['ccc', 'install-service']);
    expect(refused).toMatchObject({ code: 1, out: WRITTEN_BY_HAND, err: expect.stringContaining('left alone') });
    expect((await rig.person(['ccc', 'uninstall-service'])).code).toBe(1);
    expect([readFileSync(rig.unit, 'utf8'), rig.calls()]).toEqual([WRITTEN_BY_HAND, []]);
    expect((await rig.person(['ccc', 'install-service', '--force'])).code).toBe(0);
    expect((await rig.request({ cmd: 'ping' })).ok).toBe(true);
    expect((await rig.person(['ccc', 'uninstall-service'])).out).toContain(`restored ${rig.unit}`);
    expect(readFileSync(rig.unit, 'utf8')).toBe(WRITTEN_BY_HAND);
    expect(readdirSync(`${rig.home}/.config/systemd/user`).filter((name) => name.startsWith('ccc'))).toEqual([
      'ccc.service',
    ]);
  });

  it('leaves alone a unit of ours that a person changed [CCC-199]', async () => {
    const rig = aRig();
    await rig.person(['ccc', 'install-service']);
    const changed = readFileSync(rig.unit, 'utf8').replace('RestartSec=5', 'RestartSec=60');
    writeFileSync(rig.unit, changed);
    for (const verb of ['install-service', 'uninstall-service']) {
      const refused = await rig.person(['ccc', verb]);
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('was changed by hand')]);
    }
    expect(readFileSync(rig.unit, 'utf8')).toBe(changed);
    expect((await rig.person(['ccc', 'uninstall-service', '--force'])).code).toBe(0);
  });

  it.each([
    [
      'no systemd answers',
      (rig: ServiceRig) => rig.bus(false),
      /does not answer \(Failed to connect to bus.*enable --now ccc/,
    ],
    [
      'systemd reads the unit of another home',
      (rig: ServiceRig) => rig.readsOther('/home/other/ccc.service'),
      /systemd reads \/home\/other\/ccc\.service instead/,
    ],
  ])('writes the unit and says what is left to do where %s [CCC-8]', async (_case, make, said) => {
    const rig = aRig();
    make(rig);
    const { code, err } = await rig.person(['ccc', 'install-service']);
    expect([code, err]).toEqual([0, expect.stringMatching(said)]);
    expect(err).toContain('loginctl enable-linger');
    expect(existsSync(rig.unit)).toBe(true);
    expect(rig.calls().filter((call) => call.includes('able'))).toEqual([]);
    const status = await rig.person(['service', 'status']);
    expect([status.code, status.out]).toEqual([3, expect.stringMatching(/^service +unknown: system/m)]);
    expect((await rig.person(['ccc', 'uninstall-service'])).code).toBe(0);
    expect(existsSync(rig.unit)).toBe(false);
  });

  it('starts what was written earlier, when no systemd answered [CCC-8]', async () => {
    const rig = aRig();
    rig.bus(false);
    await rig.person(['ccc', 'install-service']);
    rig.bus(true);
    rig.calls();
    expect((await rig.person(['ccc', 'install-service'])).code).toBe(0);
    expect(rig.calls()).toEqual(ENABLED);
    expect((await rig.request({ cmd: 'ping' })).ok).toBe(true);
  });

  it('starts no second server beside one that runs', async () => {
    const rig = await aRig().listen();
    const { code, err } = await rig.person(['ccc', 'install-service']);
    expect([code, err]).toEqual([0, expect.stringContaining(`runs already (pid ${rig.server?.pid})`)]);
    expect(rig.calls()).toEqual([ENABLED[0] ?? '', 'systemctl --user enable ccc.service']);
  });

  it('names what the service would not find [CCC-199]', async () => {
    const rig = aRig({ api: { client: 'codex' } }, { command: { codex: 'no-such-codex' } });
    const { err } = await rig.person(['ccc', 'install-service']);
    expect(err).toContain('the service will not find no-such-codex');
    expect(err).not.toContain('tmux;');
    expect((await rig.person(['doctor'])).out).toMatch(/^bad +service +the service will not find no-such-codex/m);
  });

  it('is not for models', async () => {
    const rig = aRig();
    for (const words of [
      ['ccc', 'install-service'],
      ['ccc', 'setup', '--yes'],
      ['service', 'uninstall'],
    ]) {
      const refused = await rig.person(words, { CLAUDECODE: '1' });
      expect([refused.code > 0, refused.err]).toEqual([true, expect.stringContaining('Only the user can')]);
    }
    expect([existsSync(rig.unit), rig.calls()]).toEqual([false, []]);
  });
});

describe('the service', () => {
  it('has status, logs and restart, and sessions live on over a restart and a stop [CCC-10]', async () => {
    const rig = aRig();
    expect((await rig.person(['service', 'status'])).out).toContain('not installed');
    await rig.person(['service', 'install']);
    expect((await rig.ask('api', 'hello'))['response']).toBe('re: hello');
    const [client] = rig.claude.running();
    const before = rig.servicePid;
    const status = await rig.person(['service', 'status']);
    expect(status).toMatchObject({ code: 0, out: expect.stringContaining(`active (pid ${before}), starts at log-in`) });
    expect((await rig.person(['service', 'restart'])).out).toContain('restarted the service; it answers');
    expect(rig.servicePid).not.toBe(before);
    expect((await rig.ask('api', 'again'))['response']).toBe('re: again');
    expect(isProcessAlive(client?.pid ?? 0)).toBe(true);
    rig.calls();
    await rig.person(['service', 'logs', '--lines', '20']);
    expect(rig.calls()).toEqual(['journalctl --user -u ccc -n 20 --no-pager']);
    await rig.person(['service', 'uninstall']);
    expect(rig.claude.running().map(({ pid }) => pid)).toEqual([client?.pid ?? 0]);
    expect((await rig.person(['service', 'status'])).code).toBe(3);
  });

  it('is in doctor: active, or what is wrong with it', async () => {
    const rig = aRig();
    expect((await rig.person(['doctor'])).out).not.toContain('service');
    await rig.person(['service', 'install']);
    expect((await rig.person(['doctor'])).out).toMatch(/^ok +service +active \(pid \d+\), starts at log-in/m);
    rig.fails();
    const doctor = await rig.person(['doctor']);
    expect(doctor.out).toMatch(/^bad +service +.*ccc\.service is installed and failed → .parley service logs/m);
  });

  it.each([
    ['restart', /^restarted the service; it answers/m],
    ['install', /^started the service; it answers/m],
  ])('that failed too often is started again by `service %s`', async (verb, said) => {
    const rig = aRig();
    await rig.person(['service', 'install']);
    rig.fails();
    const { code, out } = await rig.person(['service', verb]);
    expect([code, out]).toEqual([0, expect.stringMatching(said)]);
  });

  const make = Bun.which('make');
  it.skipIf(make === null)(
    'is restarted by `make install`, with the new version, and after an upgrade by npm; sessions live on [CCC-12]',
    async () => {
      const rig = aRig({ api: {}, web: {} });
      const bin = `${rig.home}/.local/bin`;
      await rig.program([PARLEY, 'self', 'install', '--dir', bin], { env: rig.env });
      await rig.person(['ccc', 'install-service'], {}, `${bin}/parley`);
      expect((await rig.request({ cmd: 'ping' }))['version']).toBe(version);
      for (const name of ['api', 'web']) await rig.ask(name, 'hello');
      const clients = rig.claude.running().map(({ pid }) => pid);
      const newer = aProject('99.0.0');
      const made = await rig.program([make ?? '', '-C', newer, 'install', `DIR=${bin}`, 'NAMES=ccc'], { env: rig.env });
      expect([made.code, made.out]).toEqual([0, expect.stringContaining('restarted the service; it answers')]);
      expect((await rig.request({ cmd: 'ping' }))['version']).toBe('99.0.0');
      expect((await rig.program([`${bin}/ccc`, '--version'])).out).toBe('ccc 99.0.0\n');
      const before = rig.servicePid;
      // What npm upgraded is restarted by this.
      expect((await rig.program([`${bin}/parley`, 'service', 'restart', '--if-active'], { env: rig.env })).code).toBe(
        0,
      );
      expect(rig.servicePid).not.toBe(before);
      const doctor = await rig.person(['doctor']);
      expect(doctor.out).toMatch(/^ok +service +active/m);
      expect(doctor.out).toContain(`the server runs 99.0.0, this is ${version} → \`parley service restart\``);
      expect((await rig.ask('api', 'again'))['response']).toBe('re: again');
      expect(rig.claude.running().map(({ pid }) => pid)).toEqual(clients);
    },
  );

  it('is not restarted where it is not installed or does not run', async () => {
    const rig = aRig();
    const quiet = await rig.person(['service', 'restart', '--if-active']);
    expect([quiet, rig.calls()]).toEqual([expect.objectContaining({ code: 0, out: '', err: '' }), []]);
    expect((await rig.person(['service', 'restart'])).err).toContain('no service is installed');
  });
});

/** This project under another version, ready to be built. */
function aProject(newVersion: string): string {
  const folder = temporaryHome();
  for (const name of [
    'src',
    'plugins',
    'scripts',
    'Makefile',
    'SKILL.md',
    'package.json',
    'package-lock.json',
    'tsconfig.json',
  ])
    cpSync(`${ROOT}${name}`, `${folder}/${name}`, { recursive: true });
  symlinkSync(`${ROOT}node_modules`, `${folder}/node_modules`);
  const described = readFileSync(`${folder}/package.json`, 'utf8');
  writeFileSync(`${folder}/package.json`, described.replace(`"version": "${version}"`, `"version": "${newVersion}"`));
  return folder;
}

describe('ccc setup', () => {
  const settings = {
    hosts: { msi: { address: 'me@msi' } },
    projects_dir: '/somewhere',
    of_a_later_version: { kept: [1, 2] },
  };

  it('keeps sessions, hosts and unknown keys, installs the service, and changes nothing the second time [CCC-198, CCC-9]', async () => {
    const rig = aRig({ api: { topic_id: 7, also: 'kept' } }, settings);
    const before = JSON.parse(readFileSync(`${rig.home}/.ccc.json`, 'utf8')) as object;
    const done = await rig.script(['ccc', 'setup', '123456:ABC-def', '--yes']);
    expect(done.code).toBe(0);
    expect(done.out).toContain('(kept: 1 session, 1 host)');
    expect(done.out).toContain('the chat is not in this version');
    expect(done.out + done.err).not.toContain('ABC-def');
    const text = readFileSync(`${rig.home}/.ccc.json`, 'utf8');
    expect(JSON.parse(text)).toEqual({ ...before, bot_token: '123456:ABC-def' });
    expect(statSync(`${rig.home}/.ccc.json`).mode & 0o777).toBe(0o600);
    expect(rig.calls()).toEqual(ENABLED);
    expect((await rig.request({ cmd: 'ping' })).ok).toBe(true);
    const stamp = statSync(`${rig.home}/.ccc.json`).mtimeMs;
    const again = await rig.script(['ccc', 'setup', '123456:ABC-def', '--yes']);
    expect([again.code, rig.calls(), readFileSync(`${rig.home}/.ccc.json`, 'utf8')]).toEqual([0, [], text]);
    expect(statSync(`${rig.home}/.ccc.json`).mtimeMs).toBe(stamp);
  });

  it('adds the hook that answers dialogs to Claude Code, keeps its settings, and takes it out with the service [CCC-198]', async () => {
    const rig = aRig();
    const file = `${rig.home}/.claude/settings.json`;
    mkdirSync(`${rig.home}/.claude`, { recursive: true });
    const before = '{\n  // mine\n  "model": "opus"\n}\n';
    writeFileSync(file, before);
    expect((await rig.script(['ccc', 'setup', '--yes'])).out).toContain(`hook for dialogs added to ${file}\n`);
    const text = readFileSync(file, 'utf8');
    expect(text).toContain('// mine');
    expect(text).toContain(`if [ -x '${PARLEY}' ]; then exec '${PARLEY}' ccc dialog; fi`);
    expect((await rig.script(['ccc', 'setup', '--yes'])).out).toContain(`hook for dialogs is in ${file}\n`);
    expect(readFileSync(file, 'utf8')).toBe(text);
    expect((await rig.person(['ccc', 'uninstall-service'])).out).toContain(`hook for dialogs removed from ${file}`);
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  it('goes on where the settings of Claude Code cannot be read, and says so [CCC-198]', async () => {
    const rig = aRig();
    mkdirSync(`${rig.home}/.claude`, { recursive: true });
    writeFileSync(`${rig.home}/.claude/settings.json`, '{ broken');
    const done = await rig.script(['ccc', 'setup', '--yes']);
    expect([done.code, done.err]).toEqual([0, expect.stringContaining('settings.json')]);
    expect(readFileSync(`${rig.home}/.claude/settings.json`, 'utf8')).toBe('{ broken');
  });

  it.each([
    ['no', []],
    ['yes', ['--dangerously-skip-permissions']],
  ])('asks once before it skips permissions: %s [CCC-198]', async (typed, flags) => {
    const rig = aRig({});
    const asked = await rig.typed(['ccc', 'setup'], typed);
    expect([asked.code, asked.shown]).toEqual([0, expect.stringContaining('--dangerously-skip-permissions? ')]);
    expect(JSON.parse(readFileSync(`${rig.home}/.ccc.json`, 'utf8'))).toMatchObject({ flags: { claude: flags } });
    const again = await rig.typed(['ccc', 'setup'], 'yes');
    expect([again.code, again.shown]).toEqual([0, expect.not.stringContaining('Type yes')]);
    expect(JSON.parse(readFileSync(`${rig.home}/.ccc.json`, 'utf8'))).toMatchObject({ flags: { claude: flags } });
  });

  it('without a terminal needs --yes, and never skips permissions then [CCC-198]', async () => {
    const rig = aRig();
    const refused = await rig.script(['ccc', 'setup']);
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/no terminal, so it cannot ask you; add --yes/),
    ]);
    expect([existsSync(rig.unit), rig.calls()]).toEqual([false, []]);
    await rig.script(['ccc', 'setup', '--yes']);
    expect(readFileSync(`${rig.home}/.ccc.json`, 'utf8')).not.toContain('skip');
    // Nobody was asked, so a person still will be.
    expect((await rig.typed(['ccc', 'setup'], 'no')).shown).toContain('Type yes:');
  });

  it('leaves a unit that a person wrote alone and says so; a file that it cannot read stops it [CCC-198, CCC-199]', async () => {
    const rig = aRig();
    writeByHand(rig);
    const done = await rig.script(['ccc', 'setup', '--yes']);
    expect([done.code, done.err]).toEqual([0, expect.stringContaining('was not written by Parley; it was left alone')]);
    expect(readFileSync(rig.unit, 'utf8')).toBe(WRITTEN_BY_HAND);
    writeFileSync(`${rig.home}/.ccc.json`, '{"sessions":');
    const refused = await rig.script(['ccc', 'setup', '1:abc', '--yes']);
    expect([refused.code, readFileSync(`${rig.home}/.ccc.json`, 'utf8')]).toEqual([1, '{"sessions":']);
    expect((await rig.script(['ccc', 'setup', 'no token', '--yes'])).code).toBe(1);
  });
});

describe('parley self uninstall', () => {
  it('ends and removes the service, and keeps sessions and history until it is told to purge [CCC-199]', async () => {
    const rig = aRig();
    await rig.person(['ccc', 'install-service']);
    await rig.ask('api', 'hello');
    const clients = rig.claude.running().map(({ pid }) => pid);
    const done = await rig.script(['self', 'uninstall', '--yes']);
    expect(done).toMatchObject({ code: 0, out: expect.stringContaining(`removed ${rig.unit}`) });
    expect(done.err).toContain(`${rig.home}/.ccc.json stays`);
    expect([existsSync(rig.unit), existsSync(rig.socket)]).toEqual([false, false]);
    expect(readdirSync(`${rig.home}/.ccc`)).toEqual(['history']);
    expect(rig.claude.running().map(({ pid }) => pid)).toEqual(clients);
    const asked = await rig.script(['self', 'uninstall', '--purge']);
    expect([asked.code, asked.err]).toEqual([
      64,
      expect.stringContaining(`\n  ${rig.home}/.ccc.json\n  ${rig.home}/.ccc\n`),
    ]);
    const purged = await rig.script(['self', 'uninstall', '--purge', '--yes']);
    expect([purged.code, purged.out]).toEqual([0, expect.stringContaining(`removed ${rig.home}/.ccc\n`)]);
    expect(readdirSync(rig.home).filter((name) => name.startsWith('.ccc'))).toEqual([]);
  });

  it('does not purge below a server that somebody runs', async () => {
    const rig = await aRig().listen();
    const refused = await rig.script(['self', 'uninstall', '--purge', '--yes']);
    expect([refused.code, refused.err]).toEqual([75, expect.stringContaining(`runs (pid ${rig.server?.pid})`)]);
    expect(existsSync(`${rig.home}/.ccc.json`)).toBe(true);
  });
});
