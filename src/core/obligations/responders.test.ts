import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { AgentName, MessageId } from '../names.ts';
import { chooseResponder, rankResponders } from './responders.ts';

const name = (text: string): AgentName => AgentName.parse(text);
const event = (text: string): MessageId => MessageId.parse(text);
const team = ['anna', 'ben', 'cleo', 'dora', 'emil'].map((one) => ({ name: name(one), idleSince: 100, open: 0 }));

describe('the agent that answers a message that was offered to several', () => {
  it('is the one that has been idle the longest', () => {
    const busy = [
      { name: name('anna'), idleSince: Infinity, open: 0 },
      { name: name('ben'), idleSince: 200, open: 9 },
      { name: name('cleo'), idleSince: 300, open: 0 },
    ];
    expect(rankResponders(busy, event('m'))).toEqual([name('ben'), name('cleo'), name('anna')]);
  });

  it('is, of equally idle ones, the one with the fewest obligations [C2A-D4]', () => {
    const loaded = [
      { name: name('anna'), idleSince: 100, open: 3 },
      { name: name('ben'), idleSince: 100, open: 1 },
    ];
    expect(chooseResponder(loaded, event('m'))).toBe(name('ben'));
  });

  it('differs between events if all are equal: none of five gets more than a third of a thousand [C2A-D4]', () => {
    const counts = new Map<string, number>();
    for (let n = 0; n < 1_000; n += 1) {
      const one = String(chooseResponder(team, event(`m-${n}`)));
      counts.set(one, (counts.get(one) ?? 0) + 1);
    }
    expect(counts.size).toBe(5);
    expect(Math.max(...counts.values())).toBeLessThan(333);
  });

  it('is null if there is no candidate', () => expect(chooseResponder([], event('m'))).toBeNull());

  const anyTeam = fc.uniqueArray(
    fc.record({
      name: fc.stringMatching(/^[a-z]{1,8}$/).map(name),
      idleSince: fc.constantFrom(1, 2, 3),
      open: fc.nat(2),
    }),
    { selector: (one) => one.name },
  );
  const anyEvent = fc.uuid({ version: 4 }).map(event);

  it('is always the same, in any order of the candidates', () => {
    fc.assert(
      fc.property(anyTeam, anyEvent, (some, id) => {
        expect(rankResponders(some.toReversed(), id)).toEqual(rankResponders(some, id));
        expect(rankResponders(some, id).toSorted()).toEqual(some.map((one) => one.name).toSorted());
      }),
    );
  });

  it('does not change if another candidate goes away', () => {
    fc.assert(
      fc.property(anyTeam, anyEvent, fc.nat(), (some, id, pick) => {
        const [first, ...others] = rankResponders(some, id);
        const gone = others[pick % Math.max(others.length, 1)];
        const rest = some.filter((one) => one.name !== gone);
        expect(chooseResponder(rest, id)).toBe(first ?? null);
      }),
    );
  });
});
