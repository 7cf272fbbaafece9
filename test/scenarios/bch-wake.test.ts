import { describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { wakeService } from '../../src/protocols/backchannel/wake.ts';
import { until } from '../support/bch.ts';
import { setUp, SetupMachine } from '../support/setup-home.ts';
import { PARLEY } from '../support/program.ts';

describe('the wake service', () => {
  it('is a systemd user unit that notifies of urgent mail and claims nothing [BC-B9.11]', async () => {
    const { machine, said } = await setUp({}, ['--wake', '--no-hooks']);
    const unit = machine.at('.config/systemd/user/parley-wake.service');
    expect(said).toBe(
      `[wake] ${unit} tells you of urgent mail from now on, by: notify-send -- "bch: {{from}}" "{{body}}"\n`,
    );
    expect(machine.called).toEqual([
      'systemctl --user daemon-reload',
      'systemctl --user enable --now parley-wake.service',
    ]);
    expect(machine.read('.config/systemd/user/parley-wake.service')).toContain(
      `ExecStart="${PARLEY}" "bch" "watch" "--urgent-only" "--peek" "--exec" "notify-send -- \\"bch: {{from}}\\" \\"{{body}}\\""\n`,
    );
    // The command line of the unit, as systemd reads it.
    const [, line = ''] = /^ExecStart=(.*)$/m.exec(machine.read('.config/systemd/user/parley-wake.service')) ?? [];
    const words = [...line.matchAll(/"((?:\\.|[^"\\])*)"/g)].map(([, word = '']) => word.replaceAll(/\\(.)/g, '$1'));
    const notified = `${machine.bin}/notified`;
    machine.fake('notify-send', `printf '%s|' "$@" >> '${notified}'`);
    machine.leave('me', { body: 'calm' });
    machine.leave('me', { body: '$(touch x) "now"', priority: 'urgent' });
    const env = machine.env({ as: 'me' });
    const service = Bun.spawn(words, { env, cwd: machine.at(''), stdout: 'ignore', stderr: 'ignore' });
    await until('a notice', () => existsSync(notified) && readFileSync(notified, 'utf8').endsWith('"now"|'));
    service.kill();
    await service.exited;
    expect(readFileSync(notified, 'utf8')).toBe('--|bch: script|$(touch x) "now"|');
    expect(machine.files('me', 'new')).toHaveLength(2);
    expect(existsSync(machine.at('x'))).toBe(false);
  });

  it('is a launchd agent on macOS, which logs to ~/.backchannel/wake.log [BC-B3.15, BC-B9.11, BC-B9.12]', () => {
    const own = { program: '/opt/a & b/parley', words: ['bch'] };
    const { step, start, others } = wakeService('darwin', '/Users/me', own, { BACKCHANNEL_AGENT: 'me' }) ?? {};
    expect(step?.path).toBe('/Users/me/Library/LaunchAgents/parley-wake.plist');
    expect(start).toEqual([['launchctl', 'load', '/Users/me/Library/LaunchAgents/parley-wake.plist']]);
    expect(others).toEqual(['/Users/me/Library/LaunchAgents/ai.unisonlabs.backchannel.wake.plist']);
    const text = step?.content.format === 'whole' ? step.content.text : '';
    const strings = [...text.matchAll(/<string>([^<]*)<\/string>/g)].map(([, one]) => one);
    expect(strings.slice(0, 7)).toEqual([
      'parley-wake',
      '/opt/a &amp; b/parley',
      'bch',
      'watch',
      '--urgent-only',
      '--peek',
      '--exec',
    ]);
    expect(strings[7]).toStartWith("osascript -e 'on run argv' -e 'display notification (item 2 of argv)");
    expect(text).toContain('<key>StandardOutPath</key>\n  <string>/Users/me/.backchannel/wake.log</string>');
    expect(text).toContain('<key>StandardErrorPath</key>\n  <string>/Users/me/.backchannel/wake.log</string>');
    expect(text).toContain('<key>BACKCHANNEL_AGENT</key><string>me</string>');
  });

  it('is not installed beside the one of the established program [BC-B9.12]', async () => {
    const theirs = { '.config/systemd/user/backchannel-wake.service': '[Unit]\n' };
    const { machine, said } = await setUp(theirs, ['--wake', '--no-hooks']);
    expect(said).toMatch(/^\[wake\] one that does the same is already installed \(.*backchannel-wake\.service\)\n$/);
    expect(readdirSync(machine.at('.config/systemd/user'))).toEqual(['backchannel-wake.service']);
    expect(machine.called).toEqual([]);
  });

  it('says what to do by hand where it cannot be started', async () => {
    const machine = new SetupMachine().fake('systemctl', 'exit 1');
    expect(await machine.said(['setup', '--wake', '--no-hooks'], { as: 'me' })).toMatch(
      /^\[wake\] \S+ is written, and could not be started here; to start it: systemctl --user enable --now parley-wake\n$/,
    );
  });

  it('has no token in its file, whatever the environment holds', async () => {
    const machine = new SetupMachine();
    const env = { BACKCHANNEL_TOKEN: 'secret-token', BACKCHANNEL_HOME: machine.at('50% $HOME') };
    await machine.said(['setup', '--wake', '--no-hooks'], { as: 'me', env });
    const unit = machine.read('.config/systemd/user/parley-wake.service');
    expect(unit).not.toContain('secret-token');
    expect(unit).toContain('50%% $$HOME');
    expect(unit).toContain('Environment="BACKCHANNEL_AGENT=me"\n');
  });
});
