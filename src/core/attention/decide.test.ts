import { describe, expect, it } from 'bun:test';
import { decide, quieter } from './decide.ts';
import type { AttentionFacts } from './decide.ts';
import { asksQuestion, isOnlyThanks } from './thanks.ts';
import * as fc from 'fast-check';
import { Injection } from './attention.ts';

/** A person's plain post in a channel that does not concern the reader. The cases add the facts that make it concern the reader. */
function facts(given: Partial<AttentionFacts> = {}): AttentionFacts {
  return {
    via: 'channel',
    fromAgent: false,
    fromMe: false,
    mentionsMe: false,
    mentionsOther: false,
    mentionsMyRole: false,
    calledAfter: false,
    inThreadIHaveJoined: false,
    ownsThread: false,
    ownsStream: false,
    threadReply: false,
    answersMe: false,
    intent: 'none',
    priority: 'normal',
    onlyThanks: false,
    asksQuestion: false,
    guard: null,
    quietTime: false,
    left: false,
    changesObligation: false,
    edited: false,
    escalation: false,
    ...given,
  };
}

const dm = (given: Partial<AttentionFacts> = {}): AttentionFacts => facts({ via: 'dm', fromAgent: true, ...given });

/** A DM from an agent, with the facts that follow from its text. */
const dmSaying = (body: string): AttentionFacts =>
  dm({ onlyThanks: isOnlyThanks(body), asksQuestion: asksQuestion(body) });

const MATRIX: [string, AttentionFacts, string][] = [
  [
    'a DM must be answered and is shown after the compose window [C2A-60a, C2A-55, C2A-53]',
    dm(),
    'to_me must_respond buffered direct_message',
  ],
  [
    'a DM that only says thanks asks for a reaction at most [C2A-93]',
    dm({ onlyThanks: true }),
    'to_me ack_only silent thanks',
  ],
  [
    'a mention in a channel must be answered [C2A-60c, C2A-55, C2A-53]',
    facts({ mentionsMe: true }),
    'to_me must_respond buffered direct_mention',
  ],
  ['an assignment must be answered [C2A-60d]', dm({ intent: 'assignment' }), 'to_me must_respond buffered assignment'],
  [
    'an approval must be answered and comes at once [C2A-60d]',
    dm({ intent: 'approval' }),
    'to_me must_respond immediate approval',
  ],
  [
    'a blocker must be answered and comes at once [C2A-60d]',
    facts({ mentionsMe: true, intent: 'blocker' }),
    'to_me must_respond immediate blocker',
  ],
  [
    'a question in a thread that the reader joined must be answered [C2A-60e]',
    facts({ threadReply: true, inThreadIHaveJoined: true, asksQuestion: true }),
    'to_me must_respond buffered thread_question',
  ],
  [
    'a message to a role of the reader knocks [C2A-72, C2A-53]',
    facts({ via: 'role' }),
    'to_my_role may_respond notify role_mention',
  ],
  [
    'a mention of a role of the reader knocks [C2A-72, C2A-53]',
    facts({ mentionsMyRole: true }),
    'to_my_role may_respond notify role_mention',
  ],
  [
    'a reply in a thread that the reader joined knocks [C2A-60g, C2A-72]',
    facts({ threadReply: true, inThreadIHaveJoined: true }),
    'to_my_role may_respond notify thread_reply',
  ],
  [
    'a reply in a thread that the reader owns knocks [C2A-53]',
    facts({ threadReply: true, ownsThread: true }),
    'to_my_role may_respond notify thread_reply',
  ],
  [
    'a post in a stream that the reader owns knocks',
    facts({ ownsStream: true }),
    'to_my_role may_respond notify owned_stream',
  ],
  [
    'a blocker in a stream that the reader owns may be answered, unasked [C2A-86]',
    facts({ ownsStream: true, intent: 'blocker' }),
    'to_my_role may_respond notify changes_owned_work',
  ],
  [
    'an assignment in a thread that the reader owns may be answered, unasked [C2A-86]',
    facts({ threadReply: true, ownsThread: true, intent: 'assignment' }),
    'to_my_role may_respond notify changes_owned_work',
  ],
  [
    'a message to another agent waits in the mailbox and is not to be answered [C2A-60h, C2A-57, C2A-90]',
    facts({ mentionsOther: true }),
    'to_other must_not_respond tool_mailbox addressed_elsewhere',
  ],
  [
    'a message to another agent in a thread of the reader is still to the other [C2A-90]',
    facts({ threadReply: true, ownsThread: true, mentionsOther: true, asksQuestion: true }),
    'to_other must_not_respond tool_mailbox addressed_elsewhere',
  ],
  [
    'what agents say in a thread of others, without a task, is to those others [C2A-60i, C2A-57]',
    facts({ fromAgent: true, threadReply: true }),
    'to_other must_not_respond tool_mailbox no_task',
  ],
  [
    'what agents ask in a thread of others is ambient: there is a task, for nobody by name [C2A-60i]',
    facts({ fromAgent: true, threadReply: true, asksQuestion: true }),
    'ambient must_not_respond tool_mailbox ambient',
  ],
  [
    'a channel message that mentions nobody is ambient [C2A-60j, C2A-58]',
    facts(),
    'ambient must_not_respond tool_mailbox ambient',
  ],
  [
    'the same from an agent is ambient too [C2A-60j, C2A-58]',
    facts({ fromAgent: true }),
    'ambient must_not_respond tool_mailbox ambient',
  ],
  [
    'a status broadcast goes to the digest [C2A-60k, C2A-89, C2A-96f]',
    facts({ intent: 'status' }),
    'ambient must_not_respond digest status',
  ],
  [
    'a status sent as an urgent DM goes to the digest all the same [C2A-60k, C2A-89]',
    dm({ intent: 'status', priority: 'urgent' }),
    'ambient must_not_respond digest status',
  ],
];

const BEYOND_THE_MATRIX: [string, AttentionFacts, string][] = [
  [
    'an urgent DM does not wait for the compose window',
    dm({ priority: 'urgent' }),
    'to_me must_respond immediate direct_message',
  ],
  [
    'an urgent assignment does not wait either',
    dm({ priority: 'urgent', intent: 'assignment' }),
    'to_me must_respond immediate assignment',
  ],
  [
    'urgency does not make a channel message louder',
    facts({ priority: 'urgent' }),
    'ambient must_not_respond tool_mailbox ambient',
  ],
  [
    'urgency does not make a knock louder',
    facts({ priority: 'urgent', via: 'role' }),
    'to_my_role may_respond notify role_mention',
  ],
  ['urgency does not make thanks louder', dm({ priority: 'urgent', onlyThanks: true }), 'to_me ack_only silent thanks'],
  [
    'a DM for information is shown and nothing is owed',
    dm({ intent: 'fyi' }),
    'to_me may_respond buffered direct_message',
  ],
  [
    'a mention for information is shown and nothing is owed',
    facts({ mentionsMe: true, intent: 'fyi' }),
    'to_me may_respond buffered direct_mention',
  ],
  [
    'information in a joined thread only knocks, whatever its punctuation',
    facts({ threadReply: true, inThreadIHaveJoined: true, asksQuestion: true, intent: 'fyi' }),
    'to_my_role may_respond notify thread_reply',
  ],
  [
    'thanks with a mention are not an order to answer [C2A-100]',
    facts({ fromAgent: true, mentionsMe: true, onlyThanks: true }),
    'to_me ack_only silent thanks',
  ],
  [
    'the "ok" of a person knocks: it may be the go-ahead that the agent waits for',
    dm({ fromAgent: false, onlyThanks: true }),
    'to_me ack_only notify thanks',
  ],
  [
    'the "on it" of an agent knocks in the thread that the reader opened',
    dm({ threadReply: true, ownsThread: true, onlyThanks: true }),
    'to_me ack_only notify thanks',
  ],
  ['declared thanks that say more knock', dm({ intent: 'thanks' }), 'to_me ack_only notify thanks'],
  [
    'declared thanks that ask something are an ordinary DM',
    dm({ intent: 'thanks', asksQuestion: true }),
    'to_me must_respond buffered direct_message',
  ],
  [
    'a declared question is no thanks, even if it only says "ok"',
    dm({ intent: 'question', onlyThanks: true }),
    'to_me must_respond buffered direct_message',
  ],
  [
    'one echo too many waits quietly in the mailbox [C2A-D10]',
    dm({ guard: 'echo' }),
    'to_me must_not_respond tool_mailbox loop',
  ],
  [
    'an echo that asks in plain words is shown later, and never hidden [C2A-D10]',
    dm({ guard: 'echo', asksQuestion: true }),
    'to_me must_not_respond digest loop',
  ],
  [
    'a message of a long exchange wakes nobody and is shown later in full [C2A-D10]',
    dm({ guard: 'long' }),
    'to_me must_not_respond digest loop',
  ],
  [
    'a declared blocker gets through a guard [C2A-D10]',
    dm({ guard: 'echo', intent: 'blocker', priority: 'urgent' }),
    'to_me must_respond immediate blocker',
  ],
  [
    'a declared question gets through a guard [C2A-D10]',
    dm({ guard: 'long', intent: 'question' }),
    'to_me must_respond buffered direct_message',
  ],
  ['what is quiet anyway needs no guard', dm({ guard: 'echo', onlyThanks: true }), 'to_me ack_only silent thanks'],
  [
    'a reaction waits in the mailbox [C2A-115]',
    dm({ threadReply: true, answersMe: true, signal: 'agree' }),
    'to_me must_not_respond tool_mailbox reaction',
  ],
  [
    'a reaction by which a duty of the reader changes is knocked for [C2A-115]',
    dm({ threadReply: true, answersMe: true, signal: 'declined', changesObligation: true }),
    'to_me must_not_respond notify reaction',
  ],
  [
    'a reaction gets through a guard',
    dm({ signal: 'declined', changesObligation: true, guard: 'long' }),
    'to_me must_not_respond notify reaction',
  ],
  [
    'a name in a message that is meant for nobody calls nobody [C2A-97]',
    facts({ mentionsMe: true, mentionsMyRole: true, aim: 'ambient' }),
    'ambient must_not_respond tool_mailbox ambient',
  ],
  [
    'what is meant for nobody wants no answer, though it was sent to one',
    dm({ aim: 'ambient', asksQuestion: true }),
    'ambient must_not_respond tool_mailbox ambient',
  ],
  [
    'to say that somebody is meant is not to call them: a channel stays a channel [C2A-53]',
    facts({ aim: 'to_me' }),
    'ambient must_not_respond tool_mailbox ambient',
  ],
  [
    'an edit of what the reader had answered is shown, and nothing is owed',
    dm({ edited: true }),
    'to_me may_respond buffered edited_after_response',
  ],
  [
    'an edit that now asks something must be answered',
    dm({ edited: true, asksQuestion: true }),
    'to_me must_respond buffered edited_after_response',
  ],
  [
    'an edit of what concerns somebody else still does',
    facts({ edited: true, mentionsOther: true }),
    'to_other must_not_respond tool_mailbox addressed_elsewhere',
  ],
  [
    'what nobody answered must be answered by the agent that it is handed to',
    dm({ escalation: true, intent: 'status' }),
    'to_me must_respond buffered escalation',
  ],
  [
    'for a reader who wants quiet, a DM waits in the mailbox and is owed',
    dm({ quietTime: true }),
    'to_me must_respond tool_mailbox direct_message',
  ],
  [
    'for a reader who wants quiet, what may be answered is told later',
    dm({ quietTime: true, intent: 'fyi' }),
    'to_me may_respond digest direct_message',
  ],
  [
    'for a reader who wants quiet, a knock is told later',
    facts({ quietTime: true, via: 'role' }),
    'to_my_role may_respond digest role_mention',
  ],
  [
    'what an agent calls urgent does not break the quiet',
    dm({ quietTime: true, priority: 'urgent' }),
    'to_me must_respond tool_mailbox direct_message',
  ],
  [
    'what a person calls urgent does',
    dm({ quietTime: true, priority: 'urgent', fromAgent: false }),
    'to_me must_respond immediate direct_message',
  ],
  [
    'a question in a thread that the reader was asked to leave is not for it',
    facts({ left: true, threadReply: true, inThreadIHaveJoined: true, asksQuestion: true }),
    'to_me must_not_respond tool_mailbox thread_question',
  ],
  [
    'what is said to the reader in an exchange that it was asked to leave is not to be answered either',
    dm({ left: true, threadReply: true }),
    'to_me must_not_respond tool_mailbox direct_message',
  ],
  [
    'what is said to the reader again has nothing to do with what it left',
    dm({ left: true }),
    'to_me must_respond buffered direct_message',
  ],
  [
    'a mention calls a reader back who left',
    facts({ left: true, mentionsMe: true }),
    'to_me must_respond buffered direct_mention',
  ],
  [
    'the own message comes back as nothing at all [C2A-N4, C2A-D10]',
    dm({ fromMe: true, intent: 'blocker', priority: 'urgent' }),
    'to_other must_not_respond silent addressed_elsewhere',
  ],
];

const isDecided = (_title: string, given: AttentionFacts, expected: string): void => {
  const { directedness, policy, injection, reason } = decide(given);
  expect([directedness, policy, injection, reason].join(' ')).toBe(expected);
};

describe('the matrix of the draft, in its order', () => {
  it.each(MATRIX)('%s', isDecided);
});

describe('beyond the matrix', () => {
  it.each(BEYOND_THE_MATRIX)('%s', isDecided);
});

it('distinguishes thanks from thanks with a request [C2A-60b, C2A-N5]', () => {
  for (const body of ['thanks!', 'ok, got it', 'noted']) expect(decide(dmSaying(body)).policy).toBe('ack_only');
  expect(decide(dmSaying('thanks!')).injection).toBe('silent');
  expect(decide(dmSaying('thanks, and can you also fix X?')).policy).toBe('must_respond');
  // A message with intent `thanks` is thanks, unless it asks something.
  expect(decide(dm({ intent: 'thanks' })).policy).toBe('ack_only');
  expect(decide(dm({ intent: 'thanks', asksQuestion: true })).policy).toBe('must_respond');
});

describe('an answer', () => {
  it('to the reader’s own message is shown, and needs no answer', () => {
    const answer = decide(dm({ threadReply: true, answersMe: true }));
    expect(answer).toMatchObject({ policy: 'may_respond', injection: 'buffered', reason: 'thread_reply' });
  });

  it('that contains a question must be answered', () => {
    expect(decide(dm({ threadReply: true, answersMe: true, asksQuestion: true })).policy).toBe('must_respond');
    expect(decide(dm({ threadReply: true, answersMe: true, intent: 'question' })).policy).toBe('must_respond');
  });
});

const ALL = { immediate: true, buffered: true, notify: true, tool_mailbox: true, digest: true };

describe('a mode that a harness lacks', () => {
  it.each([
    ['immediate', { ...ALL, immediate: false }, 'buffered'],
    ['immediate', { notify: true }, 'notify'],
    ['buffered', { ...ALL, buffered: false }, 'notify'],
    ['notify', { ...ALL, notify: false }, 'tool_mailbox'],
    ['tool_mailbox', {}, 'tool_mailbox'],
    ['digest', { ...ALL, digest: false }, 'silent'],
    ['silent', {}, 'silent'],
    ['buffered', ALL, 'buffered'],
    ['immediate', {}, 'tool_mailbox'],
  ] as const)('%s, where there is %j, becomes %s', (mode, can, expected) => {
    expect(quieter(mode, can)).toBe(expected);
  });

  it('is never replaced by a louder mode, and always by a possible one', () => {
    const anyMode = fc.constantFrom(...Injection.inner.options);
    const anyAbility = fc.dictionary(anyMode, fc.boolean());
    fc.assert(
      fc.property(anyMode, anyAbility, (mode, can: Partial<Record<Injection, boolean>>) => {
        const found = quieter(mode, can);
        const modes = Injection.inner.options;
        expect(modes.indexOf(found)).toBeGreaterThanOrEqual(modes.indexOf(mode));
        expect(can[found] === true || found === 'tool_mailbox' || found === 'silent').toBe(true);
        if (can[mode]) expect(found).toBe(mode);
      }),
    );
  });
});
