import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { COMMON } from '../src/cli/parley.ts';
import { parseArguments } from '../src/core/command.ts';
import { commands } from '../src/cli/commands/relay.ts';
import { temporaryHome } from './support/home.ts';

const root = new URL('..', import.meta.url).pathname;
const unit = readFileSync(`${root}deploy/parley-relay.service`, 'utf8');
const dockerfile = readFileSync(`${root}deploy/Dockerfile`, 'utf8');

const analyze = Bun.which('systemd-analyze');
const withSystemd = analyze ? it : it.skip;

/** The words that a relay is started with there must be words that it knows. */
function isUnderstood(words: string[]): boolean {
  const [program, command, ...rest] = words;
  expect([program?.split('/').at(-1), command]).toEqual(['parley', 'relay']);
  return parseArguments({ ...commands.relay.options, ...COMMON }, rest).words.length === 0;
}

describe('the systemd unit', () => {
  it('starts a relay with options that exist', () => {
    const [, start = ''] = /^ExecStart=(.+)$/m.exec(unit) ?? [];
    expect(isUnderstood(start.split(' '))).toBe(true);
  });

  withSystemd(`is understood by systemd${analyze ? '' : ' (skipped: no systemd-analyze here)'}`, () => {
    // The program that it names need not be installed here.
    const file = `${temporaryHome()}/parley-relay.service`;
    writeFileSync(file, unit.replace('/usr/local/bin/parley', process.execPath));
    const { exitCode, stderr } = Bun.spawnSync(['systemd-analyze', 'verify', file]);
    const about = stderr
      .toString()
      .split('\n')
      .filter((line) => line.includes('parley-relay'));
    expect({ exitCode, about }).toEqual({ exitCode: 0, about: [] });
  });

  withSystemd(`leaves little open${analyze ? '' : ' (skipped: no systemd-analyze here)'}`, () => {
    const { stdout } = Bun.spawnSync([
      'systemd-analyze',
      'security',
      '--offline=true',
      `${root}deploy/parley-relay.service`,
    ]);
    const [, exposure] = /exposure level for parley-relay\.service: ([\d.]+)/.exec(stdout.toString()) ?? [];
    expect(Number(exposure)).toBeLessThan(2);
  });
});

// There is no Docker where these tests run: the file is read, not built.
describe('the Dockerfile', () => {
  const lines = dockerfile.replaceAll('\\\n', ' ').split('\n');
  const steps = lines.filter((line) => /^[A-Z]/.test(line)).map((line) => line.split(/\s+/));
  const last = (name: string): string[] => steps.findLast(([step]) => step === name) ?? [];

  it('has only steps that Docker knows', () => {
    const known = [
      'FROM',
      'WORKDIR',
      'COPY',
      'RUN',
      'USER',
      'ENV',
      'VOLUME',
      'EXPOSE',
      'HEALTHCHECK',
      'STOPSIGNAL',
      'ENTRYPOINT',
    ];
    expect(steps.map(([step = '']) => step).filter((step) => !known.includes(step))).toEqual([]);
    expect(steps[0]?.[0]).toBe('FROM');
  });

  it('copies only what is there, and builds by a script that exists', () => {
    const copied = steps
      .filter(([step, from]) => step === 'COPY' && !from?.startsWith('--from'))
      .flatMap((step) => step.slice(1, -1));
    expect(copied.filter((path) => !existsSync(`${root}${path}`))).toEqual([]);
    const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { scripts: Record<string, string> };
    for (const [, script = ''] of dockerfile.matchAll(/npm run (\w+)/g)) expect(scripts).toHaveProperty(script);
  });

  it('runs as somebody who is not root, with its mail in a volume of its own', () => {
    expect(Number(last('USER')[1])).toBeGreaterThan(0);
    expect(dockerfile).toContain(`BACKCHANNEL_HOME=${last('VOLUME')[1]}`);
  });

  it('starts a relay with options that exist', () => {
    expect(isUnderstood(JSON.parse(last('ENTRYPOINT').slice(1).join(' ')) as string[])).toBe(true);
  });
});
