import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import { Message, readMessage } from './message.ts';

/** Fields as other programs may write them: mostly right, sometimes odd. */
const odd = fc.constantFrom<unknown>(
  undefined,
  null,
  7,
  '',
  'x',
  ['a'],
  [1],
  {},
  'urgent',
  '2026-06-12T12:00:00.000Z',
  '2026-13-45T99:00:00.000Z',
  '../x',
);
const anything = fc.record(
  {
    id: fc.oneof(fc.uuid(), odd),
    from: fc.oneof(fc.string(), odd),
    to: fc.oneof(fc.string(), odd),
    body: fc.oneof(fc.string(), odd),
    priority: odd,
    scope: odd,
    thread: odd,
    refs: odd,
    ts: fc.oneof(
      fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
      odd,
    ),
    parley: fc.oneof(odd, fc.constant({ v: 1, intent: 'question' })),
    unknown: odd,
  },
  { requiredKeys: [] },
);

describe('reading a message', () => {
  it('always gives what the schema gives, the short way or the long way', () => {
    fc.assert(
      fc.property(anything, (value) => {
        const schema = Message.safeParse(value);
        expect(readMessage(value)).toEqual(schema.success ? schema.data : null);
      }),
      { numRuns: 3000 },
    );
  });

  it('passes on a priority word that it does not know [BC-B1.6]', () => {
    const message = { id: 'a', from: 'x', to: '@y', body: '', priority: 'whenever', ts: '2026-06-12T12:00:00.000Z' };
    expect(readMessage(message)).toMatchObject({ priority: 'whenever' });
    expect(readMessage({ ...message, refs: ['a'] })).toMatchObject({ priority: 'whenever' });
  });
});
