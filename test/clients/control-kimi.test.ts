// Sessions of the real Kimi, as control drives them.
import { afterEach, describe, expect } from 'bun:test';
import { KimiIndex } from '../../src/clients/kimi/record.ts';
import { KimiSession } from '../../src/clients/kimi/session.ts';
import { aRequest } from '../support/scripted-session.ts';
import { within } from '../support/within.ts';
import { aControl, asks, aTarget, becomes, neverAborted, pastes, tmux } from './support/driven.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { bash, gate, say } from './model/steps.ts';
import { aKimi } from './support/kimi.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { endAll } from './support/processes.ts';
import { client } from './support/where.ts';

const real = client('kimi');
afterEach(closeAll);

describe(`a session of Kimi${real.why}`, () => {
  real.it('is started, gets a prompt, and its answer is the one of that turn [CCC-157, CCC-205]', async () => {
    const { model, session } = await aMachine(say('CANARY is red'), say('the second'));
    const driver = session('one');
    expect(await driver.state()).toEqual({ status: 'stopped' });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    await becomes(driver, 'idle');
    const text = '/status\n!echo what is "red"?\n\ttabs and blanks  \n'.padEnd(3000, 'x');
    const { prompt, end } = await asks(driver, text);
    expect(driver.isOurs(prompt, { key: '', text: driver.prepare(text) })).toBe(true);
    expect(end).toMatchObject({ turn: prompt.turn, how: 'done', text: 'CANARY is red' });
    expect(end).not.toHaveProperty('shared');
    expect(model.last.count('!echo what is')).toBe(1);
    expect((await asks(driver, '!ls is no shell')).end).toMatchObject({ text: 'the second' });
    await becomes(driver, 'idle');
    expect(await driver.state()).toMatchObject({ conversation: expect.stringMatching(/^session_/) });
    expect(await driver.screen(50)).toContain('the second');
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
    await tmux(code.env, 'send-keys', '-t', '=ccc-one:', 'Escape');
    expect((await first).end).toMatchObject({ how: 'interrupted' });
    expect((await asks(driver, 'and now?')).end).toMatchObject({ how: 'done', text: 'after it' });
  });

  real.it('waits for its user while it asks for a permission, and nothing is typed [CCC-159]', async () => {
    const { code, model, session } = await aMachine(bash('true'), say('allowed'));
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
      // What it has not written down yet is lost with it.
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

  real.it('says of an answer that a person steered a text of their own into the turn', async () => {
    const open = gate();
    const { code, model, session } = await aMachine(bash('true', open.opened), say('to both'));
    const driver = session('one', undefined, ['kimi', '--yolo']);
    await driver.start();
    const first = asks(driver, 'mine');
    await model.request(1);
    await pastes(code.env, 'and theirs');
    await within(60_000, async () => (await driver.screen(50)).includes('> and theirs'));
    await tmux(code.env, 'send-keys', '-t', '=ccc-one:', 'C-s');
    const { conversation } = await driver.state();
    const wire = new KimiIndex(code.folder).find(conversation ?? '')?.path ?? '';
    await within(60_000, async () => (await Bun.file(wire).text()).includes('"type":"prompt.steered"'));
    open.open();
    expect((await first).end).toMatchObject({ how: 'done', text: 'to both', shared: true });
  });

  real.it('says why it did not start [CCC-177]', async () => {
    const { session } = await aMachine();
    const driver = session('one', undefined, ['kimi', '--no-such-flag']);
    await expect(driver.start()).rejects.toThrow(/no-such-flag/);
    expect(await driver.state()).toEqual({ status: 'stopped' });
  });
});

describe(`control of sessions of Kimi${real.why}`, () => {
  real.it(
    'gives each ask its own answer, records a person, and goes on after it was itself restarted [CCC-155, CCC-205]',
    async () => {
      const { model, place, code } = await aMachine(...Array.from({ length: 9 }, (_, n) => say(`answer ${n + 1}`)));
      const control = aControl(place, ['one'], 'kimi', (target) => new KimiSession(target, code.env));
      const first = control();
      const texts = ['apples', 'bananas', 'cherries'];
      const asked = await Promise.all(texts.map((text) => first.ask(aRequest(text, { session: 'one' }))));
      const nth = (text: string): number => model.main.findIndex((request) => request.has(text)) + 1;
      expect(asked).toMatchObject(texts.map((text) => ({ reply: { text: `answer ${nth(text)}` } })));
      await pastes(code.env, 'typed by hand');
      await within(60_000, async () => (await first.screen('one', 50)).includes('> typed by hand'));
      await tmux(code.env, 'send-keys', '-t', '=ccc-one:', 'Enter');
      await within(60_000, async () => (await control.lines('one')).length === 8);
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

/** A machine with Kimi, and sessions in the project there. Its user trusts the project. */
async function aMachine(...steps: Parameters<Model['script']>) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aKimi({ place, model });
  code.trustProject();
  const session = (name: string, conversation?: string, command = ['kimi']) =>
    opens(new KimiSession({ ...aTarget(place, 'kimi', name), command, conversation: conversation ?? null }, code.env));
  return { model, place, code, session };
}
