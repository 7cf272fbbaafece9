// Both programs at work on one home at the same time, and our relay beside them.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Caller } from '../support/caller.ts';
import { OriginalClient } from '../support/original-client.ts';
import { within } from '../support/within.ts';
import { endAll, PeerMachine, peers } from './support/peer.ts';
import type { Brand } from './support/peer.ts';
import { Pool } from './support/pool.ts';

const { story, why } = peers('original');
const BOTH = ['original', 'ours'] as const satisfies Brand[];
const FOUR_OF_EACH: Brand[] = BOTH.flatMap((brand) => [brand, brand, brand, brand]);
const HERE = ['--token', 'room'];
afterEach(endAll);

/** A machine with these agents, made by the two programs in turn. */
async function machineWith(...names: string[]): Promise<PeerMachine> {
  const machine = new PeerMachine();
  for (const [n, name] of names.entries()) await machine.told(n % 2 === 0 ? 'original' : 'ours', ['init', name]);
  return machine;
}

describe(`the original and ours on one home${why}`, () => {
  story(
    'give each of 400 messages to exactly one reader, no matter who sent it and who reads [BC-6, BC-8]',
    async () => {
      const senders = FOUR_OF_EACH.map((brand, n) => ({ brand, name: `sender-${n}` }));
      const machine = await machineWith('reader', ...senders.map(({ name }) => name));
      const pool = new Pool(machine, 'reader');
      for (const brand of BOTH) pool.watches(brand);
      await Promise.all(FOUR_OF_EACH.map((brand) => pool.reads(brand)));
      const sent = await Promise.all(senders.map(({ brand, name }) => pool.sends(brand, name, 50)));
      expect(await pool.taken(400)).toEqual(sent.flat().toSorted());
      for (const brand of BOTH) {
        expect(await machine.told(brand, ['inbox'], { as: 'reader' })).toBe('inbox empty\n');
        // Neither kept all to itself.
        expect(pool.takenBy(brand)).toBeGreaterThan(0);
      }
      expect(machine.files('reader', 'held')).toEqual([]);
      expect(machine.files('reader', 'cur')).toEqual([]);
    },
  );

  story.each(BOTH)(
    'carry what %s says in a channel to everybody, no matter who subscribed them [BC-2, BC-11]',
    async (from) => {
      const machine = await machineWith('ann', 'bob', 'cat', 'dan');
      for (const [n, name] of ['ann', 'bob', 'cat', 'dan'].entries()) {
        await machine.told(n < 2 ? 'original' : 'ours', ['sub', '#dev'], { as: name });
      }
      await machine.told(from, ['send', '#dev', 'to all of you'], { as: 'ann' });
      expect(await machine.told('original', ['drain'], { as: 'ann' })).toBe('inbox empty\n');
      for (const [name, brand] of [
        ['bob', 'original'],
        ['cat', 'original'],
        ['dan', 'ours'],
      ] as const) {
        expect(await machine.told(brand, ['drain'], { as: name })).toMatch(/^ann -> #dev \(.*\)\nto all of you\n$/);
      }
    },
  );

  story(
    'keep what the other has written into a record: subscriptions, order, and fields that one of them does not know [BC-B3.5]',
    async () => {
      const machine = await machineWith('ann');
      const path = `${machine.root}/agents/ann.json`;
      writeFileSync(
        path,
        JSON.stringify({ ...machine.record('ann'), tokenHash: 'f'.repeat(64), later: { a: [1] } }, null, 2),
      );
      const as = { as: 'ann' };
      await machine.told('original', ['sub', '#one'], as);
      await machine.told('ours', ['sub', '#two'], as);
      await machine.told('original', ['sub', '#three'], as);
      await machine.told('ours', ['unsub', '#one'], as);
      await machine.told('ours', ['init', 'ann']);
      const record = machine.record('ann');
      expect(record).toMatchObject({ subscriptions: ['#two', '#three'], tokenHash: 'f'.repeat(64), later: { a: [1] } });
      expect(Object.keys(record)).toEqual(['name', 'subscriptions', 'createdAt', 'lastSeen', 'tokenHash', 'later']);
      expect(readFileSync(path, 'utf8')).toBe(JSON.stringify(record, null, 2));
      expect(await machine.told('original', ['agents'])).toMatch(/^ann \(#two, #three\) — last seen/);
    },
  );

  story(
    'do not meet half a record of ours: of 40 subscriptions at once none is lost, and the original reads on [BC-C6]',
    async () => {
      const machine = await machineWith('ann', 'bob');
      const ours = await Promise.all(Array.from({ length: 4 }, () => machine.tools('ours', { as: 'ann' })));
      const original = await machine.tools('original', { as: 'bob' });
      let subscribing = true;
      const reading = (async () => {
        while (subscribing) expect((await original.call('bch_agents')).isError).toBe(false);
      })();
      const channels = Array.from({ length: 40 }, (_, n) => `#c${n}`);
      await Promise.all(
        ours.map(async (client, n) => {
          for (const channel of channels.filter((_, at) => at % ours.length === n))
            await client.call('bch_subscribe', { channel });
        }),
      );
      subscribing = false;
      await reading;
      expect(new Set(machine.record('ann')['subscriptions'] as string[])).toEqual(new Set(channels));
    },
  );

  story('announce to each other: `watch` of either hears what the other sends [BC-B7.43]', async () => {
    const machine = await machineWith('ann', 'bob');
    for (const [watcher, sender] of [BOTH, BOTH.toReversed()]) {
      const watch = machine.begin(watcher ?? 'ours', ['watch'], { as: 'bob' });
      await watch.complains('watching inbox for bob');
      await machine.told(sender ?? 'ours', ['send', '@bob', `from ${sender}`], { as: 'ann' });
      await watch.says(`from ${sender}`);
      await watch.stop('SIGKILL');
    }
  });

  story('keep by `read --keep` what neither gives out again [BC-9]', async () => {
    const machine = await machineWith('ann', 'bob');
    for (const brand of BOTH) {
      const [, id = ''] =
        /^sent (\w+)/.exec(await machine.told(brand, ['send', '@bob', 'keep me'], { as: 'ann' })) ?? [];
      expect(await machine.told(brand, ['read', id, '--keep'], { as: 'bob' })).toContain('keep me');
    }
    expect(machine.files('bob', 'cur')).toHaveLength(2);
    for (const brand of BOTH) expect(await machine.told(brand, ['drain'], { as: 'bob' })).toBe('inbox empty\n');
  });

  story('let `parley` in: it writes to agents of the original and reads for them', async () => {
    const machine = await machineWith('ann', 'bob');
    const parley = async (...args: string[]): Promise<string> => {
      const { out, err, code } = await machine.program.run(args, { as: 'ann' });
      if (code !== 0) throw new Error(err);
      return out;
    };
    await parley('send', '@bob', 'from parley');
    expect(await machine.told('original', ['drain'], { as: 'bob' })).toContain('from parley');
    await machine.told('original', ['send', '@ann', 'from the original'], { as: 'bob' });
    expect(await parley('drain')).toContain('from the original');
    expect(await machine.told('original', ['drain'], { as: 'ann' })).toBe('inbox empty\n');
  });
});

describe(`our relay on a home that the original works on${why}`, () => {
  story('tells within a second on its stream what the original leaves in the files', async () => {
    const machine = await machineWith('script');
    const { url } = await machine.relay('ours', HERE);
    const bob = new OriginalClient(url, 'bob');
    await bob.register('room');
    const stop = new AbortController();
    const heard: string[] = [];
    const listening = bob.watch(({ body }) => void heard.push(body), stop.signal).catch(() => {});
    for (const body of ['one', 'two', 'three']) {
      await machine.told('original', ['send', '@bob', body]);
      await within(20_000, async () => heard.includes(body));
    }
    stop.abort();
    await listening;
    expect(heard).toEqual(['one', 'two', 'three']);
  });

  story(
    'leaves in the files what it has accepted, and does not give out what the original took from there',
    async () => {
      const machine = await machineWith('script');
      const { url } = await machine.relay('ours', HERE);
      const [ann, bob] = [await Caller.register(url, 'ann', 'room'), await Caller.register(url, 'bob', 'room')];
      const { id } = await ann.send('@bob', 'by the relay');
      await within(5000, async () => machine.files('bob', 'new').length === 1);
      expect(await machine.told('original', ['drain'], { as: 'bob' })).toMatch(/^ann -> @bob \(.*\)\nby the relay\n$/);
      expect(await bob.take(id)).toBeNull();
      expect(await bob.inbox()).toEqual([]);
    },
  );

  story('wakes a `watch` of the original on the same home for what it has accepted', async () => {
    const machine = await machineWith('bob');
    const { url } = await machine.relay('ours', HERE);
    const ann = await Caller.register(url, 'ann', 'room');
    const watch = machine.begin('original', ['watch'], { as: 'bob' });
    await watch.complains('watching inbox for bob');
    for (const body of ['one', 'two']) {
      await ann.send('@bob', body);
      await watch.says(`: ${body}\n`);
    }
    expect(await machine.told('ours', ['drain'], { as: 'bob' })).toBe('inbox empty\n');
  });

  story(
    'gives each message to exactly one, over its wire or in the files, to whichever program [BC-6, BC-14]',
    async () => {
      const machine = await machineWith('script');
      const { url } = await machine.relay('ours', HERE);
      const [ann, bob] = [await Caller.register(url, 'ann', 'room'), await Caller.register(url, 'bob', 'room')];
      const pool = new Pool(machine, 'bob');
      await Promise.all(BOTH.map((brand) => pool.reads(brand)));
      pool.takes(bob);
      const sent = await Promise.all([
        pool.sends('original', 'script', 50),
        pool.sends('ours', 'script-2', 50),
        pool.writes(ann, 100),
      ]);
      expect(await pool.taken(200)).toEqual(sent.flat().toSorted());
      expect(await bob.inbox()).toEqual([]);
    },
  );
});

describe(`a relay of the original and one of ours on one home${why}`, () => {
  story('are one relay at two addresses: agents, tokens, rooms, mail and streams are the same [BC-B3.12]', async () => {
    const machine = new PeerMachine();
    const theirs = await machine.relay('original', HERE);
    // It makes the folder of its default room when somebody asks for the first time; ours goes there if it is there.
    const ann = await Caller.register(theirs.url, 'ann', 'room');
    const ours = await machine.relay('ours', HERE);
    const bob = await Caller.register(ours.url, 'bob', 'room');
    const at = ({ url }: { url: string }, { token, name }: Caller): Caller => new Caller(url, token, name);
    for (const [here, there] of [
      [theirs, ours],
      [ours, theirs],
    ] as const) {
      const { id } = await at(here, ann).send('@bob', 'across');
      await within(5000, async () => (await at(there, bob).inbox()).length === 1);
      expect(await at(there, bob).take(id)).toMatchObject({ from: 'ann', body: 'across' });
      expect(await at(here, bob).take(id)).toBeNull();
      const stop = new AbortController();
      const heard: string[] = [];
      const ear = new OriginalClient(there.url, 'bob');
      ear.token = bob.token;
      const listening = ear.watch(({ body }) => void heard.push(body), stop.signal).catch(() => {});
      await at(here, ann).send('@bob', 'listen');
      await within(5000, async () => heard.includes('listen'));
      stop.abort();
      await listening;
      for (const { id: each } of await at(here, bob).inbox()) await at(here, bob).take(each);
      const { roomId, roomToken } = await at(here, ann).ask<{ roomId: string; roomToken: string }>('rooms', {});
      const cat = new OriginalClient(there.url, 'cat', roomId);
      await cat.register(roomToken);
      expect((await cat.agents()).map(({ name }) => name)).toEqual(['cat']);
    }
  });

  story(
    'do not lock out those who joined ours first: a folder that the original only made is nobody’s room',
    async () => {
      const machine = new PeerMachine();
      const first = await machine.relay('ours', HERE);
      const ann = await Caller.register(first.url, 'ann', 'room');
      const theirs = await machine.relay('original', HERE);
      expect((await fetch(`${theirs.url}/v1/health`)).status).toBe(200);
      expect(existsSync(`${machine.root}/rooms/default`)).toBe(true);
      await first.running.stop();
      const again = await machine.relay('ours', HERE);
      expect(await new Caller(again.url, ann.token, 'ann').inbox()).toEqual([]);
    },
  );

  story('give each message to exactly one of those who take it at either [BC-6]', async () => {
    const machine = new PeerMachine();
    const theirs = await machine.relay('original', HERE);
    const ann = await Caller.register(theirs.url, 'ann', 'room');
    const ours = await machine.relay('ours', HERE);
    const bob = await Caller.register(ours.url, 'bob', 'room');
    const pool = new Pool(machine, 'bob');
    for (const { url } of [theirs, ours]) pool.takes(new Caller(url, bob.token, 'bob'));
    const sent = await Promise.all(
      [theirs, ours].map(({ url }) => pool.writes(new Caller(url, ann.token, 'ann'), 100)),
    );
    expect(await pool.taken(200)).toEqual(sent.flat().toSorted());
  });
});
