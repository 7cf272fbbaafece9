import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { Policy } from './attention.ts';
import { Intent } from '../message.ts';
import { SIGNALS } from '../signal.ts';
import type { KnownSignal } from '../signal.ts';
import { outcomeOf, silenceOutcome } from './reply-rules.ts';

/** The nine signals in the draft's order: their sign, and what each makes of an event by its policy. `…`: still owed. */
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

describe('what a signal makes of an event', () => {
  it.each(TABLE)('%s', (_title, signal, sign, must, may, ack, not) => {
    expect<string>(SIGNALS[signal].glyph).toBe(sign);
    expect(Policy.inner.options.map((policy) => told(policy, signal))).toEqual([must, may, ack, not]);
  });

  it('a nod is enough where an approval was asked for, and nowhere else [C2A-108]', () => {
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

  it('never ends what asks for no answer as anything but ignored', () => ends('must_not_respond', ['ignored']));

  it('never ends what asks for a receipt as anything but acknowledged or ignored', () =>
    ends('ack_only', ['acknowledged', 'ignored']));

  it('never ignores what must be answered, unless it is declined outright', () =>
    ends('must_respond', ['responded', 'acknowledged'], 'declined'));

  it('never ends anything by a claim or a delay: it is still owed [C2A-109]', () => {
    for (const policy of ['must_respond', 'may_respond'] as const) {
      ends(policy, ['responded', 'acknowledged', 'ignored']);
    }
  });
});

it('silence fails what must be answered, and ends everything else as ignored', () => {
  expect(Policy.inner.options.map(silenceOutcome)).toEqual(['failed', 'ignored', 'ignored', 'ignored']);
});
