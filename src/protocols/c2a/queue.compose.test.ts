import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { readyAt, windowMs } from './queue.ts';
import type { Fragment } from './queue.ts';

const LONG = 'Can you check whether the deploy is blocked by the migration';

describe('the wait after a text of a person', () => {
  it.each([
    ['a few words', 'when someone types', 2_500],
    ['a short sentence', 'Please look.', 2_500],
    ['a long question', `${LONG}?`, 2_000],
    ['a long sentence', `${LONG}.`, 2_000],
    ['a long shout', `${LONG}!  \n`, 2_000],
    ['a long text without an end', LONG, 2_500],
    ['a colon', 'here is the log:', 4_000],
    ['a comma', `${LONG},`, 4_000],
    ['three dots', `${LONG}...`, 4_000],
    ['an ellipsis', `${LONG}…`, 4_000],
    ['an open fence', 'see\n```ts\nconst a = 1;', 4_000],
    ['a closed fence', 'see\n```ts\nconst a = 1;\n```', 2_500],
    ['nothing', '', 2_500],
  ])('%s', (_what, text, ms) => {
    expect(windowMs(text, false)).toBe(ms);
    expect(readyAt([{ at: 1_000, text }], false, null)).toBe(1_000 + ms);
  });

  it('is always between 2 and 5 s', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.lorem(), fc.constantFrom('```', '~~~\na', ':', 'a.')), (text) => {
        expect(windowMs(text, false)).toBeGreaterThanOrEqual(2_000);
        expect(windowMs(text, false)).toBeLessThanOrEqual(5_000);
      }),
    );
  });
});

describe('what somebody writes in pieces', () => {
  const pieces = (...texts: string[]): Fragment[] => texts.map((text, n) => ({ at: n * 1_000, text }));

  it('is ready when enough time has passed since the last piece', () => {
    expect(readyAt(pieces('when someone types', 'in', 'pieces', 'like this'), false, null)).toBe(5_500);
  });

  it('is read as one: a fence that one piece opens, another closes', () => {
    expect(readyAt(pieces('```', 'code'), false, null)).toBe(5_000);
    expect(readyAt(pieces('```', 'code', '```'), false, null)).toBe(4_500);
  });

  it('waits while they type, and no longer than 30 s after the first', () => {
    expect(readyAt(pieces('a', 'b'), false, 1_200)).toBe(30_000);
    expect(readyAt(pieces('a', 'b'), false, null)).toBe(3_500);
  });

  it('is joined only within 250 ms, if an agent writes it', () => {
    expect(windowMs('anything:', true)).toBe(250);
    expect(readyAt(pieces('a', 'b'), true, null)).toBe(250);
  });

  const anyPieces = fc
    .array(fc.record({ gap: fc.nat(10_000), text: fc.string() }), { minLength: 1, maxLength: 60 })
    .map((gaps) => {
      let at = 0;
      return gaps.map(({ gap, text }) => ({ at: (at += gap), text }));
    });

  it('is never kept for more than 30 s after the first piece, however long they go on', () => {
    fc.assert(
      fc.property(anyPieces, fc.boolean(), fc.option(fc.nat(50_000)), (fragments, fromAgent, typing) => {
        expect(readyAt(fragments, fromAgent, typing)).toBeLessThanOrEqual((fragments[0]?.at ?? 0) + 30_000);
      }),
    );
  });

  it('of a person is never shown within 2 s of the last piece, until 30 s are over', () => {
    fc.assert(
      fc.property(anyPieces, fc.option(fc.nat(50_000)), (fragments, typing) => {
        const [first, last] = [fragments[0]?.at ?? 0, fragments.at(-1)?.at ?? 0];
        expect(readyAt(fragments, false, typing)).toBeGreaterThanOrEqual(Math.min(last + 2_000, first + 30_000));
      }),
    );
  });
});
