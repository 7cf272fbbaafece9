// The same requests to both relays, one after another: statuses and texts.
import { afterEach, describe, expect } from 'bun:test';
import { Caller } from '../support/caller.ts';
import { endAll, PeerMachine, peers } from './support/peer.ts';
import type { Brand } from './support/peer.ts';
import { Asker, OTHERWISE, SAME } from './support/requests.ts';
import type { Ask } from './support/requests.ts';

const { story, why } = peers('original');
const HERE = ['--token', 'room'];
afterEach(endAll);

async function askerAt(relay: Brand): Promise<Asker> {
  return new Asker((await new PeerMachine().relay(relay, HERE)).url);
}

async function answers(relay: Brand, asks: Ask[]): Promise<string[]> {
  const asker = await askerAt(relay);
  const told: string[] = [];
  for (const ask of asks) {
    const { status, text } = await asker.ask(ask);
    told.push(`${JSON.stringify(ask)} → ${status} ${text}`);
    // The original knows no order of two messages of the same millisecond.
    for (const now = Date.now(); Date.now() === now;) await Bun.sleep(1);
  }
  return told;
}

describe(`our relay beside that of the original${why}`, () => {
  story(
    'answers every request in order with the same status and the same text [BC-15, BC-B5.29, BC-B5.30]',
    async () => {
      expect(await answers('ours', SAME)).toEqual(await answers('original', SAME));
    },
  );

  story(
    'says no to what the original would store although it is no message, and to names that could be confused',
    async () => {
      const begun = SAME.slice(
        0,
        SAME.findIndex(([, , path]) => path === '/v1/take'),
      );
      const [theirs, ours] = [await askerAt('original'), await askerAt('ours')];
      for (const asker of [theirs, ours]) for (const ask of begun) await asker.ask(ask);
      for (const [ask, there, here, says] of OTHERWISE) {
        expect([ask, (await theirs.ask(ask)).status]).toEqual([ask, there]);
        expect([ask, await ours.ask(ask)]).toEqual([ask, { status: here, text: JSON.stringify({ error: says }) }]);
      }
      // Where the original has registered nobody, its whole room is out of order afterwards; ours says no.
      expect((await ours.ask(['room', 'POST', '/v1/register', {}])).status).toBe(400);
      expect((await ours.ask(['ann', 'GET', '/v1/agents'])).status).toBe(200);
    },
  );

  story(
    'tells on its stream the same lines of data, with numbers beside them, and says at once that it listens [BC-16, BC-B6.1, BC-B6.3]',
    async () => {
      const [theirs, ours] = [await streamOf('original'), await streamOf('ours')];
      expect(ours.data).toEqual(theirs.data);
      expect(theirs.others).toEqual([]);
      expect(ours.others).toEqual([': listening', 'id: 1', 'id: 2']);
    },
  );
});

describe(`who may come in, at our relay as at that of the original${why}`, () => {
  story.each(['original', 'ours'] as const)(
    '%s: anybody, if there is no room token; one from the environment counts too [BC-B5.20, BC-B7.48]',
    async (relay) => {
      const open = new Asker((await new PeerMachine().relay(relay)).url);
      expect((await open.ask(['nobody', 'POST', '/v1/register', { name: 'ann' }])).status).toBe(200);
      const env = { BACKCHANNEL_TOKEN: 'room' };
      const closed = new Asker((await new PeerMachine().relay(relay, [], { env })).url);
      expect((await closed.ask(['nobody', 'POST', '/v1/register', { name: 'ann' }])).status).toBe(401);
      expect((await closed.ask(['room', 'POST', '/v1/register', { name: 'ann' }])).status).toBe(200);
    },
  );

  story.each(['original', 'ours'] as const)(
    '%s: rooms are made by the admin only, if there is one, and `room new` of either says why [BC-B5.2, BC-B7.50]',
    async (relay) => {
      const env = { BACKCHANNEL_ADMIN_TOKEN: 'wrong' };
      const { url } = await new PeerMachine().relay(relay, HERE, { env });
      const asker = new Asker(url);
      expect((await asker.ask(['room', 'POST', '/v1/rooms'])).status).toBe(401);
      expect((await asker.ask(['wrong', 'POST', '/v1/rooms'])).status).toBe(200);
      for (const brand of ['original', 'ours'] as const) {
        const run = await new PeerMachine().run(brand, ['room', 'new', '--url', url]);
        expect(run).toEqual({ out: '', err: 'error: room creation is restricted on this relay\n', code: 1 });
      }
    },
  );
});

/** What bob’s stream tells of a message that waited and one that came. */
async function streamOf(relay: Brand): Promise<{ data: string[]; others: string[] }> {
  const { url } = await new PeerMachine().relay(relay, HERE);
  const [ann, bob] = [await Caller.register(url, 'ann', 'room'), await Caller.register(url, 'bob', 'room')];
  await ann.send('@bob', 'waits');
  const stream = await bob.get('events/bob');
  let told = '';
  const decoder = new TextDecoder();
  for await (const bytes of stream.body ?? []) {
    told += decoder.decode(bytes, { stream: true });
    if (told.includes('"waits"') && !told.includes('"comes"')) await ann.send('@bob', 'comes');
    if (told.includes('"comes"') && told.endsWith('\n\n')) break;
  }
  const lines = told.split('\n').filter((line) => line !== '');
  const masked = (line: string): string => line.replace(/"id":"[^"]+"/, '"id"').replace(/"ts":"[^"]+"/, '"ts"');
  return {
    data: lines.filter((line) => line.startsWith('data: ')).map(masked),
    others: lines.filter((line) => !line.startsWith('data: ')),
  };
}
