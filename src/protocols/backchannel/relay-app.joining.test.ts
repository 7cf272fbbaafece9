import type { Connections } from './relay-deps.ts';
import { describe, expect, it } from 'bun:test';
import { request, TestRelay } from '../../../test/support/relay-app.ts';

/** Connections of which every one comes from this address. */
function from(address: string): Connections {
  return { requestIP: () => ({ address }), timeout: () => {} };
}

function aRelay(perMinute: number, roomToken: string | null = 'room secret') {
  const relay = new TestRelay({ rate: { perMinute } }, roomToken);
  const register = async (body: unknown, address: string, token = 'room secret'): Promise<number> =>
    (await relay.app.fetch(request('http://x/v1/register', 'POST', { token, body }), from(address))).status;
  const look = async (address: string): Promise<number> =>
    (await relay.app.fetch(request('http://x/v1/agents', 'GET', { token: 'none' }), from(address))).status;
  return { relay, register, look };
}

describe('the rate of an address', () => {
  it.each<[what: string, body: unknown]>([
    ['no JSON', '{'],
    ['a name that is none', { name: '../x' }],
    ['the relay’s own name', { name: 'Parley-Relay' }],
    ['too much', { name: 'x'.repeat(70_000) }],
  ])('counts a registration with %s', async (_what, body) => {
    const { register } = aRelay(100);
    expect(await register(body, '10.0.0.1')).toBeOneOf([400, 409, 413]);
    expect(await register(body, '10.0.0.1')).toBe(429);
    expect(await register({ name: 'alice' }, '10.0.0.1')).toBe(200);
  });

  it('lets many join, and not everybody at once', async () => {
    const { register, relay } = aRelay(700);
    const statuses: number[] = [];
    for (let n = 0; n < 71; n += 1) statuses.push(await register({ name: `agent-${n}` }, '10.0.0.1'));
    expect(statuses.filter((status) => status === 200)).toHaveLength(70);
    expect(statuses.at(-1)).toBe(429);
    expect(await register({ name: 'elsewhere' }, '10.0.0.2')).toBe(200);
    relay.aheadMs = 1000;
    expect(await register({ name: 'later' }, '10.0.0.1')).toBe(200);
  });

  it('is asked before anything else of the room, and nobody who joins makes it list everybody', async () => {
    const { register, relay } = aRelay(100);
    const { directory } = relay.home();
    const asked: string[] = [];
    const [list, count] = [directory.list.bind(directory), directory.count.bind(directory)];
    directory.list = () => (asked.push('list'), list());
    directory.count = () => (asked.push('count'), count());
    const statuses: number[] = [];
    for (let n = 0; n < 61; n += 1) statuses.push(await register({ name: `agent-${n}` }, '10.0.0.1'));
    expect(statuses).toEqual([...Array.from({ length: 60 }, () => 200), 429]);
    expect(asked).toEqual(Array.from({ length: 60 }, () => 'count'));
  });

  it.each([
    ['2001:db8:1:2::1', '2001:db8:1:2:ffff:0:0:9', 429],
    ['2001:db8:1:2::1', '2001:0DB8:0001:0002::1', 429],
    ['2001:db8:1:2::1', '2001:db8:1:3::1', 401],
    ['2001:db8::1', '2001:db8:0:0:5::', 429],
    ['::1', '::2', 429],
    ['fe80::1%eth0', 'fe80::2%eth0', 429],
    ['::ffff:10.0.0.1', '10.0.0.1', 429],
    ['::ffff:10.0.0.1', '::ffff:10.0.0.2', 401],
    ['10.0.0.1', '10.0.0.2', 401],
  ])('of %s is asked at %s: %d', async (first, second, status) => {
    const { look } = aRelay(100);
    expect(await look(first)).toBe(401);
    expect(await look(second)).toBe(status);
  });
});
