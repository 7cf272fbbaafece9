import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { Directedness, Injection, isQuiet, Policy, Reason } from './attention.ts';
import { Intent, Priority } from '../message.ts';
import { SIGNALS } from '../signal.ts';
import { decide } from './decide.ts';
import type { AttentionFacts } from './decide.ts';

describe('the decision on a copy', () => {
  const anyFacts: fc.Arbitrary<AttentionFacts> = fc.record({
    via: fc.constantFrom('dm', 'channel', 'role'),
    fromAgent: fc.boolean(),
    fromMe: fc.boolean(),
    mentionsMe: fc.boolean(),
    mentionsOther: fc.boolean(),
    mentionsMyRole: fc.boolean(),
    calledAfter: fc.boolean(),
    inThreadIHaveJoined: fc.boolean(),
    ownsThread: fc.boolean(),
    ownsStream: fc.boolean(),
    threadReply: fc.boolean(),
    answersMe: fc.boolean(),
    intent: fc.constantFrom(...Intent.inner.options),
    priority: fc.constantFrom(...Priority.inner.options),
    onlyThanks: fc.boolean(),
    asksQuestion: fc.boolean(),
    guard: fc.constantFrom(null, 'echo', 'long'),
    quietTime: fc.boolean(),
    left: fc.boolean(),
    signal: fc.option(fc.constantFrom(...Object.keys(SIGNALS), 'x-party'), { nil: undefined }),
    changesObligation: fc.boolean(),
    aim: fc.option(fc.constantFrom(...Directedness.inner.options), { nil: undefined }),
    edited: fc.boolean(),
    escalation: fc.boolean(),
  });
  const loudness = (injection: Injection): number => -Injection.inner.options.indexOf(injection);
  const always = (promise: (given: AttentionFacts) => void): void =>
    fc.assert(fc.property(anyFacts, promise), { numRuns: 2_000 });

  it('always gives one of the four policies, with a directedness, a mode and a reason', () =>
    always((given) => {
      const { directedness, policy, injection, reason } = decide(given);
      expect(Policy.inner.options).toContain(policy);
      expect(Directedness.inner.options).toContain(directedness);
      expect(Injection.inner.options).toContain(injection);
      expect(Reason.inner.options).toContain(reason);
    }));

  it('never shows an author its own message: it is silent [C2A-N4]', () =>
    always((given) => expect(decide({ ...given, fromMe: true }).injection).toBe('silent')));

  it('never shows what is ambient or meant for others', () =>
    always((given) => {
      const decision = decide(given);
      if (decision.directedness !== 'ambient' && decision.directedness !== 'to_other') return;
      expect(isQuiet(decision)).toBe(true);
      expect(decision.policy).toBe('must_not_respond');
    }));

  it('never hides a message that must be answered, unless its reader is in a quiet time', () =>
    always((given) => {
      const decision = decide({ ...given, quietTime: false });
      if (decision.policy === 'must_respond')
        expect(loudness(decision.injection)).toBeGreaterThanOrEqual(loudness('buffered'));
    }));

  it('never requires an answer to a status', () =>
    always((given) =>
      expect(decide({ ...given, intent: 'status', escalation: false }).policy).toBe('must_not_respond'),
    ));

  it('never gets louder because of a guard, and wakes nobody for a held message [C2A-D10]', () =>
    always((given) => {
      const plain = { intent: 'none', priority: 'normal', escalation: false, signal: undefined } as const;
      const idle = { ...given, ...plain, quietTime: false, left: false, fromMe: false };
      const free = decide({ ...idle, guard: null });
      for (const guard of ['echo', 'long'] as const) {
        const held = decide({ ...idle, guard });
        expect(loudness(held.injection)).toBeLessThanOrEqual(loudness(free.injection));
        expect(isQuiet(held)).toBe(true);
        expect(held).toEqual(isQuiet(free) ? free : { ...held, policy: 'must_not_respond', reason: 'loop' });
      }
    }));

  it('never hides the text of a long exchange that would have been shown without the guard [C2A-D10]', () =>
    always((any) => {
      const given = { ...any, left: false, quietTime: false };
      if (isQuiet(decide({ ...given, guard: null }))) return;
      const { reason, injection } = decide({ ...given, guard: 'long' });
      if (reason === 'loop') expect(injection).toBe('digest');
    }));

  it('always lets an urgent message, a question, a blocker, an approval and an assignment through [C2A-D10]', () =>
    always((given) => {
      const intents = ['question', 'blocker', 'assignment', 'approval'] as const;
      for (const asked of [{ priority: 'urgent' as const }, ...intents.map((intent) => ({ intent }))]) {
        const facts = { ...given, ...asked };
        for (const guard of ['echo', 'long'] as const) {
          expect(decide({ ...facts, guard })).toEqual(decide({ ...facts, guard: null }));
        }
      }
    }));

  it('never lets urgency raise a message that is not shown in full anyway', () =>
    always((any) => {
      const given = { ...any, guard: null, quietTime: false };
      const normal = decide({ ...given, priority: 'normal' });
      const urgent = decide({ ...given, priority: 'urgent' });
      expect(urgent).toEqual(normal.injection === 'buffered' ? { ...normal, injection: 'immediate' } : normal);
    }));

  it('never makes a message louder because of a quiet time or a request to leave', () =>
    always((given) => {
      const open = loudness(decide({ ...given, quietTime: false, left: false, aim: undefined }).injection);
      expect(loudness(decide({ ...given, left: false, aim: undefined }).injection)).toBeLessThanOrEqual(open);
      expect(loudness(decide({ ...given, quietTime: false, aim: undefined }).injection)).toBeLessThanOrEqual(open);
    }));

  it('never disturbs anybody with a message that its sender means for nobody', () =>
    always((given) =>
      expect(isQuiet(decide({ ...given, aim: 'ambient', signal: undefined, escalation: false }))).toBe(true),
    ));

  it('never disturbs a reader in a quiet time, except with urgent mail of a person', () =>
    always((given) => {
      const quietTime = decide({ ...given, quietTime: true });
      const urgent = given.priority === 'urgent' && !given.fromAgent;
      if (urgent) expect(quietTime).toEqual(decide({ ...given, quietTime: false }));
      else expect(isQuiet(quietTime)).toBe(true);
    }));

  it('never lets a quiet time end an obligation', () =>
    always((given) =>
      expect(decide({ ...given, quietTime: true }).policy).toBe(decide({ ...given, quietTime: false }).policy),
    ));

  it('never requires an answer to a message in a digest', () =>
    always((given) => {
      const { injection, policy } = decide(given);
      if (injection === 'digest') expect(policy).not.toBe('must_respond');
    }));

  it('never requires an answer to a reaction, or makes it louder than a knock', () =>
    always((given) => {
      const { injection, policy } = decide({ ...given, signal: given.signal ?? 'agree' });
      expect(policy).toBe('must_not_respond');
      expect(loudness(injection)).toBeLessThanOrEqual(loudness('notify'));
    }));

  it('never believes a sender that a message is meant for a reader', () =>
    always((given) => {
      const aim = given.aim === 'ambient' ? 'to_me' : given.aim;
      expect(decide({ ...given, aim })).toEqual(decide({ ...given, aim: undefined }));
    }));

  it('never disturbs a reader that left, unless the message names it', () =>
    always((given) => {
      const left = { ...given, left: true, quietTime: false };
      const isHere = given.via !== 'dm' || given.threadReply;
      if (isHere) expect(isQuiet(decide({ ...left, mentionsMe: false }))).toBe(true);
      expect(decide({ ...left, mentionsMe: true, aim: undefined })).toEqual(
        decide({ ...left, mentionsMe: true, aim: undefined, left: false }),
      );
    }));
});
