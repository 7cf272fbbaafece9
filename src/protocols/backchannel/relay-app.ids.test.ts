import { describe, expect, it } from 'bun:test';
import { TestRelay } from '../../../test/support/relay-app.ts';
import { AgentName, newSenderId } from '../../core/names.ts';

const alice = AgentName.parse('alice');
const eve = AgentName.parse('eve');

interface Stored {
  id: string;
  from: string;
  body: string;
}

async function aRoom() {
  const relay = new TestRelay();
  const [aliceToken, eveToken, bobToken] = await relay.agents('alice', 'eve', 'bob');
  const sendAs =
    (token: string | undefined) =>
    async (body: string, headers: Record<string, string>): Promise<Stored> => {
      const { status, value } = await relay.ask('POST', '/v1/send', { token, headers, body: { to: '@bob', body } });
      expect(status).toBe(200);
      return value as Stored;
    };
  const inbox = async (): Promise<Stored[]> =>
    (await relay.ask('GET', '/v1/inbox/bob', { token: bobToken })).value as Stored[];
  return { alice: sendAs(aliceToken), eve: sendAs(eveToken), inbox };
}

describe('an id that its sender chose', () => {
  it('is kept, and a repeat under its key is the same message', async () => {
    const room = await aRoom();
    const id = newSenderId(alice);
    const headers = { 'x-parley-id': id, 'idempotency-key': 'k' };
    const first = await room.alice('hello', headers);
    expect(first.id).toBe(id);
    expect(await room.alice('hello', headers)).toEqual(first);
    expect(await room.alice('hello', { ...headers, 'x-parley-id': newSenderId(alice) })).toEqual(first);
    expect(await room.inbox()).toEqual([first]);
  });

  it('is kept when the same send comes many times at once, as one message', async () => {
    const room = await aRoom();
    const headers = { 'x-parley-id': newSenderId(alice), 'idempotency-key': 'k' };
    const all = await Promise.all(Array.from({ length: 20 }, () => room.alice('hello', headers)));
    expect(new Set(all.map(({ id }) => id))).toEqual(new Set([headers['x-parley-id']]));
    expect(await room.inbox()).toHaveLength(1);
  });

  it.each([
    ['without a key', { 'x-parley-id': newSenderId(alice) }],
    ['that is no UUID', { 'x-parley-id': '../../etc/passwd', 'idempotency-key': 'k' }],
    ['that anybody could have chosen', { 'x-parley-id': crypto.randomUUID(), 'idempotency-key': 'k' }],
    ['in capitals', { 'x-parley-id': newSenderId(alice).toUpperCase(), 'idempotency-key': 'k' }],
    ["that is bound to another's name", { 'x-parley-id': newSenderId(eve), 'idempotency-key': 'k' }],
  ])('is not taken %s: the relay gives one', async (_how, headers) => {
    const room = await aRoom();
    const { id } = await room.alice('hello', headers);
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/);
    expect(id).not.toBe(headers['x-parley-id']);
  });

  it('neither shows nor changes the message of another who has it', async () => {
    const room = await aRoom();
    const id = newSenderId(alice);
    const hers = await room.alice('a secret of alice', { 'x-parley-id': id, 'idempotency-key': 'k' });
    const probe = await room.eve('probe', { 'x-parley-id': id, 'idempotency-key': 'k' });
    const blank = await room.eve('probe', { 'x-parley-id': newSenderId(alice), 'idempotency-key': 'k2' });
    // A known id and an unknown one are answered alike.
    for (const one of [probe, blank]) expect(one).toMatchObject({ from: 'eve', body: 'probe' });
    expect([probe.id, blank.id]).not.toContain(id);
    expect((await room.inbox()).find((one) => one.id === id)).toEqual(hers);
    expect(await room.inbox()).toHaveLength(3);
  });

  it('that she has used for another message is not used again', async () => {
    const room = await aRoom();
    const id = newSenderId(alice);
    await room.alice('one', { 'x-parley-id': id, 'idempotency-key': 'k1' });
    const two = await room.alice('two', { 'x-parley-id': id, 'idempotency-key': 'k2' });
    expect(two).toMatchObject({ body: 'two' });
    expect(two.id).not.toBe(id);
    expect((await room.inbox()).map(({ body }) => body)).toEqual(['one', 'two']);
  });

  it('is not taken if it begins like the id of another message: short ids stay clear', async () => {
    const room = await aRoom();
    const hers = await room.alice('which port?', { 'x-parley-id': newSenderId(alice), 'idempotency-key': 'k' });
    const head = `${hers.id.slice(0, 8)}${crypto.randomUUID().slice(8, 24)}`;
    const tail = new Bun.CryptoHasher('sha256').update(`eve\n${head}`).digest('hex').slice(0, 12);
    const his = await room.eve('noise', { 'x-parley-id': `${head}${tail}`, 'idempotency-key': 'k' });
    expect(his.id.slice(0, 8)).not.toBe(hers.id.slice(0, 8));
    expect(await room.inbox()).toHaveLength(2);
  });
});
