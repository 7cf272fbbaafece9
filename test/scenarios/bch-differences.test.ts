// Names and files as the original has them, and where ours differs on purpose. spec: spool#differences
import { describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import type { Message } from '../../src/core/message.ts';
import { Machine, until } from '../support/bch.ts';
import { PARLEY } from '../support/program.ts';

const LONGEST = 'x'.repeat(128);

async function listed(machine: Machine): Promise<string[]> {
  const told = JSON.parse(await machine.said(['inbox', '--json'], { as: 'bob' })) as Message[];
  return told.map(({ id }) => id);
}

describe('an agent name of bch', () => {
  it.each([
    ['b', 'b'],
    ['0', '0'],
    ['Z', 'Z'],
    ['A.b_c-9', 'A.b_c-9'],
    ['a..', 'a..'],
    ['128 characters long', LONGEST],
  ])('may be %s [BC-B2.1]', async (_what, name) => {
    const machine = new Machine();
    await machine.said(['init', name]);
    await machine.said(['send', `@${name}`, 'for you'], { as: 'ann' });
    expect(JSON.parse(machine.onlyFile(name))).toMatchObject({ body: 'for you' });
    expect(await machine.said(['drain'])).toContain('for you');
  });

  it.each([
    ['_a', '_a', 'use letters, digits, . _ -'],
    ['.a', '.a', 'use letters, digits, . _ -'],
    ['a+b', 'a+b', 'use letters, digits, . _ -'],
    ['é', 'é', 'use letters, digits, . _ -'],
    ['129 characters long', `${LONGEST}x`, 'use at most 128 characters'],
    ['too long and with a sign at its end', `${LONGEST}+`, 'use at most 128 characters'],
    ['too long and with a sign in front', `+${LONGEST}`, 'use letters, digits, . _ -'],
  ])('may not be %s, and who tries is told why [BC-B2.1]', async (_what, name, advice) => {
    const machine = new Machine();
    expect(await machine.error(['init', '--', name])).toBe(`invalid agent name "${name}" (${advice})`);
    const parley = machine.start('parley', ['init', '--', name]);
    await parley.ended();
    expect(parley.err).toContain(`(${advice})`);
    expect(existsSync(`${machine.root}/agents`)).toBe(false);
  });

  const folds = existsSync(import.meta.path.toUpperCase());
  it.skipIf(folds)(
    'is told from another by its case, but no new one is made that differs by case alone [BC-B2.1]',
    async () => {
      // Two that the original made, where files do not fold case.
      const machine = new Machine().agent('bob').agent('Bob');
      for (const name of ['bob', 'Bob']) await machine.said(['send', `@${name}`, `for ${name}`], { as: 'ann' });
      expect(await machine.error(['send', '@BOB', 'x'], { as: 'ann' })).toContain('unknown agent "BOB"');
      for (const name of ['bob', 'Bob']) {
        const told = JSON.parse(await machine.said(['drain', '--json'], { as: name })) as Message[];
        expect(told.map(({ body }) => body)).toEqual([`for ${name}`]);
      }
      expect(await machine.error(['init', 'BOB'])).toMatch(
        /^"BOB" differs from "[bB]ob" only by case; pick another name$/,
      );
      expect(readdirSync(`${machine.root}/agents`).sort()).toEqual(['Bob.json', 'bob.json']);
    },
  );
});

describe('a file in a mailbox of bch', () => {
  it('is a message only as <id>.json with that id inside; what is none is set aside and named [BC-B3.1]', async () => {
    const machine = new Machine().agent('bob');
    const whole = machine.leave('bob');
    const box = `${machine.root}/spool/bob/new`;
    const text = readFileSync(`${box}/${whole}.json`, 'utf8');
    const odd = { 'another-id': text.replace(whole, 'inner-id'), unparsable: '{"id":"unparsable","fr' };
    for (const [id, content] of Object.entries(odd)) writeFileSync(`${box}/${id}.json`, content);
    const others = ['notes.txt', `${whole}.json.bak`, 'no-ending'];
    for (const name of others) writeFileSync(`${box}/${name}`, text);
    const refused = async (): Promise<void> => {
      for (const id of ['another-id', 'inner-id', 'unparsable', 'notes', 'no-ending']) {
        expect(await machine.error(['read', id], { as: 'bob' })).toMatch(/^(no unread message with id|message) /);
      }
    };
    for (const name of readdirSync(box)) utimesSync(`${box}/${name}`, Date.now() / 1000 + 60, Date.now() / 1000 + 60);
    expect(await listed(machine)).toEqual([whole]);
    await refused();
    expect(machine.files('bob', 'new')).toHaveLength(6);
    for (const name of readdirSync(box)) utimesSync(`${box}/${name}`, Date.now() / 1000 - 60, Date.now() / 1000 - 60);
    expect(await listed(machine)).toEqual([whole]);
    await refused();
    expect(machine.files('bob', 'new')).toEqual([...others, `${whole}.json`].sort());
    const asides = readdirSync(`${machine.root}/aside/bob`).sort();
    expect(asides.map((name) => name.replace(/\.\d+\.json$/, ''))).toEqual(['another-id', 'unparsable']);
    expect(asides.map((name) => readFileSync(`${machine.root}/aside/bob/${name}`, 'utf8'))).toEqual(Object.values(odd));
    const doctor = machine.start('parley', ['doctor']);
    await doctor.ended();
    for (const name of asides) expect(doctor.out).toContain(`bob/${name}`);
    expect(await machine.said(['read', whole], { as: 'bob' })).toContain('hello');
  });
});

describe('`bch inbox`', () => {
  it('lists by time, what is alike as the directory has it, and what has no time first [BC-B3.3]', async () => {
    const machine = new Machine().agent('bob');
    const late = machine.leave('bob', { ts: '2026-03-01T00:00:02.000Z' });
    const alike = Array.from({ length: 20 }, () => machine.leave('bob', { ts: '2026-03-01T00:00:01.000Z' }));
    const early = machine.leave('bob', { ts: '2026-03-01T00:00:00.000Z' });
    const timeless = machine.leave('bob', { ts: undefined });
    const directory = readdirSync(`${machine.root}/spool/bob/new`).map((name) => name.replace('.json', ''));
    const expected = [timeless, early, ...directory.filter((id) => alike.includes(id)), late];
    expect(await listed(machine)).toEqual(expected);
    expect(await listed(machine)).toEqual(expected);
  });

  it.each([
    ['says again', 'more than a minute', 61_000, true],
    ['leaves alone', 'less than a minute', 45_000, false],
  ])('%s when its agent was last seen, if that is %s ago [BC-B3.3]', async (_does, _while, ago, isNew) => {
    const before = new Date(Date.now() - ago).toISOString();
    const machine = new Machine().agent('bob', { lastSeen: before }).agent('eve', { lastSeen: before });
    const file = statSync(`${machine.root}/agents/bob.json`);
    const start = Date.now();
    await machine.said(['inbox'], { as: 'bob' });
    const { lastSeen } = machine.record('bob') as { lastSeen: string };
    if (isNew) expect(Date.parse(lastSeen)).toBeWithin(start, Date.now() + 1);
    else expect([lastSeen, statSync(`${machine.root}/agents/bob.json`).ino]).toEqual([before, file.ino]);
    expect(machine.record('eve')['lastSeen']).toBe(before);
  });
});

describe('a copy that bch takes', () => {
  const traced = Bun.which('strace') ? it : it.skip;
  traced.each([
    ['deleted', [], ['new → held', 'held → nowhere'], []],
    ['kept', ['--keep'], ['new → held', 'held → cur'], ['cur']],
  ])('goes from new/ to held/, and is then %s [BC-B3.4]', (_end, flags, steps, left) => {
    const machine = new Machine().agent('bob');
    const id = machine.leave('bob');
    const log = `${machine.program.home}/strace.log`;
    const calls = 'trace=rename,renameat,renameat2,unlink,unlinkat,link,linkat';
    const read = [PARLEY, 'bch', 'read', id, ...flags];
    const ran = Bun.spawnSync(['strace', '-o', log, '-e', calls, ...read], {
      env: machine.env({ as: 'bob' }),
      cwd: machine.program.home,
    });
    expect(ran.exitCode).toBe(0);
    expect(movesOf(id, readFileSync(log, 'utf8'))).toEqual(steps);
    const places = ['tmp', 'new', 'quiet', 'held', 'cur'].filter((folder) => machine.files('bob', folder).length > 0);
    expect(places).toEqual(left);
  });

  it('waits again if its reader dies, and is in nobody’s cur/ [BC-B3.4]', async () => {
    const machine = new Machine().agent('bob');
    const id = machine.leave('bob', { body: 'long '.repeat(100_000) });
    const reader = machine.stuck('bch', ['read', id, '--keep'], { as: 'bob' });
    await until('a reader with the copy in its hand', () => machine.files('bob', 'held').length === 1);
    reader.child.kill('SIGKILL');
    await reader.child.exited;
    reader.leave();
    expect([machine.files('bob', 'new'), machine.files('bob', 'cur')]).toEqual([[], []]);
    expect(await listed(machine)).toEqual([id]);
    expect(machine.files('bob', 'new')).toEqual([`${id}.json`]);
    await machine.said(['read', id, '--keep'], { as: 'bob' });
    expect(machine.files('bob', 'cur')).toEqual([`${id}.json`]);
    expect(await machine.error(['read', id], { as: 'bob' })).toBe(`no unread message with id ${id}`);
  });
});

/** Where the file of a message went, step by step, as the system saw it. What failed moved nothing. */
function movesOf(id: string, log: string): string[] {
  const moves: string[] = [];
  for (const line of log.split('\n').filter((one) => one.includes(`/${id}.json`) && one.endsWith(' = 0'))) {
    const [from = '?', to = 'nowhere'] = [...line.matchAll(/\/(\w+)\/[^/"]+\.json"/g)].map(
      ([, folder = '?']) => folder,
    );
    moves.push(`${from} → ${to}`);
  }
  return moves;
}
