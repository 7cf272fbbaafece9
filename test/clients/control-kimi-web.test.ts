// Sessions of the real Kimi on `kimi web`, as control drives them, and what they ask.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync } from 'node:fs';
import { KimiSession } from '../../src/clients/kimi/session.ts';
import { KimiWebSession } from '../../src/clients/kimi/web-session.ts';
import type { OpenQuestion, SessionTarget } from '../../src/core/ports/session.ts';
import { aRequest } from '../support/scripted-session.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, call, gate, say, type Step } from './model/steps.ts';
import { aControl, asks, aTarget, becomes, neverAborted } from './support/driven.ts';
import { aKimi } from './support/kimi.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { endAll } from './support/processes.ts';
import { aTerminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('kimi');
const DEADLINE = 200_000;
afterEach(closeAll);

describe(`a session of Kimi on a server of ours${real.why}`, () => {
  real.it('is started, gets prompts, and goes on with its conversation after a kill [CCC-157, CCC-176]', async () => {
    const { model, session } = await aMachine(say('CANARY is red'), say('never', gate().opened), say('third'));
    const driver = session('one');
    expect(await driver.state()).toEqual({ status: 'stopped' });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    const { prompt, end } = await asks(driver, '/status\n!echo what is "red"?');
    expect(end).toMatchObject({ turn: prompt.turn, how: 'done', text: 'CANARY is red' });
    expect(model.last.count('!echo what is')).toBe(1);
    const cut = asks(driver, 'slow');
    await model.request(2);
    await becomes(driver, 'active');
    const { pid, conversation } = await driver.state();
    expect(await driver.submit({ key: 'k', text: 'x' }, neverAborted())).toMatchObject({ outcome: 'left' });
    await endAll([pid ?? 0]);
    expect((await cut).end).toMatchObject({ how: 'failed' });
    await becomes(driver, 'stopped');
    expect(await driver.start()).toEqual({ started: 'resumed' });
    expect((await asks(driver, 'and now?')).end).toMatchObject({ text: 'third' });
    expect(await driver.state()).toMatchObject({ conversation });
    await driver.stop();
    expect(await driver.state()).toMatchObject({ status: 'stopped' });
  });

  real.it('gives each ask its own answer [CCC-155]', async () => {
    const { model, place, code } = await aMachine(...Array.from({ length: 4 }, (_, n) => say(`answer ${n + 1}`)));
    const make = (target: SessionTarget) => new KimiWebSession({ ...target, command: ['kimi', 'web'] }, code.env);
    const control = aControl(place, ['one'], 'kimi', make)();
    const texts = ['apples', 'bananas', 'cherries'];
    const asked = await Promise.all(texts.map((text) => control.ask(aRequest(text, { session: 'one' }))));
    const nth = (text: string): number => model.main.findIndex((request) => request.has(text)) + 1;
    expect(asked).toMatchObject(texts.map((text) => ({ reply: { text: `answer ${nth(text)}` } })));
    await control.stop('one');
  });
});

describe(`what Kimi asks on the server that a person runs${real.why}`, () => {
  real.it('is an approval for each command, and the one that was chosen runs [CCC-182, CCC-183]', async () => {
    const { driver, place } = await asking(bash('touch one'), bash('touch two'), say('done'));
    const one = await asked(driver);
    expect(one).toMatchObject({ kind: 'permission', questions: [{ header: 'Bash', multiSelect: false }] });
    expect(one.questions[0]?.question).toContain('$ touch one');
    expect(await driver.questions.answer(one.call, [{ options: [0] }], neverAborted())).toEqual({
      outcome: 'answered',
    });
    expect(existsSync(`${place.project}/one`)).toBe(true);
    const two = await asked(driver, one);
    expect(two.questions[0]?.question).toContain('$ touch two');
    expect(await driver.questions.answer(one.call, [{ options: [0] }], neverAborted())).toEqual({ outcome: 'gone' });
    expect(await driver.questions.answer(two.call, [{ options: [2] }], neverAborted())).toEqual({
      outcome: 'answered',
    });
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
    expect(existsSync(`${place.project}/two`)).toBe(false);
  });

  real.it('is a set of questions, and the model is told the answers [CCC-103, CCC-114]', async () => {
    const { driver, model } = await asking(call('AskUserQuestion', { questions: QUESTIONS }), say('done'));
    const open = await asked(driver);
    expect(open).toMatchObject({ kind: 'question', questions: [{ question: 'Which color?' }, { multiSelect: true }] });
    const choices = [{ text: 'as red as it gets' }, { options: [0, 2] }];
    expect(await driver.questions.answer(open.call, choices, neverAborted())).toEqual({ outcome: 'answered' });
    const { last } = { last: await model.request(2) };
    expect(last.has('as red as it gets')).toBe(true);
    expect(last.has('Ham, Egg')).toBe(true);
  });

  real.it('lets the first of two answers win', async () => {
    const { driver, server, conversation, place } = await asking(bash('touch one'), say('done'));
    const { call: id } = await asked(driver);
    await server.call('POST', `/sessions/${conversation}/approvals/${id}`, { decision: 'rejected' });
    expect(await driver.questions.answer(id, [{ options: [0] }], neverAborted())).toEqual({ outcome: 'gone' });
    await becomes(driver, 'idle');
    expect(existsSync(`${place.project}/one`)).toBe(false);
  });
});

describe(`a conversation that a person has open${real.why}`, () => {
  real.it('is used on the server of the person, and not where a TUI of Kimi may have it', async () => {
    const { code, model, place, session } = await aMachine(say('first'), say('second'), say('third'));
    const server = await code.web();
    const conversation = await code.webSession(server, 'remember the apple');
    await model.request(1);
    const driver = session('one');
    await becomes(driver, 'idle');
    expect(await driver.state()).toEqual({ status: 'idle', conversation, pid: server.pid });
    expect((await asks(driver, 'which fruit?')).end).toMatchObject({ text: 'second' });
    await expect(driver.stop()).rejects.toThrow(/kimi web/);
    // A session of control in tmux does not open it a second time.
    const target = { ...aTarget(place, 'kimi', 'two'), conversation };
    await expect(opens(new KimiSession(target, code.env)).start()).rejects.toThrow(/kimi web/);

    const terminal = await aTerminal(place, ['kimi', '-S', conversation], { env: code.env });
    await terminal.shows('context: ', DEADLINE);
    expect(await driver.submit({ key: 'k', text: 'lost' }, neverAborted())).toMatchObject({
      outcome: 'left',
      because: expect.stringContaining('another Kimi'),
    });
    expect(model.main.some((request) => request.has('lost'))).toBe(false);
  });
});

describe(`a prompt that a hook of Kimi blocks${real.why}`, () => {
  real.it('begins no turn, and its sender is told', async () => {
    const hook = '[[hooks]]\nevent = "UserPromptSubmit"\ncommand = "grep -q lost && exit 2 || exit 0"\ntimeout = 60\n';
    const { session, model } = await aMachineWith(hook, say('first'), say('second'));
    const driver = session('one');
    await driver.start();
    await asks(driver, 'hello');
    expect(await driver.submit({ key: 'k', text: 'lost' }, neverAborted())).toMatchObject({
      outcome: 'left',
      because: expect.stringContaining('blocked'),
      retry: false,
    });
    expect(model.main).toHaveLength(1);
  });
});

const QUESTIONS = [question('color', 'Red', 'Blue'), { ...question('top', 'Ham', 'Nut', 'Egg'), multi_select: true }];

function question(header: string, ...labels: string[]) {
  const options = labels.map((label) => ({ label, description: `it is ${label}` }));
  return { header, question: `Which ${header}?`, options };
}

/** What it asks, when it does; another one than before. */
async function asked(driver: KimiWebSession, before?: OpenQuestion): Promise<OpenQuestion> {
  let open: OpenQuestion | null = null;
  await within(DEADLINE, async () => {
    // On a busy machine it may not answer in time.
    open = await driver.questions.open().catch(() => null);
    return open !== null && open.call !== before?.call;
  });
  return open as unknown as OpenQuestion;
}

/** A session on the `kimi web` of a person, who gave it a prompt. */
async function asking(...steps: Step[]) {
  const machine = await aMachine(...steps);
  const server = await machine.code.web();
  const conversation = await machine.code.webSession(server, 'go');
  return { ...machine, server, conversation, driver: machine.session('one') };
}

async function aMachine(...steps: Step[]) {
  return aMachineWith('', ...steps);
}

async function aMachineWith(settings: string, ...steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aKimi({ place, model, settings });
  code.trustProject();
  const session = (name: string) =>
    opens(new KimiWebSession({ ...aTarget(place, 'kimi', name), command: ['kimi', 'web'] }, code.env));
  return { model, place, code, session };
}
