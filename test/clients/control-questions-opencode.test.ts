// What the real OpenCode asks its user, answered through its server, or through our plugin where a person opened it.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { parleyPluginText } from '../../src/clients/opencode/plugin.ts';
import { OpenCodeSession } from '../../src/clients/opencode/session.ts';
import type { OpenQuestion } from '../../src/core/ports/session.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { call, say, type Call, type Step } from './model/steps.ts';
import { aTarget, neverAborted } from './support/driven.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const real = client('opencode');
const DEADLINE = 200_000;
afterEach(closeAll);

describe(`what the real OpenCode asks${real.why}`, () => {
  real.it('is a permission for each command, and the one that was chosen runs [CCC-182, CCC-183]', async () => {
    const { driver, place } = await asking([{ calls: [touches('one')] }, { calls: [touches('two')] }, say('done')]);
    const one = await asked(driver);
    expect(one).toMatchObject({ kind: 'permission', questions: [{ header: 'bash', multiSelect: false }] });
    expect(one.questions[0]?.question).toContain('touch one');
    expect(await driver.questions.answer(one.call, [{ options: [0] }], neverAborted())).toEqual({
      outcome: 'answered',
    });
    await within(DEADLINE, async () => existsSync(`${place.project}/one`));
    const two = await asked(driver, one);
    expect(two.questions[0]?.question).toContain('touch two');
    expect(await driver.questions.answer(one.call, [{ options: [0] }], neverAborted())).toEqual({ outcome: 'gone' });
    expect(existsSync(`${place.project}/two`)).toBe(false);
  });

  real.it('is a permission that can be denied, and nothing is done [CCC-182, CCC-183]', async () => {
    const { driver, place } = await asking([{ calls: [touches('made')] }, say('done')]);
    const { call: named } = await asked(driver);
    expect(await driver.questions.answer(named, [{ options: [2] }], neverAborted())).toEqual({ outcome: 'answered' });
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
    expect(existsSync(`${place.project}/made`)).toBe(false);
  });

  real.it('is a set of questions, and the model is told the answers [CCC-103, CCC-114]', async () => {
    const { driver, model } = await asking([call('question', { questions: QUESTIONS }), say('done')]);
    await answersBoth(driver);
    await model.saw('"Which color?"="Blue"');
    await model.saw('"Which size?"="as large as it gets"');
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
  });

  real.it('is answered by our plugin where a person opened it [CCC-103, CCC-114]', async () => {
    const model = opens(aModel([call('question', { questions: QUESTIONS }), say('done')]));
    const place = await aPlace();
    const code = anOpenCode({ place, model });
    mkdirSync(`${code.config}/plugins`);
    writeFileSync(`${code.config}/plugins/parley.ts`, parleyPluginText());
    const terminal = await code.terminal();
    const driver = opens(new OpenCodeSession(aTarget(place, 'opencode', 'one'), code.env));
    await terminal.submit('go');
    await answersBoth(driver);
    await model.saw('"Which color?"="Blue"');
  });
});

const QUESTIONS = [question('color', 'Red', 'Blue'), question('size', 'S', 'L')];

function question(header: string, ...labels: string[]) {
  const options = labels.map((label) => ({ label, description: `it is ${label}` }));
  return { header, question: `Which ${header}?`, options };
}

function touches(file: string): Call {
  return { tool: 'bash', input: { command: `touch ${file}`, description: 'touches' } };
}

async function answersBoth(driver: OpenCodeSession): Promise<void> {
  const open = await asked(driver);
  expect(open).toMatchObject({ kind: 'question', questions: [{ question: 'Which color?' }, { header: 'size' }] });
  const choices = [{ options: [1] }, { text: 'as large as it gets' }];
  expect(await driver.questions.answer(open.call, choices, neverAborted())).toEqual({ outcome: 'answered' });
}

/** What it asks, when it does; another one than before. */
async function asked(driver: OpenCodeSession, before?: OpenQuestion): Promise<OpenQuestion> {
  let open: OpenQuestion | null = null;
  await within(DEADLINE, async () => {
    // On a busy machine it may not answer in time.
    open = await driver.questions.open().catch(() => null);
    return open !== null && open.call !== before?.call;
  });
  return open as unknown as OpenQuestion;
}

/** A session that asks before it runs a command, and was given a prompt. */
async function asking(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = anOpenCode({ place, model, settings: { permission: { bash: 'ask' } } });
  const target = { ...aTarget(place, 'opencode', 'one'), command: [code.program] };
  const driver = opens(new OpenCodeSession(target, code.env));
  opens({ close: () => driver.stop() });
  await driver.start();
  const prompt = { key: 'k', text: 'go' };
  // On a busy machine OpenCode may take the prompt and not say so in time. Then it is not idle, and takes no second one.
  await within(DEADLINE, async () => (await driver.submit(prompt, neverAborted())).outcome !== 'left');
  return { driver, place, model };
}
