import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { alice, bob, carol } from '../../test/support/mail.ts';
import { AgentName, ChannelName } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import type { AgentRecord, Amendment, Directory } from '../core/ports/directory.ts';

export interface OpenDirectory {
  directory: Directory;
  now(): number;
  /** Moves the clock. */
  pass(ms: number): void;
  /** Writes any text as a record, as another program does, and waits until the directory sees it. */
  plant(name: string, text: string): Promise<void>;
  /** The stored text of a record. */
  textOf(name: string): string;
  close(): Promise<void>;
}

const dev = ChannelName.parse('#dev');
const ops = ChannelName.parse('#ops');

/** Tests that do not apply to a directory, with the reason. */
export interface Differences {
  /** Records have no files of their own. */
  oneFile?: string;
}

/** The promises of every directory. Each sentence of core/ports/directory.ts is a test here. */
export function directoryContract(
  name: string,
  open: () => Promise<OpenDirectory>,
  { oneFile }: Differences = {},
): void {
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

    describe('when an agent registers', () => {
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

      it('updates when a known agent was seen, and changes nothing else', async () => {
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

      it('refuses such a name also if the record of the other agent cannot be read', async () => {
        await here.plant('bob', '{ half');
        await expect(directory.register(AgentName.parse('BOB'), 'agent')).rejects.toMatchObject({ code: 'name_taken' });
      });

      it('refuses the name of a role', async () => {
        await here.plant('bob', JSON.stringify({ name: 'bob', parley: { v: 1, kind: 'agent', roles: ['reviewer'] } }));
        const role = AgentName.parse('reviewer');
        expect(namesOf(await directory.members(role))).toEqual([bob]);
        await expect(directory.register(role, 'agent')).rejects.toMatchObject({ code: 'name_taken' });
      });

      it('says which of some names are roles', async () => {
        await here.plant('bob', JSON.stringify({ name: 'bob', parley: { v: 1, kind: 'agent', roles: ['reviewer'] } }));
        const asked = ['bob', 'reviewer', 'nobody'].map((name) => AgentName.parse(name));
        expect(await directory.rolesAmong(asked)).toEqual([AgentName.parse('reviewer')]);
        expect(await directory.rolesAmong([])).toEqual([]);
      });

      it('refuses the name under which Parley itself writes', async () => {
        for (const one of ['parley-host', 'Parley-Host']) {
          await expect(directory.register(AgentName.parse(one), 'agent')).rejects.toMatchObject({ code: 'name_taken' });
        }
        expect(await names()).toEqual([]);
      });

      it('refuses to write over a record that cannot be read, and leaves it alone', async () => {
        await here.plant('bob', '{ half');
        await expect(directory.register(bob, 'agent')).rejects.toMatchObject({ code: 'storage_failed' });
        expect(here.textOf('bob')).toBe('{ half');
      });
    });

    describe('about tokens', () => {
      const [one, other] = ['1'.repeat(64), '2'.repeat(64)];

      it('makes a record with its token in one step', async () => {
        const record = await directory.register(bob, 'foreign', one);
        expect(record.tokenHash).toBe(one);
        expect(JSON.parse(here.textOf('bob'))).toEqual({
          name: 'bob',
          subscriptions: [],
          createdAt: iso(),
          lastSeen: iso(),
          tokenHash: one,
        });
        expect(await directory.byToken(one)).toBe(bob);
        expect(await directory.byToken(other)).toBeNull();
      });

      it('changes no token of an existing record', async () => {
        await directory.register(alice, 'agent');
        await directory.register(bob, 'agent', one);
        expect((await directory.register(alice, 'foreign', other)).tokenHash).toBeUndefined();
        expect((await directory.register(bob, 'foreign', other)).tokenHash).toBe(one);
        expect((await directory.get(alice))?.tokenHash).toBeUndefined();
        expect(here.textOf('alice')).not.toContain('tokenHash');
        expect(await directory.byToken(other)).toBeNull();
      });

      it('gives a name to one of many callers that register it at once', async () => {
        const hashes = Array.from({ length: 20 }, (_, n) => n.toString(16).padStart(64, '0'));
        const records = await Promise.all(hashes.map((hash) => directory.register(bob, 'foreign', hash)));
        const winners = hashes.filter((hash, n) => records[n]?.tokenHash === hash);
        expect(winners).toHaveLength(1);
        expect((await directory.get(bob))?.tokenHash).toBe(winners[0]);
      });

      it('replaces the token of an agent, and removes it', async () => {
        await directory.register(bob, 'agent', one);
        await directory.giveToken(bob, other);
        expect(await directory.byToken(one)).toBeNull();
        expect(await directory.byToken(other)).toBe(bob);
        await directory.giveToken(bob, null);
        expect(await directory.byToken(other)).toBeNull();
        expect(here.textOf('bob')).not.toContain('tokenHash');
        expect(await directory.get(bob)).toMatchObject({ name: bob });
      });

      it('refuses a token for an unknown agent', async () => {
        await expect(directory.giveToken(carol, one)).rejects.toMatchObject({ code: 'not_found' });
        expect(await names()).toEqual([]);
      });

      it('keeps the token when it changes something else about the record', async () => {
        await directory.register(bob, 'agent', one);
        await directory.subscribe(bob, dev);
        here.pass(61_000);
        await directory.seen(bob);
        await directory.unsubscribe(bob, dev);
        await directory.register(bob, 'agent');
        expect(JSON.parse(here.textOf('bob')).tokenHash).toBe(one);
        expect(await directory.byToken(one)).toBe(bob);
      });

      it('forgets the token with the record', async () => {
        await directory.register(bob, 'agent', one);
        await directory.remove(bob);
        expect(await directory.byToken(one)).toBeNull();
        await directory.register(bob, 'agent', other);
        expect(await directory.byToken(one)).toBeNull();
        expect(await directory.byToken(other)).toBe(bob);
      });

      it('finds no agent for a token that two records have', async () => {
        await directory.register(alice, 'agent', one);
        await here.plant('bob', JSON.stringify({ name: 'bob', tokenHash: one }));
        expect(await directory.byToken(one)).toBeNull();
        await directory.giveToken(bob, other);
        expect(await directory.byToken(one)).toBe(alice);
      });

      it.each([
        ['an empty one', ''],
        ['a number', 7],
        ['null', null],
      ])('takes %s for no token', async (_what, tokenHash) => {
        await here.plant('bob', JSON.stringify({ name: 'bob', tokenHash }));
        expect(await directory.get(bob)).toMatchObject({ name: bob });
        for (const hash of ['', '7', 'null', 'undefined']) expect(await directory.byToken(hash)).toBeNull();
      });
    });

    describe('about channels', () => {
      it('lists exactly the channels that an agent subscribes to, sorted [BC-11]', async () => {
        await directory.register(alice, 'agent');
        await directory.register(bob, 'agent');
        expect(await directory.channels()).toEqual([]);
        await directory.subscribe(bob, ops);
        await directory.subscribe(bob, dev);
        await directory.subscribe(alice, dev);
        expect(await directory.channels()).toEqual([dev, ops]);
        expect(namesOf(await directory.subscribers(dev))).toEqual([alice, bob]);
        await directory.unsubscribe(bob, ops);
        expect(await directory.channels()).toEqual([dev]);
        expect(namesOf(await directory.subscribers(ops))).toEqual([]);
      });

      it('subscribes once, and unsubscribes from an unknown channel without an error', async () => {
        await directory.register(bob, 'agent');
        await directory.subscribe(bob, dev);
        await directory.subscribe(bob, dev);
        await directory.unsubscribe(bob, ops);
        expect((await directory.get(bob))?.subscriptions).toEqual([dev]);
      });

      it('refuses to subscribe an unknown agent', async () => {
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

    describe('about our own fields of a record', () => {
      const tester = AgentName.parse('tester');

      it('changes them, and returns the new record', async () => {
        const before = await directory.register(bob, 'agent');
        const after = await directory.amend(bob, ({ roles }) => ({ roles: [...roles, tester], quiet: { on: true } }));
        expect(after).toEqual({ ...before, parley: { v: 1, kind: 'agent', roles: [tester], quiet: { on: true } } });
        expect(await directory.get(bob)).toEqual(after);
        expect(namesOf(await directory.members(tester))).toEqual([bob]);
      });

      it('removes a field that is changed to undefined', async () => {
        await directory.register(bob, 'agent');
        await directory.amend(bob, () => ({ quiet: { on: true }, owns: ['#dev'] }));
        await directory.amend(bob, () => ({ quiet: undefined }));
        expect(JSON.parse(here.textOf('bob')).parley).toEqual({ v: 1, kind: 'agent', roles: [], owns: ['#dev'] });
      });

      it('keeps everything else as it was written, unknown fields included', async () => {
        const theirs = { name: 'bob', more: [1], parley: { v: 1, kind: 'human', roles: [], later: true } };
        await here.plant('bob', JSON.stringify(theirs));
        await directory.amend(bob, () => ({ owner: true }));
        expect(JSON.parse(here.textOf('bob'))).toEqual({ ...theirs, parley: { ...theirs.parley, owner: true } });
      });

      it('leaves the record as it is if there is nothing to change', async () => {
        const before = await directory.register(bob, 'agent');
        const text = here.textOf('bob');
        expect(await directory.amend(bob, () => null)).toEqual(before);
        expect(here.textOf('bob')).toBe(text);
      });

      it('changes nothing if the change is refused', async () => {
        await directory.register(bob, 'agent');
        const text = here.textOf('bob');
        const refused = directory.amend(bob, () => {
          throw new Refusal('name_taken', 'no');
        });
        await expect(refused).rejects.toMatchObject({ code: 'name_taken' });
        expect(here.textOf('bob')).toBe(text);
        expect((await directory.amend(bob, () => ({ owner: true }))).parley?.owner).toBe(true);
      });

      it('passes all current records to the change: of many agents that want one role, one gets it', async () => {
        const many = Array.from({ length: 20 }, (_, n) => AgentName.parse(`person-${n}`));
        for (const one of many) await directory.register(one, 'human');
        const claim: Amendment = (_own, everybody) =>
          everybody().some(({ parley }) => parley?.owner) ? null : { owner: true };
        await Promise.all(many.map((one) => directory.amend(one, claim)));
        expect((await directory.list()).filter(({ parley }) => parley?.owner)).toHaveLength(1);
      });

      it('loses none of 20 concurrent changes, and none of the subscriptions made meanwhile', async () => {
        await directory.register(bob, 'agent');
        const roles = Array.from({ length: 20 }, (_, n) => AgentName.parse(`role-${n}`));
        await Promise.all([
          ...roles.map((role) => directory.amend(bob, (own) => ({ roles: [...own.roles, role] }))),
          directory.subscribe(bob, dev),
          directory.subscribe(bob, ops),
        ]);
        const record = await directory.get(bob);
        expect(new Set(record?.parley?.roles)).toEqual(new Set(roles));
        expect(new Set(record?.subscriptions)).toEqual(new Set([dev, ops]));
      });

      it('refuses to add them to an agent that another program made, or to fields of a later version', async () => {
        await directory.register(bob, 'foreign');
        await here.plant('carol', JSON.stringify({ name: 'carol', parley: { v: 2 } }));
        for (const name of [bob, carol]) {
          const text = here.textOf(name);
          await expect(directory.amend(name, () => ({ roles: [] }))).rejects.toMatchObject({ code: 'not_yours' });
          expect(here.textOf(name)).toBe(text);
        }
      });

      it('refuses an unknown agent, and a record that cannot be read', async () => {
        await expect(directory.amend(carol, () => ({ roles: [] }))).rejects.toMatchObject({ code: 'not_found' });
        await here.plant('bob', '{ half');
        await expect(directory.amend(bob, () => ({ roles: [] }))).rejects.toMatchObject({ code: 'storage_failed' });
        expect(here.textOf('bob')).toBe('{ half');
      });
    });

    describe('about records of other programs', () => {
      it('keeps unknown fields when it rewrites a record [BC-B3.5]', async () => {
        const theirs = {
          name: 'bob',
          tokenHash: 'abc',
          createdAt: 'then',
          lastSeen: 'once',
          subscriptions: ['#old'],
          parley: { v: 2, colour: 'red' },
          more: { deep: [1, null] },
        };
        await here.plant('bob', JSON.stringify(theirs));
        await directory.subscribe(bob, dev);
        await directory.unsubscribe(bob, ChannelName.parse('#old'));
        await directory.seen(bob);
        await directory.register(bob, 'agent');
        expect(JSON.parse(here.textOf('bob'))).toEqual({ ...theirs, subscriptions: ['#dev'], lastSeen: iso() });
      });

      it('keeps unknown fields among our own fields too', async () => {
        const parley = { v: 1, kind: 'agent', roles: ['tester'], later: true };
        await here.plant('bob', JSON.stringify({ name: 'bob', parley }));
        await directory.subscribe(bob, dev);
        expect(JSON.parse(here.textOf('bob')).parley).toEqual(parley);
      });

      it.skipIf(oneFile !== undefined)('writes a record as JSON indented by two', async () => {
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
        await here.plant('carol', text);
        expect(await names()).toEqual(['alice', 'bob']);
        expect(await directory.get(carol)).toBeNull();
        expect(await directory.channels()).toEqual([dev]);
        expect(namesOf(await directory.subscribers(dev))).toEqual([bob]);
        expect(await directory.unreadable()).toEqual([expect.stringContaining('carol')]);
        await directory.register(AgentName.parse('dave'), 'agent');
        expect(await names()).toEqual(['alice', 'bob', 'dave']);
      });

      it('reads a record that has only a name', async () => {
        await here.plant('bob', '{"name": "bob", "subscriptions": 7}');
        expect(await directory.get(bob)).toMatchObject({ name: bob, subscriptions: [] });
      });
    });

    it('loses none of 100 agents that register at once', async () => {
      const many = Array.from({ length: 100 }, (_, n) => AgentName.parse(`agent-${n}`));
      await Promise.all(many.map((one) => directory.register(one, 'agent')));
      expect(new Set(await names())).toEqual(new Set(many));
    });

    it('lists all agents by name', async () => {
      for (const one of ['dave', 'Carol', 'alice', 'bob']) await directory.register(AgentName.parse(one), 'agent');
      expect(await names()).toEqual(['alice', 'bob', 'Carol', 'dave']);
    });

    it('counts all records, readable or not', async () => {
      expect(await directory.count()).toBe(0);
      for (const one of [alice, bob, bob]) await directory.register(one, 'agent');
      await here.plant('carol', '{ half');
      expect(await directory.count()).toBe(3);
      await directory.remove(alice);
      expect(await directory.count()).toBe(2);
    });

    it('records when an agent was seen, to within a minute', async () => {
      await directory.register(bob, 'agent');
      const since = iso();
      here.pass(59_000);
      await directory.seen(bob);
      expect((await directory.get(bob))?.lastSeen).toBe(since);
      here.pass(1000);
      await directory.seen(bob);
      expect((await directory.get(bob))?.lastSeen).toBe(iso());
    });

    it('makes no record when an unknown agent is seen', async () => {
      await directory.seen(carol);
      expect(await names()).toEqual([]);
    });

    it('removes a record, and does nothing if there is none', async () => {
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

function namesOf(records: AgentRecord[]): AgentName[] {
  return records.map((record) => record.name);
}
