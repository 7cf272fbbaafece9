import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { AgentName, ChannelName } from '../../protocol/names.ts';
import type { Directory } from './directory.ts';

export interface OpenDirectory {
  directory: Directory;
  now(): number;
  /** Moves the clock. */
  pass(ms: number): void;
  /** Writes a record the way another program does, whatever its text. */
  plant(name: string, text: string): void;
  /** The text of a record as it stands. */
  textOf(name: string): string;
  close(): Promise<void>;
}

const dev = ChannelName.parse('#dev');
const ops = ChannelName.parse('#ops');

/** What every directory promises. Each sentence of directory.ts is a test here. */
export function directoryContract(name: string, open: () => Promise<OpenDirectory>): void {
  describe(`the ${name} directory`, () => {
    let here: OpenDirectory;
    let directory: Directory;
    beforeEach(async () => {
      here = await open();
      ({ directory } = here);
    });
    afterEach(() => here.close());

    const iso = (): string => new Date(here.now()).toISOString();
    async function names(): Promise<string[]> {
      return (await directory.list()).map((record) => record.name);
    }

    describe('when somebody registers', () => {
      it('makes a record', async () => {
        const record = await directory.register(bob, 'agent');
        expect(record).toEqual({
          name: bob,
          subscriptions: [],
          createdAt: iso(),
          lastSeen: iso(),
          parley: { v: 1, kind: 'agent', roles: [] },
        });
        expect(await directory.get(bob)).toEqual(record);
        expect(await directory.get(carol)).toBeNull();
      });

      it('gives a foreign agent nothing of ours', async () => {
        expect(Object.keys(await directory.register(bob, 'foreign'))).toEqual([
          'name',
          'subscriptions',
          'createdAt',
          'lastSeen',
        ]);
      });

      it('notes that an agent is here again, and changes nothing else', async () => {
        const first = await directory.register(bob, 'human');
        await directory.subscribe(bob, dev);
        here.pass(5000);
        const again = await directory.register(bob, 'agent');
        expect(again).toEqual({ ...first, subscriptions: [dev], lastSeen: iso() });
        expect(await directory.get(bob)).toEqual(again);
      });

      it('refuses a name that differs from another only by case', async () => {
        await directory.register(bob, 'agent');
        const alike = directory.register(AgentName.parse('Bob'), 'agent');
        await expect(alike).rejects.toMatchObject({ code: 'name_taken' });
        expect(await names()).toEqual(['bob']);
      });

      it('refuses it also if the record of the other cannot be read', async () => {
        here.plant('bob', '{ half');
        await expect(directory.register(AgentName.parse('BOB'), 'agent')).rejects.toMatchObject({ code: 'name_taken' });
      });

      it('refuses the name of a role', async () => {
        here.plant('bob', JSON.stringify({ name: 'bob', parley: { v: 1, kind: 'agent', roles: ['reviewer'] } }));
        const role = AgentName.parse('reviewer');
        expect(await directory.members(role)).toEqual([bob]);
        await expect(directory.register(role, 'agent')).rejects.toMatchObject({ code: 'name_taken' });
      });

      it('refuses to write over a record that cannot be read, and leaves it alone', async () => {
        here.plant('bob', '{ half');
        await expect(directory.register(bob, 'agent')).rejects.toMatchObject({ code: 'storage_failed' });
        expect(here.textOf('bob')).toBe('{ half');
      });
    });

    describe('about channels', () => {
      it('has a channel if and only if somebody subscribes to it, sorted [BC-11]', async () => {
        await directory.register(alice, 'agent');
        await directory.register(bob, 'agent');
        expect(await directory.channels()).toEqual([]);
        await directory.subscribe(bob, ops);
        await directory.subscribe(bob, dev);
        await directory.subscribe(alice, dev);
        expect(await directory.channels()).toEqual([dev, ops]);
        expect(await directory.subscribers(dev)).toEqual([alice, bob]);
        await directory.unsubscribe(bob, ops);
        expect(await directory.channels()).toEqual([dev]);
        expect(await directory.subscribers(ops)).toEqual([]);
      });

      it('subscribes once, and unsubscribes from what was never subscribed to without an error', async () => {
        await directory.register(bob, 'agent');
        await directory.subscribe(bob, dev);
        await directory.subscribe(bob, dev);
        await directory.unsubscribe(bob, ops);
        expect((await directory.get(bob))?.subscriptions).toEqual([dev]);
      });

      it('refuses to subscribe somebody who is not here', async () => {
        await expect(directory.subscribe(carol, dev)).rejects.toMatchObject({ code: 'not_found' });
        expect(await names()).toEqual([]);
      });

      it('keeps all of 20 concurrent subscribes [BC-11, BC-C6]', async () => {
        await directory.register(bob, 'agent');
        const channels = Array.from({ length: 20 }, (_, n) => ChannelName.parse(`#c${n}`));
        await Promise.all(channels.map((channel) => directory.subscribe(bob, channel)));
        expect(new Set((await directory.get(bob))?.subscriptions)).toEqual(new Set(channels));
      });
    });

    describe('about records of other programs', () => {
      it('keeps what it does not know when it rewrites one [BC-B3.5]', async () => {
        const theirs = {
          name: 'bob',
          tokenHash: 'abc',
          createdAt: 'then',
          lastSeen: 'once',
          subscriptions: ['#old'],
          parley: { v: 2, colour: 'red' },
          more: { deep: [1, null] },
        };
        here.plant('bob', JSON.stringify(theirs));
        await directory.subscribe(bob, dev);
        await directory.unsubscribe(bob, ChannelName.parse('#old'));
        await directory.seen(bob);
        await directory.register(bob, 'agent');
        expect(JSON.parse(here.textOf('bob'))).toEqual({ ...theirs, subscriptions: ['#dev'], lastSeen: iso() });
      });

      it('keeps what it does not know among our own fields too', async () => {
        const parley = { v: 1, kind: 'agent', roles: ['tester'], later: true };
        here.plant('bob', JSON.stringify({ name: 'bob', parley }));
        await directory.subscribe(bob, dev);
        expect(JSON.parse(here.textOf('bob')).parley).toEqual(parley);
      });

      it('writes a record as JSON indented by two', async () => {
        await directory.register(bob, 'foreign');
        expect(here.textOf('bob')).toBe(
          `{\n  "name": "bob",\n  "subscriptions": [],\n  "createdAt": "${iso()}",\n  "lastSeen": "${iso()}"\n}`,
        );
      });

      it.each([
        ['half a record', '{"name": "carol", "subscr'],
        ['an empty file', ''],
        ['no record', '"carol"'],
        ['null', 'null'],
        ['another one’s record', '{"name": "bob"}'],
        ['a record without a name', '{}'],
      ])('hides nobody else when it meets %s', async (_what, text) => {
        await directory.register(alice, 'agent');
        await directory.register(bob, 'agent');
        await directory.subscribe(bob, dev);
        here.plant('carol', text);
        expect(await names()).toEqual(['alice', 'bob']);
        expect(await directory.get(carol)).toBeNull();
        expect(await directory.channels()).toEqual([dev]);
        expect(await directory.subscribers(dev)).toEqual([bob]);
        expect(await directory.unreadable()).toEqual([expect.stringContaining('carol')]);
        await directory.register(AgentName.parse('dave'), 'agent');
        expect(await names()).toEqual(['alice', 'bob', 'dave']);
      });

      it('reads a record that lacks everything but its name', async () => {
        here.plant('bob', '{"name": "bob", "subscriptions": 7}');
        expect(await directory.get(bob)).toMatchObject({ name: bob, subscriptions: [] });
      });
    });

    it('lists everybody by name', async () => {
      for (const one of ['dave', 'Carol', 'alice', 'bob']) await directory.register(AgentName.parse(one), 'agent');
      expect(await names()).toEqual(['alice', 'bob', 'Carol', 'dave']);
    });

    it('notes that an agent was here, within a minute of the truth', async () => {
      await directory.register(bob, 'agent');
      const since = iso();
      here.pass(59_000);
      await directory.seen(bob);
      expect((await directory.get(bob))?.lastSeen).toBe(since);
      here.pass(1000);
      await directory.seen(bob);
      expect((await directory.get(bob))?.lastSeen).toBe(iso());
    });

    it('takes no note of somebody who is not here', async () => {
      await directory.seen(carol);
      expect(await names()).toEqual([]);
    });

    it('removes a record, and does not mind if there is none', async () => {
      await directory.register(bob, 'agent');
      await directory.remove(bob);
      await directory.remove(bob);
      expect(await directory.get(bob)).toBeNull();
      expect(await names()).toEqual([]);
    });

    it('can be closed twice', async () => {
      await directory.close();
      await directory.close();
    });
  });
}
