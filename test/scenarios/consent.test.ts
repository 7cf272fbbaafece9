// What widens a client is asked for once, in plain words, and the answer is kept. What `parley run` asks is at the end.
import { describe, expect, it } from 'bun:test';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { InstallMachine } from '../support/install-home.ts';

const BYPASS = '--dangerously-skip-permissions';
const INBOUND = { crossSessionInbound: 'accept' };
const SETTINGS = '.claude/settings.json';

/** A home with Claude Code and Codex, and no other client on the search path. */
function aMachine(files: Record<string, string> = { '.claude/': '', '.codex/': '' }) {
  const machine = new InstallMachine().with(files);
  const env = { ...machine.env(), PATH: `${machine.bin}:/usr/bin:/bin` };
  const types = (args: string[], typed: string) =>
    machine.program.atTerminal(args, typed, { env, cwd: machine.at('project') });
  return { machine, types };
}

describe('what widens a client', () => {
  it('is asked for in one question with all changes, and each part is done only if it is named', async () => {
    const { machine, types } = aMachine();
    const { shown: lines } = await types(['install'], 'yes inbound');
    const shown = lines.replaceAll(/\n {13}/g, ' ');
    const [, asked = ''] = shown.split('Parley would make the changes above. What you may answer:\n');
    expect(
      asked
        .split('\n')
        .slice(0, 6)
        .map((line) => line.trim().slice(0, 24)),
    ).toEqual([
      'yes, or y: they are made',
      'yes reply inbound: they ',
      'reply    A model that an',
      'inbound  Claude Code in ',
      'Enter, or anything else:',
      'Make these changes? Type',
    ]);
    expect(shown.split('Type yes:')).toHaveLength(2);
    expect(shown).toContain('may stop at a permission dialog of Claude Code, Codex.');
    expect(shown).toContain('Claude Code in bypass mode asks you about each message before its model gets it.');
    expect(machine.json(SETTINGS)).toMatchObject(INBOUND);
    expect(machine.json(SETTINGS)).not.toHaveProperty('permissions');
  });

  it('is the only thing that `install` says about it, and its list of changes comes once', async () => {
    const { machine, types } = aMachine();
    const { shown } = await types(['install'], 'yes');
    expect(shown).not.toContain('--allow reply');
    expect(shown.match(/hook at SessionStart/g)).toHaveLength(2);
    expect(shown).toContain('Claude Code, as @claude: done');
    const { out } = await machine.run('parley', ['doctor']);
    expect(out).toContain('Claude Code asks you before its model answers mail, as you decided');
    expect(out).not.toContain('c2c');
  });

  it('is asked for once: a no is kept as well as a yes', async () => {
    const { machine, types } = aMachine();
    await types(['install'], 'yes');
    expect(machine.json('.parley/consents.json')).toEqual({
      claude: { reply: 'ask', inbound: 'ask' },
      codex: { reply: 'ask' },
    });
    const { shown } = await types(['install'], 'yes');
    expect(shown).not.toContain('yours to decide');
    expect(shown).toContain('Make these changes? yes, or y, makes them; Enter changes nothing. Type yes:');
    expect(machine.json(SETTINGS)).not.toHaveProperty('crossSessionInbound');
  });

  it('is asked for where one client is named, too, and anything but yes allows nothing', async () => {
    const { machine, types } = aMachine();
    const { shown } = await types(['install', 'claude'], 'sure');
    expect(shown).toContain(
      'Parley makes its changes in any case. You may also allow this; it is yours to decide:\n  reply  ',
    );
    expect(shown).toContain(
      '  yes reply inbound: what you name is allowed\n  Enter, or yes or y alone: nothing more is allowed\nAllow more? Type yes:',
    );
    expect(shown).toContain('Claude Code, as @claude:');
    expect(machine.json(SETTINGS)).not.toHaveProperty('crossSessionInbound');
    expect((await types(['install', 'claude'], 'yes inbound')).shown).not.toContain('Type yes:');
  });

  it('is not asked for again where the user wrote it into the settings', async () => {
    const own = '{"crossSessionInbound": "hold"}\n';
    const { machine, types } = aMachine({ [SETTINGS]: own });
    expect((await types(['install', 'claude'], 'yes')).shown).not.toContain('  inbound');
    await machine.userInstalls('claude', '--inbound', 'allow');
    expect(machine.json(SETTINGS)['crossSessionInbound']).toBe('hold');
  });

  it('is never done by --yes, without a terminal, or by a model', async () => {
    const { machine, types } = aMachine();
    expect((await types(['install', '--yes'], '')).shown).not.toContain('Type yes:');
    await machine.does('parley', ['install', 'claude', 'codex', '--yes']);
    await machine.does('parley', ['install', 'claude', 'codex']);
    expect(JSON.stringify(machine.outside)).not.toMatch(/crossSessionInbound|"permissions"|approval_mode/);
    const { err, code } = await machine.run('parley', ['install', 'claude', '--inbound', 'allow'], {
      env: { CLAUDECODE: '1' },
    });
    expect(err).toContain('Only the user can let messages in. A client started this process (CLAUDECODE is set)');
    expect(code).toBe(77);
  });

  it.each([
    ['--inbound', 'allow', 'let messages in'],
    ['--allow', 'reply', 'allow tools'],
    ['--allow', 'tools', 'allow tools'],
  ])('is never done without a terminal by %s %s, also where nothing shows that a model asks', async (...words) => {
    const { machine } = aMachine();
    const [option, word, what] = words;
    const { err, code } = await machine.run('parley', ['install', 'claude', option, word]);
    expect(err).toBe(`parley: Only the user can ${what}. This process has no terminal. Run it in your own terminal.\n`);
    expect(code).toBe(77);
    expect(JSON.stringify(machine.outside)).not.toContain('parley');
  });

  it('can be taken back without a terminal', async () => {
    const { machine } = aMachine();
    await machine.userInstalls('claude', '--allow', 'tools', '--inbound', 'allow');
    await machine.does('parley', ['install', 'claude', '--allow', 'none', '--inbound', 'ask']);
    expect(machine.read(SETTINGS)).not.toMatch(/crossSessionInbound|"permissions"/);
  });

  it('is asked for, not guessed, where the answer is no word of the question', async () => {
    const { machine, types } = aMachine();
    const { shown } = await types(['install'], 'yes replay');
    expect(shown).toContain('"replay" is not asked for here; nothing was changed');
    expect(JSON.stringify(machine.outside)).not.toContain('parley');
  });

  it('can be changed by an option, both ways, and every byte of the settings comes back', async () => {
    const { machine } = aMachine({ [SETTINGS]: '{"model": "opus"}\n' });
    const does = (...args: string[]) => machine.userInstalls('claude', ...args);
    await does();
    const plain = machine.read(SETTINGS);
    await does('--inbound', 'allow', '--allow', 'reply');
    expect(machine.json(SETTINGS)).toMatchObject({
      ...INBOUND,
      permissions: { allow: ['mcp__parley__reply', 'mcp__parley__react'] },
    });
    expect(machine.json('.parley/consents.json')).toEqual({ claude: { reply: 'allow', inbound: 'allow' } });
    const said = await does('--inbound', 'ask', '--allow', 'none');
    expect(said).toMatch(/removed +setting that lets messages in: /);
    expect(said).toMatch(/removed +allow rule for react: /);
    expect(machine.read(SETTINGS)).toBe(plain);
    expect(machine.json('.parley/consents.json')).toEqual({ claude: { reply: 'ask', inbound: 'ask' } });
  });

  it('goes with --uninstall, and is asked for again afterwards', async () => {
    const { machine, types } = aMachine();
    const before = machine.outside;
    await types(['install'], 'yes reply inbound');
    await machine.does('parley', ['install', '--uninstall']);
    expect(machine.outside).toEqual(before);
    expect((await types(['install'], 'no')).shown).toContain('yours to decide');
  });

  it.each([
    [['claude', '--inbound', 'yes'], '--inbound is allow or ask'],
    [['codex', '--inbound', 'allow'], '--inbound is for Claude Code: no other client has such a setting'],
  ])('is refused as %p', async (args, why) => {
    const { machine } = aMachine();
    const { err, code } = await machine.program.byPerson(['install', ...args], { env: machine.env() });
    expect({ err: err.trim(), code }).toEqual({ err: `parley: ${why}`, code: 64 });
  });
});

describe('`parley run claude` in bypass mode', () => {
  /** A stand-in for Claude Code that says with which settings it was started. */
  function aRun(files: Record<string, string> = {}) {
    const { machine, types } = aMachine(files);
    writeFileSync(`${machine.bin}/claude`, '#!/bin/sh\nfor one; do printf "%s\\n" "$one"; done >"$HOME/args"\n');
    chmodSync(`${machine.bin}/claude`, 0o755);
    const settings = (): Record<string, unknown> => {
      const line = readFileSync(machine.at('args'), 'utf8')
        .split('\n')
        .find((one) => one.startsWith('--settings='));
      return JSON.parse(line?.slice('--settings='.length) ?? '{}') as Record<string, unknown>;
    };
    return { machine, types, settings };
  }

  it('asks once whether messages come in, and tells only this session, not the settings file', async () => {
    const { machine, types, settings } = aRun();
    const before = machine.outside;
    const { shown } = await types(['run', 'claude', BYPASS], 'yes');
    expect(shown).toContain('Let messages in without asking, in sessions of `parley run`? Type yes:');
    expect(shown).toContain('parley: noted. To change it: parley install claude --inbound ask');
    expect(settings()).toMatchObject(INBOUND);
    const { args: _args, ...after } = machine.outside;
    expect(after).toEqual(before);
    expect((await types(['run', 'claude', BYPASS], '')).shown).not.toContain('Type yes:');
    expect(settings()).toMatchObject(INBOUND);
  });

  it('keeps a no, and says how mail comes then', async () => {
    const { types, settings } = aRun();
    await types(['run', 'claude', BYPASS], 'no');
    const { shown } = await types(['run', 'claude', '--permission-mode', 'bypassPermissions'], 'yes');
    expect(shown).not.toContain('Type yes:');
    expect(shown).toContain('in bypass mode Claude Code asks you about each message');
    expect(settings()).not.toHaveProperty('crossSessionInbound');
  });

  it('does not ask in the modes in which messages come in anyway, for one prompt, or after the user set it', async () => {
    const { types, settings } = aRun();
    for (const args of [[], ['--permission-mode', 'default'], ['-p', BYPASS, 'go']])
      expect((await types(['run', 'claude', ...args], 'yes')).shown).not.toContain('Type yes:');
    const own = aRun({
      [SETTINGS]: '{"crossSessionInbound": "hold", "permissions": {"defaultMode": "bypassPermissions"}}',
    });
    expect((await own.types(['run', 'claude'], 'yes')).shown).not.toContain('Type yes:');
    expect(settings()).not.toHaveProperty('crossSessionInbound');
  });

  it('asks nobody who is not at a terminal, and then lets nothing in', async () => {
    const { machine, settings } = aRun();
    await machine.run('parley', ['run', 'claude', BYPASS]);
    expect(settings()).not.toHaveProperty('crossSessionInbound');
  });

  it('asks for its own sessions only: after a yes `parley install` asks for itself, and a no changes no settings', async () => {
    const { machine, types, settings } = aRun();
    await types(['run', 'claude', BYPASS], 'yes');
    await types(['install', 'claude', '--yes'], '');
    const { shown } = await types(['install', 'claude'], 'no');
    expect(shown).toContain(
      '  yes reply inbound: what you name is allowed\n  Enter, or yes or y alone: nothing more is allowed\nAllow more? Type yes:',
    );
    expect(machine.json(SETTINGS)).not.toHaveProperty('crossSessionInbound');
    await types(['run', 'claude', BYPASS], '');
    expect(settings()).toMatchObject(INBOUND);
  });

  it('does as --inbound says last, which is for all sessions', async () => {
    const { machine, types, settings } = aRun();
    await types(['run', 'claude', BYPASS], 'yes');
    await machine.does('parley', ['install', 'claude', '--inbound', 'ask']);
    expect((await types(['run', 'claude', BYPASS], '')).shown).not.toContain('Type yes:');
    expect(settings()).not.toHaveProperty('crossSessionInbound');
  });

  it('has its yes of a version that kept one answer for all, and `parley install` asks before it writes', async () => {
    const { machine, types, settings } = aRun({ '.parley/consents.json': '{"claude": {"inbound": "allow"}}' });
    await types(['run', 'claude', BYPASS], '');
    expect(settings()).toMatchObject(INBOUND);
    expect((await types(['install', 'claude'], 'no')).shown).toContain('  inbound  ');
    expect(machine.json(SETTINGS)).not.toHaveProperty('crossSessionInbound');
  });

  it('forgets its answer with `parley self uninstall`, also if that client was never installed', async () => {
    const { machine, types } = aRun();
    await types(['run', 'claude', BYPASS], 'yes');
    await machine.does('parley', ['install', 'codex']);
    await machine.does('parley', ['self', 'uninstall', '--yes']);
    expect((await types(['run', 'claude', BYPASS], 'no')).shown).toContain('Type yes:');
  });
});
