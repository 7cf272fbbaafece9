import { afterAll, describe, expect, it } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { readInvite } from '../../src/protocols/backchannel/invite.ts';
import { until } from '../support/bch.ts';
import { temporaryHome } from '../support/home.ts';
import { PARLEY, Program } from '../support/program.ts';
import { RelayProcess } from '../support/relay-process.ts';

const TOKEN = 'a-room-token-of-32-characters-00';
const ENV_WARNING =
  'warning: other accounts of this machine can see --token in the process list; use --token-file <path>, --token-file - (stdin) or PARLEY_TOKEN\n';

/** A relay whose token came from a file. */
const folder = temporaryHome();
writeFileSync(`${folder}/token`, `${TOKEN}\n`, { mode: 0o600 });
const relay = await new RelayProcess(undefined, ['--token-file', `${folder}/token`]).start();
afterAll(async () => {
  relay.kill('SIGTERM');
  await relay.ended;
});

/** A user with that file in the folder where the commands run. */
function user(extra: Record<string, string> = {}): Program {
  const program = new Program(temporaryHome(), extra);
  writeFileSync(`${program.home}/token`, `${TOKEN}\n`, { mode: 0o600 });
  return program;
}

describe('a token', () => {
  it('from a file, from stdin or from the environment admits without a warning', async () => {
    const init = (name: string): string[] => ['init', name, '--url', relay.url];
    const byFile = await user().run([...init('ann'), '--token-file', 'token']);
    const byStdin = await user().run([...init('ben'), '--token-file', '-'], { stdin: `${TOKEN}\n` });
    const byVariable = await user({ PARLEY_TOKEN: TOKEN }).run(init('carl'));
    for (const { code, err } of [byFile, byStdin, byVariable]) {
      expect(code).toBe(0);
      expect(err).toMatch(/^its token is in [^\n]*\n$/);
    }
  });

  it('by --token still works, with one line that says what to use instead', async () => {
    const { code, err } = await user().run(['init', 'dora', '--url', relay.url, '--token', TOKEN]);
    expect(code).toBe(0);
    expect(err).toStartWith(ENV_WARNING);
    const invited = await user().run(['invite', '--url', relay.url, '--token', TOKEN]);
    expect(invited.err).toStartWith(ENV_WARNING);
  });

  it('that is wrong, missing, empty or given twice is refused in one line that does not show it', async () => {
    const program = user();
    writeFileSync(`${program.home}/empty`, '\n');
    writeFileSync(`${program.home}/two`, `${TOKEN}\nmore\n`);
    const refused = async (...args: string[]): Promise<string> => {
      const { out, err, code } = await program.run(['init', 'eve', '--url', relay.url, ...args]);
      expect({ out, code }).toEqual({ out: '', code: 64 });
      return err;
    };
    expect(await refused('--token-file', 'empty')).toBe(
      'parley: --token-file empty is empty; it must contain one line\n',
    );
    expect(await refused('--token-file', 'two')).toBe(
      'parley: --token-file two contains more than one word; it must contain only the secret\n',
    );
    expect(await refused('--token-file', 'none')).toBe(
      `parley: --token-file cannot read ${program.home}/none (ENOENT)\n`,
    );
    expect(await refused('--token-file', 'token', '--token', TOKEN)).toBe(
      'parley: give --token-file or --token, not both\n',
    );
  });

  it('goes into an invite from a file, and the invite into join from stdin', async () => {
    const program = user();
    const { out, err } = await program.run(['invite', '--url', relay.url, '--token-file', 'token']);
    expect(err).not.toContain('warning');
    const [, invite = ''] = /^ {2}echo (bch1-\S+) \| parley join - --as their-name\n$/.exec(out) ?? [];
    expect(readInvite(invite)).toMatchObject({ token: TOKEN });
    const joined = await user().run(['join', '-', '--as', 'fred'], { stdin: `${invite}\n` });
    expect(joined).toMatchObject({ code: 0 });
    expect(joined.err).not.toContain('warning');
    const shown = await user().run(['join', invite, '--as', 'gina']);
    expect(shown.code).toBe(0);
    expect(shown.err).toStartWith(
      'warning: other accounts of this machine can see an invite in the process list; use: echo <invite> | parley join - --as gina\n',
    );
  });

  it('of a relay is neither in its process list nor in that of the daemon', async () => {
    expect(readFileSync(`/proc/${relay.pid}/cmdline`, 'utf8')).not.toContain(TOKEN);
    const program = user();
    const up = ['up', '--with', 'relay', '--port', '0', '--detach', '--token-file', '-'];
    expect(await program.run(up, { stdin: TOKEN })).toMatchObject({ code: 0, err: '' });
    try {
      const { pid, doors } = JSON.parse(readFileSync(`${program.home}/.parley/daemon.json`, 'utf8')) as {
        pid: number;
        doors: { address: string }[];
      };
      expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain(TOKEN);
      const url = doors[0]?.address ?? '';
      const register = async (token: string): Promise<number> =>
        (
          await fetch(`${url}v1/register`, {
            method: 'POST',
            headers: { authorization: `Bearer ${token}` },
            body: JSON.stringify({ name: `n${token.length}` }),
          })
        ).status;
      expect(await register('wrong')).toBe(401);
      expect(await register(TOKEN)).toBe(200);
    } finally {
      await program.run(['down']);
    }
  });

  it('by --token of a relay is warned about on stderr, by parley relay and bch relay', async () => {
    for (const name of ['parley', 'bch']) {
      const program = new Program();
      const child = Bun.spawn([PARLEY, 'relay', '--port', '0', '--token', TOKEN], {
        argv0: name,
        env: program.env,
        cwd: program.home,
        stdout: 'ignore',
        stderr: 'pipe',
      });
      let said = '';
      const reading = (async () => {
        for await (const piece of child.stderr) said += new TextDecoder().decode(piece);
      })();
      await until('the warning', () => said.includes('--token-file - (stdin) or BACKCHANNEL_TOKEN\n'));
      child.kill('SIGTERM');
      await reading;
    }
  });

  it('is taken by bch from a file or stdin too, and bch says what the original says', async () => {
    const program = user();
    const init = ['init', 'hugo', '--url', relay.url, '--token-file', 'token'];
    expect(await program.run(init, { name: 'bch' })).toMatchObject({ code: 0, err: '' });
    const other = user();
    const invited = await other.run(['invite', '--url', relay.url, '--token-file', '-'], { name: 'bch', stdin: TOKEN });
    const [, invite = ''] = /bch join (bch1-\S+) --as their-name/.exec(invited.out) ?? [];
    expect(readInvite(invite)).toMatchObject({ token: TOKEN });
    const joined = await other.run(['join', '-', '--as', 'ida', '--no-hooks'], { name: 'bch', stdin: invite });
    expect(joined).toMatchObject({ code: 0, err: '' });
    const shown = await user().run(['init', 'jan', '--url', relay.url, '--token', TOKEN], { name: 'bch' });
    expect(shown).toMatchObject({ code: 0, err: '' });
  });
});
