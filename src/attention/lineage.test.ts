import { describe, expect, it } from 'bun:test';
import * as fc from 'fast-check';
import type { Lineage } from '../protocol/message.ts';
import { MessageId } from '../protocol/names.ts';
import { nextLineage } from './lineage.ts';
import { breaksLoop } from './loop.ts';

const ROOT = MessageId.parse('root');
const AGENTS = ['anna', 'ben', 'cleo'];

interface Said {
  body: string;
  refs?: string[];
}

/** Agents answer each other in turn; gives the lineage of each answer. */
function exchange(bodies: readonly string[], opening = 'please look', agents = AGENTS): Lineage[] {
  const said: Said[] = [{ body: opening }];
  const lineages: Lineage[] = [];
  for (const [turn, body] of bodies.entries()) {
    const parent = { id: ROOT, from: agents[turn % agents.length] ?? '', lineage: lineages.at(-1) };
    const lineage = nextLineage(parent, ROOT, { body }, said);
    if (lineage) lineages.push(lineage);
    said.push({ body });
  }
  return lineages;
}

const brokenAt = (lineages: Lineage[]): number => lineages.findIndex((lineage) => breaksLoop(lineage, true)) + 1;

describe('lineage', () => {
  it('begins with the first answer: the message that opens an exchange has none', () => {
    expect(nextLineage(null, undefined, { body: 'hello' }, [])).toBeUndefined();
    const first = nextLineage({ id: ROOT, from: 'anna' }, ROOT, { body: 'hello back' }, [{ body: 'hello' }]);
    expect(first).toEqual({ root: ROOT, hop: 1, visited: ['anna'], stale: 1 });
  });

  it('takes an unknown parent for the opening message', () => {
    expect(nextLineage(null, ROOT, { body: 'hello' }, [])).toEqual({ root: ROOT, hop: 1, visited: [], stale: 1 });
  });

  it('keeps root and visitors of a triangle, however often it goes round', () => {
    const last = exchange(Array.from({ length: 9 }, () => 'over to you')).at(-1);
    expect(last).toEqual({ root: ROOT, hop: 9, visited: AGENTS, stale: 9 });
  });

  const anyLineage: fc.Arbitrary<Lineage> = fc.record({
    root: fc.constant(ROOT),
    hop: fc.nat(10_000),
    visited: fc.uniqueArray(fc.constantFrom('anna', 'ben', 'cleo', 'dora')),
    stale: fc.nat(10_000),
  });
  const anyText = fc.oneof(
    fc.lorem(),
    fc.string(),
    fc.constantFrom('see src/a.ts', '0a1b2c3', '```\na();\n```', '512 MB'),
  );

  it('always grows by one hop, in one exchange, and names each visitor once', () => {
    fc.assert(
      fc.property(
        anyLineage,
        fc.constantFrom('anna', 'ben', 'zoe'),
        anyText,
        fc.array(anyText),
        (lineage, from, body, past) => {
          const next = nextLineage(
            { id: MessageId.parse('m'), from, lineage },
            ROOT,
            { body },
            past.map((body) => ({ body })),
          );
          expect(next?.hop).toBe(lineage.hop + 1);
          expect(next?.root).toBe(lineage.root);
          expect(next?.visited).toEqual(lineage.visited.includes(from) ? lineage.visited : [...lineage.visited, from]);
        },
      ),
    );
  });

  it('never forgets staleness for what the thread has already held', () => {
    fc.assert(
      fc.property(anyLineage, fc.array(anyText, { minLength: 1 }), fc.nat(), (lineage, past, pick) => {
        const earlier = past.map((body) => ({ body }));
        const again = { body: past[pick % past.length] ?? '' };
        const next = nextLineage({ id: ROOT, from: 'anna', lineage }, ROOT, again, earlier);
        expect(next?.stale).toBe(lineage.stale + 1);
      }),
    );
  });
});

describe('the loop breaker', () => {
  it('lets five answers without news pass and stops the sixth', () => {
    expect(brokenAt(exchange(Array.from({ length: 5 }, () => 'I agree')))).toBe(0);
    expect(brokenAt(exchange(Array.from({ length: 6 }, () => 'I agree')))).toBe(6);
  });

  it('starts to count again when someone says something new', () => {
    const five = Array.from({ length: 5 }, () => 'I agree');
    expect(brokenAt(exchange([...five, 'it is src/api.ts', ...five]))).toBe(0);
  });

  it('leaves an exchange with a person alone, and one that has no lineage', () => {
    expect(breaksLoop({ root: ROOT, hop: 99, visited: [], stale: 99 }, false)).toBe(false);
    expect(breaksLoop(undefined, true)).toBe(false);
  });

  it('stops a thousand hops of polite rewording at the sixth, and keeps it stopped', () => {
    const wording = fc.array(fc.lorem({ maxCount: 8 }), { minLength: 1_000, maxLength: 1_000 });
    fc.assert(
      fc.property(wording, (bodies) => {
        const lineages = exchange(bodies);
        expect(brokenAt(lineages)).toBe(6);
        expect(lineages.slice(5).every((lineage) => breaksLoop(lineage, true))).toBe(true);
      }),
      { numRuns: 5 },
    );
  });

  it.each([
    ['a counter', (turn: number) => `ping ${turn}`],
    ['a counter in changing words', (turn: number) => `${'very '.repeat(turn % 7)}well, message ${turn} received`],
    ['a countdown', (turn: number) => `${1000 - turn} left`],
    ['a counter in large steps', (turn: number) => `heartbeat ${turn * 50}. ${'Yes '.repeat(turn % 5)}`],
    ['a counter in a fence', (turn: number) => `\`\`\`\n{ "seq": ${turn * 10} }\n\`\`\``],
    ['a clock', (turn: number) => `alive at ${10 + (turn % 10)}:${10 + turn}`],
    ['an id of its own', (turn: number) => `8e03978e-40d5-43e8-bc93-${String(turn).padStart(12, '0')} acknowledged`],
  ])('is not fooled by %s', (_what, body) => {
    const bodies = Array.from({ length: 40 }, (_, turn) => body(turn + 1));
    // The first one may be news; the rest only count on.
    expect(brokenAt(exchange(bodies))).toBeOneOf([6, 7]);
  });
});
