import { describe, expect, it } from 'bun:test';
import { aQuestion, ScriptedQuestions } from '../../../test/support/scripted-questions.ts';
import { within } from '../../../test/support/within.ts';
import type { KeptChoices, NewSessionMessage } from '../ports/session-store.ts';
import { SessionAnswers } from './answers.ts';
import { EXPIRES_MS } from './questions.ts';
import type { AnswerEnd, AnswerRequest } from './questions.ts';

describe('the questions of a session', () => {
  it('are those that are open, with what was chosen so far', async () => {
    const { asking, answers, option } = aSession();
    expect(await answers.pending()).toBeNull();
    const asked = asking.asks([aQuestion(), aQuestion({ question: 'Which port?' })]);
    expect(await answers.pending()).toEqual({ ...asked, choices: [null, null] });
    await answers.answer(option(1, 2));
    expect(await answers.pending()).toEqual({ ...asked, choices: [null, { options: [2] }] });
  });

  it('wait for 5 minutes, and then nothing is entered any more [CCC-105]', async () => {
    const { asking, answers, option, clock } = aSession();
    asking.asks([aQuestion()], { askedAt: clock.now });
    clock.now += EXPIRES_MS;
    expect(await answers.pending()).not.toBeNull();
    clock.now += 1;
    expect(await answers.pending()).toBeNull();
    expect(await answers.answer(option(0, 0))).toEqual({ outcome: 'none' });
    expect(asking.entered).toEqual([]);
  });
});

describe('an answer', () => {
  it.each<[string, Partial<AnswerRequest>, AnswerEnd]>([
    ['no such question', { question: 2 }, { outcome: 'question_range', last: 1 }],
    ['a question below 0', { question: -1 }, { outcome: 'question_range', last: 1 }],
    ['no such option', { choice: { options: [3] } }, { outcome: 'option_range', last: 2 }],
    ['an option below 0', { choice: { options: [-1] } }, { outcome: 'option_range', last: 2 }],
    ['no option', { choice: { options: [] } }, { outcome: 'invalid', because: 'no option is named' }],
    ['two of one', { choice: { options: [0, 1] } }, { outcome: 'invalid', because: 'this question takes one option' }],
    ['an empty text', { choice: { text: ' ' } }, { outcome: 'invalid', because: 'the text is empty' }],
    ['questions of another time', { askedAt: 12 }, { outcome: 'none' }],
  ])('with %s is refused, and nothing is kept [CCC-113]', async (_what, request, end) => {
    const { asking, answers, option } = aSession();
    const asked = asking.asks([aQuestion(), aQuestion()]);
    expect(await answers.answer({ ...option(0, 0), ...request })).toEqual(end);
    expect(await answers.pending()).toEqual({ ...asked, choices: [null, null] });
  });

  it('is entered with those to the other questions, in their order, when the last is there [CCC-114]', async () => {
    const { asking, answers, option, recorded } = aSession();
    asking.asks([aQuestion(), aQuestion({ multiSelect: true }), aQuestion()]);
    expect(await answers.answer({ question: 2, choice: { text: 'my own' } })).toEqual(answered('my own', 2));
    expect(await answers.answer(option(1, 0, 2))).toEqual(answered('PostgreSQL, SQLite', 1));
    expect([asking.entered, recorded]).toEqual([[], []]);
    expect(await answers.answer(option(1, 0))).toEqual({ outcome: 'already_answered' });
    expect(await answers.answer(option(0, 1))).toEqual(answered('MongoDB', 0));
    expect(asking.entered).toEqual([[{ options: [1] }, { options: [0, 2] }, { text: 'my own' }]]);
    expect(recorded).toEqual(['MongoDB', 'PostgreSQL, SQLite', 'my own']);
  });

  it('is kept over a restart of the server until those to the other questions are there, and then forgotten', async () => {
    const { asking, answers, again, option, recorded, kept } = aSession();
    const asked = asking.asks([aQuestion(), aQuestion()]);
    await answers.answer(option(1, 2));
    const next = again();
    expect(await next.pending()).toEqual({ ...asked, choices: [null, { options: [2] }] });
    expect(await next.answer(option(1, 0))).toEqual({ outcome: 'already_answered' });
    expect(await next.answer(option(0, 1))).toEqual(answered('MongoDB', 0));
    expect(asking.entered).toEqual([[{ options: [1] }, { options: [2] }]]);
    expect([recorded, kept()]).toEqual([['MongoDB', 'SQLite'], null]);
    expect(next.last).toMatchObject({ call: asked.call, words: ['MongoDB', 'SQLite'] });
  });

  it('that was kept for one dialog is none to the dialog after it [CCC-183]', async () => {
    const { asking, answers, again, option } = aSession();
    asking.asks([aQuestion(), aQuestion()]);
    await answers.answer(option(1, 2));
    const asked = asking.asks([aQuestion(), aQuestion()]);
    expect(await again().pending()).toEqual({ ...asked, choices: [null, null] });
  });

  it('is the first of two, and the other one is told so [CCC-133]', async () => {
    const { asking, answers, option, recorded } = aSession();
    asking.asks([aQuestion()]);
    const ends = await Promise.all([answers.answer(option(0, 0)), answers.answer(option(0, 1))]);
    expect(ends).toEqual([answered('PostgreSQL', 0), { outcome: 'already_answered' }]);
    expect(await answers.answer(option(0, 2))).toEqual({ outcome: 'already_answered' });
    expect(asking.entered).toHaveLength(1);
    expect(recorded).toEqual(['PostgreSQL']);
  });

  it('that comes while another one is entered does not mean the questions after it [CCC-183]', async () => {
    const { asking, answers, option } = aSession();
    const { promise, resolve } = Promise.withResolvers<void>();
    asking.asks([aQuestion()]);
    asking.gate = promise;
    const first = answers.answer(option(0, 0));
    await within(10_000, async () => asking.entered.length === 1);
    asking.asks([aQuestion({ question: 'And now?' })]);
    const second = answers.answer(option(0, 1));
    resolve();
    expect([await first, await second]).toEqual([answered('PostgreSQL', 0), { outcome: 'already_answered' }]);
    expect(asking.entered).toHaveLength(1);
    expect(await answers.answer(option(0, 1))).toEqual(answered('MongoDB', 0));
  });

  it('to questions that somebody else answered meanwhile is none [CCC-183]', async () => {
    const { asking, answers, option, recorded } = aSession();
    asking.asks([aQuestion()]);
    asking.ends.push({ outcome: 'gone' });
    expect(await answers.answer(option(0, 0))).toEqual({ outcome: 'none' });
    expect(recorded).toEqual([]);
  });

  it('that found the dialog gone can be given again if it is open after all', async () => {
    const { asking, answers, option } = aSession();
    asking.asks([aQuestion()]);
    asking.ends.push({ outcome: 'gone' });
    await answers.answer(option(0, 0));
    expect(await answers.answer(option(0, 1))).toEqual(answered('MongoDB', 0));
  });

  it('that could not be entered says why, and can be given again', async () => {
    const { asking, answers, option, recorded } = aSession();
    asking.asks([aQuestion(), aQuestion()]);
    await answers.answer(option(0, 0));
    asking.ends.push({ outcome: 'left', because: 'somebody types' }, { outcome: 'unknown', because: 'it hangs' });
    expect(await answers.answer(option(1, 1))).toEqual({ outcome: 'failed', because: 'somebody types' });
    expect(await answers.answer(option(1, 1))).toEqual({ outcome: 'failed', because: 'it hangs' });
    expect(recorded).toEqual([]);
    expect(await answers.answer(option(1, 2))).toEqual(answered('SQLite', 0));
    expect(asking.entered).toEqual([[{ options: [0] }, { options: [2] }]]);
  });

  it.each(['permission', 'plan'] as const)('to a %s is off, unless its user allows it [CCC-182]', async (kind) => {
    const { asking, answers, option, allow } = aSession();
    asking.asks([aQuestion()], { kind });
    expect(await answers.answer(option(0, 0))).toEqual({ outcome: 'approving_off' });
    expect(asking.entered).toEqual([]);
    allow();
    const text = { question: 0, choice: { text: 'yes' } };
    expect(await answers.answer(text)).toMatchObject({ outcome: 'invalid' });
    expect(await answers.answer(option(0, 1))).toEqual(answered('MongoDB', 0));
  });

  it('finds nothing in a client whose questions cannot be seen', async () => {
    const { option, answers } = aSession();
    const blind = new SessionAnswers({ ...answers.deps, driver: () => undefined });
    expect(await blind.pending()).toBeNull();
    expect(await blind.answer(option(0, 0))).toEqual({ outcome: 'none' });
  });
});

const answered = (words: string, left: number): AnswerEnd => ({ outcome: 'answered', words, left });

function aSession() {
  const asking = new ScriptedQuestions();
  const clock = { now: Date.now() };
  const recorded: string[] = [];
  let isAllowed = false;
  let kept: KeptChoices | null = null;
  const store = {
    record: async ({ text }: NewSessionMessage) => {
      recorded.push(text.replace(/^Selected: /, ''));
      return { id: 1, session: 'api', ts: 1, from: 'human' as const, text };
    },
    choices: async () => structuredClone(kept),
    keepChoices: async (_session: string, choices: KeptChoices | null) => {
      kept = structuredClone(choices);
    },
  };
  const again = (): SessionAnswers =>
    new SessionAnswers({
      session: 'api',
      driver: () => asking,
      mayApprove: async () => isAllowed,
      store,
      publish: async () => {},
      now: () => clock.now,
    });
  const option = (question: number, ...options: number[]): AnswerRequest => ({ question, choice: { options } });
  const allow = (): void => {
    isAllowed = true;
  };
  return { asking, answers: again(), again, store, option, recorded, clock, allow, kept: () => kept };
}
