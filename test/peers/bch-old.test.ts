// The original as it was before it had rooms: its relay keeps agents and mail directly in the home, where local mode has them too.
import { afterEach, describe, expect } from 'bun:test';
import { Caller } from '../support/caller.ts';
import { within } from '../support/within.ts';
import { everythingOld, ROOM } from './support/everything.ts';
import { endAll, PeerMachine, peers } from './support/peer.ts';
import type { Brand } from './support/peer.ts';
import { Pool } from './support/pool.ts';
import { Transcript } from './support/transcript.ts';

const { story, why } = peers('original', 'older');
const HERE = ['--token', 'room'];
const OUR_KEY = /,\n( *)"parley": (\{[^]*?\n\1\})/g;
afterEach(endAll);

describe(`the original bch of before it had rooms${why}`, () => {
  story('prints at our relay every text that it prints at its own, and ends with the same codes [BC-12]', async () => {
    const [theirs, ours] = await Promise.all([heard('older', 'older'), heard('older', 'ours')]);
    expect(ours.replaceAll(OUR_KEY, '')).toBe(theirs);
  });

  story('has a relay at which our bch prints what it prints at the newer one [BC-B5.22]', async () => {
    const [newer, older] = await Promise.all([heard('ours', 'original'), heard('ours', 'older')]);
    expect(older).toBe(newer);
  });

  story.each([
    ['older', 'ours'],
    ['ours', 'older'],
  ] as const)(
    'shares one home with our relay, %s first: agents, tokens and mail are the same [BC-B3.13]',
    async (first, second) => {
      const machine = new PeerMachine();
      const one = await machine.relay(first, HERE);
      const ann = await Caller.register(one.url, 'ann', 'room');
      const two = await machine.relay(second, HERE);
      const bob = await Caller.register(two.url, 'bob', 'room');
      const bobAtOne = new Caller(one.url, bob.token, 'bob');
      await within(5000, async () => (await bobAtOne.get('inbox/bob')).status === 200);
      const pool = new Pool(machine, 'bob');
      for (const caller of [bob, bobAtOne]) pool.takes(caller);
      await pool.reads('original');
      const sent = await Promise.all([
        pool.writes(ann, 50),
        pool.writes(new Caller(two.url, ann.token, 'ann'), 50),
        pool.sends('ours', 'script', 50),
      ]);
      expect(await pool.taken(150)).toEqual(sent.flat().toSorted());
    },
  );
});

async function heard(client: Brand, relay: Brand): Promise<string> {
  const { url } = await new PeerMachine().relay(relay, ['--token', ROOM]);
  const at = new Transcript(client, url);
  await everythingOld(at);
  return at.text;
}
