import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { patched } from './statefile.ts';
import type { JsonObject } from './statefile.ts';

/** A state as a flat list of paths, deepest first: a second definition of the merge. */
type Leaves = Map<string, unknown>;

describe('a patch of the state', () => {
  it.each([
    ['leaves what it leaves out', { a: 1, b: 2 }, { b: 3 }, { a: 1, b: 3 }],
    ['merges objects', { a: { x: 1, y: { z: 2 } } }, { a: { y: { w: 3 } } }, { a: { x: 1, y: { z: 2, w: 3 } } }],
    ['clears with null', { a: { x: 1 } }, { a: null }, { a: null }],
    ['clears inside with null', { a: { x: 1, y: 2 } }, { a: { x: null } }, { a: { x: null, y: 2 } }],
    ['replaces lists', { a: [1, 2, 3] }, { a: [4] }, { a: [4] }],
    ['puts an object where a word was', { a: 'word' }, { a: { x: 1 } }, { a: { x: 1 } }],
    ['puts an object where a list was', { a: [{ x: 1 }] }, { a: { y: 1 } }, { a: { y: 1 } }],
    ['puts a word where an object was', { a: { x: 1 } }, { a: 'word' }, { a: 'word' }],
    ['changes nothing if it is empty', { a: { x: 1 } }, { a: {} }, { a: { x: 1 } }],
  ])('%s [C2C-52]', (_rule, state, patch, result) => {
    expect(patched(state, patch)).toEqual(result as JsonObject);
  });

  it('gives what a merge place by place gives, at every depth, and changes neither of the two [C2C-52]', () => {
    fc.assert(
      fc.property(anObject(5), anObject(5), (state, patch) => {
        const [before, given] = [JSON.stringify(state), JSON.stringify(patch)];
        expect(leavesOf(patched(state, patch))).toEqual(byPlaces(state, patch));
        expect([JSON.stringify(state), JSON.stringify(patch)]).toEqual([before, given]);
      }),
      { numRuns: 500 },
    );
  });

  it('treats `__proto__` and `constructor` as ordinary keys', () => {
    const patch = JSON.parse(
      '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    ) as JsonObject;
    const result = patched({ a: 1 }, patch);
    expect(JSON.stringify(result)).toBe(
      '{"a":1,"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    );
    expect(({} as JsonObject)['polluted']).toBeUndefined();
  });
});

/** Few names, so that state and patch often have the same paths. */
function anObject(depth: number): fc.Arbitrary<JsonObject> {
  const scalar = fc.oneof(fc.integer(), fc.boolean(), fc.constant(null), fc.string({ maxLength: 3 }));
  const value: fc.Arbitrary<unknown> =
    depth <= 1
      ? fc.oneof(scalar, fc.array(scalar, { maxLength: 3 }))
      : fc.oneof(scalar, fc.array(scalar, { maxLength: 3 }), anObject(depth - 1), anObject(depth - 1));
  return fc.dictionary(fc.constantFrom('a', 'b', 'c'), value, { maxKeys: 3 });
}

/** The reference: the value at each path of the patch replaces that path and everything above or below it. */
function byPlaces(state: JsonObject, patch: JsonObject): Leaves {
  const result = leavesOf(state);
  for (const [place, value] of leavesOf(patch)) {
    const isEmptyObject = value === EMPTY;
    const meetsObject =
      [...result.keys()].some((one) => one === place && result.get(one) === EMPTY) ||
      [...result.keys()].some((one) => one.startsWith(`${place}/`));
    if (isEmptyObject && meetsObject) continue;
    for (const one of result.keys()) {
      if (one === place || one.startsWith(`${place}/`) || place.startsWith(`${one}/`)) result.delete(one);
    }
    result.set(place, value);
  }
  return result;
}

const EMPTY = 'an empty object';

function leavesOf(object: JsonObject, above = ''): Leaves {
  const leaves: Leaves = new Map();
  for (const [key, value] of Object.entries(object)) {
    const place = `${above}/${key}`;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) leaves.set(place, { value });
    else if (Object.keys(value).length === 0) leaves.set(place, EMPTY);
    else for (const [inner, leaf] of leavesOf(value as JsonObject, place)) leaves.set(inner, leaf);
  }
  return leaves;
}
