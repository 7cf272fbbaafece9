import { describe, expect, it } from 'bun:test';
import { isLoopbackHost, relayOrder, warningsAbout } from './relay.ts';

const HOUSE = { root: '/home/you/.backchannel', bodyLimit: 1000, durability: 'normal' } as const;
const TOKEN = 'a'.repeat(32);

function order(values: Parameters<typeof relayOrder>[0], env: Record<string, string> = {}) {
  return relayOrder(values, env, '/here', HOUSE);
}

describe('the order for a relay', () => {
  it('is for this machine only, on port 7117, unless told otherwise [BC-B5.26, BC-B7.13]', () => {
    expect(order({})).toMatchObject({ host: '127.0.0.1', port: 7117, token: null, tls: null, publicUrl: null });
  });

  it('has limits unless told otherwise', () => {
    const month = 30 * 24 * 60 * 60 * 1000;
    expect(order({})).toMatchObject({
      rate: { perMinute: 100_000 },
      quota: { waiting: 100_000 },
      mostAgents: 10_000,
      keepWaitingMs: month,
    });
    expect(order({ rate: 'off', quota: 'off', agents: 'off', 'keep-waiting': 'forever' })).toMatchObject({
      rate: null,
      quota: { waiting: Infinity },
      mostAgents: Infinity,
      keepWaitingMs: null,
    });
  });

  it('takes the room token from the option, else from the environment [BC-B5.20]', () => {
    expect(order({ token: 'x' }, { BACKCHANNEL_TOKEN: 'y' }).token).toBe('x');
    expect(order({}, { BACKCHANNEL_TOKEN: 'y', BACKCHANNEL_ADMIN_TOKEN: 'z' })).toMatchObject({
      token: 'y',
      adminToken: 'z',
    });
    expect(order({}, { BACKCHANNEL_TOKEN: '' }).token).toBeNull();
  });

  it('finds certificates from where it was called', () => {
    const { tls } = order({ 'tls-cert': 'c.pem', 'tls-key': '/etc/k.pem' });
    expect(tls).toEqual({ cert: '/here/c.pem', key: '/etc/k.pem' });
  });

  it.each([
    [{ host: '0.0.0.0' }, 'a relay on 0.0.0.0 without a room token would let anybody in; set BACKCHANNEL_TOKEN'],
    [{ host: '[::]' }, 'a relay on :: without a room token'],
    [{ host: '192.168.1.5' }, 'or stay on 127.0.0.1'],
    [{ public: 'https://relay.example.org' }, 'a relay on https://relay.example.org without a room token'],
    [{ public: 'relay.example.org' }, 'write https://relay.example.org'],
    [{ port: '70000' }, '"70000" is not a port'],
    [{ port: 'http' }, '"http" is not a port'],
    [{ 'tls-cert': 'c.pem' }, 'TLS needs both'],
    [{ rate: '0' }, '"0" is not a count'],
    [{ quota: 'many' }, '"many" is not a count'],
    [{ 'keep-waiting': '30' }, '"30" is not a time span'],
  ])('refuses %o', (values, told) => {
    expect(() => order(values)).toThrow(told);
  });

  it('warns of what is allowed and unwise', () => {
    const open = warningsAbout(order({ host: '0.0.0.0' }, { BACKCHANNEL_TOKEN: 'short' }));
    expect(open).toHaveLength(3);
    expect(open[0]).toContain('without TLS');
    expect(open[1]).toContain('only 5 characters');
    expect(open[2]).toContain('may make rooms');
    const admin = { BACKCHANNEL_ADMIN_TOKEN: 'z', BACKCHANNEL_TOKEN: TOKEN };
    expect(warningsAbout(order({ public: 'https://relay.example.org' }, admin))).toEqual([]);
    expect(warningsAbout(order({ host: '0.0.0.0', 'tls-cert': 'c', 'tls-key': 'k' }, admin))).toEqual([]);
    expect(warningsAbout(order({ public: 'http://relay.example.org' }, admin))[0]).toContain('not https');
    expect(warningsAbout(order({}, { BACKCHANNEL_TOKEN: 'short' }))).toEqual([]);
    expect(warningsAbout(order({ token: TOKEN }))[0]).toContain('--token in the process list');
  });

  it.each([
    ['127.0.0.1', true],
    ['127.8.9.1', true],
    ['::1', true],
    ['localhost', true],
    ['0.0.0.0', false],
    ['::', false],
    ['127.0.0.1.example.org', false],
    ['10.0.0.1', false],
  ])('knows whether %s is this machine only', (host, loopback) => {
    expect(isLoopbackHost(host)).toBe(loopback);
  });
});
