import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import type { Attention, Injection } from '../attention/attention.ts';
import type { Obligation } from './rules.ts';
import { Intent } from '../message.ts';
import type { Message } from '../message.ts';
import { AgentName, MessageId } from '../names.ts';
import { SIGNALS } from '../signal.ts';
import type { KnownSignal } from '../signal.ts';
import { CLAIM_MS, DEADLINE_MS, DEFER_MS, deferredUntil, newObligation, onSignal, step } from './rules.ts';

const MADE = Date.parse('2026-06-02T19:10:00.000Z');
const DAY = 24 * 60 * 60 * 1000;
const READER = { isAuthor: false, isRecipient: true, isDelegate: false };
const AUTHOR = { isAuthor: true, isRecipient: false, isDelegate: false };
const DELEGATE = { isAuthor: false, isRecipient: false, isDelegate: true };
const STRANGER = { isAuthor: false, isRecipient: false, isDelegate: false };

interface Given {
  parley?: Omit<NonNullable<Message['parley']>, 'v'>;
  injection?: Injection;
  reason?: Attention['reason'];
  isPerson?: boolean;
}

function obligationFor({
  parley,
  injection = 'buffered',
  reason = 'direct_message',
  isPerson = false,
}: Given = {}): Obligation {
  const message: Message = {
    id: MessageId.parse('m1'),
    from: 'alice',
    to: '@bob',
    body: 'please look',
    priority: 'normal',
    ts: new Date(MADE).toISOString(),
    ...(parley && { parley: { v: 1, ...parley } }),
  };
  const attention: Attention = { directedness: 'to_me', policy: 'must_respond', injection, reason };
  return newObligation({ message, mailbox: AgentName.parse('bob'), attention, isPerson });
}

const aReply = (given: Given = {}): Obligation => obligationFor(given);
const anObligation = (given: Given = {}): Obligation =>
  obligationFor({ ...given, parley: { obligation: { blocks: 'halted' }, ...given.parley } });

/** Does every due step until nothing is due any more. Returns the steps, with their times in seconds after the message was written. */
function story(obligation: Obligation, until = MADE + 7 * DAY): string[] {
  const told: string[] = [];
  for (let now = obligation; now.due !== null && now.due <= until;) {
    const next = step(now, now.due);
    told.push(`${next.do} ${Math.round((now.due - MADE) / 1000)}`);
    now = next.obligation;
  }
  return told;
}

describe('a reply that does not come', () => {
  it('brings reminders at a third and two thirds of its deadline, is escalated once at the deadline, and fails', () => {
    expect(story(aReply())).toEqual(['return 100', 'return 200', 'escalate 300', 'expire 600']);
    const end = [0, 1, 2, 3].reduce((obligation) => step(obligation, obligation.due ?? 0).obligation, aReply());
    expect(end.ended).toEqual({ as: 'failed', at: MADE + 2 * DEADLINE_MS, by: { reason: 'expired' } });
  });

  it('has the deadline of its message', () => {
    const deadline = new Date(MADE + 3_600_000).toISOString();
    expect(story(aReply({ parley: { deadline } }))).toEqual([
      'return 1200',
      'return 2400',
      'escalate 3600',
      'expire 7200',
    ]);
  });

  it('has the default deadline if that of its message was before the message was written', () => {
    const deadline = new Date(MADE - 1).toISOString();
    expect(aReply({ parley: { deadline } }).due).toBe(MADE + DEADLINE_MS / 3);
  });

  it('that was deferred brings one reminder at its time before it is escalated', () => {
    const put = deferredUntil(aReply(), MADE + DEFER_MS, 'after the deploy');
    expect(put).toMatchObject({ state: 'deferred', note: 'after the deploy', ended: null });
    expect(story(put)).toEqual(['return 1800', 'return 1900', 'escalate 2000', 'expire 2300']);
    const late = { ...put, returns: 2, tier: 1 as const };
    expect(story(late)).toEqual(['return 1800', 'expire 1900']);
  });

  it('brings no reminder while its reader works on it', () => {
    const claimed = onSignal(aReply(), 'working', READER, MADE + 50_000, 'none').obligation;
    expect(claimed).toMatchObject({ state: 'claimed', due: MADE + 50_000 + CLAIM_MS, ended: null });
    expect(step(claimed, MADE + 400_000).do).toBe('nothing');
    expect(story(claimed)[0]).toBe('return 650');
  });
});

describe('an obligation', () => {
  it.each([
    ['immediate', 60],
    ['buffered', 300],
    ['notify', 900],
  ] as const)(
    'that came %s comes back three times, every %i s, and then goes up and stays [C2A-N12]',
    (injection, s) => {
      const obligation = anObligation({ injection });
      expect(story(obligation)).toEqual([`return ${s}`, `return ${2 * s}`, `return ${3 * s}`, `escalate ${4 * s}`]);
      const up = [0, 1, 2, 3].reduce((now) => step(now, now.due ?? 0).obligation, obligation);
      expect(up).toMatchObject({ tier: 1, due: null, ended: null });
    },
  );

  it('of an escalation brings reminders too, and then goes to a person', () => {
    const handed = anObligation({ reason: 'escalation' });
    expect(handed.tier).toBe(1);
    expect(story(handed)).toEqual(['return 300', 'return 600', 'return 900', 'escalate 1200']);
  });

  it('with a person brings no reminders and stays open [C2A-N14]', () => {
    const obligation = anObligation({ reason: 'escalation', isPerson: true });
    expect(obligation).toMatchObject({ tier: 2, due: null, ended: null });
    for (let day = 1; day <= 7; day += 1)
      expect(step(obligation, MADE + day * DAY)).toEqual({ do: 'nothing', obligation });
  });

  it('is as old as its message, and after a pause brings one reminder [C2A-N16, C2A-D10]', () => {
    const obligation = anObligation();
    const restart = MADE + 10 * obligation.every + 1;
    const first = step(obligation, restart);
    expect(first.do).toBe('return');
    expect(step(first.obligation, restart + 1).do).toBe('nothing');
    expect(step(first.obligation, restart + obligation.every - 1).do).toBe('nothing');
    expect(step(first.obligation, restart + obligation.every).do).toBe('escalate');
  });

  it('can be deferred once, by one interval', () => {
    const once = deferredUntil(anObligation(), MADE + DAY, 'later');
    expect(once).toMatchObject({ state: 'deferred', due: MADE + 2 * once.every, extended: true });
    expect(deferredUntil(once, MADE + DAY, 'later still').due).toBe(once.due);
  });
});

describe('a signal of the reader about an obligation', () => {
  const told = (signal: KnownSignal, obligation = anObligation()): ReturnType<typeof onSignal> =>
    onSignal(obligation, signal, READER, MADE + 1_000, 'none');

  it.each(['working', 'queued'] as const)('%s gives it more time, once [C2A-N15]', (signal) => {
    const { obligation, follow } = told(signal);
    expect(obligation.due).toBe(MADE + 2 * obligation.every);
    expect(follow).toBe('nothing');
    expect(told(signal, obligation).obligation.due).toBe(obligation.due);
  });

  it.each(['declined', 'blocked'] as const)('%s escalates it at once, and only once [C2A-N15]', (signal) => {
    const { obligation, follow } = told(signal);
    expect(follow).toBe('escalate');
    expect(obligation).toMatchObject({ tier: 1, due: null, ended: null });
    expect(told(signal, obligation)).toEqual({ obligation, follow: 'nothing' });
  });

  it('unclear pauses it and asks its author, once [C2A-N15]', () => {
    const { obligation, follow } = told('unclear');
    expect(follow).toBe('ask_back');
    expect(obligation).toMatchObject({ state: 'paused', due: null, ended: null });
    expect(told('unclear', obligation)).toEqual({ obligation, follow: 'nothing' });
    expect(told('declined', obligation).follow).toBe('escalate');
  });

  it.each(['seen', 'claimed', 'agree', 'done'] as const)('%s changes nothing [C2A-N15]', (signal) => {
    const obligation = anObligation();
    expect(told(signal, obligation)).toEqual({ obligation, follow: 'nothing' });
  });

  it.each([
    ['its author', AUTHOR],
    ['its delegate', DELEGATE],
  ])('is discharged by a done of %s', (_who, by) => {
    const { obligation } = onSignal(anObligation(), 'done', by, MADE + 5, 'none');
    expect(obligation.ended).toMatchObject({ as: 'responded', at: MADE + 5 });
  });
});

describe('a signal of the reader about a reply', () => {
  const told = (signal: KnownSignal, intent: Intent = 'none'): ReturnType<typeof onSignal> =>
    onSignal(aReply(), signal, READER, MADE + 1_000, intent);

  it.each([
    ['done', 'none', 'responded'],
    ['declined', 'none', 'ignored'],
    ['agree', 'approval', 'acknowledged'],
  ] as const)('%s (%s) ends it as %s', (signal, intent, as) => {
    expect(told(signal, intent).obligation).toMatchObject({
      due: null,
      ended: { as, at: MADE + 1_000, by: { signal } },
    });
  });

  it.each([
    ['seen', 'none'],
    ['seen', 'approval'],
    ['agree', 'none'],
    ['agree', 'assignment'],
  ] as const)('%s (%s) is not enough, and changes nothing [C2A-108]', (signal, intent) => {
    expect(told(signal, intent)).toEqual({ obligation: aReply(), follow: 'nothing' });
    expect(told('agree', 'approval').obligation.ended?.as).toBe('acknowledged');
  });

  it.each([
    ['working', 'claimed', CLAIM_MS],
    ['claimed', 'claimed', CLAIM_MS],
    ['queued', 'deferred', DEFER_MS],
    ['blocked', 'deferred', DEFER_MS],
  ] as const)('%s: it is %s, and still owed [C2A-109]', (signal, state, ms) => {
    expect(told(signal)).toMatchObject({
      obligation: { state, due: MADE + 1_000 + ms, ended: null },
      follow: 'nothing',
    });
  });

  it('unclear pauses it for a while and asks its author', () => {
    expect(told('unclear')).toMatchObject({ obligation: { state: 'paused', ended: null }, follow: 'ask_back' });
    expect(story(told('unclear').obligation)[0]).toBe('return 1801');
  });

  it('sets no deadline for a person', () => {
    const person = aReply({ isPerson: true });
    expect(onSignal(person, 'queued', READER, MADE, 'none').obligation).toMatchObject({ state: 'deferred', due: null });
    expect(story(person)).toEqual([]);
  });
});

describe('a row of either kind', () => {
  const anyIntent = fc.constantFrom(...Intent.inner.options);
  const anySignal = fc.constantFrom(...(Object.keys(SIGNALS) as KnownSignal[]));
  const anyBy = fc.record({ isAuthor: fc.boolean(), isRecipient: fc.boolean(), isDelegate: fc.boolean() });
  const anyStart = fc.record({
    injection: fc.constantFrom<Injection>('immediate', 'buffered', 'notify'),
    isPerson: fc.boolean(),
    isObligation: fc.boolean(),
    reason: fc.constantFrom<Attention['reason']>('direct_message', 'escalation'),
  });
  const anyEvent = fc.oneof(
    fc.record({ kind: fc.constant('look' as const), after: fc.nat(2_000_000) }),
    fc.record({
      kind: fc.constant('signal' as const),
      after: fc.nat(200_000),
      signal: anySignal,
      by: anyBy,
      intent: anyIntent,
    }),
    fc.record({ kind: fc.constant('defer' as const), after: fc.nat(200_000), ms: fc.nat(4_000_000) }),
  );
  type Event = typeof anyEvent extends fc.Arbitrary<infer E> ? E : never;
  const begun = ({ isObligation, ...given }: { isObligation: boolean } & Given): Obligation =>
    isObligation ? anObligation(given) : aReply(given);

  /** Plays a series of events. Returns for each the row before it, the row after it, and the step. */
  function play(
    obligation: Obligation,
    events: Event[],
    seen: (before: Obligation, after: Obligation, done: string, now: number) => void,
  ): void {
    let [now, at] = [obligation, MADE];
    for (const event of events) {
      at += event.after;
      const before = now;
      if (event.kind === 'look') {
        const next = step(now, at);
        now = next.obligation;
        seen(before, now, next.do, at);
      } else if (event.kind === 'defer') {
        now = deferredUntil(now, at + event.ms, 'later');
        seen(before, now, 'defer', at);
      } else {
        const next = onSignal(now, event.signal, event.by, at, event.intent);
        now = next.obligation;
        seen(before, now, next.follow, at);
      }
    }
  }
  const always = (promise: (before: Obligation, after: Obligation, done: string, now: number) => void): void =>
    fc.assert(
      fc.property(anyStart, fc.array(anyEvent, { maxLength: 40 }), (start, events) =>
        play(begun(start), events, promise),
      ),
      { numRuns: 500 },
    );

  it('that has ended never changes', () =>
    always((before, after, done) => {
      if (!before.ended) return;
      expect(after).toEqual(before);
      expect(done === 'nothing' || done === 'defer').toBe(true);
    }));

  it('of kind obligation is never ended by time or by its reader', () => {
    const events = fc.array(
      anyEvent.map((event) => (event.kind === 'signal' ? { ...event, by: READER } : event)),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(anyStart, events, (start, told) =>
        play(begun({ ...start, isObligation: true }), told, (_before, after) => expect(after.ended).toBeNull()),
      ),
    );
  });

  it('rises one tier at a time, and never falls', () =>
    always((before, after, done) => {
      expect(after.tier).toBeGreaterThanOrEqual(before.tier);
      if (done === 'escalate') expect(after.tier).toBe((before.tier + 1) as 1 | 2);
    }));

  it('never does a step twice at one time', () =>
    always((_before, after, _done, now) => {
      const again = step(after, now);
      if (after.due !== null && after.due > now) expect(again).toEqual({ do: 'nothing', obligation: after });
      else expect(step(again.obligation, now).do).toBe('nothing');
    }));

  it('never brings a reminder before half of its interval, and one after exactly one interval if on time', () =>
    always((_before, after, done, now) => {
      if (done !== 'return') return;
      expect(after.due ?? 0).toBeGreaterThan(now + after.every / 2 - 1);
      expect(after.due ?? 0).toBeLessThanOrEqual(now + after.every);
    }));

  it('never changes its mailbox, message, author and interval', () =>
    always((before, after) => {
      const fixed = ({ id, mailbox, from, kind, at, every }: Obligation): unknown => ({
        id,
        mailbox,
        from,
        kind,
        at,
        every,
      });
      expect(fixed(after)).toEqual(fixed(before));
    }));

  it('is not changed by signals of other agents', () => {
    fc.assert(
      fc.property(anyStart, anySignal, anyIntent, (start, signal, intent) => {
        const obligation = begun(start);
        expect(onSignal(obligation, signal, STRANGER, MADE, intent)).toEqual({ obligation, follow: 'nothing' });
      }),
    );
  });
});
