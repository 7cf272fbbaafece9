// Sessions of the real Codex, as control drives them.
import { afterEach, describe, expect } from 'bun:test';
import { readFileSync } from 'node:fs';
import { CodexSession } from '../../src/clients/codex/session.ts';
import type { Prompt, SessionState, SessionTarget, TurnEvent } from '../../src/core/ports/session.ts';
import { openControl } from '../../src/core/sessions/control.ts';
import { isProcessAlive } from '../../src/platform/process.ts';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import { aRequest } from '../support/scripted-session.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { gate, say } from './model/steps.ts';
import { aCodex } from './support/codex.ts';
import type { Codex } from './support/codex.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Place } from './support/place.ts';
import { endAll } from './support/processes.ts';
import { client } from './support/where.ts';

const real = client('codex');
const DEADLINE = 200_000;
afterEach(closeAll);

describe(`a session of Codex${real.why}`, () => {
  real.it('is started, gets a prompt, and its answer is the one of that turn [CCC-157, CCC-205]', async () => {
    const { model, session } = await aMachine(say('CANARY is red'));
    const driver = session('one');
    expect(await driver.state()).toEqual({ status: 'stopped' });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    const { status, conversation } = await driver.state();
    expect([status, typeof conversation]).toEqual(['idle', 'string']);
    const { prompt, end } = await asks(driver, '/status\n!echo what is "red"?');
    expect(prompt).toMatchObject({ text: '/status\n!echo what is "red"?' });
    expect(end).toMatchObject({ turn: prompt.turn, how: 'done', text: 'CANARY is red' });
    expect(model.last.count('!echo what is "red"?')).toBe(1);
    await becomes(driver, 'idle');
    expect(await driver.screen(50)).toContain('CANARY is red');
  });

  real.it('answers three prompts at once, each in its own turn with its own answer [CCC-157]', async () => {
    const { model, session } = await aMachine(say('answer 1'), say('answer 2'), say('answer 3'));
    const driver = session('one');
    await driver.start();
    const texts = ['apples', 'bananas', 'cherries'];
    const asked = await Promise.all(texts.map((text) => asks(driver, text)));
    expect(new Set(asked.map(({ prompt }) => prompt.turn)).size).toBe(3);
    for (const { prompt, end } of asked) {
      // The first request in which the prompt stands is the one that this answer answers.
      const request = model.main.findIndex((one) => one.has(prompt.text));
      expect(end).toMatchObject({ turn: prompt.turn, how: 'done', text: `answer ${request + 1}` });
    }
    expect(texts.map((text) => model.last.count(text))).toEqual([1, 1, 1]);
  });

  real.it('is busy while it works, and takes nothing then', async () => {
    const open = gate();
    const { session } = await aMachine(say('late', open.opened));
    const driver = session('one');
    await driver.start();
    const first = asks(driver, 'slow');
    await becomes(driver, 'active');
    expect(await driver.submit(aPrompt('too early'), new AbortController().signal)).toMatchObject({
      outcome: 'left',
      retry: true,
    });
    open.open();
    expect((await first).end).toMatchObject({ how: 'done', text: 'late' });
  });

  real.it('says that a turn was interrupted, and takes the next prompt [CCC-180]', async () => {
    const { code, model, session } = await aMachine(say('never', gate().opened), say('after it'));
    const driver = session('one');
    await driver.start();
    const first = asks(driver, 'slow');
    await model.request(1);
    await tmux(code, 'send-keys', '-t', '=ccc-one:', 'Escape');
    expect((await first).end).toMatchObject({ how: 'interrupted' });
    // Codex holds its queue back after an interrupt.
    expect((await asks(driver, 'and now?')).end).toMatchObject({ how: 'done', text: 'after it' });
  });

  real.it('goes on with its conversation after it was stopped [CCC-176]', async () => {
    const { model, session } = await aMachine(say('first'), say('second'));
    const driver = session('one');
    await driver.start();
    await asks(driver, 'remember the apple');
    const { conversation } = await driver.state();
    await driver.stop();
    expect(await driver.state()).toEqual({ status: 'stopped', conversation: String(conversation) });
    await driver.close();
    const again = session('one', conversation);
    expect(await again.start()).toEqual({ started: 'resumed' });
    expect((await asks(again, 'which fruit?')).end).toMatchObject({ text: 'second' });
    await becomes(again, 'idle');
    expect(await again.state()).toMatchObject({ conversation });
    expect(model.last.has('remember the apple')).toBe(true);
  });

  real.it('keeps its own conversation beside a second one in its folder [CCC-155, CCC-178]', async () => {
    const { model, session } = await aMachine(...['1', '2', '3', '4'].map((text) => say(text)));
    const [one, two] = [session('one'), session('two')];
    await one.start();
    await asks(one, 'I am the first');
    expect(await two.start()).toEqual({ started: 'fresh' });
    await asks(two, 'I am the second');
    const bound = await Promise.all([one, two].map(async (driver) => (await driver.state()).conversation));
    expect(new Set(bound).size).toBe(2);
    await Promise.all([one.stop(), two.stop()]);
    // One that is stopped is not taken for the other one.
    expect(await one.state()).toMatchObject({ status: 'stopped' });
    expect(await Promise.all([two.start(), one.start()])).toEqual([{ started: 'resumed' }, { started: 'resumed' }]);
    expect((await asks(one, 'who am I?')).end).toMatchObject({ text: '3' });
    expect([model.last.has('I am the first'), model.last.has('I am the second')]).toEqual([true, false]);
    expect((await asks(two, 'and I?')).end).toMatchObject({ text: '4' });
    expect([model.last.has('I am the first'), model.last.has('I am the second')]).toEqual([false, true]);
  });

  real.it(
    'is stopped when its daemon is killed in a turn, says that the turn failed, and goes on after a start [CCC-180]',
    async () => {
      const { code, model, session } = await aMachine(say('never', gate().opened), say('back again'));
      const driver = session('one');
      await driver.start();
      const first = asks(driver, 'slow');
      await model.request(1);
      await endAll([daemonOf(code)]);
      await becomes(driver, 'stopped');
      expect((await first).end).toMatchObject({ how: 'failed', text: 'Codex ended before its turn did' });
      expect(await driver.start()).toEqual({ started: 'resumed' });
      expect((await asks(driver, 'are you there?')).end).toMatchObject({ text: 'back again' });
      expect(model.last.has('slow')).toBe(true);
    },
  );

  real.it('ends its turn when it is stopped [CCC-180]', async () => {
    const { model, session } = await aMachine(say('never', gate().opened));
    const driver = session('one');
    await driver.start();
    const first = asks(driver, 'slow');
    await model.request(1);
    await driver.stop();
    expect((await first).end).toMatchObject({ how: 'interrupted' });
    expect(await driver.state()).toMatchObject({ status: 'stopped' });
    await expect(driver.screen(10)).rejects.toThrow('no terminal');
  });

  real.it('says why it did not start [CCC-177]', async () => {
    const { session } = await aMachine();
    const driver = session('one', undefined, ['codex', '--no-such-flag']);
    await expect(driver.start()).rejects.toThrow(/no-such-flag|--help/);
    expect(await driver.state()).toEqual({ status: 'stopped' });
  });

  real.it('waits for its user while its window asks something, and nothing is typed [CCC-159]', async () => {
    const { code, session } = await aMachine();
    const hooks = { Stop: [{ hooks: [{ type: 'command', command: 'true' }] }] };
    await Bun.write(`${code.folder}/hooks.json`, JSON.stringify({ hooks }));
    const driver = session('one');
    expect(await driver.start()).toEqual({ started: 'fresh' });
    expect(await driver.state()).toMatchObject({ status: 'waiting', waitingFor: 'dialog open: review hooks' });
    expect(await driver.screen(50)).toContain('Hooks need review');
    await refusesHooks(driver, code);
    await becomes(driver, 'idle');
  });

  real.it('waits for its user who has to trust the folder or to sign in first [CCC-159]', async () => {
    const { code, place, session } = await aMachine(say('hello back'));
    const settings = readFileSync(`${code.folder}/config.toml`, 'utf8');
    await Bun.write(`${code.folder}/config.toml`, 'check_for_update_on_startup = false\n');
    const driver = session('one');
    await driver.start();
    expect(await driver.state()).toMatchObject({ status: 'waiting', waitingFor: 'dialog open: sign in' });
    await driver.stop();
    // Codex asks this of a repository, and not where it may do everything.
    await Bun.spawn(['git', 'init', '-q', place.project]).exited;
    const strange = settings.replace(/^(approval_policy|sandbox_mode) .*\n/gm, '').replace(place.project, '/elsewhere');
    await Bun.write(`${code.folder}/config.toml`, strange);
    await driver.start();
    expect(await driver.state()).toMatchObject({ status: 'waiting', waitingFor: 'dialog open: trust this folder' });
    await tmux(code, 'send-keys', '-t', '=ccc-one:', 'Enter');
    await becomes(driver, 'idle');
    expect((await asks(driver, 'hello')).end).toMatchObject({ text: 'hello back' });
  });

  real.it('is the one that a person opened by hand, if it is the only one in the folder', async () => {
    const { code, session } = await aMachine(say('hello back'));
    const terminal = await code.terminal();
    await code.ready(terminal);
    const driver = session('one');
    await becomes(driver, 'idle');
    expect((await asks(driver, 'hello')).end).toMatchObject({ text: 'hello back' });
    await terminal.shows('hello back');
    await driver.stop();
    expect(await driver.state()).toMatchObject({ status: 'stopped' });
    await within(DEADLINE, async () => !isProcessAlive(terminal.pid));
  });
});

describe(`control of two sessions of Codex in one folder${real.why}`, () => {
  real.it(
    'starts them, gives each ask its own answer, and goes on after it was itself restarted [CCC-155, CCC-205]',
    async () => {
      const { model, place, code } = await aMachine(...Array.from({ length: 9 }, (_, n) => say(`answer ${n + 1}`)));
      const journal = openSqliteJournal({ path: `${place.home}/ledger.db`, durability: 'normal' });
      opens({ close: async () => journal.close() });
      const names = ['one', 'two'];
      const control = () =>
        opens(
          openControl({
            store: journal.sessionStore(),
            targets: async () => names.map((name) => ({ ...aTarget(place, name), sharesFolder: true })),
            driver: (target) => new CodexSession(target, code.env),
            publish: async () => {},
            recordsTerminal: async () => true,
            now: Date.now,
            log: () => {},
          }),
        );
      const first = control();
      const begun = await Promise.all(names.map((session) => first.ask(aRequest(`I am ${session}.`, { session }))));
      expect(begun).toMatchObject(names.map(() => ({ outcome: 'answered', started: 'fresh' })));
      const texts = ['apples', 'bananas', 'cherries'];
      const asked = await Promise.all(texts.map((text) => first.ask(aRequest(text, { session: 'one' }))));
      const nth = (text: string): number => model.main.findIndex((request) => request.has(text)) + 1;
      expect(asked).toMatchObject(texts.map((text) => ({ reply: { text: `answer ${nth(text)}` } })));
      await first.close();

      const second = control();
      expect(await second.ask(aRequest('who?', { session: 'two' }))).toMatchObject({ outcome: 'answered' });
      expect([model.last.has('I am two.'), model.last.has('I am one.')]).toEqual([true, false]);
      expect(await second.restart('one')).toEqual({ started: 'resumed' });
      expect(await second.ask(aRequest('and who?', { session: 'one' }))).toMatchObject({ outcome: 'answered' });
      expect([model.last.has('I am two.'), model.last.has('I am one.')]).toEqual([false, true]);
      expect(['who?', 'apples', 'I am one.'].map((text) => model.last.count(text))).toEqual([1, 1, 1]);
    },
  );
});

/** A machine with Codex, and sessions in the project there. */
async function aMachine(...steps: Parameters<Model['script']>) {
  const model = opens(aModel(steps));
  const place: Place = await aPlace();
  const code = aCodex({ place, model });
  const session = (name: string, conversation?: string, command = ['codex']) =>
    opens(new CodexSession({ ...aTarget(place, name), command, conversation: conversation ?? null }, code.env));
  return { model, place, code, session };
}

function aTarget({ project }: Place, name: string): SessionTarget {
  const how = { host: '', client: 'codex', command: ['codex'], conversation: null, startTimeoutMs: DEADLINE };
  return { name, folder: project, ...how };
}

function aPrompt(text: string): Prompt {
  return { key: crypto.randomUUID(), text };
}

/** As control does it: one attempt after the other until Codex has it, and then its record until the turn is over. */
async function asks(driver: CodexSession, text: string) {
  const prompt = { ...aPrompt(text), text: driver.prepare(text) };
  let place = await driver.place();
  const seen: TurnEvent[] = [];
  const never = new AbortController().signal;
  await within(DEADLINE, async () => (await driver.submit(prompt, never)).outcome === 'submitted');
  for (const until = performance.now() + DEADLINE; performance.now() < until; await Bun.sleep(20)) {
    const { events, next } = await driver.events(place);
    place = next;
    seen.push(...events);
    const begun = seen.find((event) => event.kind === 'prompt' && driver.isOurs(event, prompt));
    const end = seen.find((event) => event.kind === 'end' && event.turn === begun?.turn);
    if (begun?.kind === 'prompt' && end) return { prompt: begun, end };
  }
  throw new Error(`no answer to ${text}: ${JSON.stringify(seen)}`);
}

async function becomes(driver: CodexSession, status: SessionState['status']): Promise<void> {
  await within(DEADLINE, async () => (await driver.state()).status === status);
}

async function tmux(code: Codex, ...words: string[]): Promise<void> {
  const child = Bun.spawn(['tmux', ...words], { env: code.env, stdout: 'ignore', stderr: 'pipe' });
  if ((await child.exited) !== 0) throw new Error(await new Response(child.stderr).text());
}

/** The user goes on without the hooks. A key that comes while the question is drawn may be lost. */
async function refusesHooks(driver: CodexSession, code: Codex): Promise<void> {
  const press = async (key: string, isEnough: (screen: string) => boolean): Promise<void> => {
    for (let screen = await driver.screen(50); !isEnough(screen); screen = await driver.screen(50)) {
      await tmux(code, 'send-keys', '-t', '=ccc-one:', key);
      await Bun.sleep(500);
    }
  };
  const isGone = (screen: string): boolean => !screen.includes('Hooks need review');
  await press('3', (screen) => isGone(screen) || /› 3\. Continue/.test(screen));
  await press('Enter', isGone);
}

function daemonOf(code: Codex): number {
  return (JSON.parse(readFileSync(`${code.folder}/app-server-daemon/daemon.pid`, 'utf8')) as { pid: number }).pid;
}
