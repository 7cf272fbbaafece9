import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import type { MessageId } from '../../protocol/names.ts';
import { IdNotes } from './id-notes.ts';

/** Ids of the usual kind and any others, some of them alike. */
const anId = fc.oneof(
  fc.uuid(),
  fc.uuid().map((id) => id.toUpperCase()),
  fc.uuid().map((id) => `${id.slice(0, 35)}x`),
  fc.constantFrom('00000000-0000-0000-0000-000000000000', 'a', '0000000-00000-0000-0000-000000000000'),
) as fc.Arbitrary<MessageId>;

describe('notes on ids', () => {
  it('are those of a Map, whatever the ids look like', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(anId, fc.integer({ min: 1, max: 3 })), { maxLength: 60 }),
        anId,
        (entries, other) => {
          const notes = new IdNotes();
          for (const [id, note] of entries) notes.set(id, note);
          const map = new Map(entries);
          for (const id of [...map.keys(), other]) expect(notes.get(id)).toBe(map.get(id) ?? 0);
          for (const note of [1, 2, 3]) {
            const expected = [...map].filter(([, noted]) => noted === note).map(([id]) => id);
            expect([...notes.having(note)].toSorted()).toEqual(expected.toSorted());
          }
        },
      ),
    );
  });

  it('are kept for very many', () => {
    const ids = Array.from({ length: 20_000 }, () => crypto.randomUUID() as string as MessageId);
    const notes = new IdNotes();
    for (const [at, id] of ids.entries()) notes.set(id, (at % 2) + 1);
    expect(ids.every((id, at) => notes.get(id) === (at % 2) + 1)).toBe(true);
    expect([...notes.having(2)].toSorted()).toEqual(ids.filter((_, at) => at % 2 === 1).toSorted());
    expect(notes.get(crypto.randomUUID() as string as MessageId)).toBe(0);
  });
});
