// Sessions of the real OpenCode, as control drives them.
import { afterEach, describe, expect } from 'bun:test';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { endingOf, messageId } from '../../src/clients/opencode/record.ts';
import { OpenCodeServer } from '../../src/clients/opencode/server.ts';
import { OpenCodeSession } from '../../src/clients/opencode/session.ts';
import { aRequest } from '../support/scripted-session.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { call, gate, say } from './model/steps.ts';
import { aControl, asks, aTarget, becomes, neverAborted, pastes, tmux } from './support/driven.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { endAll } from './support/processes.ts';
import { client } from './support/where.ts';

const real = client('opencode');
const LOOK = 100_000;
afterEach(closeAll);

describe(`a session of OpenCode${real.why}`, () => {
  real.it('is started, gets a prompt, and its answer is the one of that turn [CCC-157, CCC-205]', async () => {
    const { model, place, session } = await aMachine(say('CANARY is red'), say('the second'));
    const driver = session('one');
    expect(await driver.state()).toEqual({ status: 'stopped' });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    await becomes(driver, 'idle');
    const text = '/status\n!echo what is "red"?\n\ttabs and blanks  \n';
    const { prompt, end } = await asks(driver, text);
    expect(prompt.text).toBe(text);
    expect(end).toMatchObject({ turn: prompt.turn, how: 'done', text: 'CANARY is red' });
    expect(end).not.toHaveProperty('shared');
    expect(model.last.count('!echo what is')).toBe(1);
    expect((await asks(driver, 'and now?')).end).toMatchObject({ text: 'the second' });
    await becomes(driver, 'idle');
    expect(await driver.state()).toMatchObject({ conversation: expect.stringMatching(/^ses_/) });
    await within(LOOK, async () => (await driver.screen(50)).includes('the second'));
    const [secret = ''] = readdirSync(`${place.home}/.ccc/opencode`);
    expect(statSync(`${place.home}/.ccc/opencode/${secret}`).mode & 0o777).toBe(0o600);
  });

  real.it('is busy while it works, and takes nothing then; and an interrupted turn ends [CCC-180]', async () => {
    const { code, model, session } = await aMachine(say('never', gate().opened), say('after it'));
    const driver = session('one');
    await driver.start();
    const first = asks(driver, 'slow');
    await model.request(1);
    await becomes(driver, 'active');
    const early = await driver.submit({ key: 'k', text: 'too early' }, neverAborted());
    expect(early).toMatchObject({ outcome: 'left', retry: true });
    // Its window asks whether that is meant, and forgets it after a while.
    for (; (await driver.state()).status === 'active'; await Bun.sleep(500))
      await tmux(code.env, 'send-keys', '-t', '=ccc-one:', 'Escape');
    expect((await first).end).toMatchObject({ how: 'interrupted' });
    expect((await asks(driver, 'and now?')).end).toMatchObject({ how: 'done', text: 'after it' });
  });

  real.it('waits for its user while it asks for a permission, and nothing is typed [CCC-159]', async () => {
    const { code, model, session } = await aMachine(bashStep('true'), say('allowed'));
    const driver = session('one');
    await driver.start();
    const first = asks(driver, 'run it');
    await model.request(1);
    await becomes(driver, 'waiting');
    expect(await driver.state()).toMatchObject({ waitingFor: 'permission prompt' });
    expect((await driver.submit({ key: 'k', text: 'x' }, neverAborted())).outcome).toBe('left');
    // A key that comes while the question is drawn may be lost.
    for (; (await driver.state()).status === 'waiting'; await Bun.sleep(500))
      await tmux(code.env, 'send-keys', '-t', '=ccc-one:', 'Enter');
    expect((await first).end).toMatchObject({ how: 'done', text: 'allowed' });
  });

  real.it(
    'goes on with its conversation after it was stopped, and after it was killed in a turn [CCC-176]',
    async () => {
      const { model, session } = await aMachine(say('first'), say('never', gate().opened), say('third'));
      const driver = session('one');
      await driver.start();
      await asks(driver, 'remember the apple');
      const { conversation } = await driver.state();
      await driver.stop();
      expect(await driver.state()).toEqual({ status: 'stopped', conversation: String(conversation) });
      await driver.close();
      const again = session('one', conversation);
      expect(await again.start()).toEqual({ started: 'resumed' });
      const cut = asks(again, 'slow');
      await model.request(2);
      await becomes(again, 'active');
      const { pid } = await again.state();
      await endAll([pid ?? 0]);
      expect((await cut).end).toMatchObject({ how: 'failed' });
      await becomes(again, 'stopped');
      expect(await again.start()).toEqual({ started: 'resumed' });
      expect((await asks(again, 'which fruit?')).end).toMatchObject({ text: 'third' });
      expect(await again.state()).toMatchObject({ conversation });
      expect(model.last.has('remember the apple')).toBe(true);
    },
  );

  real.it('says of an answer that a text of a person joined the turn', async () => {
    const open = gate();
    const { code, model, session } = await aMachine(bashStep('true', open.opened), say('to both'));
    const driver = session('one', undefined, { permission: 'allow' });
    await driver.start();
    const first = asks(driver, 'mine');
    await model.request(1);
    await within(LOOK, async () => /┃\s+mine/.test(await driver.screen(50)));
    await pastes(code.env, 'and theirs');
    await within(LOOK, async () => (await driver.screen(50)).includes('and theirs'));
    await tmux(code.env, 'send-keys', '-t', '=ccc-one:', 'Enter');
    await within(LOOK, async () => (await driver.screen(50)).includes('QUEUED'));
    open.open();
    expect((await first).end).toMatchObject({ how: 'done', text: 'to both', shared: true });
  });

  real.it('says why it did not start [CCC-177]', async () => {
    const { session } = await aMachine();
    const driver = session('one', undefined, {}, ['--no-such-flag']);
    await expect(driver.start()).rejects.toThrow();
    expect(await driver.state()).toEqual({ status: 'stopped' });
    await expect(session('two', undefined, {}, ['--port=1']).start()).rejects.toThrow('remove --port=1 from the flags');
  });

  real.it('has one message with one text of a prompt that was given twice', async () => {
    const open = gate();
    const { place, model, session } = await aMachine(say('once', open.opened));
    const driver = session('one');
    await driver.start();
    const { conversation = '' } = await driver.state();
    const [file = ''] = readdirSync(`${place.home}/.ccc/opencode`);
    const server = new OpenCodeServer(`${place.home}/.ccc/opencode/${file}`);
    const since = await driver.place();
    const id = messageId(endingOf('k'), Date.now());
    await server.prompt(conversation, id, 'zebra', neverAborted());
    await model.request(1);
    await server.prompt(conversation, id, 'zebra', neverAborted());
    open.open();
    await within(LOOK, async () => (await driver.events(since)).events.length === 2);
    const { events } = await driver.events(since);
    expect(events).toMatchObject([
      { kind: 'prompt', text: 'zebra' },
      { kind: 'end', text: 'once' },
    ]);
    expect(model.main).toHaveLength(1);
  });

  real.it('leaves its password to the commands of its model, as SECURITY.md says', async () => {
    const { place, session } = await aMachine(bashStep('env > env.txt'), say('done'));
    const driver = session('one', undefined, { permission: 'allow' });
    await driver.start();
    await asks(driver, 'run it');
    expect(readFileSync(`${place.project}/env.txt`, 'utf8')).toMatch(/^OPENCODE_SERVER_PASSWORD=\w{48}$/m);
  });

  real.it('that a person opened by hand is followed, and a prompt for it is refused with a reason', async () => {
    const { code, model, session } = await aMachine(say('to the person'));
    const terminal = await code.terminal();
    const driver = session('one');
    await becomes(driver, 'idle');
    const place = await driver.place();
    await terminal.submit('typed by hand');
    await model.request(1);
    await within(LOOK, async () => (await driver.events(place)).events.length === 2);
    expect((await driver.events(place)).events).toMatchObject([
      { kind: 'prompt', text: 'typed by hand' },
      { kind: 'end', text: 'to the person' },
    ]);
    expect(await driver.submit({ key: 'k', text: 'x' }, neverAborted())).toMatchObject({
      outcome: 'left',
      because: expect.stringContaining('opened here by hand'),
      retry: false,
    });
    expect(model.main).toHaveLength(1);
  });
});

describe(`control of sessions of OpenCode${real.why}`, () => {
  real.it(
    'gives each ask its own answer, records a person, and goes on after it was itself restarted [CCC-155, CCC-205]',
    async () => {
      const { model, place, code } = await aMachine(...Array.from({ length: 9 }, (_, n) => say(`answer ${n + 1}`)));
      const control = aControl(place, ['one'], code.program, (target) => new OpenCodeSession(target, code.env));
      const first = control();
      const texts = ['apples', 'bananas', 'cherries'];
      const asked = await Promise.all(texts.map((text) => first.ask(aRequest(text, { session: 'one' }))));
      const nth = (text: string): number => model.main.findIndex((request) => request.has(text)) + 1;
      expect(asked).toMatchObject(texts.map((text) => ({ reply: { text: `answer ${nth(text)}` } })));
      await within(LOOK, async () => (await first.screen('one', 50)).includes('answer 3'));
      await pastes(code.env, 'typed by hand');
      await within(LOOK, async () => (await first.screen('one', 50)).includes('typed by hand'));
      await tmux(code.env, 'send-keys', '-t', '=ccc-one:', 'Enter');
      await within(LOOK, async () => (await control.lines('one')).length === 8);
      expect((await control.lines('one')).slice(-2)).toEqual(['human: typed by hand', 'claude: answer 4']);
      await first.close();

      const second = control();
      expect(await second.ask(aRequest('still there?', { session: 'one' }))).toMatchObject({
        outcome: 'answered',
        reply: { text: 'answer 5' },
      });
      expect(await second.restart('one')).toEqual({ started: 'resumed' });
      expect(await second.ask(aRequest('and now?', { session: 'one' }))).toMatchObject({ reply: { text: 'answer 6' } });
      expect([...texts, 'still there?'].map((text) => model.last.count(text))).toEqual([1, 1, 1, 1]);
    },
  );
});

const bashStep = (command: string, after?: Promise<unknown>) =>
  call('bash', { command, description: 'a scripted step' }, after);

/** A machine with OpenCode, and sessions in the project there. */
async function aMachine(...steps: Parameters<Model['script']>) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = anOpenCode({ place, model, settings: { permission: { bash: 'ask' } } });
  const session = (name: string, conversation?: string, settings: object = {}, flags: string[] = []) => {
    const env = { ...code.env, OPENCODE_CONFIG_CONTENT: JSON.stringify(settings) };
    const target = { ...aTarget(place, code.program, name), conversation: conversation ?? null };
    return opens(new OpenCodeSession({ ...target, command: [code.program, ...flags] }, env));
  };
  return { model, place, code, session };
}
