import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { MessageId } from '../names.ts';
import { nextLineage } from './lineage.ts';
import { breaksEcho, isLongExchange, LONG_EXCHANGE } from './loop.ts';
import type { ExchangeTurn } from './loop.ts';

const MINUTE = 60_000;
const turn = (at: number, given: Partial<ExchangeTurn> = {}): ExchangeTurn => ({
  at,
  byAgent: true,
  fact: false,
  disposition: false,
  ...given,
});
/** This many messages, one per minute. The last was sent a minute ago. */
const exchange = (count: number): ExchangeTurn[] => Array.from({ length: count }, (_, at) => turn((at + 1) * MINUTE));
const NOW = (LONG_EXCHANGE + 1) * MINUTE;

describe('the guard against echoes [C2A-D10]', () => {
  const ROOT = MessageId.parse('root');

  /** The numbers of the messages that are held. The first message opens the exchange. */
  function held(bodies: readonly string[]): number[] {
    const [opening = '', ...answers] = bodies;
    const said: Parameters<typeof nextLineage>[3][number][] = [{ from: 'anna', body: opening }];
    return answers.flatMap((body, at) => {
      const parent = { id: ROOT, from: 'anna', lineage: said.at(-1)?.parley?.lineage };
      const from = at % 2 ? 'anna' : 'ben';
      const lineage = nextLineage(parent, ROOT, { from, body, byAgent: true, insists: false }, said);
      said.push({ from, body, parley: { lineage } });
      return lineage && breaksEcho(lineage) ? [at + 1] : [];
    });
  }

  it('lets three echoes in a row pass and holds the fourth', () => {
    expect(held(['ping 1', 'ping 2', 'ping 3', 'ping 4'])).toEqual([]);
    expect(held(['ping 1', 'ping 2', 'ping 3', 'ping 4', 'ping 5', 'ping 6'])).toEqual([4, 5]);
  });

  it('shows a message that is no echo, and starts the count again', () => {
    const pings = ['ping 1', 'ping 2', 'ping 3', 'ping 4', 'ping 5'];
    const bodies = [...pings, 'stop, the production site is down, roll back', 'ping 6', 'ping 7', 'ping 8', 'ping 9'];
    expect(held(bodies)).toEqual([4, 9]);
  });

  it('never holds a message with a new word', () => {
    const line = fc.constantFrom('thanks', 'ping 1', 'ping 2', 'ok', '👍', 'I agree', 'same here', '> ping 1', 'no');
    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 60 }), (before) => {
        const bodies = [...before, 'the migration failed'];
        expect(held(bodies)).not.toContain(bodies.length - 1);
      }),
    );
  });
});

describe('the guard against long exchanges [C2A-D10]', () => {
  it('holds the message after 48 messages of agents within an hour', () => {
    expect(isLongExchange(exchange(LONG_EXCHANGE), NOW)).toBe(true);
    expect(isLongExchange(exchange(LONG_EXCHANGE - 1), NOW)).toBe(false);
  });

  it('holds nothing if 48 messages took more than an hour', () => {
    expect(isLongExchange(exchange(LONG_EXCHANGE), MINUTE + 60 * MINUTE)).toBe(true);
    expect(isLongExchange(exchange(LONG_EXCHANGE), MINUTE + 60 * MINUTE + 1)).toBe(false);
  });

  it.each([
    ['a person spoke', { byAgent: false }],
    ['a checkable fact was said', { fact: true }],
    ['a message was disposed of', { disposition: true }],
  ])('holds nothing if %s among them', (_what, given) => {
    for (const at of [0, 20, LONG_EXCHANGE - 1]) {
      const turns = exchange(LONG_EXCHANGE).map((one, index) => (index === at ? { ...one, ...given } : one));
      expect(isLongExchange(turns, NOW)).toBe(false);
    }
  });
});
