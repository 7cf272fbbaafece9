import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { within } from '../../../test/support/within.ts';
import { AgentName, ChannelName } from '../../core/names.ts';
import { hashOf } from '../../wire/tokens.ts';
import { directoryContract } from '../directory.contract.ts';
import { platform } from '../../platform/os.ts';
import { FilesDirectory } from './files.ts';
import { recordFrom, RecordFiles } from './record-files.ts';
import { RecordWatch } from './record-watch.ts';
import type { WatchOptions } from './record-watch.ts';
import { WatchedDirectory } from './watched.ts';

const CHILD = `${import.meta.dir}/../../../test/support/subscribe.child.ts`;

directoryContract('watched', async () => {
  const clock = aClock();
  const root = temporaryHome();
  mkdirSync(`${root}/agents`);
  const directory = new WatchedDirectory(root, clock.now);
  return {
    directory,
    ...clock,
    async plant(file, text) {
      const name = AgentName.parse(file);
      writeFileSync(`${root}/agents/${name}.json`, text);
      const record = recordFrom(name, text);
      await within(20_000, async () =>
        record ? Bun.deepEquals(await directory.get(name), record) : (await directory.unreadable()).length > 0,
      );
    },
    textOf: (name) => readFileSync(`${root}/agents/${name}.json`, 'utf8'),
    close: () => directory.close(),
  };
});

/** A watched directory that exposes its files, so that tests can count the calls. */
class ShownDirectory extends WatchedDirectory {
  declare readonly files: RecordFiles;
}

describe('the watched directory, beyond the contract,', () => {
  let root: string;
  const open: WatchedDirectory[] = [];
  beforeEach(() => {
    root = temporaryHome();
  });
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });

  function aDirectory(now = Date.now, options: Partial<WatchOptions> & { exact?: boolean } = {}): ShownDirectory {
    const directory = new ShownDirectory(root, now, options);
    open.push(directory);
    return directory;
  }

  /** Another program's record, written in place, with the token `token of <name>`. */
  function plant(name: string, fields: Record<string, unknown> = {}): void {
    mkdirSync(`${root}/agents`, { recursive: true });
    writeFileSync(
      `${root}/agents/${name}.json`,
      JSON.stringify({ name, tokenHash: hashOf(`token of ${name}`), ...fields }),
    );
  }

  async function signsIn(directory: WatchedDirectory, token: string): Promise<string | null> {
    return directory.byToken(hashOf(token));
  }

  describe.each([
    ['file events', true],
    ['no file events', false],
  ])('on a file system with %s', (_what, events) => {
    it('sees records that other programs add, change, replace and remove', async () => {
      mkdirSync(`${root}/agents`);
      const directory = aDirectory(Date.now, { events });
      expect(await directory.list()).toEqual([]);

      plant('bob');
      await within(20_000, async () => (await signsIn(directory, 'token of bob')) === 'bob');

      plant('bob', { tokenHash: hashOf('another'), subscriptions: ['#dev'] });
      await within(20_000, async () => (await signsIn(directory, 'another')) === 'bob');
      expect(await signsIn(directory, 'token of bob')).toBeNull();
      expect(await directory.channels()).toEqual([ChannelName.parse('#dev')]);

      writeFileSync(`${root}/agents/draft`, JSON.stringify({ name: 'bob', tokenHash: hashOf('a third') }));
      renameSync(`${root}/agents/draft`, `${root}/agents/bob.json`);
      await within(20_000, async () => (await signsIn(directory, 'a third')) === 'bob');
      expect(await directory.channels()).toEqual([]);

      rmSync(`${root}/agents/bob.json`);
      await within(20_000, async () => (await directory.get(bob)) === null);
      expect(await signsIn(directory, 'a third')).toBeNull();

      plant('bob');
      await within(20_000, async () => (await signsIn(directory, 'token of bob')) === 'bob');
    });

    it('sees changes of another Parley program', async () => {
      const directory = aDirectory(Date.now, { events, lookMs: 50 });
      const other = new FilesDirectory(root, Date.now);
      await directory.register(alice, 'agent', hashOf('first'));
      await other.giveToken(alice, hashOf('second'));
      await within(20_000, async () => (await signsIn(directory, 'second')) === alice);
      expect(await signsIn(directory, 'first')).toBeNull();
      await other.giveToken(alice, null);
      await within(20_000, async () => (await signsIn(directory, 'second')) === null);
      await other.remove(alice);
      await within(20_000, async () => (await directory.get(alice)) === null);
    });

    it('sees a subscription of another Parley program at the very next query', async () => {
      const directory = aDirectory(Date.now, { events });
      const other = new FilesDirectory(root, Date.now);
      await directory.register(alice, 'agent');
      for (let n = 0; n < 20; n += 1) {
        const channel = ChannelName.parse(`#dev-${n}`);
        await other.subscribe(alice, channel);
        expect((await directory.subscribers(channel)).map(({ name }) => name)).toEqual([alice]);
        await other.unsubscribe(alice, channel);
        expect(await directory.subscribers(channel)).toEqual([]);
      }
    });

    it('sees, if it is exact, any change of another program in `get` at once', async () => {
      const directory = aDirectory(Date.now, { events, exact: true });
      const other = new FilesDirectory(root, Date.now);
      await directory.register(alice, 'agent');
      for (let n = 0; n < 20; n += 1) {
        await other.amend(alice, () => ({ displayName: `Alice ${n}` }));
        expect((await directory.get(alice))?.parley?.displayName).toBe(`Alice ${n}`);
      }
    });

    it('begins without a folder, and follows it when it is made, removed and made again', async () => {
      const directory = aDirectory(Date.now, { events, lookMs: 50 });
      expect(await directory.get(bob)).toBeNull();
      expect(existsSync(`${root}/agents`)).toBe(false);
      plant('bob');
      await within(20_000, async () => (await directory.get(bob)) !== null);
      rmSync(`${root}/agents`, { recursive: true });
      await within(20_000, async () => (await directory.list()).length === 0);
      plant('carol');
      await within(20_000, async () => (await directory.get(carol)) !== null);
      plant('alice');
      await within(20_000, async () => (await directory.list()).length === 2);
    });

    it('sees a second change in the same moment as the first', async () => {
      plant('bob');
      const directory = aDirectory(Date.now, { events, lookMs: 50 });
      expect(await signsIn(directory, 'token of bob')).toBe('bob');
      for (let n = 0; n < 20; n += 1) plant('bob', { tokenHash: hashOf(`token ${n}`) });
      await within(20_000, async () => (await signsIn(directory, 'token 19')) === 'bob');
    });
  });

  it('sees a change through another link to the same file, among very many agents', async () => {
    for (let n = 0; n < 350; n += 1) plant(`agent-${n}`);
    plant('zoe');
    renameSync(`${root}/agents/zoe.json`, `${root}/zoe`);
    symlinkSync('../zoe', `${root}/agents/zoe.json`);
    plant('bob');
    linkSync(`${root}/agents/bob.json`, `${root}/bob`);
    const directory = aDirectory();
    expect(await signsIn(directory, 'token of zoe')).toBe('zoe');
    for (const name of ['zoe', 'bob']) {
      // The watched folder itself does not change.
      writeFileSync(`${root}/${name}`, JSON.stringify({ name, tokenHash: hashOf(`another of ${name}`) }));
      await within(20_000, async () => (await signsIn(directory, `another of ${name}`)) === name);
    }
  });

  it('scans records in small slices where the system reports every change, and all of them in turn [BC-C14]', async () => {
    for (let n = 0; n < 1000; n += 1) plant(`agent-${n}`);
    const files = new RecordFiles(root);
    const looks: AgentName[][] = [];
    let seen: AgentName[] = [];
    const path = files.path.bind(files);
    files.path = (name) => {
      seen.push(name);
      return path(name);
    };
    const looked = (): void => {
      looks.push(seen);
      seen = [];
    };
    const watch = new RecordWatch(files, { names: () => files.names(), reread: () => true }, looked, { lookMs: 5 });
    await watch.look();
    await within(20_000, async () => looks.length > 11);
    await watch.close();
    const [first = [], ...later] = looks.map((names) => new Set(names).size);
    expect(first).toBe(1000);
    if (platform.tellsOfChanges(root)) {
      expect(Math.max(...later)).toBe(100);
      // The last slice of a round may be smaller.
      expect(new Set(looks.slice(1, 12).flat()).size).toBe(1000);
    } else expect(Math.min(...later)).toBe(1000);
  });

  it('still lists all other agents if a record is a link to itself [BC-C7]', async () => {
    plant('bob');
    Bun.spawnSync(['ln', '-s', 'round.json', `${root}/agents/round.json`]);
    const directory = aDirectory();
    expect(await signsIn(directory, 'token of bob')).toBe('bob');
    expect(await directory.unreadable()).toHaveLength(1);
  });

  it('scans before it answers the first query after a long pause', async () => {
    plant('bob');
    const directory = aDirectory(Date.now, { events: false, lookMs: 10, napMs: 1 });
    await directory.list();
    await Bun.sleep(100);
    plant('bob', { tokenHash: hashOf('another') });
    expect(await signsIn(directory, 'another')).toBe('bob');
  });

  it('still finds all other agents by token if one record is unreadable [BC-C7]', async () => {
    plant('alice');
    plant('carol');
    mkdirSync(`${root}/agents/folder.json`);
    for (const [name, text] of Object.entries({
      empty: '',
      half: '{"name": "half"',
      none: 'null',
      bob: '{"name":"alice"}',
    })) {
      writeFileSync(`${root}/agents/${name}.json`, text);
    }
    Bun.spawnSync(['mkfifo', `${root}/agents/pipe.json`]);
    Bun.spawnSync(['ln', '-s', 'nowhere', `${root}/agents/link.json`]);
    const directory = aDirectory();
    expect(await signsIn(directory, 'token of alice')).toBe('alice');
    expect(await signsIn(directory, 'token of carol')).toBe('carol');
    expect(await directory.unreadable()).toHaveLength(7);
    plant('bob');
    await within(20_000, async () => (await signsIn(directory, 'token of bob')) === 'bob');
    expect(await signsIn(directory, 'token of alice')).toBe('alice');
  });

  it('still finds an agent whose record is being written, and reports a record that stays half written', async () => {
    plant('bob');
    const directory = aDirectory();
    expect(await signsIn(directory, 'token of bob')).toBe('bob');
    writeFileSync(`${root}/agents/bob.json`, '{"name": "bo');
    const events = Bun.sleep(100);
    while (!(await isOver(events))) expect(await signsIn(directory, 'token of bob')).toBe('bob');
    await within(20_000, async () => (await directory.unreadable()).length === 1);
    expect(await signsIn(directory, 'token of bob')).toBeNull();
    plant('bob');
    await within(20_000, async () => (await signsIn(directory, 'token of bob')) === 'bob');
  });

  it('takes no file for a record if its name is no valid agent name', async () => {
    mkdirSync(`${root}/agents`);
    const strange = [
      'a b.json',
      '.hidden.json',
      '-x.json',
      `${'x'.repeat(140)}.json`,
      'README.md',
      'bob.json~',
      '.json',
    ];
    for (const file of strange)
      writeFileSync(`${root}/agents/${file}`, JSON.stringify({ name: 'bob', tokenHash: 'x' }));
    const directory = aDirectory();
    expect(await directory.list()).toEqual([]);
    expect(await directory.unreadable()).toEqual([]);
    expect(await directory.byToken('x')).toBeNull();
    plant('bob');
    await within(20_000, async () => (await directory.list()).length === 1);
  });

  it('tells agents apart whose names differ only by case, and registers no further one', async () => {
    plant('bob');
    plant('Bob');
    const directory = aDirectory();
    expect(await signsIn(directory, 'token of bob')).toBe('bob');
    expect(await signsIn(directory, 'token of Bob')).toBe('Bob');
    await expect(directory.register(AgentName.parse('BOB'), 'agent')).rejects.toMatchObject({ code: 'name_taken' });
    rmSync(`${root}/agents/Bob.json`);
    await within(20_000, async () => (await signsIn(directory, 'token of Bob')) === null);
    expect(await signsIn(directory, 'token of bob')).toBe('bob');
  });

  it('registers one of two agents at once whose names differ only by case', async () => {
    const directory = aDirectory();
    const both = [directory.register(bob, 'agent'), directory.register(AgentName.parse('Bob'), 'agent')];
    const done = await Promise.allSettled(both);
    expect(done.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(readdirSync(`${root}/agents`)).toHaveLength(1);
  });

  it('finds any of 10,000 agents without touching the disk [BC-C14]', async () => {
    for (let n = 0; n < 10_000; n += 1) plant(`agent-${n}`, { subscriptions: [`#team-${n % 1000}`] });
    const directory = aDirectory();
    expect(await directory.list()).toHaveLength(10_000);
    // From now on only memory can answer, until the next scan.
    renameSync(`${root}/agents`, `${root}/elsewhere`);
    let found = 0;
    for (let n = 0; n < 10_000; n += 1) {
      const name = await signsIn(directory, `token of agent-${n}`);
      if (name === `agent-${n}` && (await directory.get(AgentName.parse(name)))?.name === name) found += 1;
    }
    expect(found).toBe(10_000);
    expect(await directory.subscribers(ChannelName.parse('#team-7'))).toHaveLength(10);
  });

  it('loses none of 1,000 agents registered at once, here and in another program, and leaves no draft behind', async () => {
    const directory = aDirectory();
    const other = new FilesDirectory(root, Date.now);
    const many = Array.from({ length: 1000 }, (_, n) => AgentName.parse(`agent-${n}`));
    await Promise.all(
      many.map((name, n) => (n % 10 === 0 ? other : directory).register(name, 'foreign', hashOf(`token of ${name}`))),
    );
    await within(20_000, async () => (await directory.list()).length === 1000);
    for (const name of many) expect(await signsIn(directory, `token of ${name}`)).toBe(name);
    expect(readdirSync(`${root}/agents`).sort()).toEqual(many.map((name) => `${name}.json`).sort());
  });

  it('keeps all concurrent subscriptions of this and 2 other processes [BC-C6]', async () => {
    const directory = aDirectory();
    await directory.register(bob, 'agent', hashOf('token of bob'));
    const children = [0, 1].map((n) => {
      const channels = Array.from({ length: 10 }, (_, c) => `#c${n}${c}`);
      return Bun.spawn([process.execPath, CHILD, root, 'bob', ...channels], { stderr: 'inherit' });
    });
    const ours = Array.from({ length: 20 }, (_, c) => ChannelName.parse(`#ours${c}`));
    await Promise.all(ours.map((channel) => directory.subscribe(bob, channel)));
    expect(await Promise.all(children.map(({ exited }) => exited))).toEqual([0, 0]);
    await within(20_000, async () => (await directory.get(bob))?.subscriptions.length === 40);
    expect(await signsIn(directory, 'token of bob')).toBe('bob');
  });

  it('records in memory at once that an agent was seen, and on disk later, at the latest when it is closed', async () => {
    const clock = aClock();
    const directory = aDirectory(clock.now);
    const { lastSeen } = await directory.register(bob, 'agent', hashOf('token of bob'));
    const onDisk = (): string => JSON.parse(readFileSync(`${root}/agents/bob.json`, 'utf8')).lastSeen;
    clock.pass(61_000);
    await directory.seen(bob);
    expect((await directory.get(bob))?.lastSeen).toBe(new Date(clock.now()).toISOString());
    expect(onDisk()).toBe(lastSeen);
    await directory.close();
    expect(onDisk()).toBe(new Date(clock.now()).toISOString());
    expect(JSON.parse(readFileSync(`${root}/agents/bob.json`, 'utf8')).tokenHash).toBe(hashOf('token of bob'));
  });

  it('scans nothing after changes of its own', async () => {
    const directory = aDirectory(Date.now, { exact: true, lookMs: 600_000 });
    const channel = ChannelName.parse('#dev');
    await directory.register(alice, 'agent');
    await directory.subscribers(channel);
    let scans = 0;
    const names = directory.files.names.bind(directory.files);
    directory.files.names = () => {
      scans += 1;
      return names();
    };
    for (let n = 0; n < 20; n += 1) {
      await directory.subscribe(alice, channel);
      expect((await directory.subscribers(channel)).map(({ name }) => name)).toEqual([alice]);
      await directory.amend(alice, () => ({ displayName: `Alice ${n}` }));
      expect((await directory.get(alice))?.parley?.displayName).toBe(`Alice ${n}`);
      await directory.unsubscribe(alice, channel);
      expect(await directory.subscribers(channel)).toEqual([]);
    }
    expect(scans).toBe(0);
  });

  it('sees a change that another program made just before a change of its own', async () => {
    const directory = aDirectory(Date.now, { events: false, lookMs: 600_000 });
    const other = new FilesDirectory(root, Date.now);
    for (const name of [alice, bob]) await directory.register(name, 'agent');
    for (let n = 0; n < 20; n += 1) {
      const channel = ChannelName.parse(`#dev-${n}`);
      await directory.subscribers(channel);
      await other.subscribe(alice, channel);
      await directory.subscribe(bob, channel);
      expect((await directory.subscribers(channel)).map(({ name }) => name)).toEqual([alice, bob]);
    }
  });

  it('never waits for the disk when agents register or are seen, and leaves no draft behind', async () => {
    const clock = aClock();
    const directory = aDirectory(clock.now);
    let waits = 0;
    const write = directory.files.write.bind(directory.files);
    directory.files.write = (name, text, draft) => {
      if (draft?.text !== text) waits += 1;
      write(name, text, draft);
    };
    const many = Array.from({ length: 50 }, (_, n) => AgentName.parse(`agent-${n}`));
    await Promise.all(many.map((name) => directory.register(name, 'agent', hashOf(`token of ${name}`))));
    await directory.register(many[0] as AgentName, 'agent');
    clock.pass(61_000);
    for (const name of many) await directory.seen(name);
    await directory.close();
    expect(waits).toBe(0);
    for (const name of many) expect(directory.files.read(name)?.lastSeen).toBe(new Date(clock.now()).toISOString());
    expect(readdirSync(`${root}/agents`)).toHaveLength(many.length);
  });

  describe('while it writes a record', () => {
    /** Runs an act of another program after the draft is flushed and before it is published. */
    function meanwhile(directory: ShownDirectory, act: (other: FilesDirectory) => unknown): void {
      const { files } = directory;
      const withDraft = files.withDraft.bind(files);
      files.withDraft = (name, text, publish) =>
        withDraft(name, text, (draft) => {
          act(new FilesDirectory(root, Date.now));
          return publish(draft);
        });
    }

    it('keeps a change that another program makes in that record [BC-C6]', async () => {
      const clock = aClock();
      const directory = aDirectory(clock.now);
      await directory.register(bob, 'agent', hashOf('token of bob'));
      meanwhile(directory, (other) => other.subscribe(bob, ChannelName.parse('#dev')));
      clock.pass(61_000);
      await directory.seen(bob);
      await directory.close();
      expect(directory.files.read(bob)).toMatchObject({
        subscriptions: ['#dev'],
        lastSeen: new Date(clock.now()).toISOString(),
        tokenHash: hashOf('token of bob'),
      });
      expect(readdirSync(`${root}/agents`)).toEqual(['bob.json']);
    });

    it('does not make it again if another program removes it', async () => {
      const clock = aClock();
      const directory = aDirectory(clock.now);
      await directory.register(bob, 'agent');
      meanwhile(directory, (other) => other.remove(bob));
      clock.pass(61_000);
      await directory.seen(bob);
      await directory.close();
      expect(readdirSync(`${root}/agents`)).toEqual([]);
    });

    it('leaves the name and the token to another program that registers it first', async () => {
      const directory = aDirectory();
      meanwhile(directory, (other) => other.register(bob, 'foreign', hashOf('theirs')));
      const record = await directory.register(bob, 'agent', hashOf('ours'));
      expect(record.tokenHash).toBe(hashOf('theirs'));
      expect(directory.files.read(bob)?.tokenHash).toBe(hashOf('theirs'));
      expect(readdirSync(`${root}/agents`)).toEqual(['bob.json']);
    });
  });

  it('does not make a removed record again by saving when its agent was seen', async () => {
    const clock = aClock();
    const directory = aDirectory(clock.now);
    await directory.register(bob, 'agent');
    clock.pass(61_000);
    await directory.seen(bob);
    rmSync(`${root}/agents/bob.json`);
    await directory.close();
    expect(readdirSync(`${root}/agents`)).toEqual([]);
  });

  it('returns frozen records', async () => {
    const directory = aDirectory();
    await directory.register(bob, 'agent', hashOf('token of bob'));
    const record = await directory.get(bob);
    expect(() => delete record?.tokenHash).toThrow(TypeError);
    expect(() => record?.subscriptions.push('#dev')).toThrow(TypeError);
    expect(await signsIn(directory, 'token of bob')).toBe('bob');
  });
});

async function isOver(event: Promise<unknown>): Promise<boolean> {
  return Promise.race([event.then(() => true), Bun.sleep(1).then(() => false)]);
}
