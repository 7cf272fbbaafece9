import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { until } from '../support/bch.ts';
import type { Running } from '../support/bch.ts';
import { anOriginalEntry, Brokerage } from '../support/c2c.ts';
import { PARLEY } from '../support/program.ts';

const alice = { session: 's-alice' };

const running: Running[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) await one.stop('SIGKILL');
});

/** A monitor that has begun. */
async function monitoring(c2c: Brokerage, args: string[], as = {}): Promise<Running> {
  const monitor = c2c.start('c2c', ['monitor', ...args], as);
  running.push(monitor);
  // It says nothing at its start, so its open watch is the sign.
  await until('a monitor at work', () => watches(monitor.child.pid));
  return monitor;
}

/** Does the process wait for file events? */
function watches(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/fdinfo`).some((fd) =>
      readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8').includes('inotify wd:'),
    );
  } catch {
    return false;
  }
}

/** Leaves messages as other programs do: another file in the inbox's place. */
function leave(c2c: Brokerage, session: string, entries: Record<string, unknown>[]): void {
  c2c.plant(`${session}.inbox.json.tmp.1`, [...c2c.inbox(session), ...entries]);
  renameSync(`${c2c.root}/${session}.inbox.json.tmp.1`, `${c2c.root}/${session}.inbox.json`);
}

describe('c2c monitor [C2C-60]', () => {
  it('starts silent, prints one line for each arrival, and takes nothing', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    await c2c.said(['send', 'bob', 'before'], alice);
    const monitor = await monitoring(c2c, ['--alias', 's-bob']);
    await c2c.said(['send', 'bob', 'first\nwith two lines'], alice);
    await monitor.says('📬', 1);
    // Of one sender, with the same words, in one and the same look.
    leave(c2c, 's-bob', [anOriginalEntry(), anOriginalEntry(), anOriginalEntry({ content: 'x'.repeat(500) })]);
    await monitor.says('📬', 4);
    const lines = monitor.out.trimEnd().split('\n');
    expect(lines).toHaveLength(4);
    expect(lines[0]).toMatch(/^\[\d\d:\d\d:\d\d\] 📬 {2}alice→you {2}"first with two lines"$/);
    expect(lines.slice(1, 3)).toEqual([
      expect.stringContaining('script→you  "hello"'),
      expect.stringContaining('"hello"'),
    ]);
    expect(lines[3]?.length).toBeLessThan(130);
    expect(c2c.inbox('s-bob')).toHaveLength(5);
    expect(monitor.err).toBe('');
  });

  it('follows a session that is registered, and named, while it is watched', async () => {
    const c2c = await new Brokerage().registered(['alice']);
    const monitor = await monitoring(c2c, ['--alias', 's-late']);
    await c2c.registered(['late']);
    await c2c.said(['send', 'late', 'welcome'], alice);
    await monitor.says('"welcome"');
    await c2c.said(['register', 'renamed'], { session: 's-late', env: { C2C_MCP_CLIENT_PID: String(process.pid) } });
    await c2c.said(['send', 'renamed', 'still here'], alice);
    await monitor.says('"still here"');
    expect(monitor.out.match(/📬/g)).toHaveLength(2);
  });

  it('takes an alias too, and tells JSON to programs: rooms, whole bodies, only from some', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob', 'carol']);
    for (const alias of ['alice', 'bob']) await c2c.said(['rooms', 'join', 'ops'], { session: `s-${alias}` });
    await c2c.said(['poll-inbox'], { session: 's-bob' });
    const monitor = await monitoring(c2c, ['--alias', 'BOB', '--json', '--from', 'alice']);
    await monitor.says('monitor.ready');
    await c2c.said(['send', 'bob', 'not this'], { session: 's-carol' });
    await c2c.said(['send', '#ops', 'deploy at five'], alice);
    await monitor.says('deploy at five');
    const [ready, said] = monitor.out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(ready).toMatchObject({ event_type: 'monitor.ready', monitor_ts: expect.stringMatching(/^\d+\.\d{3}$/) });
    expect(said).toMatchObject({ event_type: 'message', from_alias: 'alice', to_alias: 'bob#ops' });
    expect(monitor.out).not.toContain('not this');
  });

  it('starts no process of its own, and ends with a signal', async () => {
    const c2c = await new Brokerage().registered(['bob']);
    const monitor = await monitoring(c2c, ['--alias', 's-bob']);
    expect(readFileSync(`/proc/${monitor.child.pid}/task/${monitor.child.pid}/children`, 'utf8')).toBe('');
    expect(await monitor.stop('SIGTERM')).toMatchObject({ code: 0, out: '' });
  });

  it('ends with its parent', async () => {
    const c2c = await new Brokerage().registered(['bob']);
    const script = `'${PARLEY}' c2c monitor --alias s-bob & echo $!; wait`;
    const parent = Bun.spawn(['sh', '-c', script], { env: c2c.env(), stdout: 'pipe' });
    const first = await parent.stdout.getReader().read();
    const pid = Number(new TextDecoder().decode(first.value));
    await until('a monitor at work', () => watches(pid));
    parent.kill('SIGKILL');
    await until('the end of the monitor', () => !existsSync(`/proc/${pid}/fd/0`));
  });

  it('ends with its reader', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    const monitor = await monitoring(c2c, ['--alias', 's-bob']);
    const pid = `${c2c.program.home}/pid`;
    // The shell stays alive: only the reader goes away after one line.
    const script = `{ '${PARLEY}' c2c monitor --alias s-bob & echo $! >'${pid}'; wait; } | head -n 1; exec sleep 60`;
    const shell = Bun.spawn(['sh', '-c', script], { env: c2c.env(), stdout: 'ignore' });
    await until('its number', () => existsSync(pid) && readFileSync(pid, 'utf8') !== '');
    const number = Number(readFileSync(pid, 'utf8'));
    await until('a monitor at work', () => watches(number));
    await c2c.said(['send', 'bob', 'one'], alice);
    await monitor.says('"one"');
    await c2c.said(['send', 'bob', 'two'], alice);
    await until('the end of the monitor', () => !existsSync(`/proc/${number}/fd/0`));
    shell.kill('SIGKILL');
  });
});

describe('c2c monitor of a whole broker', () => {
  const events = (monitor: Running) =>
    monitor.out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .map(({ event_type, alias, room_id, from_alias, to_alias }) =>
        [event_type, from_alias, room_id, alias ?? to_alias].filter(Boolean).join(' '),
      );

  it('tells of messages, sessions and members of rooms that come and go, and of inboxes that are emptied or removed', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    await c2c.said(['send', 'bob', 'before'], alice);
    const monitor = c2c.start('c2c', ['monitor', '--all', '--drains', '--sweeps', '--json', '--broker-root', c2c.root]);
    running.push(monitor);
    await monitor.says('monitor.ready');
    leave(c2c, 'stranger', [anOriginalEntry({ to_alias: 'stranger' })]);
    await monitor.says('"to_alias":"stranger"');
    await c2c.said(['poll-inbox'], { session: 's-bob' });
    await monitor.says('"drain"');
    await c2c.said(['rooms', 'join', 'ops'], alice);
    await monitor.says('room.join');
    await c2c.said(['rooms', 'leave', 'ops'], alice);
    await monitor.says('room.leave');
    await c2c.registered(['carol']);
    await monitor.says('peer.alive');
    c2c.plant('registry.json.tmp', { registrations: c2c.rows.filter(({ alias }) => alias !== 'bob') });
    renameSync(`${c2c.root}/registry.json.tmp`, `${c2c.root}/registry.json`);
    await monitor.says('peer.dead');
    rmSync(`${c2c.root}/stranger.inbox.json`);
    await monitor.says('"sweep"');
    expect(events(monitor)).toEqual([
      'monitor.ready',
      'message script stranger',
      'drain bob',
      'room.join ops alice',
      'room.leave ops alice',
      'peer.alive carol',
      'peer.dead bob',
      'sweep stranger',
    ]);
  });

  it('passes over files that are called like an inbox and are none', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob']);
    const monitor = await monitoring(c2c, ['--all', '--sweeps']);
    for (const odd of ['gho st', '.hidden', 'x'.repeat(129), 'ünder', 'y'.repeat(128), 'c2c'])
      c2c.plant(`${odd}.inbox.json`, [anOriginalEntry({ to_alias: odd })]);
    await c2c.said(['send', 'bob', 'hello'], alice);
    await monitor.says('alice→bob  "hello"');
    expect(monitor.err).toBe('');
  });

  it('shows no session the mail of a supervisor', async () => {
    const c2c = await new Brokerage().registered(['alice']);
    await c2c.byUser(['repo', 'set', 'supervisors', 'boss']);
    const monitor = await monitoring(c2c, ['--all'], alice);
    leave(c2c, 'boss', [anOriginalEntry({ content: 'for the user' })]);
    leave(c2c, 'other', [anOriginalEntry({ content: 'for another' })]);
    await monitor.says('"for another"');
    // The look that finds this one is behind the look at the first inbox.
    leave(c2c, 'other', [anOriginalEntry({ content: 'once more' })]);
    await monitor.says('"once more"');
    expect(monitor.out).not.toContain('for the user');
  });

  it('says whose mail it is in words, leaves out what the watching session writes, and takes nothing', async () => {
    const c2c = await new Brokerage().registered(['alice', 'bob', 'carol']);
    const monitor = await monitoring(c2c, ['--all', '--alias', 'alice']);
    await c2c.said(['send', 'carol', 'mine'], alice);
    await c2c.said(['send', 'carol', 'hello'], { session: 's-bob' });
    await c2c.said(['send', 'alice', 'and you'], { session: 's-bob' });
    await monitor.says('bob→carol  "hello"');
    await monitor.says('bob→you  "and you"');
    expect(monitor.out).not.toContain('mine');
    expect([c2c.inbox('s-carol').length, c2c.inbox('s-alice').length]).toEqual([2, 1]);
  });
});
