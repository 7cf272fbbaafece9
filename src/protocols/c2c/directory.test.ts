import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { alice, bob } from '../../../test/support/mail.ts';
import { AgentName, ChannelName } from '../../core/names.ts';
import { C2cDirectory } from './directory.ts';
import { directoryContract } from '../../store/directory.contract.ts';

directoryContract(
  'c2c registry',
  async () => {
    const clock = aClock();
    const root = temporaryHome();
    const directory = new C2cDirectory(root, clock.now);
    return {
      directory,
      ...clock,
      plant: async (name, text) => plant(root, name, text),
      textOf: (name) => textOf(root, name),
      close: () => directory.close(),
    };
  },
  { oneFile: 'all records stand in one file, in the form of the registry' },
);

const ops = ChannelName.parse('#ops');
const CHILD = `${import.meta.dir}/../../../test/support/subscribe-c2c.child.ts`;

describe('the c2c registry, beyond the contract,', () => {
  const open = () => {
    const clock = aClock();
    const root = temporaryHome();
    return { root, directory: new C2cDirectory(root, clock.now), ...clock };
  };

  it('knows an agent by its alias in any case, and under the spelling of its row', async () => {
    const { root, directory } = open();
    writeRows(root, [{ session_id: 's', alias: 'Bob' }]);
    expect((await directory.get(AgentName.parse('bOB')))?.name).toBe(AgentName.parse('Bob'));
    await directory.subscribe(AgentName.parse('BOB'), ops);
    expect((await directory.subscribers(ops)).map(({ name }) => String(name))).toEqual(['Bob']);
    expect(directory.fileOf(AgentName.parse('BOB'))).toBe('s');
  });

  it('keeps no policy for rows of other programs: they are shown everything', async () => {
    const { root, directory } = open();
    writeRows(root, [{ session_id: 's', alias: 'bob' }]);
    expect((await directory.get(bob))?.parley).toBeUndefined();
  });

  it('has a room’s members also when the registry no longer knows them, with the session that they had', async () => {
    const { directory } = open();
    await directory.register(bob, 'agent');
    await directory.subscribe(bob, ops);
    writeRows(directory.root, []);
    expect((await directory.subscribers(ops)).map(({ name }) => name)).toEqual([bob]);
    expect(directory.fileOf(bob)).toBe('bob');
    expect(await directory.get(bob)).toBeNull();
    expect(await directory.channels()).toEqual([ops]);
  });

  it('takes what others call dnd for a wish for quiet, until its time is over', async () => {
    const { root, directory, now, pass } = open();
    const until = now() / 1000 + 60;
    const parley = { v: 1, kind: 'agent', roles: [] };
    writeRows(root, [
      { session_id: 's', alias: 'bob', dnd: true, dnd_until: until, parley },
      { session_id: 't', alias: 'alice', dnd: true, parley },
    ]);
    expect((await directory.get(bob))?.parley?.quiet).toEqual({ until: new Date(until * 1000).toISOString() });
    expect((await directory.get(alice))?.parley?.quiet).toEqual({ on: true });
    await directory.amend(bob, () => ({ roles: [AgentName.parse('tester')] }));
    expect(rows(root)[0]?.['parley']).toEqual({ ...parley, roles: ['tester'] });
    pass(60_000);
    expect((await directory.get(bob))?.parley?.quiet).toBeUndefined();
  });

  it('gives a doubled alias to the session whose process may run', async () => {
    const { root, directory } = open();
    const rows = [
      { session_id: 'gone', alias: 'bob', pid: process.pid, pid_start_time: 1 },
      { session_id: 'here', alias: 'BOB' },
    ];
    writeRows(root, rows);
    expect(directory.fileOf(bob)).toBe('here');
    expect((await directory.list()).map(({ name }) => String(name))).toEqual(['BOB']);
  });

  it('gives a member one copy, also if others wrote its alias in two spellings', async () => {
    const { root, directory } = open();
    writeRows(root, [{ session_id: 's', alias: 'Bob' }]);
    mkdirSync(`${root}/rooms/ops`, { recursive: true });
    const members = [
      { alias: 'bob', session_id: 'x' },
      { alias: 'BOB', session_id: 's' },
    ];
    writeFileSync(`${root}/rooms/ops/members.json`, JSON.stringify(members));
    expect((await directory.subscribers(ops)).map(({ name }) => String(name))).toEqual(['Bob']);
  });

  it('refuses a channel that can be no room', async () => {
    const { directory } = open();
    await directory.register(bob, 'agent');
    await expect(directory.subscribe(bob, ChannelName.parse('#a.b'))).rejects.toMatchObject({
      code: 'invalid_request',
    });
    expect(await directory.subscribers(ChannelName.parse('#a.b'))).toEqual([]);
  });

  it('keeps all of 20 joins of one room that come from 4 processes at once', async () => {
    const { root, directory } = open();
    const many = Array.from({ length: 20 }, (_, n) => AgentName.parse(`agent-${n}`));
    for (const one of many) await directory.register(one, 'agent');
    const children = [0, 1, 2, 3].map((n) =>
      Bun.spawn([process.execPath, CHILD, root, '#ops', ...many.slice(n * 5, n * 5 + 5)], { stderr: 'inherit' }),
    );
    expect(await Promise.all(children.map(({ exited }) => exited))).toEqual([0, 0, 0, 0]);
    expect(new Set((await directory.subscribers(ops)).map(({ name }) => name))).toEqual(new Set(many));
  });
});

type Row = Record<string, unknown>;

/** As another program would leave this record: a row, and a place in its rooms. A text that is no record becomes a row that is none. */
function plant(root: string, name: string, text: string): void {
  const row = rowFrom(name, text);
  const { subscriptions } = row;
  delete row['subscriptions'];
  writeRows(root, [...rows(root).filter(({ alias }) => alias !== name), row]);
  for (const channel of Array.isArray(subscriptions) ? subscriptions : []) {
    const folder = `${root}/rooms/${String(channel).slice(1)}`;
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${folder}/members.json`, JSON.stringify([{ alias: name, session_id: name, joined_at: 1 }]));
  }
}

function rowFrom(alias: string, text: string): Row {
  try {
    const { name, ...rest } = JSON.parse(text) as Row;
    if (name === alias) return { session_id: alias, alias, ...rest };
  } catch {
    // No record at all.
  }
  return { alias, session_id: 7, text };
}

function textOf(root: string, name: string): string {
  const found = rows(root).find(({ alias }) => alias === name);
  if (!found || 'text' in found) return String(found?.['text']);
  const { session_id: _session, alias, registered_at: made, last_activity_ts: seen, ...rest } = found;
  const time = (seconds: unknown): string => new Date(Math.round(Number(seconds) * 1000)).toISOString();
  const subscriptions = roomsOf(root, name);
  return JSON.stringify({
    name: alias,
    ...((subscriptions.length > 0 || made !== undefined) && { subscriptions }),
    ...(made !== undefined && { createdAt: time(made) }),
    ...rest,
    ...(seen !== undefined && { lastSeen: time(seen) }),
  });
}

function roomsOf(root: string, name: string): string[] {
  const folder = `${root}/rooms`;
  const isIn = (room: string): boolean => readFileSync(`${folder}/${room}/members.json`, 'utf8').includes(`"${name}"`);
  return existsSync(folder)
    ? readdirSync(folder)
        .filter(isIn)
        .map((room) => `#${room}`)
    : [];
}

function rows(root: string): Row[] {
  return existsSync(`${root}/registry.json`)
    ? (JSON.parse(readFileSync(`${root}/registry.json`, 'utf8')) as Row[])
    : [];
}

function writeRows(root: string, values: unknown[]): void {
  rmSync(`${root}/registry.json`, { force: true });
  writeFileSync(`${root}/registry.json`, JSON.stringify(values));
}
