import { describe, expect, it } from 'bun:test';
import * as fc from 'fast-check';
import { Directedness, Injection, isQuiet, Policy, Reason } from '../protocol/attention.ts';
import { Intent, Priority } from '../protocol/message.ts';
import { decide } from './decide.ts';
import type { Facts } from './decide.ts';

describe('the decision on a copy', () => {
  const anyFacts: fc.Arbitrary<Facts> = fc.record({
    via: fc.constantFrom('dm', 'channel', 'role'),
    fromAgent: fc.boolean(),
    fromMe: fc.boolean(),
    mentionsMe: fc.boolean(),
    mentionsOther: fc.boolean(),
    mentionsMyRole: fc.boolean(),
    inThreadIHaveJoined: fc.boolean(),
    ownsThread: fc.boolean(),
    ownsStream: fc.boolean(),
    threadReply: fc.boolean(),
    answersMe: fc.boolean(),
    intent: fc.constantFrom(...Intent.inner.options),
    priority: fc.constantFrom(...Priority.inner.options),
    onlyThanks: fc.boolean(),
    asksQuestion: fc.boolean(),
    loop: fc.boolean(),
  });
  const loudness = (injection: Injection): number => -Injection.inner.options.indexOf(injection);
  const always = (promise: (given: Facts) => void): void =>
    fc.assert(fc.property(anyFacts, promise), { numRuns: 2_000 });

  it('always gives one of the four policies, with a directedness, a mode and a reason', () =>
    always((given) => {
      const { directedness, policy, injection, reason } = decide(given);
      expect(Policy.inner.options).toContain(policy);
      expect(Directedness.inner.options).toContain(directedness);
      expect(Injection.inner.options).toContain(injection);
      expect(Reason.inner.options).toContain(reason);
    }));

  it('never brings an own message back above silent [C2A-N4]', () =>
    always((given) => expect(decide({ ...given, fromMe: true }).injection).toBe('silent')));

  it('never shows what is ambient or meant for others', () =>
    always((given) => {
      const decision = decide(given);
      if (decision.directedness !== 'ambient' && decision.directedness !== 'to_other') return;
      expect(isQuiet(decision)).toBe(true);
      expect(decision.policy).toBe('must_not_respond');
    }));

  it('never hides what must be answered', () =>
    always((given) => {
      const decision = decide(given);
      if (decision.policy === 'must_respond')
        expect(loudness(decision.injection)).toBeGreaterThanOrEqual(loudness('buffered'));
    }));

  it('never lets a status ask for an answer', () =>
    always((given) => expect(decide({ ...given, intent: 'status' }).policy).toBe('must_not_respond')));

  it('never gets louder by breaking a loop, and always forbids the answer', () =>
    always((given) => {
      const idle = { ...given, intent: 'none', priority: 'normal', asksQuestion: false } as const;
      const broken = decide({ ...idle, loop: true });
      expect(loudness(broken.injection)).toBeLessThanOrEqual(loudness(decide({ ...idle, loop: false }).injection));
      expect(loudness(broken.injection)).toBeLessThanOrEqual(loudness('notify'));
      expect(broken.policy).toBe('must_not_respond');
    }));

  it('never silences for a loop whoever asks for something', () =>
    always((given) => {
      const asking = [
        { priority: 'urgent' },
        { asksQuestion: true },
        { intent: 'question' },
        { intent: 'blocker' },
      ] as const;
      for (const asked of asking) {
        const facts = { ...given, ...asked };
        expect(decide({ ...facts, loop: true })).toEqual(decide({ ...facts, loop: false }));
      }
    }));

  it('never lets a sender raise by urgency what is not shown in full anyway', () =>
    always((any) => {
      const given = { ...any, loop: false };
      const normal = decide({ ...given, priority: 'normal' });
      const urgent = decide({ ...given, priority: 'urgent' });
      expect(urgent).toEqual(normal.injection === 'buffered' ? { ...normal, injection: 'immediate' } : normal);
    }));
});
