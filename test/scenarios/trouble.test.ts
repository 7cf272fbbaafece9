import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';

interface Told {
  id: string;
  body: string;
}

describe('trouble on the disk', () => {
  it('a damaged ledger is kept, said so, and rebuilt by the next command without losing or repeating mail', async () => {
    const parley = await new Program().init('alice', 'bob');
    const read = await parley.json<Told>(['send', '@bob', 'read before', '--key', 'k1']);
    await parley.run(['take', '--keep'], { as: 'bob' });
    const { id } = await parley.json<Told>(['send', '@bob', 'still waiting', '--key', 'k2']);
    for (const part of ['-wal', '-shm', '']) writeFileSync(`${ledger(parley)}${part}`, 'garbage'.repeat(2000));
    const first = await parley.run(['inbox'], { as: 'bob' });
    expect(first).toMatchObject({ code: 74, out: '' });
    expect(first.err).toContain('run it again');
    expect(readdirSync(`${parley.home}/.parley`).some((name) => name.includes('.damaged-'))).toBe(true);
    expect(await parley.json<Told>(['send', '@bob', 'still waiting', '--key', 'k2'])).toMatchObject({
      id,
      first: false,
    });
    expect(await parley.json<Told>(['send', '@bob', 'read before', '--key', 'k1'])).toMatchObject({
      id: read.id,
      first: false,
    });
    expect(await parley.json<Told[]>(['drain'], { as: 'bob' })).toMatchObject([{ id, body: 'still waiting' }]);
  });

  it('a ledger of a newer version is refused by name and left alone', async () => {
    const parley = await new Program().init('alice');
    const db = new Database(ledger(parley));
    db.run('PRAGMA user_version = 99');
    db.run('PRAGMA wal_checkpoint(TRUNCATE)');
    db.close();
    const before = readFileSync(ledger(parley));
    const run = await parley.run(['send', '@alice', 'hi']);
    expect(run).toMatchObject({ code: 78, out: '' });
    expect(run.err).toContain('newer Parley (format 99');
    expect(readFileSync(ledger(parley)).equals(before)).toBe(true);
  });

  it('a file that is no message is set aside, and the mail beside it is read', async () => {
    const parley = await new Program().init('alice');
    await parley.run(['send', '@alice', 'a good one']);
    const junk = `${parley.home}/.parley/spool/alice/new/junk.json`;
    writeFileSync(junk, '{"half":');
    const old = new Date(Date.now() - 60_000);
    (await import('node:fs')).utimesSync(junk, old, old);
    expect(await parley.json<Told[]>(['drain'])).toMatchObject([{ body: 'a good one' }]);
    expect((await parley.run(['doctor'])).out).toContain('junk');
  });

  it('a home that cannot be made gets one line that says why', async () => {
    const parley = new Program();
    writeFileSync(`${parley.home}/.parley`, 'a file where the home should be');
    const run = await parley.run(['init', 'alice']);
    expect(run.code).not.toBe(0);
    expect(run.err.trimEnd().split('\n')).toHaveLength(1);
    expect(run.err).not.toContain('internal error');
  });

  it('a reader that goes away loses nothing [BC-C9]', async () => {
    const parley = await new Program().init('alice');
    for (const body of ['one', 'two', 'three']) await parley.run(['send', '@alice', body]);
    // A pipe with a writing end and no reader.
    const script = 'mkfifo p; exec 3<>p; exec 4>p; exec 3<&-; exec "$0" drain >&4';
    const gone = Bun.spawnSync(['sh', '-c', script, PARLEY], { cwd: parley.home, env: parley.env });
    expect(gone.exitCode).toBe(141);
    const waiting = await parley.json<Told[]>(['inbox']);
    expect(waiting.map((one) => one.body)).toEqual(['one', 'two', 'three']);
  });

  it('an agent record that cannot be read hides nobody else', async () => {
    const parley = await new Program().init('alice', 'bob');
    mkdirSync(`${parley.home}/.parley/agents`, { recursive: true });
    writeFileSync(`${parley.home}/.parley/agents/broken.json`, '{');
    expect((await parley.run(['send', '@bob', 'hi'])).code).toBe(0);
    expect((await parley.json<{ name: string }[]>(['agents'])).map((one) => one.name)).toEqual(['alice', 'bob']);
    expect((await parley.run(['doctor'])).out).toContain('broken.json');
  });
});

describe('a text on stdin', () => {
  const from = async (parley: Program, source: string, env: Record<string, string> = {}) => {
    const send = [PARLEY, 'send', '@alice'];
    const child = Bun.spawn(['sh', '-c', '"$@" <"$0"', source, ...send], {
      env: { ...parley.env, ...env },
      stderr: 'pipe',
    });
    return { err: await child.stderr.text(), code: await child.exited };
  };

  it('that never ends is refused as soon as it is too long', async () => {
    const parley = await new Program().init('alice');
    expect(await from(parley, '/dev/zero')).toMatchObject({ code: 65, err: expect.stringContaining('262144 bytes') });
    expect(await parley.json<Told[]>(['inbox'])).toEqual([]);
  });

  it('may be as long as the limit, and its last newline does not count', async () => {
    const parley = await new Program().init('alice');
    const limit = { PARLEY_BODY_LIMIT: '1000000' };
    const [fits, tooLong] = [1_000_000, 1_000_001].map((length) => {
      writeFileSync(`${parley.home}/${length}`, `${'x'.repeat(length)}\n`);
      return `${parley.home}/${length}`;
    });
    expect(await from(parley, fits ?? '', limit)).toEqual({ err: '', code: 0 });
    expect((await parley.json<Told[]>(['drain']))[0]?.body).toHaveLength(1_000_000);
    expect((await from(parley, tooLong ?? '', limit)).code).toBe(65);
  });

  it('that cannot be read is refused in one line', async () => {
    const parley = await new Program().init('alice');
    const told = await from(parley, parley.home);
    expect(told).toEqual({ err: 'parley: the text could not be read from stdin (EISDIR)\n', code: 64 });
  });
});

function ledger(parley: Program): string {
  return `${parley.home}/.parley/ledger.db`;
}
