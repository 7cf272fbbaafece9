import fc from 'fast-check';
import { expect, it } from 'bun:test';
import { aMessage } from '../../../test/support/mail.ts';
import { readMessage } from '../../core/message.ts';
import { MessageId } from '../../core/names.ts';
import { oldestFirst } from './files.ts';

/** Two digits from a small choice, so that many are equal. */
const two = (...choice: string[]): fc.Arbitrary<string> => fc.constantFrom(...choice);
const Moment = fc
  .tuple(
    fc.constantFrom('0000', '2026', '2026', '9999'),
    two('01', '02', '12'),
    two('01', '30', '31'),
    fc.constantFrom('T', 'T', 'T', ' '),
    two('00', '01', '23'),
    two('00', '01', '49', '59'),
    two('00', '10', '59'),
    fc.constantFrom('', '.000', '.000', '.001', '.999', '.1', '.060', '.01', '.123456'),
    fc.constantFrom('Z', 'Z', 'Z', '+02:00', '+02'),
  )
  .map(
    ([year, month, day, t, hour, minute, second, rest, zone]) =>
      `${year}-${month}-${day}${t}${hour}:${minute}:${second}${rest}${zone}`,
  );

it('waiting messages are always sorted by the text of their times, and equal ones stay as they were found', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(Moment, fc.nat(99)), { minLength: 60, maxLength: 99 }), (drawn) => {
      const waiting = drawn.map(([ts, id]) => ({
        message: aMessage({ ts, id: MessageId.parse(`m${id}`) }),
        quiet: false,
      }));
      const order = (one: (typeof waiting)[number]): string => `${one.message.ts} ${one.message.id}`;
      const expected = waiting.toSorted(({ message: a }, { message: b }) => (a.ts === b.ts ? 0 : a.ts < b.ts ? -1 : 1));
      for (const { message } of waiting) expect(readMessage(message)?.ts).toBe(message.ts);
      expect(oldestFirst(waiting).map(order)).toEqual(expected.map(order));
    }),
    // As long as the usual form, and not in it.
    {
      examples: [
        [
          [
            ['2026-01-01T00:00:00.1+02', 1],
            ['2026-01-01T00:00:00.060Z', 2],
          ],
        ],
      ],
    },
  );
});
