import { afterAll, beforeAll, describe, expect, it } from 'bun:test';
import { OriginalClient, OriginalSpool } from '../support/original-client.ts';
import type { Letter } from '../support/original-client.ts';
import { within } from '../support/within.ts';
import { RelayProcess } from '../support/relay-process.ts';

const relay = new RelayProcess(undefined, ['--token', 'the-room-token']);
let names = 0;

async function joined(): Promise<OriginalClient> {
  names += 1;
  const client = new OriginalClient(relay.url, `agent-${names}`);
  await client.register('the-room-token');
  return client;
}

beforeAll(async () => {
  await relay.start();
});

afterAll(async () => {
  relay.kill('SIGTERM');
  await relay.ended;
});

/** The first letter that a client hears of which this is true. */
async function heard(client: OriginalClient, isIt: (letter: Letter) => boolean): Promise<Letter> {
  const stop = new AbortController();
  const found = new Promise<Letter>((resolve) => {
    client.watch((letter) => isIt(letter) && resolve(letter), stop.signal).catch(() => {});
  });
  const letter = await found;
  stop.abort();
  return letter;
}

describe("the original's client at our relay", () => {
  it('registers, sends, looks, and takes each message once [BC-12, BC-14]', async () => {
    const [ann, ben] = [await joined(), await joined()];
    const sent = await ann.send(`@${ben.agent}`, 'hello');
    expect(sent.from).toBe(ann.agent);
    expect(await ben.inbox()).toEqual([sent]);
    expect(await ben.take(sent.id)).toEqual(sent);
    expect(await ben.take(sent.id)).toBeNull();
    expect(await ben.inbox()).toEqual([]);
  });

  it('gets what it missed and what comes by its stream, and nothing is claimed by that [BC-16, BC-B6.1]', async () => {
    const [ann, ben] = [await joined(), await joined()];
    const before = await ann.send(`@${ben.agent}`, 'while you were away');
    expect(await heard(ben, () => true)).toEqual(before);
    const later = heard(ben, ({ body }) => body === 'now');
    const now = await ann.send(`@${ben.agent}`, 'now');
    expect(await later).toEqual(now);
    expect((await ben.inbox()).map(({ id }) => id)).toEqual([before.id, now.id]);
  });

  it('writes to channels and sees who is here [BC-2, BC-B5.11]', async () => {
    const [ann, ben, cid] = [await joined(), await joined(), await joined()];
    for (const client of [ann, ben, cid]) await client.subscribe('#crew');
    const { id } = await ann.send('#crew', 'all hands');
    for (const client of [ben, cid]) expect((await client.take(id))?.body).toBe('all hands');
    expect(await ann.inbox()).toEqual([]);
    expect(await ann.channels()).toContain('#crew');
    expect((await ann.agents()).find(({ name }) => name === ben.agent)?.subscriptions).toEqual(['#crew']);
  });

  it('reads every refusal as its text [BC-15, BC-B5.25]', async () => {
    const ann = await joined();
    await expect(ann.send('@nobody', 'x')).rejects.toThrow(
      'unknown agent "nobody" — they must `bch init nobody` first',
    );
    await expect(ann.send('#empty', 'x')).rejects.toThrow(
      'channel #empty has no other subscribers — nothing to deliver',
    );
    const stranger = new OriginalClient(relay.url, ann.agent);
    await expect(stranger.register('the-room-token')).rejects.toThrow(
      `agent name "${ann.agent}" is registered — present its token to re-register`,
    );
  });
});

describe('the original on the files of a home that our relay serves', () => {
  it('leaves mail that is pushed to a listener', async () => {
    const ben = await joined();
    const hearing = heard(ben, ({ body }) => body === 'from a file');
    const id = new OriginalSpool(relay.home, 'script').send(ben.agent, 'from a file');
    expect((await hearing).id).toBe(id);
    expect((await ben.take(id))?.id).toBe(id);
    expect(new OriginalSpool(relay.home, ben.agent).inbox()).toEqual([]);
  });

  it('takes mail from the files, which the relay then does not give out', async () => {
    const [ann, ben] = [await joined(), await joined()];
    const { id } = await ann.send(`@${ben.agent}`, 'one of us');
    const files = new OriginalSpool(relay.home, ben.agent);
    while (!files.take(id)) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await ben.take(id)).toBeNull();
    expect(await ben.inbox()).toEqual([]);
  });

  it('makes room in a full mailbox by taking from its files [BC-C17]', async () => {
    const small = await new RelayProcess(undefined, ['--quota', '3']).start();
    try {
      const [ann, ben] = [new OriginalClient(small.url, 'ann'), new OriginalClient(small.url, 'ben')];
      for (const client of [ann, ben]) await client.register();
      const sent = await Promise.all([1, 2, 3].map((n) => ann.send('@ben', `message ${n}`)));
      const files = new OriginalSpool(small.home, 'ben');
      for (const { id } of sent) while (!files.take(id)) await new Promise((resolve) => setTimeout(resolve, 5));
      // The relay learns of each file that is gone; until then it may say that the mailbox is full.
      await within(20_000, async () => (await ann.send('@ben', 'one more').catch(() => null))?.body === 'one more');
    } finally {
      small.kill('SIGTERM');
      await small.ended;
    }
  });

  it('races the relay for 50 messages, and each has one winner [BC-6]', async () => {
    const [ann, ben] = [await joined(), await joined()];
    const sent = await Promise.all(Array.from({ length: 50 }, (_, n) => ann.send(`@${ben.agent}`, `race ${n}`)));
    const files = new OriginalSpool(relay.home, ben.agent);
    const won = await Promise.all(
      sent.map(async ({ id }, n) => {
        // One of the two asks first, in turn.
        if (n % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
        const byFile = n % 3 === 0 && files.take(id);
        const byRelay = (await ben.take(id)) !== null;
        return Number(byFile) + Number(byRelay);
      }),
    );
    expect(won).toEqual(sent.map(() => 1));
    expect(await ben.inbox()).toEqual([]);
  });
});
