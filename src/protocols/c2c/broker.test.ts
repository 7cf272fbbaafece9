import { describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { aClock } from '../../../test/support/clock.ts';
import { itWithScripts } from '../../../test/support/c2c-python.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { pruneArchives, readArchive } from './archive.ts';
import { takeRepairs } from './files.ts';
import { findPending, writePending } from './pending.ts';
import { AliasTaken, readAlias } from './shapes.ts';
import { Broker } from './broker.ts';

const bob = readAlias('bob');
const CHILD = `${import.meta.dir}/../../../test/support/c2c-register.child.ts`;
type Row = Record<string, unknown>;

function aBroker(files: Record<string, unknown> = {}) {
  const clock = aClock();
  const root = temporaryHome();
  for (const [name, value] of Object.entries(files)) {
    const path = `${root}/${name}`;
    mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true });
    writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
  }
  const text = (name: string): string => readFileSync(`${root}/${name}`, 'utf8');
  const list = (name: string): Row[] => JSON.parse(text(name)) as Row[];
  return { broker: new Broker(root, clock.now), root, text, list, ...clock };
}

const anEntry = (n: number, more: Row = {}): Row => ({
  from_alias: 'a',
  to_alias: 'bob',
  content: `${n}`,
  ts: n,
  ...more,
});
/** A process that is surely gone: one of another start. */
const GONE = { pid: process.pid, pid_start_time: 1 };

describe('registering at a broker', () => {
  it.each(['copied', 'registered', 'cleared', 'in its rooms'])(
    'loses no mail and doubles none if the process is killed when it has %s',
    async (step) => {
      const mail = [anEntry(1), anEntry(3, { message_id: 'm3' }), anEntry(3, { message_id: 'm3b' })];
      const { broker, root, list } = aBroker({
        'registry.json': [{ session_id: 'old', alias: 'bob', ...GONE }],
        'old.inbox.json': mail,
        'new.inbox.json': [anEntry(2)],
        'rooms/ops/members.json': [{ alias: 'bob', session_id: 'old', joined_at: 1 }],
        'dead-letter.jsonl': `${JSON.stringify({ deleted_at: 1, from_session_id: 'x', message: anEntry(4) })}\n`,
      });
      const child = Bun.spawn([process.execPath, CHILD, root, 'new', 'bob', step]);
      await child.exited;
      expect(child.signalCode).toBe('SIGKILL');
      // Whichever session looks now, every message waits in one of the two.
      const waiting = readdirSync(root)
        .filter((name) => name.endsWith('.inbox.json'))
        .flatMap(list);
      for (const entry of mail) expect(waiting).toContainEqual(entry);
      await broker.register({ sessionId: 'new', alias: bob });
      expect(list('new.inbox.json').map(({ content, message_id }) => [content, message_id])).toEqual([
        ['1', undefined],
        ['2', undefined],
        ['3', 'm3'],
        ['3', 'm3b'],
        ['4', undefined],
      ]);
      // What was copied before the kill may stand in the old place too, where no alias leads any more.
      if (step !== 'registered') expect(readdirSync(root)).not.toContain('old.inbox.json');
      expect(list('rooms/ops/members.json')).toEqual([{ alias: 'bob', session_id: 'new', joined_at: 1 }]);
      expect((await broker.byAlias('bob'))?.row.session_id).toBe('new');
    },
  );

  it('leaves a session without a process its alias for an hour after its last sign of life', async () => {
    const { broker, pass } = aBroker();
    await broker.register({ sessionId: 'one', alias: bob });
    pass(59 * 60_000);
    const refused = await broker
      .register({ sessionId: 'two', alias: readAlias('Bob') })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(AliasTaken);
    expect(refused).toMatchObject({ code: 'name_taken', alias: 'bob', holder: 'one', suggestion: 'Bob-2' });
    pass(60_000);
    expect((await broker.register({ sessionId: 'two', alias: bob })).row.session_id).toBe('two');
  });

  it('follows a session that takes another alias into its rooms', async () => {
    const { broker } = aBroker();
    await broker.register({ sessionId: 'one', alias: bob });
    await broker.join('ops', bob);
    await broker.register({ sessionId: 'one', alias: readAlias('robert') });
    expect((await broker.room('ops'))?.members.map(({ alias }) => String(alias))).toEqual(['robert']);
    expect(await broker.byAlias('bob')).toBeNull();
  });

  it('notes the process with its start, and forgets one that is gone', async () => {
    const { broker, list } = aBroker();
    expect((await broker.register({ sessionId: 'one', alias: bob, pid: process.pid })).alive).toBe(true);
    const [row] = list('registry.json');
    expect(row).toMatchObject({ pid: process.pid, pid_start_time: expect.any(Number) });
    expect((await broker.register({ sessionId: 'one' })).row.pid).toBe(process.pid);
    await broker.amend('one', () => GONE);
    expect((await broker.register({ sessionId: 'one' })).row).not.toMatchObject({ pid: expect.any(Number) });
  });

  it('passes on with the alias what others wrote about it, but nothing of the process that is gone', async () => {
    const { broker, list } = aBroker({
      'registry.json': [
        {
          session_id: 'old',
          alias: 'bob',
          ...GONE,
          client_type: 'codex',
          role: 'tester',
          enc_pubkey: 'k',
          colour: 'red',
        },
      ],
    });
    await broker.register({ sessionId: 'new', alias: bob });
    const [row] = list('registry.json');
    expect(row).toMatchObject({ session_id: 'new', role: 'tester', enc_pubkey: 'k', colour: 'red' });
    for (const field of ['pid', 'pid_start_time', 'client_type']) expect(row).not.toHaveProperty(field);
  });

  it('gives a name its roles also under a session that was called otherwise before', async () => {
    const { broker, list } = aBroker({
      'registry.json': [
        { session_id: 'old', alias: 'bob', ...GONE, parley: { v: 1, kind: 'agent', roles: ['tester'] } },
      ],
    });
    await broker.register({ sessionId: 'new', alias: readAlias('temporary') });
    await broker.register({ sessionId: 'new', alias: bob });
    expect(list('registry.json')).toMatchObject([{ session_id: 'new', alias: 'bob', parley: { roles: ['tester'] } }]);
    await expect(broker.register({ sessionId: 'x', alias: readAlias('tester') })).rejects.toMatchObject({
      code: 'name_taken',
    });
  });

  it('writes times as floats, and leaves those of others as they were written', async () => {
    const theirs = '{"session_id":"x","alias":"x","registered_at":5.0,"note":"\\"registered_at\\":7,"}';
    const { broker, text, root } = aBroker({ 'registry.json': `[${theirs}]`, 'old.inbox.json': '[]' });
    const at = new Broker(root, () => 1_770_000_000_000);
    await at.register({ sessionId: 'one', alias: bob });
    expect(text('registry.json')).toContain('"registered_at":1770000000.0,"last_activity_ts":1770000000.0');
    expect(text('registry.json')).toContain(theirs);
    await broker.amend('x', () => ({ dnd: true }));
    expect(text('registry.json')).toContain('"registered_at":5.0,"note":"\\"registered_at\\":7,","dnd":true');
  });

  it('is not led out of its folder by a row of another program', async () => {
    const rows = [
      { session_id: '../outside', alias: 'bob', ...GONE },
      { session_id: 'fine', alias: '../../x' },
    ];
    const { broker, root, list } = aBroker({
      'registry.json': rows,
      'rooms/ops/members.json': [{ alias: 'bob', session_id: '../y' }],
    });
    expect(await broker.sessions()).toEqual([]);
    expect((await broker.room('ops'))?.members ?? []).toEqual([]);
    await broker.register({ sessionId: 'one', alias: readAlias('carol') });
    expect(list('registry.json').slice(1)).toEqual(rows);
    expect(readdirSync(`${root}/..`)).not.toContain('outside.inbox.lock');
  });

  it('mends a registry that is cut off: what can be saved is, a copy is kept, and it is told once', async () => {
    const { broker, root, list } = aBroker({
      'registry.json': '[{"session_id":"x","alias":"x"},{"session_id":"y","al',
    });
    await broker.register({ sessionId: 'one', alias: bob });
    expect(list('registry.json').map(({ alias }) => alias)).toEqual(['bob', 'x']);
    const [repair] = takeRepairs(broker.root);
    expect(repair?.file).toBe(`${root}/registry.json`);
    expect(readFileSync(repair?.copy ?? '', 'utf8')).toEndWith('"al');
    expect(takeRepairs(broker.root)).toEqual([]);
  });

  it('keeps what it writes to its owner', async () => {
    const { broker, root } = aBroker();
    await broker.register({ sessionId: 'one', alias: bob });
    await broker.join('ops', bob);
    for (const name of ['registry.json', 'rooms/ops/members.json', 'rooms/ops/meta.json']) {
      expect(statSync(`${root}/${name}`).mode & 0o777).toBe(0o600);
    }
  });
});

/** What the established program does to register: under `lockf`, read, write beside, rename. */
const SCRIPT = `
import fcntl, json, os, sys
path = sys.argv[1]
lock = open(path + ".lock", "a+")
print("ready", flush=True)
for n in range(150):
    fcntl.lockf(lock, fcntl.LOCK_EX)
    rows = json.load(open(path))
    rows.insert(0, {"session_id": "theirs-%d" % n, "alias": "theirs-%d" % n, "registered_at": float(n)})
    with open(path + ".tmp", "w") as file:
        json.dump(rows, file)
    os.rename(path + ".tmp", path)
    fcntl.lockf(lock, fcntl.LOCK_UN)
`;

describe('a registry that two programs write to', () => {
  itWithScripts('loses no row of either', async () => {
    const { broker, root, list } = aBroker({ 'registry.json': [] });
    const theirs = Bun.spawn(['python3', '-c', SCRIPT, `${root}/registry.json`], { stdout: 'pipe', stderr: 'inherit' });
    await theirs.stdout.getReader().read();
    for (let n = 0; n < 150; n += 1) {
      await broker.register({ sessionId: `ours-${n}`, alias: readAlias(`ours-${n}`) });
      await Bun.sleep(0);
    }
    expect(await theirs.exited).toBe(0);
    const aliases = new Set(list('registry.json').map(({ alias }) => alias));
    const wanted = ['ours', 'theirs'].flatMap((who) => Array.from({ length: 150 }, (_, n) => `${who}-${n}`));
    expect(wanted.filter((alias) => !aliases.has(alias))).toEqual([]);
  });
});

describe('what a broker remembers', () => {
  it('tells of each message that was taken once, however often it was taken', async () => {
    const line = (n: number, more: Row = {}): string =>
      `${JSON.stringify({ drained_at: 100 + n, session_id: 's', ...anEntry(n, more) })}\n`;
    const { broker } = aBroker({
      'archive/s.jsonl':
        line(1) + line(2, { message_id: 'm' }) + 'half a li\n' + line(2, { message_id: 'm' }) + line(3),
    });
    const taken = readArchive(broker.root, 's', 10);
    expect(taken.map(({ entry, drainedAt }) => [entry.content, drainedAt])).toEqual([
      ['1', 101],
      ['2', 102],
      ['3', 103],
    ]);
    expect(readArchive(broker.root, 's', 1).map(({ entry }) => entry.content)).toEqual(['3']);
    expect(pruneArchives(broker.root, 103, 'remove')).toBe(3);
    expect(readArchive(broker.root, 's', 10).map(({ entry }) => entry.content)).toEqual(['3']);
    expect(readArchive(broker.root, 'nobody', 10)).toEqual([]);
  });

  it('has at most 16 open questions of one session, and forgets them in time', async () => {
    const { root, now, pass } = aBroker();
    const ask = async (id: string, sessionId = 'one') => {
      const asked = { perm_id: id, kind: 'permission', supervisors: ['boss'] };
      const asks = { requester_session_id: sessionId, requester_alias: sessionId };
      const times = { created_at: now() / 1000, expires_at: now() / 1000 + 600 };
      writePending(root, { ...asked, ...asks, ...times }, now());
    };
    for (let n = 0; n < 16; n += 1) await ask(`q${n}`);
    await expect(ask('q16')).rejects.toMatchObject({ code: 'busy' });
    await ask('q3');
    await ask('other', 'two');
    await expect(ask('q3', 'two')).rejects.toMatchObject({ code: 'name_taken' });
    expect(findPending(root, 'q3', now())).toMatchObject({
      perm_id: 'q3',
      requester_session_id: 'one',
      supervisors: ['boss'],
    });
    pass(600_000);
    expect(findPending(root, 'q3', now())).toBeNull();
    await ask('q16');
  });
});
