import { describe, expect, it } from 'bun:test';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { HostClient } from '../support/host-client.ts';
import { InstallMachine } from '../support/install-home.ts';
import { PARLEY } from '../support/program.ts';

const NOBODY = 'nobody reads @codex yet. ';
const DAY = 24 * 60 * 60 * 1000;

async function aMachine(): Promise<InstallMachine> {
  const machine = new InstallMachine();
  for (const name of ['me', 'codex']) await machine.does('parley', ['init', name]);
  return machine;
}

/** As the hook of Codex leaves it. */
function sessionWasPrompted(machine: InstallMachine): void {
  const names = `${machine.at('.parley')}/names`;
  mkdirSync(names);
  writeFileSync(`${names}/codex.api.json`, '{}');
}

async function noteOf(machine: InstallMachine, args: string[]): Promise<string> {
  const { err, code } = await machine.run('parley', args);
  expect(code).toBe(0);
  return err;
}

describe('a mailbox of a client that nothing wakes', () => {
  it('is not that of Codex', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'codex']);
    expect(await noteOf(machine, ['send', '@codex', 'hello'])).toBe('');
  });

  it('is named by `send`, unless `parley run` holds a terminal of that client', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'kimi']);
    expect(await noteOf(machine, ['send', '@kimi', 'hello'])).toBe(
      'Kimi shows it with the next prompt of its user, or at the end of a turn; one that `parley run kimi` starts, or that is on `kimi web`, is woken\n',
    );
    mkdirSync(machine.at('.parley/terminals'));
    const holds = (client: string): void =>
      writeFileSync(machine.at(`.parley/terminals/${process.pid}.json`), JSON.stringify({ client }));
    holds('gemini');
    expect(await noteOf(machine, ['send', '@kimi', 'again'])).toContain('one that `parley run kimi` starts');
    holds('kimi');
    expect(await noteOf(machine, ['send', '@kimi', 'again'])).toBe('');
  });
});

describe('a mailbox that nobody reads', () => {
  it('is named by `send` and `agents`, with what to do', async () => {
    const machine = await aMachine();
    const line = `${NOBODY}Next: parley install codex, or parley inbox --as codex\n`;
    expect(await noteOf(machine, ['send', '@codex', 'hello'])).toBe(line);
    expect(await noteOf(machine, ['agents'])).toBe(line);
    const agents = JSON.parse(await machine.does('parley', ['agents', '--json'])) as {
      name: string;
      nobodyReads: boolean;
      unread: boolean;
    }[];
    // `unread` is the name of 0.1.0 for the same.
    expect(agents.map(({ name, nobodyReads, unread }) => [name, nobodyReads, unread])).toEqual([
      ['codex', true, true],
      ['me', false, false],
    ]);
  });

  it('is one of several in one line of `agents`', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['init', 'ci']);
    expect(await noteOf(machine, ['agents'])).toBe(
      'nobody reads @ci, @codex yet. Next: parley install <client> --as <name>, or parley inbox --as <name>\n',
    );
  });

  it('is read once a session of a host is bound to it', async () => {
    const machine = await aMachine();
    const host = await HostClient.onStdio([PARLEY, 'host', '--stdio'], machine.env());
    try {
      await (await host.initialize()).done('session/bind', { sessionId: 'one', identities: ['codex'] });
      expect(await noteOf(machine, ['send', '@codex', 'hello'])).toBe('');
    } finally {
      host.close();
    }
  });

  it.each<[string, (machine: InstallMachine) => Promise<unknown>]>([
    [
      'a client has it',
      async (machine) => {
        await machine.does('parley', ['install', 'codex']);
        sessionWasPrompted(machine);
      },
    ],
    ['a client was given it', (machine) => machine.does('parley', ['install', 'claude', '--as', 'codex'])],
    ['a session is bound to it', (machine) => machine.does('parley', ['init', 'codex', '--session', 's1'])],
    [
      'its mail is read by hand',
      async (machine) => {
        await machine.does('parley', ['send', '@codex', 'hello']);
        await machine.does('parley', ['drain', '--as', 'codex']);
      },
    ],
  ])('is read once %s', async (_how, read) => {
    const machine = await aMachine();
    await read(machine);
    expect(await noteOf(machine, ['send', '@codex', 'hello'])).toBe('');
    expect(await noteOf(machine, ['agents'])).toBe('');
  });

  it('is one whose client was taken out again, or whose reader was last here a month ago', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'codex']);
    await machine.does('parley', ['install', 'codex', '--uninstall']);
    expect(await noteOf(machine, ['send', '@codex', 'hello'])).toStartWith(NOBODY);
    await machine.does('parley', ['drain', '--as', 'codex']);
    const then = new Date(Date.now() - 31 * DAY);
    for (const folder of ['held', '']) utimesSync(machine.at(`.parley/spool/codex/${folder}`), then, then);
    utimesSync(machine.at('.parley/spool/codex'), then, new Date(then.getTime() - DAY));
    expect(await noteOf(machine, ['send', '@codex', 'hello'])).toStartWith(NOBODY);
  });

  it('never keeps a send from being stored', async () => {
    const machine = await aMachine();
    writeFileSync(machine.at('.parley/clients.json'), '{"half');
    const { out, err, code } = await machine.run('parley', ['send', '@codex', 'hello']);
    expect(out).toStartWith('stored ');
    expect([err, code]).toEqual(['', 0]);
  });
});
