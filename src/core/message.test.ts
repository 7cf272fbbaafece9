import fc from 'fast-check';
import * as v from 'valibot';
import { describe, expect, it } from 'bun:test';
import { AgentRecord } from './ports/directory.ts';
import { Draft, Message, readMessage } from './message.ts';
import { AgentName, ChannelName, MessageId, SendKey } from './names.ts';
import type { Schema } from './schema.ts';

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

const word = fc.oneof(
  odd,
  fc.constantFrom('alice', '-a', '#dev', '#', 'a b', 'x'.repeat(129), '\u0007'),
  fc.string({ maxLength: 8 }),
);
const aDraft = fc.record(
  { to: word, body: word, priority: fc.constantFrom('normal', 'urgent', 'soon'), intent: word, key: word, refs: odd },
  { requiredKeys: [] },
);
const aRecord = fc.record(
  {
    name: fc.constantFrom('alice', '../x', 7),
    subscriptions: fc.constantFrom([], ['#dev'], [7], 'none'),
    createdAt: odd,
    lastSeen: odd,
    parley: fc.constantFrom(
      undefined,
      7,
      { v: 1, kind: 'agent', roles: [] },
      { v: 1, kind: 'human' },
      { v: 1, kind: 'agent', roles: ['..'] },
      { v: 2, kind: 'agent', roles: [] },
      { v: 1, kind: 'agent', roles: ['dev'], more: 1 },
    ),
    unknown: odd,
  },
  { requiredKeys: [] },
);

describe('reading what crosses a wire or a disk', () => {
  it.each([
    ['a message', Message, anything],
    ['a draft', Draft, aDraft],
    ["an agent's record", AgentRecord, aRecord],
    ['a name', AgentName, word],
    ['a channel', ChannelName, word],
    ['an id', MessageId, word],
    ['a key', SendKey, word],
  ] as [string, Schema<v.GenericSchema<unknown, unknown>>, fc.Arbitrary<unknown>][])(
    '%s always comes out the same, the short way or the long way',
    (_name, schema, arbitrary) => {
      fc.assert(
        fc.property(arbitrary, (value) => {
          const short = schema.safeParse(value);
          const long = v.safeParse(schema.inner, value);
          expect(short.success ? short.data : 'refused').toEqual(long.success ? long.output : 'refused');
        }),
        { numRuns: 2000 },
      );
    },
  );

  it('passes on a priority word that it does not know [BC-B1.6]', () => {
    const message = { id: 'a', from: 'x', to: '@y', body: '', priority: 'whenever', ts: '2026-06-12T12:00:00.000Z' };
    expect(readMessage(message)).toMatchObject({ priority: 'whenever' });
    expect(readMessage({ ...message, refs: ['a'] })).toMatchObject({ priority: 'whenever' });
  });
});
