import { describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { aClock } from '../../../test/support/clock.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { alice, bob } from '../../../test/support/mail.ts';
import { ChannelName } from '../../core/names.ts';
import { directoryContract } from '../directory.contract.ts';
import { FilesDirectory } from './files.ts';

directoryContract('files', async () => {
  const clock = aClock();
  const root = quickFolder();
  const directory = new FilesDirectory(root, clock.now);
  return {
    directory,
    ...clock,
    plant: async (name, text) => {
      mkdirSync(`${root}/agents`, { recursive: true });
      writeFileSync(`${root}/agents/${name}.json`, text);
    },
    textOf: (name) => readFileSync(`${root}/agents/${name}.json`, 'utf8'),
    close: () => directory.close(),
  };
});

const CHILD = `${import.meta.dir}/../../../test/support/subscribe.child.ts`;
const IN_PLACE = `${import.meta.dir}/../../../test/support/in-place.child.ts`;
const DEV = ChannelName.parse('#dev');

describe('the files directory, beyond the contract,', () => {
  it('keeps all of 20 subscribes that come from 4 processes at once [BC-C6]', async () => {
    const root = temporaryHome();
    const directory = new FilesDirectory(root, Date.now);
    await directory.register(bob, 'agent');
    const children = [0, 1, 2, 3].map((n) => {
      const channels = Array.from({ length: 5 }, (_, c) => `#c${n}${c}`);
      return Bun.spawn([process.execPath, CHILD, root, 'bob', ...channels], { stderr: 'inherit' });
    });
    expect(await Promise.all(children.map(({ exited }) => exited))).toEqual([0, 0, 0, 0]);
    expect(new Set((await directory.get(bob))?.subscriptions).size).toBe(20);
  });

  it('finds and counts an agent while another program writes its record in place', async () => {
    const root = temporaryHome();
    const directory = new FilesDirectory(root, Date.now);
    await directory.register(bob, 'foreign');
    await directory.subscribe(bob, DEV);
    const path = `${root}/agents/bob.json`;
    const record = JSON.parse(readFileSync(path, 'utf8')) as object;
    const texts = [record, { ...record, more: 'and more' }].map((each) => JSON.stringify(each, null, 2));
    const writer = Bun.spawn([process.execPath, IN_PLACE, path, ...texts], { stdout: 'pipe' });
    try {
      await writer.stdout.getReader().read();
      for (let round = 0; round < 200; round += 1) {
        expect((await directory.get(bob))?.name).toBe(bob);
        expect(await directory.subscribers(DEV)).toHaveLength(1);
      }
    } finally {
      writer.kill('SIGKILL');
      await writer.exited;
    }
  });

  it('does not let a change bring a record back that another process removed', async () => {
    const root = temporaryHome();
    const directory = new FilesDirectory(root, Date.now);
    for (let round = 0; round < 4; round += 1) {
      await directory.register(bob, 'agent');
      const channels = Array.from({ length: 1000 }, (_, n) => `#c${n}`);
      const busy = Bun.spawn([process.execPath, CHILD, root, 'bob', ...channels], { stderr: 'pipe' });
      while (((await directory.get(bob))?.subscriptions.length ?? 0) < 3) await Bun.sleep(1);
      await directory.remove(bob);
      expect(await busy.exited).not.toBe(0);
      expect(await new Response(busy.stderr).text()).toContain('no agent is called bob');
      expect(await directory.get(bob)).toBeNull();
    }
  });

  it('keeps records readable by their owner only, and leaves no draft behind', async () => {
    const root = temporaryHome();
    const directory = new FilesDirectory(root, Date.now);
    await directory.register(bob, 'agent');
    expect(statSync(`${root}/agents`).mode & 0o777).toBe(0o700);
    expect(statSync(`${root}/agents/bob.json`).mode & 0o777).toBe(0o600);
    expect(readdirSync(`${root}/agents`)).toEqual(['bob.json']);
  });

  it('neither waits for a pipe nor fails on a folder or a dead link in place of a record', async () => {
    const root = temporaryHome();
    const directory = new FilesDirectory(root, Date.now);
    await directory.register(alice, 'agent');
    Bun.spawnSync(['mkfifo', `${root}/agents/pipe.json`]);
    mkdirSync(`${root}/agents/folder.json`);
    symlinkSync(`${root}/nowhere`, `${root}/agents/link.json`);
    expect((await directory.list()).map(({ name }) => name)).toEqual([alice]);
    expect((await directory.unreadable()).length).toBe(3);
  });
});
