import { CLIENT_NAMES } from './client-names.ts';
import { describe, expect, it } from 'bun:test';
import type { WayFacts } from '../delivery/client.ts';
import { clientNamed } from './clients.ts';
import { wayOf as wayOfClient } from './ways.ts';

const NOTHING: WayFacts = { hook: false, server: false, plugin: false, loop: null, hasWire: false };

/** The way of the client with this name, or of an unknown client. */
const wayOf = (client: string | null, facts: WayFacts) =>
  wayOfClient(client === null ? null : clientNamed(client), facts);

describe('the way in that a session uses', () => {
  it.each([
    ['claude', { hook: true }, 'hook', 'primary'],
    ['claude', { loop: 'wake' }, 'wake', 'fallback'],
    ['claude', { server: true }, 'poll', 'baseline'],
    ['codex', { loop: 'wake' }, 'wake', 'primary'],
    ['codex', { hook: true }, 'hook', 'fallback'],
    ['codex', {}, 'poll', 'baseline'],
    ['opencode', { plugin: true, loop: 'wake' }, 'plugin', 'primary'],
    ['opencode', { loop: 'deliver' }, 'wake', 'fallback'],
    ['kimi', { loop: 'wire', hasWire: true }, 'wire', 'primary'],
    ['kimi', { hook: true }, 'hook', 'primary'],
    ['kimi', { loop: 'wake' }, 'wake', 'fallback'],
    ['gemini', { hook: true }, 'hook', 'primary'],
    [null, { hook: true }, 'poll', 'baseline'],
  ] as const)('of %s with %j is %s (%s) [C2C-38]', (client, facts, way, rank) => {
    expect(wayOf(client, { ...NOTHING, ...facts })).toMatchObject({ way, rank });
  });

  it('comes with a better way, if there is one and the client can use it', () => {
    expect(wayOf('claude', NOTHING).better).toBe('hook is better: `c2c install claude`');
    expect(wayOf('claude', { ...NOTHING, hook: true }).better).toBeNull();
    expect(wayOf('kimi', { ...NOTHING, hook: true }).better).toBeNull();
    expect(wayOf('kimi', { ...NOTHING, hook: true, hasWire: true }).better).toContain('wire is better');
  });

  it('exists for every client: one that is always there, and a better one [C2C-38]', () => {
    for (const name of CLIENT_NAMES) {
      const ways = clientNamed(name)?.ways ?? [];
      expect(ways[0]?.rank).toBe('primary');
      expect(ways.at(-1)).toMatchObject({ way: 'poll', rank: 'baseline' });
    }
  });
});
