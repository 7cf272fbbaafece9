import { describe, expect, it } from 'bun:test';
import { version } from '../../package.json' with { type: 'json' };
import { PARLEY_COMMANDS } from '../../src/cli/table.ts';
import { PARLEY, personAt, Program } from '../support/program.ts';

/** The commands that a help page lists. */
function listed(page: string): string[] {
  return [...page.matchAll(/^ {2}([a-z]+) /gm)].map(([, name = '']) => name);
}

describe('parley help', () => {
  it('begins with the thirteen commands that a newcomer needs, and says where the others are', async () => {
    const { out } = await new Program().run(['help']);
    expect(listed(out)).toEqual([
      'init',
      'run',
      'install',
      'agents',
      'send',
      'reply',
      'inbox',
      'read',
      'owe',
      'session',
      'ask',
      'trace',
      'doctor',
    ]);
    expect(out).toContain('All commands: parley help --all');
  });

  it('lists every command with --all', async () => {
    const { out } = await new Program().run(['help', '--all']);
    expect(listed(out)).toEqual(PARLEY_COMMANDS.map(({ name }) => name));
  });

  it('has no line that is wider than the window, or than 80 columns where there is none', async () => {
    const parley = new Program();
    const widths = (page: string): number[] =>
      (page.split('\nExamples:')[0] ?? '').split('\n').map((line) => Bun.stringWidth(line));
    for (const words of [['--all'], ...PARLEY_COMMANDS.filter(({ name }) => name !== 'hook').map(({ name }) => [name])])
      expect(widths((await parley.run(['help', ...words])).out).filter((width) => width > 80)).toEqual([]);
    const at = { argv0: 'parley', cwd: parley.home, env: parley.env, typed: '', cols: 50 };
    const { shown } = await personAt({ ...at, command: [PARLEY, 'help', 'run'] });
    expect(Math.max(...widths(Bun.stripANSI(shown)))).toBeLessThanOrEqual(50);
    expect(Bun.stripANSI(shown).replaceAll(/\s+/g, ' ')).toContain(
      'It has the tools of Parley, gets mail for that name',
    );
  });

  it('is a table of commands as JSON, and one command is described as JSON', async () => {
    const parley = new Program();
    const table = await parley.json<{ name: string; group: string; summary: string }[]>(['help']);
    expect(table).toEqual(PARLEY_COMMANDS.map(({ name, group, summary }) => ({ name, group, summary })));
    const send = await parley.json<{ usage: string; options: object }>(['help', 'send']);
    expect(send.usage).toStartWith('send ');
    expect(Object.keys(send.options)).toEqual(expect.arrayContaining(['intent', 'key', 'json']));
  });
});

describe('a mistyped command line', () => {
  it.each([
    [['snd'], 'unknown command "snd"; did you mean `parley send`?'],
    [['claud'], 'unknown command "claud"; did you mean `parley install claude`?'],
    [['install', 'claud'], 'no client is called "claud"; did you mean claude?'],
    [['xx'], 'unknown command "xx"; see `parley help`'],
    [['--josn'], "Unknown option '--josn'; did you mean --json? See `parley help`"],
    [['help', '--al'], "Unknown option '--al'; did you mean --all? See `parley help`"],
    [['inbox', '--josn'], "Unknown option '--josn'; did you mean --json? See `parley help inbox`"],
    [['inbox', '-x'], "Unknown option '-x'; see `parley help inbox`"],
  ])('%j is answered with what was probably wanted', async (args, line) => {
    expect(await new Program().run(args)).toEqual({ out: '', err: `parley: ${line}\n`, code: 64 });
  });

  it.each(['-v', '-V', '--version'])('%s gives the version', async (option) => {
    expect((await new Program().run([option])).out).toStartWith(`parley ${version} `);
  });
});

describe('parley outbox', () => {
  it('of an agent that is at no relay says so, and that is no error', async () => {
    const program = await new Program().init('alice');
    const { out, code } = await program.run(['outbox']);
    expect([out, code]).toEqual(['@alice is at no relay; what it sends is stored at once\n', 0]);
    expect(await program.json<unknown[]>(['outbox'])).toEqual([]);
    expect((await program.run(['outbox', 'send'])).code).toBe(66);
  });
});
