import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { Directedness, Policy } from './attention.ts';
import { Disposition } from '../receipt.ts';
import { refusalOf, outcomeOf, silenceOutcome } from './reply-rules.ts';
import type { Reply } from './reply-rules.ts';
import { Intent } from '../message.ts';
import { SIGNALS } from '../signal.ts';
import type { KnownSignal } from '../signal.ts';

/** A reply that is allowed. The cases change what makes it forbidden. */
const aReply = (given: Partial<Reply> = {}): Reply => ({
  policy: 'must_respond',
  ended: null,
  text: 'The deploy waits for the migration.',
  directedness: 'to_me',
  recipients: 1,
  visibility: 'dm',
  claimedBy: null,
  claimed: false,
  offeredToSeveral: false,
  stale: false,
  ...given,
});
const LONG = 'This is much more than a receipt, and it goes on and on until it has well over eighty characters.';

describe('a reply', () => {
  it.each([
    ['to what must be answered', aReply()],
    ['to what may be answered', aReply({ policy: 'may_respond' })],
    ['that is a short receipt', aReply({ policy: 'ack_only', text: 'got it' })],
    ['of exactly eighty characters as a receipt', aReply({ policy: 'ack_only', text: '🎉'.repeat(80) })],
    ['in a channel, by who claimed it', aReply({ offeredToSeveral: true, claimed: true, visibility: 'channel' })],
    ['to many, as information', aReply({ directedness: 'ambient', recipients: 20, visibility: 'channel' })],
    ['to a role', aReply({ directedness: 'to_my_role', recipients: 3 })],
    ['after the deadline, when the thread was read since', aReply({ ended: 'failed', stale: false })],
    ['that says something new', aReply({ lastOwn: 'The deploy is blocked.' })],
    ['to what was answered before', aReply({ ended: 'responded' })],
  ])('is allowed %s', (_what, reply) => {
    expect(refusalOf(reply)).toBeNull();
  });

  it.each([
    ['to what asks for no answer', aReply({ policy: 'must_not_respond' }), 'against_policy', /must_not_respond/],
    ['to what was superseded', aReply({ ended: 'superseded' }), 'against_policy', /superseded.*chat\.read_thread/],
    ['to what another has claimed', aReply({ claimedBy: 'carol' }), 'already_claimed', /carol/],
    ['in a channel without a claim', aReply({ offeredToSeveral: true }), 'against_policy', /chat\.claim/],
    ['to what is stale', aReply({ stale: true }), 'against_policy', /chat\.read_thread/],
    [
      'that is long where a receipt is enough',
      aReply({ policy: 'ack_only', text: LONG }),
      'against_policy',
      /chat\.react/,
    ],
    ['that obliges two at once', aReply({ recipients: 2 }), 'against_policy', /one of them/],
    ['that says the same again', aReply({ lastOwn: 'the deploy waits for the migration' }), 'against_policy', /new/],
  ] as const)('is refused %s, in one line that says what to do', (_what, reply, code, why) => {
    const refusal = refusalOf(reply);
    expect(refusal?.code).toBe(code);
    expect(refusal?.why).toMatch(why);
    expect(refusal?.why).not.toContain('\n');
  });

  const anyReply: fc.Arbitrary<Reply> = fc.record(
    {
      policy: fc.constantFrom(...Policy.inner.options),
      ended: fc.option(fc.constantFrom(...Disposition.inner.options)),
      text: fc.oneof(fc.lorem(), fc.string(), fc.constant('got it')),
      directedness: fc.constantFrom(...Directedness.inner.options),
      recipients: fc.nat(3),
      visibility: fc.constantFrom('dm', 'thread', 'channel', 'ephemeral'),
      claimedBy: fc.option(fc.constant('carol')),
      claimed: fc.boolean(),
      offeredToSeveral: fc.boolean(),
      lastOwn: fc.constantFrom('got it', 'something else'),
      stale: fc.boolean(),
    },
    {
      requiredKeys: [
        'policy',
        'ended',
        'text',
        'directedness',
        'recipients',
        'visibility',
        'claimedBy',
        'claimed',
        'offeredToSeveral',
        'stale',
      ],
    },
  );
  const never = (wrong: Partial<Reply>): void =>
    fc.assert(fc.property(anyReply, (reply) => expect(refusalOf({ ...reply, ...wrong })).not.toBeNull()));

  it('is never allowed against the policy, in any words', () => never({ policy: 'must_not_respond' }));
  it('is never allowed if another agent has the claim', () => never({ claimedBy: 'carol' }));
  it('is never allowed without a claim if the event was offered to several', () =>
    never({ offeredToSeveral: true, claimed: false }));
  it('is never allowed to a superseded event', () => never({ ended: 'superseded' }));
  it('may never oblige two agents', () => never({ directedness: 'to_me', recipients: 2 }));
  it('is never allowed as a receipt if it is long', () => never({ policy: 'ack_only', text: LONG }));
});

/** The nine signals in the draft's order, with their sign, and how each ends an event by its policy. `…`: still owed. */
const TABLE: [string, KnownSignal, string, string, string, string, string][] = [
  // title, signal, sign, must_respond, may_respond, ack_only, must_not_respond
  ['seen [C2A-111a]', 'seen', '👀', 'acknowledged …', 'acknowledged', 'acknowledged', 'ignored'],
  ['agree [C2A-111b]', 'agree', '👍', 'acknowledged …', 'acknowledged', 'acknowledged', 'ignored'],
  ['working [C2A-111c]', 'working', '🔧', 'claimed …', 'claimed …', 'acknowledged', 'ignored'],
  ['queued [C2A-111d]', 'queued', '🕐', 'deferred …', 'deferred …', 'acknowledged', 'ignored'],
  ['claimed [C2A-111e]', 'claimed', '✋', 'claimed …', 'claimed …', 'acknowledged', 'ignored'],
  ['done [C2A-111f]', 'done', '✅', 'responded', 'responded', 'acknowledged', 'ignored'],
  ['declined [C2A-111g]', 'declined', '🙅', 'ignored', 'ignored', 'ignored', 'ignored'],
  ['blocked [C2A-111h]', 'blocked', '🚧', 'deferred …', 'deferred …', 'acknowledged', 'ignored'],
  ['unclear [C2A-111i]', 'unclear', '❓', 'nothing …', 'nothing …', 'nothing …', 'nothing …'],
];
const told = (policy: Policy, signal: KnownSignal, intent: Intent = 'none'): string => {
  const { disposition, final } = outcomeOf(policy, intent, signal);
  return `${disposition ?? 'nothing'}${final ? '' : ' …'}`;
};

describe('a signal and the event that it is about', () => {
  it.each(TABLE)('%s', (_title, signal, sign, must, may, ack, not) => {
    expect<string>(SIGNALS[signal].glyph).toBe(sign);
    expect(Policy.inner.options.map((policy) => told(policy, signal))).toEqual([must, may, ack, not]);
  });

  it('agreement answers an approval request, and nothing else [C2A-108]', () => {
    const enough = Intent.inner.options.filter((intent) => outcomeOf('must_respond', intent, 'agree').final);
    expect(enough).toEqual(['approval']);
    for (const intent of Intent.inner.options) expect(outcomeOf('must_respond', intent, 'seen').final).toBe(false);
  });

  const anySignal = fc.constantFrom(...(Object.keys(SIGNALS) as KnownSignal[]));
  const anyIntent = fc.constantFrom(...Intent.inner.options);
  const ends = (policy: Policy, allowed: readonly string[], except?: KnownSignal): void =>
    fc.assert(
      fc.property(anySignal, anyIntent, (signal, intent) => {
        const { disposition, final } = outcomeOf(policy, intent, signal);
        if (final && signal !== except) expect(allowed).toContain(disposition ?? 'nothing');
      }),
    );

  it('always ends as ignored if the event needs no answer', () => ends('must_not_respond', ['ignored']));

  it('always ends as acknowledged or ignored if the event needs only a receipt', () =>
    ends('ack_only', ['acknowledged', 'ignored']));

  it('never ends as ignored if the event must be answered, unless the signal declines it', () =>
    ends('must_respond', ['responded', 'acknowledged'], 'declined'));

  it('never ends an event by a claim or a delay: it is still owed [C2A-109]', () => {
    for (const policy of ['must_respond', 'may_respond'] as const) {
      ends(policy, ['responded', 'acknowledged', 'ignored']);
    }
  });
});

it('without an answer, an event that must be answered fails, and every other one ends as ignored', () => {
  expect(Policy.inner.options.map(silenceOutcome)).toEqual(['failed', 'ignored', 'ignored', 'ignored']);
});
