import { describe, expect, it } from 'bun:test';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import type { Message } from '../../src/core/message.ts';
import { Machine, until } from '../support/bch.ts';
import { PARLEY } from '../support/program.ts';

const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/;
const UUID4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('a message that bch writes', () => {
  it("has exactly the original's bytes [BC-B1.2, BC-B1.3, BC-B1.4, BC-B7.22]", async () => {
    const machine = new Machine().agent('bob');
    const said = await machine.said(['send', '@bob', 'hello', 'there'], { as: 'ann' });
    const text = machine.onlyFile('bob');
    const { id, ts } = JSON.parse(text) as Message;
    expect(text).toBe(`{"id":"${id}","from":"ann","to":"@bob","body":"hello there","priority":"normal","ts":"${ts}"}`);
    expect(id).toMatch(UUID4);
    expect(ts).toMatch(new RegExp(`^${TIME.source}$`));
    expect(machine.files('bob', 'new')).toEqual([`${id}.json`]);
    expect(said).toBe(`sent ${id.slice(0, 8)} to @bob\n`);
  });

  it('has its keys in order, and our own key after them where there is something to say [BC-1, BC-B1.1]', async () => {
    const machine = new Machine().agent('bob').agent('eve');
    const words = ['a', '--urgent', '--scope', 'org/repo', '--ref', 'x.ts', '--ref', 'https://e.org/1'];
    await machine.said(['send', '@bob', ...words], { as: 'ann' });
    await machine.said(['send', '@eve', ...words, '--thread', 't-1'], { as: 'ann' });
    const keys = (text: string): string[] => Object.keys(JSON.parse(text) as object);
    const whole = ['id', 'from', 'to', 'body', 'priority', 'scope', 'thread', 'refs', 'ts'];
    expect(keys(machine.onlyFile('bob'))).toEqual(whole.filter((key) => key !== 'thread'));
    expect(keys(machine.onlyFile('eve'))).toEqual([...whole, 'parley']);
  });

  const traced = Bun.which('strace') ? it : it.skip;
  traced('gets its folders, then a draft, then its place in new/, and then its sender was here [BC-B3.2]', () => {
    const machine = new Machine().agent('ann').agent('bob');
    rmSync(`${machine.root}/spool/bob`, { recursive: true, force: true });
    const log = `${machine.program.home}/strace.log`;
    const calls = 'trace=mkdir,mkdirat,openat,rename,renameat,renameat2';
    const send = [PARLEY, 'bch', 'send', '@bob', 'hello'];
    const ran = Bun.spawnSync(['strace', '-f', '-o', log, '-e', calls, ...send], {
      env: machine.env({ as: 'ann' }),
      cwd: machine.program.home,
    });
    expect(ran.exitCode).toBe(0);
    const [name = ''] = machine.files('bob', 'new');
    const steps = readFileSync(log, 'utf8').split('\n');
    const order = [
      /mkdir.*spool\/bob\/new/,
      new RegExp(`openat.*spool/bob/tmp/${name}.*O_CREAT`),
      new RegExp(`rename.*spool/bob/tmp/${name}.*spool/bob/new/${name}`),
      /(openat|rename).*agents\/ann\.json.*(O_CREAT|= 0)/,
    ].map((step) => steps.findIndex((line) => step.test(line)));
    expect(order).not.toContain(-1);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    const { lastSeen } = JSON.parse(readFileSync(`${machine.root}/agents/ann.json`, 'utf8')) as { lastSeen: string };
    expect(Date.parse(lastSeen)).toBeGreaterThan(Date.now() - 60_000);
  });

  it('has no empty scope, thread or refs [BC-B1.7]', async () => {
    const machine = new Machine().agent('bob');
    await machine.said(['send', '@bob', 'a', '--scope', '', '--thread='], { as: 'ann' });
    expect(Object.keys(JSON.parse(machine.onlyFile('bob')) as object)).toEqual([
      'id',
      'from',
      'to',
      'body',
      'priority',
      'ts',
    ]);
  });

  it('keeps its target as it was typed [BC-B1.8]', async () => {
    const machine = new Machine().agent('bob', { subscriptions: ['#dev'] });
    for (const target of ['bob', '@bob', '#dev']) await machine.said(['send', target, 'x'], { as: 'ann' });
    const told = JSON.parse(await machine.said(['inbox', '--json'], { as: 'bob' })) as Message[];
    expect(told.map(({ to }) => to)).toEqual(['bob', '@bob', '#dev']);
  });

  it('needs a body, which may be empty [BC-B1.11]', async () => {
    const machine = new Machine().agent('bob');
    expect(await machine.error(['send', '@bob'], { as: 'ann' })).toBe('usage: bch send <@agent|#channel> <message>');
    await machine.said(['send', '@bob', ''], { as: 'ann' });
    expect(JSON.parse(machine.onlyFile('bob'))).toMatchObject({ body: '' });
  });

  it('brings thread and refs back exactly as they were given, whatever they are [BC-5, BC-B7.6]', async () => {
    const machine = new Machine().agent('bob');
    await machine.said(['send', '@bob', 'x', '--thread', 'issue 42/ü', '--ref', ' a b ', '--ref', '../c'], {
      as: 'ann',
    });
    await machine.said(['send', '@bob', 'in', 'words', '--urgent', '--scope', 'org/repo'], { as: 'ann' });
    const told = JSON.parse(await machine.said(['inbox', '--json'], { as: 'bob' })) as Message[];
    expect(told).toMatchObject([
      { thread: 'issue 42/ü', refs: [' a b ', '../c'], priority: 'normal' },
      { body: 'in words', scope: 'org/repo', priority: 'urgent' },
    ]);
    expect(told[1]).not.toHaveProperty('thread');
    expect(told[1]).not.toHaveProperty('refs');
  });

  it('lies in the same place and looks the same, urgent or not [BC-3]', async () => {
    const machine = new Machine().agent('bob');
    await machine.said(['send', '@bob', 'x'], { as: 'ann' });
    await machine.said(['send', '@bob', 'x', '--urgent'], { as: 'ann' });
    const names = machine.files('bob', 'new');
    const texts = names.map((name) => readFileSync(`${machine.root}/spool/bob/new/${name}`, 'utf8'));
    const [one, other] = texts.map((text) => JSON.parse(text) as Message);
    expect(new Set([one?.priority, other?.priority])).toEqual(new Set(['normal', 'urgent']));
    expect({ ...one, id: '', ts: '', priority: '' }).toEqual({ ...other, id: '', ts: '', priority: '' } as never);
  });
});

describe('a message that a plain script left', () => {
  it('is read, with fields that nobody knows, in a mailbox that only the original made [BC-1]', async () => {
    const machine = new Machine().agent('bob');
    const id = machine.leave('bob', { body: 'from a script', colour: 'red', parley: 'nonsense' });
    expect(await machine.said(['drain'], { as: 'bob' })).toMatch(/^script -> @bob \([^)]*\)\nfrom a script\n$/);
    expect(machine.files('bob', 'new')).toEqual([]);
    expect(machine.files('bob', 'cur')).not.toContain(`${id}.json`);
  });

  it('is normal if it says nothing of its priority, and any other word is passed on [BC-B1.5, BC-B1.6]', async () => {
    const machine = new Machine().agent('bob');
    machine.leave('bob', { priority: null });
    machine.leave('bob', { priority: undefined });
    machine.leave('bob', { priority: 'whenever' });
    for (const command of ['inbox', 'drain']) {
      const told = JSON.parse(await machine.said([command, '--json'], { as: 'bob' })) as Message[];
      expect(told.map(({ priority }) => priority).sort()).toEqual(['normal', 'normal', 'whenever']);
    }
  });

  it('without body or time breaks nothing', async () => {
    const machine = new Machine().agent('bob');
    machine.leave('bob', { body: undefined, ts: undefined });
    machine.leave('bob', { body: 42 });
    machine.leave('bob', { body: 'whole' });
    const out = await machine.said(['inbox', '--brief'], { as: 'bob' });
    expect(out.trimEnd().split('\n')).toHaveLength(3);
    expect(await machine.said(['drain'], { as: 'bob' })).toContain('whole');
    expect(machine.files('bob', 'new')).toEqual([]);
  });

  it('cannot write to the terminal, and comes out of --json as it is [BC-17]', async () => {
    const machine = new Machine().agent('bob');
    const body = 'a\u001b[2Jb\u0007\u202ec';
    machine.leave('bob', { body, from: 'x\nfake -> @bob', scope: 's\u001b' });
    const [whole, brief, json] = await Promise.all(
      [[], ['--brief'], ['--json']].map((flags) => machine.said(['inbox', ...flags], { as: 'bob' })),
    );
    for (const text of [whole, brief]) {
      expect(text).toContain('a␛[2Jb␇\\u{202e}c');
      expect(text).toStartWith('x fake -> @bob');
    }
    expect(JSON.parse(json ?? '')).toMatchObject([{ body }]);
  });

  it('goes to anyone who renames it first: bch, or another script', async () => {
    const machine = new Machine().agent('bob');
    const ids = Array.from({ length: 60 }, () => machine.leave('bob'));
    const drained = machine.start('bch', ['drain', '--json'], { as: 'bob' });
    const box = `${machine.root}/spool/bob`;
    mkdirSync(`${box}/cur`, { recursive: true });
    // The script takes from the end, a little at a time, while bch is at work.
    const script: string[] = [];
    for (const id of ids.toReversed()) {
      if (drained.child.exitCode !== null) break;
      await Bun.sleep(1);
      try {
        renameSync(`${box}/new/${id}.json`, `${box}/cur/${id}.json`);
        script.push(id);
      } catch {
        // bch was faster.
      }
    }
    await drained.ended();
    const told = drained.out.startsWith('[') ? (JSON.parse(drained.out) as Message[]).map(({ id }) => id) : [];
    expect(drained.run()).toMatchObject({ code: 0, err: '' });
    expect([...told, ...script].sort()).toEqual(ids.toSorted());
    const gone = machine.leave('bob');
    renameSync(`${box}/new/${gone}.json`, `${box}/cur/${gone}.json`);
    expect(await machine.error(['read', gone], { as: 'bob' })).toBe(`no unread message with id ${gone}`);
  });
});

describe('names and targets of bch', () => {
  const BAD: [name: string][] = [['.hidden'], ['-x'], ['a/b'], ['../x'], ['a b'], ['@ann'], ['ünï'], ['']];
  it.each(BAD)('registering refuses the name %p [BC-B2.2]', async (name) => {
    const machine = new Machine();
    expect(await machine.error(['init', '--', name])).toBe(`invalid agent name "${name}" (use letters, digits, . _ -)`);
    expect(existsSync(`${machine.root}/agents`)).toBe(false);
  });

  it('a target is a channel if it starts with #, otherwise an agent after one @ [BC-B2.2, BC-B3.7]', async () => {
    const machine = new Machine().agent('bob').agent('a..');
    const send = (target: string): Promise<string> => machine.error(['send', target, 'x'], { as: 'ann' });
    expect(await send('#bob')).toBe('channel #bob has no other subscribers — nothing to deliver');
    expect(await send('@@bob')).toBe('unknown agent "@bob" — they must `bch init @bob` first');
    expect(await send('nobody')).toBe('unknown agent "nobody" — they must `bch init nobody` first');
    await machine.said(['send', 'a..', 'x'], { as: 'ann' });
    await machine.said(['send', '@bob', 'x'], { as: 'ann' });
    rmSync(`${machine.root}/agents/bob.json`);
    expect(await send('@bob')).toBe('unknown agent "bob" — they must `bch init bob` first');
  });

  it('a target with path parts is refused and nothing is written outside the spool [BC-C5]', async () => {
    const machine = new Machine().agent('bob');
    const { home } = machine.program;
    writeFileSync(
      `${machine.root}/x.json`,
      JSON.stringify({ name: '../x', subscriptions: [], createdAt: '', lastSeen: '' }),
    );
    mkdirSync(`${machine.root}/x`);
    expect(await machine.error(['send', '@../x', 'hi'], { as: 'ann' })).toBe(
      'unknown agent "../x" — they must `bch init ../x` first',
    );
    expect(await machine.error(['send', '@bob', 'hi'], { as: '../x' })).toContain('invalid agent name "../x"');
    expect(readdirSync(`${machine.root}/x`)).toEqual([]);
    expect(existsSync(`${machine.root}/spool`)).toBe(false);
    expect(readdirSync(home)).toEqual(['.backchannel']);
  });

  it('any channel name is allowed; subscribing adds a missing #, sending never does [BC-B2.2, BC-B2.3]', async () => {
    const machine = new Machine().agent('bob').agent('Ann');
    for (const channel of ['dev', '#Dev', 'two words', '']) await machine.said(['sub', channel], { as: 'bob' });
    expect(machine.record('bob')['subscriptions']).toEqual(['#dev', '#Dev', '#two words', '#']);
    expect(await machine.said(['channels'])).toBe('#\n#Dev\n#dev\n#two words\n');
    for (const channel of ['#dev', '#two words', '#']) await machine.said(['send', channel, channel], { as: 'Ann' });
    const told = JSON.parse(await machine.said(['drain', '--json'], { as: 'bob' })) as Message[];
    expect(told.map(({ body }) => body)).toEqual(['#dev', '#two words', '#']);
    expect(await machine.error(['send', '#DEV', 'x'], { as: 'Ann' })).toContain('channel #DEV has no other');
    expect(await machine.error(['send', 'dev', 'x'], { as: 'Ann' })).toContain('unknown agent "dev"');
  });

  it('a channel message is copied to all subscribers but its sender, at once [BC-2, BC-B2.4]', async () => {
    const machine = new Machine();
    for (const name of ['ann', 'bob', 'eve']) machine.agent(name, { subscriptions: ['#dev'] });
    await machine.said(['send', '#dev', 'x'], { as: 'ann' });
    const [bob, eve] = [machine.onlyFile('bob'), machine.onlyFile('eve')];
    expect(bob).toBe(eve);
    expect(machine.files('ann', 'new')).toEqual([]);
    await machine.said(['drain'], { as: 'bob' });
    expect(machine.onlyFile('eve')).toBe(eve);
    await machine.said(['send', '#dev', 'from outside'], { as: 'guest' });
    expect(['ann', 'bob', 'eve'].map((name) => machine.files(name, 'new').length)).toEqual([1, 1, 2]);
    await machine.said(['send', '@ann', 'to myself'], { as: 'ann' });
    expect(await machine.said(['drain'], { as: 'ann' })).toContain('to myself');
  });

  it('a channel lives on the records of its subscribers, and dies with the last [BC-11, BC-B2.4, BC-B7.11]', async () => {
    const machine = new Machine().agent('bob').agent('ann');
    await machine.said(['sub', '#dev'], { as: 'bob' });
    await machine.said(['sub', '#dev'], { as: 'bob' });
    expect(machine.record('bob')['subscriptions']).toEqual(['#dev']);
    await machine.said(['send', '#dev', 'x'], { as: 'ann' });
    const before = machine.files('bob', 'new');
    expect(await machine.error(['send', '#dev', 'x'], { as: 'bob' })).toBe(
      'channel #dev has no other subscribers — nothing to deliver',
    );
    expect(machine.files('bob', 'new')).toEqual(before);
    await machine.said(['unsub', 'dev'], { as: 'bob' });
    expect(await machine.said(['channels'])).toBe('no channels yet — `bch sub #general` to create one\n');
    for (const words of [[], ['a', 'b']]) {
      expect(await machine.error(['sub', ...words], { as: 'bob' })).toBe('usage: bch sub <#channel>');
      expect(await machine.error(['unsub', ...words], { as: 'bob' })).toBe('usage: bch unsub <#channel>');
    }
    expect(await machine.error(['sub', 'a'], { as: 'new' })).toBe('unknown agent "new" — run `bch init new` first');
  });

  it('of 20 concurrent subscribes all are kept [BC-11, BC-C6]', async () => {
    const machine = new Machine().agent('bob');
    const channels = Array.from({ length: 20 }, (_, at) => `#c${at}`);
    await Promise.all(channels.map((channel) => machine.said(['sub', channel], { as: 'bob' })));
    expect((machine.record('bob')['subscriptions'] as string[]).toSorted()).toEqual(channels.toSorted());
  });
});

describe('the home of bch', () => {
  it('is ~/.backchannel, or what BACKCHANNEL_HOME says, with config, agents and spool [BC-7, BC-B3.8, BC-B3.11, BC-B7.44]', async () => {
    const machine = new Machine();
    const elsewhere = `${machine.program.home}/else/where`;
    await machine.said(['init', 'eve'], { env: { BACKCHANNEL_HOME: elsewhere } });
    expect(readdirSync(machine.program.home)).toEqual(['else']);
    await machine.said(['init', 'bob']);
    for (const [root, name] of [
      [machine.root, 'bob'],
      [elsewhere, 'eve'],
    ] as const) {
      expect(JSON.parse(readFileSync(`${root}/config.json`, 'utf8'))).toEqual({ agent: name });
      expect(readdirSync(`${root}/agents`)).toEqual([`${name}.json`]);
      expect(readdirSync(`${root}/spool/${name}`)).toEqual(expect.arrayContaining(['cur', 'new', 'tmp']));
    }
    expect(readdirSync(machine.program.home).sort()).toEqual(['.backchannel', 'else']);
  });

  it('has records and a config exactly as the original writes them [BC-B3.9]', async () => {
    const machine = new Machine();
    await machine.said(['init', 'bob']);
    await machine.said(['sub', '#dev']);
    const text = readFileSync(`${machine.root}/agents/bob.json`, 'utf8');
    const { createdAt, lastSeen } = JSON.parse(text) as Record<string, string>;
    expect(text).toBe(JSON.stringify({ name: 'bob', subscriptions: ['#dev'], createdAt, lastSeen }, null, 2));
    expect(createdAt).toMatch(TIME);
    const config = `${machine.root}/config.json`;
    expect(readFileSync(config, 'utf8')).toBe('{\n  "agent": "bob"\n}');
    const others = { room: 'r', backend: 'fs', brainToken: 't', brainUrl: 'u', brainRoom: 'b', unknown: [1] };
    writeFileSync(config, JSON.stringify({ agent: 'bob', ...others }));
    expect(await machine.said(['whoami'])).toBe('bob via local spool\n');
    await machine.said(['init', 'eve']);
    expect(readFileSync(config, 'utf8')).toBe(JSON.stringify({ agent: 'eve', ...others }, null, 2));
    writeFileSync(config, '{"agent":');
    expect(await machine.error(['inbox'])).toBe(
      `${config} is not a valid config; correct or remove it, then run this again`,
    );
  });

  it('keeps what it does not know of a record, and puts no secret there [BC-B3.5]', async () => {
    const machine = new Machine().agent('bob', { tokenHash: 'abc', colour: { a: [1] } });
    await machine.said(['init', 'bob']);
    await machine.said(['sub', 'dev']);
    await machine.said(['send', '@bob', 'x']);
    await machine.said(['drain']);
    const { lastSeen, ...rest } = machine.record('bob');
    expect(rest).toEqual({
      name: 'bob',
      subscriptions: ['#dev'],
      createdAt: '2026-01-02T03:04:05.678Z',
      tokenHash: 'abc',
      colour: { a: [1] },
    });
    expect(Date.parse(String(lastSeen))).toBeGreaterThan(Date.now() - 60_000);
  });

  it('notes when its agents were there: at a send and at a look', async () => {
    const machine = new Machine().agent('ann').agent('bob').agent('eve');
    await machine.said(['send', '@eve', 'x'], { as: 'ann' });
    await machine.said(['inbox'], { as: 'bob' });
    const old = machine.record('eve')['lastSeen'];
    for (const name of ['ann', 'bob']) expect(String(machine.record(name)['lastSeen']) > String(old)).toBe(true);
    expect(machine.files('eve', 'tmp')).toEqual([]);
    expect(machine.files('eve', 'new')).toHaveLength(1);
  });

  it('shows its files to their owner only [BC-17, BC-C12]', async () => {
    const machine = new Machine();
    await machine.said(['init', 'bob']);
    const config = `${machine.root}/config.json`;
    writeFileSync(config, JSON.stringify({ agent: 'bob', token: 'secret' }));
    chmodSync(config, 0o644);
    await machine.said(['init', 'bob']);
    expect(JSON.parse(readFileSync(config, 'utf8'))).toEqual({ agent: 'bob', token: 'secret' });
    for (const path of [config, `${machine.root}/agents/bob.json`]) expect(statSync(path).mode & 0o777).toBe(0o600);
    for (const path of ['', '/agents', '/spool/bob/new'])
      expect(statSync(machine.root + path).mode & 0o777).toBe(0o700);
  });

  it("keeps each agent's token when another agent is made", async () => {
    const machine = new Machine();
    mkdirSync(machine.root, { recursive: true });
    const config = `${machine.root}/config.json`;
    const now = (): unknown => JSON.parse(readFileSync(config, 'utf8'));
    writeFileSync(config, JSON.stringify({ agent: 'ann', token: 'anns' }));
    await machine.said(['init', 'bob']);
    expect(now()).toEqual({ agent: 'bob', tokens: { ann: 'anns' } });
    writeFileSync(config, JSON.stringify({ ...(now() as object), token: 'bobs' }));
    await machine.said(['init', 'ann']);
    expect(now()).toEqual({ agent: 'ann', token: 'anns', tokens: { bob: 'bobs' } });
  });

  it('knows who acts from the environment before the config [BC-B7.28, BC-B7.47]', async () => {
    const machine = new Machine();
    await machine.said(['init', 'bob']);
    expect(await machine.said(['whoami'])).toBe('bob via local spool\n');
    expect(await machine.said(['whoami'], { as: 'eve' })).toBe('eve via local spool\n');
  });
});

describe('scope', () => {
  // [scope of the message, match of the reader, does it fit]
  const CASES: [scope: string, match: string, fits: boolean][] = [
    ['https://GitHub.com/Org/Repo.git', 'git@github.com:org/repo.git', true],
    ['http://github.com/org/repo//', 'github.com/org/repo', true],
    ['host:8080/x', 'http://host/8080/x', true],
    ['git@host:team/tool.git', 'https://host/team/tool', true],
    ['HTTPS://Host/Z', 'host/z', true],
    ['a:b:c', 'a/b/c', true],
    ['host:', 'host', false],
    ['y.git.git', 'y', false],
    ['repo', 'myrepo-old', true],
    ['org/repo', 'myorg/repo2', true],
    ['/', 'anything', true],
    ['https://', 'anything', true],
    ['x.git/', 'x', false],
    ['x.git/', 'x.git/y', true],
    ['ssh://git@host/org/repo', 'host/org/repo', false],
    ['https://user@host/org/repo', 'host/org/repo', false],
    ['git@https://x', 'x', false],
    ['org/other', 'org/repo', false],
  ];
  it('fits by substring of the normalised forms [BC-B4.1, BC-B4.3, BC-B4.4, BC-B4.5, BC-B4.6, BC-B4.7]', async () => {
    const machine = new Machine().agent('bob');
    const scopes = [...new Set(CASES.map(([scope]) => scope))];
    for (const scope of scopes) machine.leave('bob', { scope });
    const matches = [...new Set(CASES.map(([, match]) => match))];
    const shown = await Promise.all(
      matches.map(async (match) => {
        const told = JSON.parse(await machine.said(['inbox', '--json', '--match', match], { as: 'bob' })) as Message[];
        return [match, told.map(({ scope }) => scope)] as const;
      }),
    );
    const fitting = new Map(shown);
    for (const [scope, match, fits] of CASES) {
      expect([scope, match, fitting.get(match)?.includes(scope)]).toEqual([scope, match, fits]);
    }
  });

  it('is a matter of the reader: inbox shows all, drain skips, a match takes, read ignores [BC-4, BC-B7.7, BC-B4.2, BC-B4.8, BC-B4.9, BC-B4.11]', async () => {
    const machine = new Machine().agent('bob');
    for (const body of ['one', 'two', 'three']) machine.leave('bob', { body, scope: body });
    machine.leave('bob', { body: 'plain' });
    const bodies = async (...args: string[]): Promise<string[]> =>
      (JSON.parse(await machine.said([...args, '--json'], { as: 'bob' })) as Message[]).map(({ body }) => body);
    expect(await bodies('inbox')).toEqual(['one', 'two', 'three', 'plain']);
    expect(await bodies('inbox', '--match', 'one')).toEqual(['one', 'plain']);
    expect(await bodies('drain', '--match', '')).toEqual(['plain']);
    expect(await bodies('drain')).toEqual([]);
    machine.leave('bob', { body: 'plain again' });
    expect(await bodies('drain', '--match', 'github.com/two')).toEqual(['two', 'plain again']);
    const [left] = machine.files('bob', 'new');
    expect(await machine.said(['read', left?.slice(0, 8) ?? ''], { as: 'bob' })).toContain('scope: ');
    expect(machine.files('bob', 'new')).toHaveLength(1);
  });
});

describe('what bch prints', () => {
  it('is help for help, for --help, for -h and for nothing [BC-B7.15]', async () => {
    const machine = new Machine();
    const texts = await Promise.all([['help'], ['--help'], ['-h'], []].map((args) => machine.said(args)));
    expect(texts[0]).toContain('bch send');
    expect(new Set(texts).size).toBe(1);
    expect(readdirSync(machine.program.home)).toEqual([]);
  });

  const REFUSED: [what: string, args: string[], env: Record<string, string>, text: string][] = [
    ['an unknown command [BC-B7.32]', ['x'], {}, 'unknown command "x" — run `bch help`'],
    ['a word that every table has [BC-B7.32]', ['constructor'], {}, 'unknown command "constructor" — run `bch help`'],
    ['an unknown flag [BC-B7.16]', ['inbox', '--x'], {}, "Unknown option '--x'"],
    [
      'a surplus word [BC-B7.12, BC-B7.17]',
      ['agents', 'x'],
      {},
      "Unexpected argument 'x'. This command does not take positional arguments",
    ],
    [
      'a surplus word after channels [BC-B7.12]',
      ['channels', 'x'],
      {},
      "Unexpected argument 'x'. This command does not take positional arguments",
    ],
    [
      'a surplus word after whoami [BC-B7.12]',
      ['whoami', 'x'],
      {},
      "Unexpected argument 'x'. This command does not take positional arguments",
    ],
    ['a flag without its value', ['inbox', '--match'], {}, "Option '--match <value>' argument missing"],
    [
      'nobody [BC-B7.31]',
      ['inbox'],
      { BACKCHANNEL_AGENT: '' },
      'no agent identity — run `bch init <name>` first (or set BACKCHANNEL_AGENT)',
    ],
    ['init without a name', ['init'], {}, 'usage: bch init <name>'],
    ['read without an id', ['read'], {}, 'usage: bch read <id> [--keep]'],
    ['an id that nothing has [BC-B7.24]', ['read', '../../config'], {}, 'no unread message with id ../../config'],
    [
      '--brain [BC-B7.52]',
      ['init', 'n', '--brain'],
      {},
      'the brain backend is not part of this program (--brain was given); leave it out to use the local spool',
    ],
    [
      '--brain-token [BC-B7.52]',
      ['init', 'n', '--brain-token', 'r'],
      {},
      'the brain backend is not part of this program (--brain-token was given); leave it out to use the local spool',
    ],
    [
      '--brain-url [BC-B7.52]',
      ['init', 'n', '--brain-url', 'r'],
      {},
      'the brain backend is not part of this program (--brain-url was given); leave it out to use the local spool',
    ],
    [
      '--brain-room [BC-B7.52]',
      ['init', 'n', '--brain-room', 'r'],
      {},
      'the brain backend is not part of this program (--brain-room was given); leave it out to use the local spool',
    ],
    [
      'UNISON_TOKEN [BC-B7.52]',
      ['inbox'],
      { UNISON_TOKEN: 't' },
      'the brain backend is not part of this program (UNISON_TOKEN is set); leave it out to use the local spool',
    ],
    [
      'UNISON_API_URL [BC-B7.52]',
      ['send', '@me', 'x'],
      { UNISON_API_URL: 'u' },
      'the brain backend is not part of this program (UNISON_API_URL is set); leave it out to use the local spool',
    ],
    [
      'a token for no relay',
      ['init', 'n', '--token', 't'],
      {},
      '--token is for a relay — say which: bch init n --url <relay-url>',
    ],
    [
      'an address that is none',
      ['send', '@me', 'x'],
      { BACKCHANNEL_URL: 'relay.test' },
      '"relay.test" is not the address of a relay; write https://host or http://localhost:7117',
    ],
    [
      'a relay that is not there, under --hook too [BC-B7.40]',
      ['drain', '--hook'],
      { BACKCHANNEL_URL: 'http://127.0.0.1:1' },
      'the relay http://127.0.0.1:1 cannot be reached (nothing listens there)',
    ],
  ];
  it.each(REFUSED)('is one line on stderr and exit code 1 for %s [BC-B7.18]', async (_what, args, env, text) => {
    const machine = new Machine().agent('me');
    expect(await machine.error(args, { as: 'me', env })).toBe(text);
    expect(existsSync(`${machine.root}/spool/me/new`) ? machine.files('me', 'new') : []).toEqual([]);
  });

  it('never is the local inbox of somebody whose config names a relay [BC-B3.9]', async () => {
    const machine = new Machine().agent('me');
    machine.leave('me');
    const configs = [{ url: 'http://127.0.0.1:1' }, { backend: 'relay' }, { backend: 'brain' }, { backend: 'x' }];
    for (const config of configs) {
      writeFileSync(`${machine.root}/config.json`, JSON.stringify({ agent: 'me', ...config }));
      expect(await machine.error(['drain'])).toMatch(
        /cannot be reached|no relay is named|is not part of|no such backend/,
      );
    }
    expect(machine.files('me', 'new')).toHaveLength(1);
  });

  it('tells of every act in the words of the original [BC-B7.19, BC-B7.22, BC-B7.23, BC-B7.25, BC-B7.26, BC-B7.27]', async () => {
    const machine = new Machine();
    expect(await machine.said(['init', 'bob'])).toBe('registered as "bob" (local spool)\n');
    expect(await machine.said(['inbox'])).toBe('inbox empty\n');
    expect(await machine.said(['drain'])).toBe('inbox empty\n');
    expect(await machine.said(['channels'])).toBe('no channels yet — `bch sub #general` to create one\n');
    expect(await machine.said(['sub', 'dev'])).toBe('subscribed to dev\n');
    expect(await machine.said(['sub', '#x'])).toBe('subscribed to #x\n');
    machine.agent('Ann');
    const { lastSeen } = machine.record('bob');
    expect(await machine.said(['agents'])).toBe(
      `Ann — last seen 2026-01-02T03:04:05.678Z\nbob (#dev, #x) — last seen ${String(lastSeen)}\n`,
    );
    expect(await machine.said(['unsub', '#x'])).toBe('unsubscribed from #x\n');
    expect(await machine.said(['send', 'bob', '--', '--not', 'a flag'])).toMatch(/^sent [0-9a-f]{8} to bob\n$/);
    expect(await machine.said(['whoami'])).toBe('bob via local spool\n');
  });

  it('is a refusal of surplus words after every command that takes none [BC-B7.17]', async () => {
    const machine = new Machine().agent('me');
    for (const command of ['inbox', 'drain', 'watch', 'setup', 'invite', 'relay', 'mcp']) {
      expect(await machine.error([command, 'x'], { as: 'me' })).toStartWith("Unexpected argument 'x'.");
    }
  });

  it('-- ends the options [BC-B7.17]', async () => {
    const machine = new Machine().agent('bob');
    await machine.said(['send', 'bob', '--', '--urgent', '--', 'x'], { as: 'ann' });
    expect(JSON.parse(machine.onlyFile('bob'))).toMatchObject({ body: '--urgent -- x', priority: 'normal' });
  });

  it('is a message in full, in brief or as JSON [BC-B7.7, BC-B7.33, BC-B7.34, BC-B7.35, BC-B7.36]', async () => {
    const machine = new Machine().agent('bob');
    const ts = '2026-03-04T05:06:07.089Z';
    const first = {
      id: 'aaaaaaaa-1',
      ts,
      priority: 'urgent',
      scope: 's',
      thread: 't',
      refs: ['a', 'b'],
      body: 'one\n\n two',
    };
    const long = `${'x'.repeat(119)} \t\n y`;
    machine.leave('bob', first);
    machine.leave('bob', { id: 'bbbbbbbb-2', ts: '2026-03-04T05:06:08.000Z', to: '#dev', body: long });
    const [whole, brief, json] = await Promise.all(
      [[], ['--brief'], ['--json']].map((flags) => machine.said(['inbox', ...flags], { as: 'bob' })),
    );
    const heads = [
      `script -> @bob [URGENT] (${ts}, id aaaaaaaa)`,
      'script -> #dev (2026-03-04T05:06:08.000Z, id bbbbbbbb)',
    ];
    expect(whole).toBe(`${heads[0]}\n  scope: s\n  thread: t\n  refs: a, b\none\n\n two\n${heads[1]}\n${long}\n`);
    expect(brief).toBe(`${heads[0]}: one two\n${heads[1]}: ${'x'.repeat(119)} …\n`);
    const values = JSON.parse(json ?? '') as Message[];
    expect(json).toBe(`${JSON.stringify(values, null, 2)}\n`);
    expect(Object.keys(values[0] ?? {})).toEqual([
      'id',
      'from',
      'to',
      'body',
      'priority',
      'scope',
      'thread',
      'refs',
      'ts',
    ]);
    expect(values[0]).toMatchObject(first);
    const drained = await machine.said(['drain', '--json', '--match', 's'], { as: 'bob' });
    expect(drained).toBe(json ?? '');
    expect(await machine.said(['drain', '--json'], { as: 'bob' })).toBe('[]\n');
    expect(await machine.said(['inbox', '--json'], { as: 'bob' })).toBe('[]\n');
  });

  it('is nothing from a hook without mail or without identity, else a headline and the messages [BC-B7.8, BC-B7.37, BC-B7.38, BC-B7.39]', async () => {
    const machine = new Machine().agent('bob');
    expect(await machine.said(['drain', '--hook'])).toBe('');
    expect(await machine.said(['drain', '--hook'], { as: 'bob' })).toBe('');
    expect(await machine.said(['drain', '--hook', '--json'], { as: 'bob' })).toBe('[]\n');
    machine.leave('bob', { id: 'aaaaaaaa-1', ts: '2026-03-04T05:06:07.089Z' });
    machine.leave('bob', { id: 'bbbbbbbb-2', ts: '2026-03-04T05:06:08.089Z', body: 'more', scope: 'here' });
    machine.leave('bob', { body: 'not here', scope: 'elsewhere' });
    expect(await machine.said(['drain', '--hook', '--match', 'github.com/here'], { as: 'bob' })).toBe(
      [
        '[backchannel] 2 message(s) for bob:',
        'script -> @bob (2026-03-04T05:06:07.089Z, id aaaaaaaa)',
        'hello',
        'script -> @bob (2026-03-04T05:06:08.089Z, id bbbbbbbb)',
        '  scope: here',
        'more',
        '',
      ].join('\n'),
    );
    machine.leave('bob', { body: 'json' });
    const json = await machine.said(['drain', '--hook', '--json'], { as: 'bob' });
    expect(JSON.parse(json)).toMatchObject([{ body: 'json' }]);
  });
});

describe('reading with bch', () => {
  it('deletes what was read, or keeps it in cur/ [BC-9, BC-B7.9]', async () => {
    const machine = new Machine().agent('bob');
    const [one, two] = [machine.leave('bob', { body: 'one' }), machine.leave('bob', { body: 'two' })];
    expect(await machine.said(['read', one.slice(0, 8)], { as: 'bob' })).toEndWith('\none\n');
    expect(await machine.said(['read', two, '--keep'], { as: 'bob' })).toEndWith('\ntwo\n');
    expect(machine.files('bob', 'held')).toEqual([]);
    expect(machine.files('bob', 'new')).toEqual([]);
    expect(machine.files('bob', 'cur')).toEqual([`${two}.json`]);
  });

  it('refuses the start of two ids, and names both', async () => {
    const machine = new Machine().agent('bob');
    for (const id of ['abc-1', 'abc-2']) machine.leave('bob', { id });
    expect(await machine.error(['read', 'abc'], { as: 'bob' })).toMatch(/abc-1.*abc-2|abc-2.*abc-1/);
    expect(machine.files('bob', 'new')).toHaveLength(2);
  });

  it('gives each message to exactly one of many readers; looking takes nothing [BC-6, BC-B7.24]', async () => {
    const machine = new Machine().agent('bob');
    const id = machine.leave('bob');
    await machine.said(['inbox'], { as: 'bob' });
    const readers = await Promise.all(Array.from({ length: 4 }, () => machine.bch(['read', id], { as: 'bob' })));
    expect(readers.filter(({ code }) => code === 0)).toHaveLength(1);
    for (const { code, err } of readers) {
      if (code !== 0)
        expect([
          `error: message ${id} was claimed by another session\n`,
          `error: no unread message with id ${id}\n`,
        ]).toContain(err);
    }
    const ids = Array.from({ length: 200 }, () => machine.leave('bob'));
    const drains = await Promise.all(Array.from({ length: 4 }, () => machine.said(['drain', '--json'], { as: 'bob' })));
    const shown: string[] = drains.flatMap((out) => (JSON.parse(out) as Message[]).map((one) => one.id));
    expect(shown.toSorted()).toEqual(ids.toSorted());
    expect(machine.files('bob', 'new')).toEqual([]);
  });

  it('gives back to the next reader what a killed one had in its hand [BC-6]', async () => {
    const machine = new Machine().agent('bob');
    const ids = Array.from({ length: 30 }, () => machine.leave('bob', { body: 'x'.repeat(5000) }));
    const stuck = machine.stuck('bch', ['drain'], { as: 'bob' });
    await until('the claim of all', () => machine.files('bob', 'new').length === 0);
    stuck.child.kill('SIGKILL');
    await stuck.child.exited;
    const told = JSON.parse(await machine.said(['drain', '--json'], { as: 'bob' })) as Message[];
    expect(told.map(({ id }) => String(id))).toEqual(ids);
    stuck.leave();
  });

  it('claims before it prints, and settles only what was printed [BC-C9, BC-B7.41]', async () => {
    const machine = new Machine().agent('bob');
    const ids = Array.from({ length: 30 }, () => machine.leave('bob', { body: 'x'.repeat(5000) }));
    const files = ids.map((id) => `${id}.json`).sort();
    const stuck = machine.stuck('bch', ['drain'], { as: 'bob' });
    await until('the claim of all', () => machine.files('bob', 'new').length === 0);
    expect(await machine.said(['inbox'], { as: 'bob' })).toBe('inbox empty\n');
    expect(stuck.child.exitCode).toBeNull();
    stuck.leave();
    await stuck.child.exited;
    expect(machine.files('bob', 'new')).toEqual(files);
    expect(JSON.parse(await machine.said(['drain', '--json'], { as: 'bob' }))).toHaveLength(30);
    expect(machine.files('bob', 'new')).toEqual([]);
  });
});

describe('bch and parley together', () => {
  it('parley reaches an agent that bch made; bch reads it; parley can prove it', async () => {
    const machine = new Machine();
    await machine.said(['init', 'codex-1']);
    const { program } = machine;
    await program.init('me');
    const { id } = await program.json<{ id: string }>(['send', '@codex-1', 'hi']);
    expect(await machine.said(['drain'])).toMatch(
      new RegExp(`^me -> @codex-1 \\(${TIME.source}, id ${id.slice(0, 8)}\\)\nhi\n$`),
    );
    const trace = await program.run(['trace', id]);
    expect(trace.out).toContain('@codex-1');
    expect(trace.out).toMatch(/settled +\S+ {2}acknowledged, by bch drain, agent codex-1/);
    expect(await program.json<unknown[]>(['inbox'], { as: 'codex-1' })).toEqual([]);
  });

  it('an agent of bch answers a sender in its own home only', async () => {
    const machine = new Machine();
    await machine.said(['init', 'codex-1']);
    await machine.program.init('me');
    expect(await machine.error(['send', '@me', 'x'])).toBe('unknown agent "me" — they must `bch init me` first');
  });
});
