import { version } from '../../package.json' with { type: 'json' };
import { examinePlace } from '../../src/cli/doctor/home.ts';
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { PARLEY_COMMANDS } from '../../src/cli/table.ts';
import { system } from '../../src/cli/doctor/machine.ts';
import { becomeDefault } from '../../src/cli/settings-file.ts';
import { deliver } from '../../src/core/mail/deliver.ts';
import { send } from '../../src/core/mail/send.ts';
import { aDurableWorkspace, aDraft } from '../support/durable-workspace.ts';
import { alice, bob } from '../support/mail.ts';
import { temporaryHome } from '../support/home.ts';
import { PARLEY, Program } from '../support/program.ts';

const DAY = 24 * 60 * 60 * 1000;

interface Finding {
  level: string;
  about: string;
  what: string;
  next?: string;
  fixed?: true;
}

/** A home with two agents and one message that bob has taken. Made in this process: the program is what is looked at. */
async function anExchange(extra: Record<string, string> = {}): Promise<Program & { id: string; root: string }> {
  const workspace = await aDurableWorkspace('alice', 'bob');
  const { root, journal } = workspace.own;
  const { message } = await send(workspace, alice, aDraft({ body: 'the word is xyzzy' }));
  const taken = { disposition: 'acknowledged', by: { by: 'drain' } } as const;
  await deliver({ name: bob, home: workspace.own }, [message.id], taken, () => ({ show: () => {}, slow: false }));
  await journal.close();
  becomeDefault(`${root}/config.json`, 'alice', false);
  const parley = new Program(undefined, { PARLEY_HOME: root, ...extra });
  return Object.assign(parley, { id: message.id, root });
}

/** Makes everything in the ledger look so much older. */
function age(root: string, days: number): void {
  using db = new Database(`${root}/ledger.db`);
  db.run(`UPDATE copies SET settled_at = settled_at - ${days * DAY}`);
  db.run(`UPDATE messages SET at = at - ${days * DAY}`);
}

async function findings(parley: Program, ...args: string[]): Promise<{ code: number; all: Finding[] }> {
  const run = await parley.run(['doctor', '--json', ...args]);
  return { code: run.code, all: (JSON.parse(run.out) as { findings: Finding[] }).findings };
}

describe('parley doctor', () => {
  it('finds nothing bad in a home in use', async () => {
    const { code, all } = await findings(await anExchange());
    expect(code).toBe(0);
    expect(all.filter(({ level, about }) => level !== 'ok' && !['PATH', 'hook', 'owner'].includes(about))).toEqual([]);
    expect(all.map(({ what }) => what)).toContain('the ledger is intact (format 5)');
  });

  it('makes nothing where there is nothing, and says how to begin', async () => {
    const parley = new Program();
    const { code, all } = await findings(parley);
    expect(code).toBe(0);
    expect(all.find(({ about }) => about === 'identity')).toMatchObject({
      level: 'warn',
      next: '`parley init <name>` makes a mailbox',
    });
    expect(readdirSync(parley.home)).toEqual([]);
  });

  it('gives every trouble a line with what to do next', async () => {
    const parley = await anExchange();
    const { root } = parley;
    await parley.run(['send', '@bob', 'held']);
    await parley.run(['take', '--lease', '5h'], { as: 'bob' });
    writeFileSync(`${root}/agents/broken.json`, '{');
    writeFileSync(`${root}/ledger.db.damaged-1`, 'x');
    writeFileSync(`${root}/config.json`, '{ "agent": "alice", "keepBodys": 1 }');
    mkdirSync(`${root}/spool/ghost/new`, { recursive: true, mode: 0o700 });
    writeFileSync(`${root}/spool/ghost/new/abc.json`, '{}', { mode: 0o600 });
    mkdirSync(`${root}/aside/bob`, { recursive: true, mode: 0o700 });
    writeFileSync(`${root}/aside/bob/x.1.json`, 'no message', { mode: 0o600 });
    const record = JSON.parse(readFileSync(`${root}/agents/bob.json`, 'utf8')) as Record<string, unknown>;
    writeFileSync(
      `${root}/agents/bob.json`,
      JSON.stringify({ ...record, lastSeen: new Date(Date.now() + DAY).toISOString() }),
    );
    const { code, all } = await findings(parley);
    expect(code).toBe(1);
    const told = all.filter(({ level }) => level !== 'ok').map(({ level, what }) => `${level} ${what}`);
    for (const expected of [
      /^bad the record .*broken\.json cannot be read/,
      /^warn 1 older or damaged ledger is kept/,
      /^warn .*unknown key "keepBodys"; did you mean "keepBodies"\?/,
      /^warn 1 message waits for ghost, which has no record/,
      /^warn 1 file is set aside/,
      /^warn [0-9a-f]{8} is held by a reader of @bob until /,
      /^warn @bob was last seen .* in the future/,
    ]) {
      expect(told.filter((line) => expected.test(line))).toHaveLength(1);
    }
    expect(all.filter(({ level, next }) => level !== 'ok' && !next)).toEqual([]);
  });

  it('closes what others can read when told to, and follows no link', async () => {
    const parley = await anExchange();
    const outside = `${parley.home}/outside`;
    writeFileSync(outside, 'mine', { mode: 0o644 });
    symlinkSync(outside, `${parley.root}/link`);
    chmodSync(parley.root, 0o755);
    chmodSync(`${parley.root}/agents/bob.json`, 0o666);
    const before = await findings(parley);
    expect(before.code).toBe(1);
    expect(before.all.find(({ level }) => level === 'bad')?.what).toStartWith(
      '2 files and folders can be read or changed by other users',
    );
    const fixed = await findings(parley, '--fix');
    expect(fixed.code).toBe(0);
    expect(fixed.all.find((finding) => finding.fixed)?.what).toStartWith(
      '2 files and folders were open to other users',
    );
    expect(statSync(parley.root).mode & 0o777).toBe(0o700);
    expect(statSync(`${parley.root}/agents/bob.json`).mode & 0o777).toBe(0o600);
    expect(statSync(outside).mode & 0o777).toBe(0o644);
  });

  it('removes drafts of dead senders when told to, and no younger ones', async () => {
    const parley = await anExchange();
    const drafts = ['old', 'young'].map((name) => `${parley.root}/spool/bob/tmp/${name}.json`);
    for (const path of drafts) writeFileSync(path, '{}', { mode: 0o600 });
    utimesSync(drafts[0] ?? '', new Date(Date.now() - 2 * 60 * 60 * 1000), new Date(Date.now() - 2 * 60 * 60 * 1000));
    expect((await findings(parley)).all.filter(({ what }) => what.startsWith('1 draft of senders'))).toHaveLength(1);
    await findings(parley, '--fix');
    expect(drafts.map((path) => existsSync(path))).toEqual([false, true]);
  });

  it('looks at a damaged ledger without touching it', async () => {
    const parley = await anExchange();
    for (const part of ['', '-wal', '-shm'])
      writeFileSync(`${parley.root}/ledger.db${part}`, part ? '' : 'this is no database, whatever its name says');
    const before = readdirSync(parley.root);
    const { code, all } = await findings(parley);
    expect(code).toBe(1);
    expect(all.find(({ level }) => level === 'bad')?.what).toStartWith('the ledger cannot be used');
    expect(readdirSync(parley.root)).toEqual(before);
  });

  it('names a ledger from a newer Parley and leaves it alone', async () => {
    const parley = await anExchange();
    {
      using db = new Database(`${parley.root}/ledger.db`);
      db.run('PRAGMA user_version = 99');
    }
    const { code, all } = await findings(parley);
    expect(code).toBe(1);
    expect(all.find(({ level }) => level === 'bad')).toMatchObject({ next: 'update Parley' });
  });

  it('looks at every home, also where the settings are broken', async () => {
    const parley = await anExchange();
    mkdirSync(`${parley.home}/.backchannel`);
    writeFileSync(`${parley.root}/config.json`, '{ "keepBodies": "soon" }', { mode: 0o600 });
    const { code, all } = await findings(parley);
    expect(code).toBe(1);
    expect(all.filter(({ level }) => level === 'bad').map(({ about }) => about)).toEqual(['config']);
    expect(new Set(all.map(({ about }) => about))).toContain('home bch');
    expect(readdirSync(`${parley.home}/.backchannel`)).toEqual([]);
  });

  it('tells a program of others under our names from ours', async () => {
    const parley = await anExchange();
    const bin = `${parley.home}/bin`;
    mkdirSync(bin);
    writeFileSync(`${bin}/parley`, '#!/bin/sh\n', { mode: 0o755 });
    writeFileSync(`${bin}/bch`, '#!/bin/sh\n', { mode: 0o755 });
    symlinkSync('parley', `${bin}/ccc`);
    parley.extra['PATH'] = bin;
    const { all } = await findings(parley);
    expect(all.filter(({ about }) => about === 'PATH').map(({ what }) => what)).toEqual([
      `parley is ${bin}/parley`,
      `bch is another program (${bin}/bch); Parley does not touch it`,
      `ccc is ${bin}/ccc`,
    ]);
  });

  it('says whether the script of the hook is there and starts this program', async () => {
    const parley = await anExchange();
    const hook = async (): Promise<string | undefined> =>
      (await findings(parley)).all.find(({ about }) => about === 'hook')?.what;
    expect(await hook()).toContain(`there is no ${parley.root}/hook`);
    await parley.run(['hook', '--write']);
    expect(await hook()).toBe(`${parley.root}/hook is current`);
    writeFileSync(`${parley.root}/hook`, 'of another program');
    expect(await hook()).toContain('starts another Parley');
  });

  it('calls a home on a network file system bad', async () => {
    const { own } = await aDurableWorkspace('alice');
    expect(examinePlace(own, { networkFileSystem: () => 'nfs' })).toMatchObject([
      { level: 'bad', next: 'set the home to a local folder' },
    ]);
    expect(examinePlace(own, { networkFileSystem: () => null })).toMatchObject([{ level: 'ok' }]);
  });

  it.each([
    ['linux', 'ok'],
    ['darwin', 'warn'],
    ['win32', 'bad'],
  ])('says how far it is proven on %s', (platform, level) => {
    expect(system(platform)).toMatchObject({ level });
  });
});

describe('parley prune', () => {
  interface Pruned {
    homes: { home: string; bodies: number; messages: number; sessions: number; asides: number }[];
  }

  it('keeps bodies 30 days and traces 180 after they ended, and not longer', async () => {
    const parley = await anExchange();
    age(parley.root, 29);
    expect((await parley.json<Pruned>(['prune'])).homes).toMatchObject([{ bodies: 0, messages: 0 }]);
    age(parley.root, 2);
    expect((await parley.json<Pruned>(['prune', '--dry-run'])).homes).toMatchObject([{ bodies: 1, messages: 0 }]);
    expect((await parley.json<Pruned>(['prune'])).homes).toMatchObject([{ bodies: 1, messages: 0 }]);
    expect((await parley.run(['history'])).out).toContain('the body is no longer kept');
    expect((await parley.run(['search', 'xyzzy'])).out).toBe('nothing found\n');
    expect((await parley.run(['trace', parley.id])).out).toContain('settled');
    age(parley.root, 150);
    expect((await parley.json<Pruned>(['prune', '--dry-run'])).homes).toMatchObject([{ bodies: 0, messages: 1 }]);
    expect((await parley.json<Pruned>(['prune'])).homes).toMatchObject([{ bodies: 0, messages: 1 }]);
    expect((await parley.run(['trace', parley.id])).code).toBe(66);
  });

  it('never forgets what still waits, however old', async () => {
    const parley = await anExchange({ PARLEY_KEEP_BODIES: '0', PARLEY_KEEP_FACTS: '0' });
    await parley.run(['send', '@bob', 'still waiting']);
    age(parley.root, 1000);
    expect((await parley.run(['prune'])).out).toBe(
      'deleted 1 body of messages that ended over 0d ago, 1 whole message that ended over 0d ago\n',
    );
    expect((await parley.run(['drain'], { as: 'bob' })).out).toContain('still waiting');
  });

  it('keeps everything where the settings say for ever', async () => {
    const parley = await anExchange({ PARLEY_KEEP_BODIES: 'forever', PARLEY_KEEP_FACTS: 'forever' });
    age(parley.root, 10_000);
    expect((await parley.run(['prune'])).out).toBe('everything is kept for ever\n');
    expect((await parley.run(['history'])).out).toContain('xyzzy');
  });

  it('removes old sessions, and set-aside files only when asked to', async () => {
    const parley = await anExchange();
    for (const name of ['old', 'young']) mkdirSync(`${parley.root}/sessions/${name}`, { recursive: true });
    writeFileSync(`${parley.root}/sessions/.late`, '');
    for (const name of ['old', '.late']) utimesSync(`${parley.root}/sessions/${name}`, 1, 1);
    mkdirSync(`${parley.root}/aside/bob`, { recursive: true });
    writeFileSync(`${parley.root}/aside/bob/x.1.json`, 'no message');
    expect((await parley.json<Pruned>(['prune'])).homes).toMatchObject([{ sessions: 1, asides: 0 }]);
    expect(
      readdirSync(`${parley.root}/sessions`)
        .filter((name) => name !== '.early')
        .sort(),
    ).toEqual(['.late', 'young']);
    expect((await parley.json<Pruned>(['prune', '--asides'])).homes).toMatchObject([{ sessions: 0, asides: 1 }]);
    expect(readdirSync(`${parley.root}/aside/bob`)).toEqual([]);
  });

  it('makes no home where there is none', async () => {
    const parley = new Program();
    expect((await parley.run(['prune'])).out).toBe('nothing to delete: there is no home yet\n');
    expect(readdirSync(parley.home)).toEqual([]);
  });
});

describe('parley forget', () => {
  it('removes an agent with its mail and its traces, and leaves the others theirs', async () => {
    const parley = await anExchange();
    await parley.init('carol');
    await parley.run(['send', '@bob', 'waiting for bob']);
    await parley.run(['send', '@alice', 'from bob'], { as: 'bob' });
    mkdirSync(`${parley.root}/aside/bob`, { recursive: true });
    writeFileSync(`${parley.root}/aside/bob/x.1.json`, 'no message of bob');
    const gone = await parley.json<Record<string, unknown>>(['forget', 'bob', '--yes']);
    expect(gone).toMatchObject({ agent: 'bob', home: 'parley', waiting: 1, copies: 2, asides: 1, wasDefault: false });
    expect(existsSync(`${parley.root}/spool/bob`)).toBe(false);
    expect(existsSync(`${parley.root}/agents/bob.json`)).toBe(false);
    expect((await parley.run(['inbox'])).out).toContain('from bob');
    expect((await parley.run(['send', '@bob', 'x'])).code).toBe(68);
    expect((await parley.json<{ name: string }[]>(['agents'])).map(({ name }) => name)).toEqual(['alice', 'carol']);
  });

  it('asks first and removes nothing meanwhile', async () => {
    const parley = await anExchange();
    await parley.run(['send', '@bob', 'waiting']);
    const run = await parley.run(['forget', 'bob']);
    expect(run).toMatchObject({ code: 64, out: '' });
    expect(run.err).toContain('with 1 waiting message');
    expect((await parley.run(['drain'], { as: 'bob' })).out).toContain('waiting');
  });

  it('notes that nobody is the default any more, and keeps the other settings', async () => {
    const parley = await anExchange();
    writeFileSync(`${parley.root}/config.json`, '{\n  // me\n  "agent": "alice",\n  "keepBodies": "7d"\n}\n');
    expect((await parley.run(['forget', 'alice', '--yes'])).code).toBe(0);
    expect(readFileSync(`${parley.root}/config.json`, 'utf8')).toBe('{\n  // me\n  "keepBodies": "7d"\n}\n');
    expect((await parley.run(['inbox'])).code).toBe(67);
  });

  it.each([
    ['an unknown name, with the nearest', 'bobb', 66, 'did you mean bob?'],
    ['a path', '../bob', 64, 'is not a recipient'],
    ['a channel', '#general', 64, 'name an agent'],
  ])('refuses %s', async (_name, word, code, said) => {
    const run = await (await anExchange()).run(['forget', word, '--yes']);
    expect(run.code).toBe(code);
    expect(run.err).toContain(said);
  });

  it('refuses a name that stands in two homes until it is told which', async () => {
    const parley = await anExchange();
    mkdirSync(`${parley.home}/.backchannel/agents`, { recursive: true });
    writeFileSync(`${parley.home}/.backchannel/agents/bob.json`, JSON.stringify({ name: 'bob', subscriptions: [] }));
    expect((await parley.run(['forget', 'bob', '--yes'])).err).toContain('bob%parley or bob%bch');
    expect((await parley.run(['forget', 'bob%bch', '--yes'])).code).toBe(0);
    expect((await parley.json<{ name: string }[]>(['agents'])).map(({ name }) => name)).toEqual(['alice', 'bob']);
  });
});

describe('parley completion', () => {
  /** What bash offers after these words, by running the real function in a real bash. */
  async function offered(...words: string[]): Promise<string[]> {
    const { out } = await new Program().run(['completion', 'bash']);
    const line = words.map((word) => `'${word}'`).join(' ');
    const script = `set -eu\n${out}\nCOMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _parley; printf '%s\\n' "\${COMPREPLY[@]-}"`;
    const bash = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8' });
    expect(bash.stderr).toBe('');
    return bash.stdout.split('\n').filter(Boolean);
  }

  it('offers every command of the table in bash', async () => {
    expect(await offered('parley', '')).toEqual([
      ...PARLEY_COMMANDS.map(({ name }) => name),
      'help',
      '--help',
      '--version',
    ]);
    expect(await offered('parley', 'wh')).toEqual(['whoami', 'why']);
  });

  it('offers the options of a command, and nothing where a value belongs', async () => {
    expect(await offered('parley', 'send', '@bob', '--in')).toEqual(['--intent']);
    expect(await offered('parley', 'send', '--intent', '')).toEqual([]);
    expect(await offered('parley', 'self', 'install', '--')).toContain('--names');
  });

  it('offers the words that a command chooses from', async () => {
    expect(await offered('parley', 'completion', '')).toEqual(['bash', 'zsh', 'fish']);
    expect(await offered('parley', 'self', 'un')).toEqual(['uninstall']);
    expect(await offered('parley', 'send', '')).toEqual([]);
  });

  it('offers the agents, roles and channels that are here as recipients', async () => {
    const parley = await new Program().init('anna', 'ben');
    await parley.run(['sub', '#ops']);
    const bin = temporaryHome();
    symlinkSync(PARLEY, `${bin}/parley`);
    const { out } = await parley.run(['completion', 'bash']);
    const script = `${out}\nfor word in @a '#'; do COMP_WORDS=(parley send "$word"); COMP_CWORD=2; _parley; echo "\${COMPREPLY[@]-}"; done`;
    const env = { ...parley.env, PATH: `${bin}:${parley.env['PATH']}` };
    const bash = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8', env });
    expect([bash.stdout, bash.stderr]).toEqual(['@anna\n#ops\n', '']);
  });

  it('has a line for every command in zsh and in fish', async () => {
    const parley = new Program();
    const zsh = (await parley.run(['completion', 'zsh'])).out;
    const fish = (await parley.run(['completion', 'fish'])).out;
    for (const { name } of PARLEY_COMMANDS) {
      expect(zsh).toContain(`    ${name}) _arguments `);
      expect(fish).toContain(`-n __fish_use_subcommand -f -a ${name} `);
    }
  });

  it('knows no other shell', async () => {
    const run = await new Program().run(['completion', 'bsh']);
    expect(run).toMatchObject({ code: 64, out: '' });
    expect(run.err).toContain('did you mean bash?');
  });
});

describe('parley version', () => {
  it('tells the version of the package, of Bun and of the ledger', async () => {
    const parley = new Program();
    expect((await parley.run(['--version'])).out).toBe(
      `parley ${version} (Bun ${Bun.version}, ledger format 5, compiled)\n`,
    );
    expect(await parley.json<Record<string, unknown>>(['version'])).toMatchObject({
      version,
      bun: Bun.version,
      ledgerFormat: 5,
      compiled: true,
    });
    expect(readdirSync(parley.home)).toEqual([]);
  });
});
