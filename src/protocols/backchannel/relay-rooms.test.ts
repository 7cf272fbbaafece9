import { describe, expect, it } from 'bun:test';
import { answered, request, TestRelay } from '../../../test/support/relay-app.ts';
import type { Asking } from '../../../test/support/relay-app.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import type { RoomId } from '../../core/names.ts';
import { appOf } from './relay-app.ts';
import { Relay } from './relay-state.ts';
import { Upkeep } from './relay-server.ts';

const MINUTE_MS = 60_000;
const BOB = AgentName.parse('bob');

/** A relay whose rooms a test can look into, each with a bob. */
function aRelay(settings: ConstructorParameters<typeof TestRelay>[0] = {}) {
  const test = new TestRelay(settings);
  const relay = new Relay(test.deps);
  const app = appOf(relay);
  const upkeep = new Upkeep(relay);
  const fetch = (path: string, room: RoomId, { headers, ...asking }: Asking, method = 'GET') =>
    app.fetch(request(`http://x${path}`, method, { ...asking, headers: { ...headers, 'x-backchannel-room': room } }));
  const ask = async (path: string, room: RoomId, asking: Asking, method = 'GET') =>
    answered(await fetch(path, room, asking, method));
  const newRoom = async () => {
    const { roomId, roomToken } = await test.deps.rooms.create();
    const { value } = await ask('/v1/register', roomId, { token: roomToken, body: { name: 'bob' } }, 'POST');
    return { room: roomId, token: (value as { token: string }).token };
  };
  return { test, relay, upkeep, fetch, ask, newRoom };
}

/** Makes every use of a home's ledger and spool an error, and counts them. */
function withoutStores(test: TestRelay, room: RoomId): { touched: number } {
  const { label, root, directory } = test.home(room);
  const count = { touched: 0 };
  const touch = (): never => {
    count.touched += 1;
    throw new Error('nobody should need this');
  };
  Object.defineProperties(test.homes.set(room, { label, root, directory } as never).get(room), {
    mailboxes: { get: touch },
    journal: { get: touch },
  });
  return count;
}

describe('a stranger', () => {
  it.each([
    ['GET', '/v1/inbox/bob', undefined],
    ['GET', '/v1/events/bob', undefined],
    ['POST', '/v1/register', { name: 'eve' }],
    ['POST', '/v1/register', { name: 5 }],
    ['POST', '/v1/register', 'no JSON'],
  ])('opens neither ledger nor spool of a room by %s %s', async (method, path, body) => {
    const { test, upkeep, ask, relay } = aRelay();
    const { roomId } = await test.deps.rooms.create();
    const stores = withoutStores(test, roomId);
    const { status } = await ask(path, roomId, { token: 'garbage', body }, method);
    expect([400, 401]).toContain(status);
    await upkeep.round();
    expect(stores.touched).toBe(0);
    expect(relay.registry.rooms).toEqual([]);
  });

  it('takes no open room’s place: rooms that only strangers named are closed first', async () => {
    const { test, ask, newRoom } = aRelay({ mostRooms: 2 });
    const [one, two] = [await newRoom(), await newRoom()];
    const strange: RoomId[] = [];
    for (let n = 0; n < 3; n += 1) {
      const { roomId } = await test.deps.rooms.create();
      strange.push(roomId);
      expect((await ask('/v1/agents', roomId, { token: 'garbage' })).status).toBe(401);
    }
    expect(test.closed).toEqual(strange);
    for (const { room, token } of [one, two]) expect((await ask('/v1/agents', room, { token })).status).toBe(200);
  });
});

describe('a room', () => {
  it('is closed when nobody used it for some minutes, and opened again at the next request', async () => {
    const { test, relay, upkeep, ask, newRoom } = aRelay();
    const { room, token } = await newRoom();
    test.aheadMs = 4 * MINUTE_MS;
    await upkeep.round();
    expect(test.closed).toEqual([]);
    test.aheadMs = 6 * MINUTE_MS;
    await upkeep.round();
    expect(test.closed).toEqual([room]);
    expect(relay.registry.rooms).toEqual([]);
    expect((await ask('/v1/agents', room, { token })).status).toBe(200);
    expect(relay.registry.rooms.map(({ id }) => id)).toEqual([room]);
  });

  it('stays open while somebody listens there', async () => {
    const { test, upkeep, fetch, newRoom } = aRelay({ mostRooms: 1 });
    const { room, token } = await newRoom();
    const stream = await fetch('/v1/events/bob', room, { token });
    test.aheadMs = 60 * MINUTE_MS;
    await upkeep.round();
    const other = await newRoom();
    expect(test.closed).toEqual([other.room]);
    await stream.body?.cancel();
    test.aheadMs = 70 * MINUTE_MS;
    await upkeep.round();
    expect(test.closed).toEqual([other.room, room]);
  });

  it('stays open while a long inbox is read', async () => {
    const { test, upkeep, ask, fetch, newRoom } = aRelay();
    const { room, token } = await newRoom();
    const body = { to: '@bob', body: 'b'.repeat(200_000) };
    for (let n = 0; n < 8; n += 1) await ask('/v1/send', room, { token, body }, 'POST');
    const answer = await fetch('/v1/inbox/bob', room, { token });
    test.aheadMs = 60 * MINUTE_MS;
    await upkeep.round();
    expect(test.closed).toEqual([]);
    expect(await answer.json()).toHaveLength(8);
    test.aheadMs = 70 * MINUTE_MS;
    await upkeep.round();
    expect(test.closed).toEqual([room]);
  });

  it('is closed for others if it was used longest ago', async () => {
    const { test, ask, newRoom } = aRelay({ mostRooms: 2 });
    const first = await newRoom();
    test.aheadMs = 1000;
    const second = await newRoom();
    test.aheadMs = 2000;
    await ask('/v1/agents', first.room, { token: first.token });
    test.aheadMs = 3000;
    await newRoom();
    expect(test.closed).toEqual([second.room]);
  });

  it('that was closed during a round of upkeep is skipped in that round', async () => {
    const { test, upkeep, newRoom } = aRelay({ mostRooms: 2 });
    const [one, two] = [await newRoom(), await newRoom()];
    const healed: RoomId[] = [];
    test.home(one.room).mailboxes.heal = async () => void (await newRoom());
    test.home(two.room).mailboxes.heal = async () => void healed.push(two.room);
    test.aheadMs = MINUTE_MS;
    await upkeep.round();
    expect(test.closed).toEqual([two.room]);
    expect(healed).toEqual([]);
  });

  it('that is being closed is opened again only after that', async () => {
    const { test, upkeep, ask, newRoom } = aRelay();
    const { room, token } = await newRoom();
    const { promise, resolve } = Promise.withResolvers<void>();
    test.deps.closeHome = () => promise;
    test.aheadMs = 6 * MINUTE_MS;
    await upkeep.round();
    let isAnswered = false;
    const answer = ask('/v1/agents', room, { token }).then(({ status }) => {
      isAnswered = true;
      return status;
    });
    await new Promise((done) => setImmediate(done));
    expect(isAnswered).toBe(false);
    resolve();
    expect(await answer).toBe(200);
  });

  it('shows mail again whose lease ran out, even if the room was closed meanwhile', async () => {
    const { test, upkeep, ask, newRoom } = aRelay();
    const { room, token } = await newRoom();
    await ask('/v1/send', room, { token, body: { to: '@bob', body: 'x' } }, 'POST');
    await ask('/v1/lease', room, { token, body: { ms: 1_200_000 } }, 'POST');
    test.aheadMs = 6 * MINUTE_MS;
    await upkeep.round();
    expect(test.closed).toEqual([room]);
    test.aheadMs = 30 * MINUTE_MS;
    expect((await ask('/v1/inbox/bob', room, { token })).value).toHaveLength(1);
  });

  it('expires its mail even if nobody uses it', async () => {
    const { test, upkeep, ask, newRoom } = aRelay({ keepWaitingMs: 120 * MINUTE_MS });
    const { room, token } = await newRoom();
    const sent = await ask('/v1/send', room, { token, body: { to: '@bob', body: 'x' } }, 'POST');
    test.aheadMs = 6 * MINUTE_MS;
    await upkeep.round();
    test.aheadMs = 130 * MINUTE_MS;
    await upkeep.round();
    const { id } = sent.value as { id: string };
    expect((await test.home(room).journal.copy(BOB, MessageId.parse(id)))?.disposition).toBe('failed');
    expect(test.closed).toEqual([room, room]);
  });

  it('admits agents up to its limit, and refuses the next in one line', async () => {
    const test = new TestRelay({ mostAgents: 2 });
    await test.agents('alice', 'bob');
    const asked = { token: 'room secret', body: { name: 'carol' } };
    const { status, value } = await test.ask('POST', '/v1/register', asked);
    expect([status, value]).toEqual([
      403,
      { error: 'this room has 2 agents and takes no more — its host can remove some, or allow more with --agents' },
    ]);
  });
});
