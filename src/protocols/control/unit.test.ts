import { describe, expect, it } from 'bun:test';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { temporaryHome } from '../../../test/support/home.ts';
import { unitParts, servicePath, unitFor, writerOf } from './unit.ts';
import { lingers, UserService } from './systemd-service.ts';

const env = { HOME: '/home/me', PATH: '/usr/bin', LANG: 'en_US.UTF-8', ANTHROPIC_API_KEY: 'secret' };

/** A program with everything in its path that a unit file gives a meaning to. */
function anOddProgram(): string {
  const folder = `${temporaryHome()}/100% my; $HOME é`;
  mkdirSync(folder);
  writeFileSync(`${folder}/parley`, '#!/bin/sh\n');
  chmodSync(`${folder}/parley`, 0o755);
  return `${folder}/parley`;
}

describe('the unit', () => {
  it('starts the server at log-in, again after a failure, and ends it alone [CCC-8, CCC-10]', () => {
    const { path, text } = unitFor('/opt/parley', env, 'linux');
    expect(path).toBe('/home/me/.config/systemd/user/ccc.service');
    expect(text.split('\n')).toEqual(
      expect.arrayContaining([
        'ExecStart="/opt/parley" ccc listen',
        'KillMode=process',
        'Restart=on-failure',
        'WantedBy=default.target',
      ]),
    );
  });

  const analyze = Bun.which('systemd-analyze');
  const why = analyze === null ? ' (skipped: systemd-analyze is not here)' : '';
  it.skipIf(analyze === null)(`is valid for systemd, or refused${why} [CCC-8]`, () => {
    const home = temporaryHome();
    const program = anOddProgram();
    const verified = (text: string): string => {
      writeFileSync(`${home}/ccc.service`, text);
      const { stdout, stderr } = Bun.spawnSync([analyze ?? '', '--user', 'verify', `${home}/ccc.service`], {
        env: { HOME: home, XDG_RUNTIME_DIR: home, PATH: '/usr/bin:/bin' },
      });
      return `${stdout.toString()}${stderr.toString()}`;
    };
    const { text } = unitFor(program, { ...env, HOME: home, TMUX_TMPDIR: '/a "b" 5%' }, 'linux');
    expect(verified(text)).toBe('');
    expect(unitParts(text).program).toBe(program);
    expect(() => unitFor('/opt/a "b"/parley', env, 'linux')).toThrow('a quote or a backslash in its path');
    // The check is one that can fail.
    expect(verified(text.replace('KillMode=process', 'KillMode=sometimes'))).toContain('kill mode');
    expect(verified(text.replace('/parley"', '/gone"'))).toContain('gone');
  });

  it('carries what says where things are, and no secret', () => {
    const { text } = unitFor('/opt/parley', { ...env, CLAUDE_CONFIG_DIR: '/x y' }, 'linux');
    expect(text).toContain('Environment="CLAUDE_CONFIG_DIR=/x y"\n');
    expect(text).toContain('Environment="LANG=en_US.UTF-8"\n');
    expect(text).not.toContain('secret');
  });

  it('is ours until a person changes a letter of it', () => {
    for (const platform of ['linux', 'darwin'] as const) {
      const { text } = unitFor('/opt/parley', env, platform);
      expect(writerOf(text)).toBe('ours');
      expect(writerOf(text.replace('/opt/', '/opt2/'))).toBe('changed');
    }
    expect(writerOf('[Service]\nExecStart=/usr/bin/ccc listen\n')).toBe('foreign');
    expect(writerOf('')).toBe('foreign');
  });

  const python = Bun.which('python3');
  const noPython = python === null ? ' (skipped: python3 is not here)' : '';
  it.skipIf(python === null)(`of a Mac is a property list, which leaves the sessions alive${noPython}`, () => {
    const { path, text } = unitFor('/opt/a & b/parley', env, 'darwin');
    expect(path).toBe('/home/me/Library/LaunchAgents/parley.ccc.plist');
    const read = 'import json,plistlib,sys; json.dump(plistlib.load(sys.stdin.buffer), sys.stdout)';
    const { stdout } = Bun.spawnSync([python ?? '', '-c', read], { stdin: new Blob([text]) });
    expect(JSON.parse(stdout.toString())).toMatchObject({
      ProgramArguments: ['/opt/a & b/parley', 'ccc', 'listen'],
      KeepAlive: { SuccessfulExit: false },
      AbandonProcessGroup: true,
    });
  });
});

it('on a Mac the file is written, and the rest is said [CCC-8]', async () => {
  const env = { HOME: temporaryHome(), PATH: '/nowhere' };
  const service = new UserService(env, 'darwin');
  const report = await service.install(false);
  expect(report?.notes.at(-1)).toBe(
    `not tested on a Mac; to start it: launchctl bootstrap gui/$(id -u) ${service.path}`,
  );
  expect(service.file).toBe('ours');
  service.uninstall(false);
  expect(service.file).toBe('missing');
});

describe('the search path of the service', () => {
  it('is that of the shell without what ends with it, each folder once [CCC-199]', () => {
    const home = temporaryHome();
    const lasting = `${home}/.nvm/bin`;
    const passing = [`${home}/_npx/1/bin`, `${home}/project/node_modules/.bin`, temporaryHome()];
    for (const folder of [lasting, ...passing]) mkdirSync(folder, { recursive: true });
    const path = [lasting, ...passing, 'relative', '', `${home}/gone`, lasting, '/usr/bin'].join(':');
    expect(servicePath({ HOME: home, PATH: path })).toBe(`${lasting}:/usr/bin:/usr/local/bin:/bin`);
  });

  it('follows the link of a shell to a folder that stays [CCC-199]', () => {
    const home = temporaryHome();
    const link = `${temporaryHome()}/shell-17`;
    mkdirSync(`${home}/node/bin`, { recursive: true });
    symlinkSync(`${home}/node`, link);
    expect(servicePath({ HOME: home, PATH: `${link}/bin` })).toStartWith(`${home}/node/bin:`);
  });
});

it('lingering is on for a user who has a file for it [CCC-11]', () => {
  const folder = temporaryHome();
  expect(lingers(folder)).toBe(false);
  writeFileSync(`${folder}/${userInfo().username}`, '');
  expect(lingers(folder)).toBe(true);
});
