// The driver of a session, with the real Claude Code.
import { afterEach, describe, expect } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { ClaudeSessionDriver } from '../../src/clients/claude/session.ts';
import type { SessionTarget, TurnEvent } from '../../src/core/ports/session.ts';
import { TmuxServer } from '../../src/sessions/tmux.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, gate, say, type Step } from './model/steps.ts';
import { aClaude, type ClaudeOptions } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');
const DEADLINE = 200_000;
const NEVER = new AbortController().signal;
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

afterEach(closeAll);

describe(`a session of the real Claude Code${claude.why}`, () => {
  claude.it(
    'is started afresh, answers each prompt with its own answer, and is resumed with what was said [CCC-176]',
    async () => {
      const { driver, driverOf, model, sends } = await aSession([
        say('first'),
        bash('echo hi'),
        say('second\n\nanswer'),
        say('third'),
      ]);
      expect(await driver.start()).toEqual({ started: 'fresh' });
      expect(await sends('one')).toMatchObject([
        { kind: 'prompt', text: 'one' },
        { kind: 'end', how: 'done', text: 'first' },
      ]);
      expect(await sends('two')).toMatchObject([{ text: 'two' }, { how: 'done', text: 'second\n\nanswer' }]);
      const { conversation = null } = await driver.state();
      await driver.stop();
      expect(await driver.state()).toEqual({ status: 'stopped', conversation: String(conversation) });
      const again = driverOf({ conversation });
      expect(await again.start()).toEqual({ started: 'resumed' });
      expect(await sends('three', again)).toMatchObject([{ text: 'three' }, { how: 'done', text: 'third' }]);
      expect(model.last.has('two')).toBe(true);
      // Its registry says so a little after its transcript.
      await within(DEADLINE, async () => (await again.state()).status === 'idle');
      expect(await again.state()).toMatchObject({ conversation: String(conversation) });
    },
  );

  claude.it(
    'sends what a killed server left in the composer, and does not type it a second time [CCC-174]',
    async () => {
      const { driver, model, sends, ends, terminal } = await aSession([say('first'), say('second')]);
      await driver.start();
      await sends('one');
      const text = `left there ${'by a paste that is longer than a line of the terminal '.repeat(5)}end`;
      await keys(driver, '-l', text);
      await within(DEADLINE, async () => (await terminal()).includes('terminal end'));
      const since = await driver.place();
      const prompt = { key: 'k', text: driver.prepare(text) };
      // Of a prompt that was never tried, the same words are a person's.
      expect(await driver.submit(prompt, NEVER)).toMatchObject({ outcome: 'left', retry: true });
      const again = async () => driver.submit({ ...prompt, isRetry: true }, NEVER);
      await within(DEADLINE, async () => (await again()).outcome === 'submitted');
      expect(await ends(driver, since)).toMatchObject([{ text }, { how: 'done', text: 'second' }]);
      expect(model.last.count(text)).toBe(1);
    },
  );

  claude.it('takes any text as one prompt and runs nothing of it [CCC-58, CCC-173, CCC-174]', async () => {
    const { driver, model, place, sends } = await aSession([]);
    writeFileSync(`${place.home}/x.png`, Buffer.from(PIXEL, 'base64'));
    await driver.start();
    const texts = [
      'several\n\n  lines\twith a tab\n',
      '-n a dash',
      '!touch made',
      '/status',
      '/nosuchcommand hello',
      '/tmp is full',
      'exit',
      ':wq',
      'ends in \\',
      '#hash @bob $HOME',
      'ask @bob',
      `see @${place.home}/x.png`,
      'so :smile',
      `${place.home}/x.png`,
      `look at ${place.home}/x.png`,
      `look at\n${place.home}/x.png\nplease`,
      'x \u001B[201~\r!touch made',
      '\u200B!touch made',
      'a\u202Eb\u200Fc\u00ADd',
      '👩‍💻 ❤️ 1️⃣ क्‍ष نمی‌خواهم é漢🙂',
      Array.from({ length: 1500 }, (_, n) => `line ${n} `.padEnd(68, 'x')).join('\n'),
    ];
    for (const [n, text] of texts.entries()) {
      model.script(say(`answer ${n}`));
      const [prompt, end] = await sends(text);
      const key = JSON.stringify(text).slice(0, 60);
      expect([key, end]).toMatchObject([key, { how: 'done', text: `answer ${n}` }]);
      const expected = driver.prepare(text).replaceAll('\t', '    ');
      expect([key, prompt?.text.trim() === expected.trim()]).toEqual([key, true]);
      expect([key, model.last.has(expected.trim())]).toEqual([key, true]);
    }
    expect(Bun.file(`${place.project}/made`).size).toBe(0);
    expect(model.main).toHaveLength(texts.length);
  });

  claude.it('ends a turn that its user interrupts, before the first word and in the middle [CCC-180]', async () => {
    const held = gate();
    const { driver, model, terminal, ends } = await aSession([say('never', held.opened)]);
    await driver.start();
    for (const [text, how] of [
      ['wait', 'nothing was said'],
      ['work', 'in a tool'],
    ]) {
      if (how === 'in a tool') model.script(bash('for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done'));
      const place = await driver.place();
      await submits(driver, text ?? '');
      await model.saw(text ?? '');
      await within(DEADLINE, async () => (await driver.events(place)).events.length > 0);
      await within(DEADLINE, async () => (await driver.state()).status === 'active');
      if (how === 'in a tool') await within(DEADLINE, async () => (await terminal()).includes('for i in'));
      await keys(driver, 'Escape');
      expect([how, ...(await ends(driver, place))]).toMatchObject([how, { text }, { how: 'interrupted' }]);
      // Before the first word the client gives the prompt back, as a draft of its user.
      await within(DEADLINE, async () => (await driver.state()).status === 'idle');
      if (how !== 'in a tool')
        expect(await driver.submit({ key: 'k', text: 'more' }, NEVER)).toMatchObject({
          outcome: 'left',
          because: expect.stringContaining('draft'),
        });
      await keys(driver, 'C-u');
    }
  });

  claude.it(
    'that is killed in a turn has failed there, and goes on with its conversation [CCC-175, CCC-180]',
    async () => {
      const held = gate();
      const { driver, driverOf, model, sends, ends } = await aSession([say('one'), say('never', held.opened)]);
      await driver.start();
      await sends('remember me');
      const place = await driver.place();
      await submits(driver, 'die now');
      await model.saw('die now');
      // Before the client has written the prompt down there is no turn that could have failed.
      await within(DEADLINE, async () => (await driver.events(place)).events.length > 0);
      const { pid = 0, conversation = null } = await driver.state();
      process.kill(pid, 'SIGKILL');
      expect(await ends(driver, place)).toMatchObject([{ text: 'die now' }, { how: 'failed' }]);
      expect(await driver.submit({ key: 'k', text: 'hello' }, NEVER)).toMatchObject({ outcome: 'left' });
      const again = driverOf({ conversation });
      expect(await again.start()).toEqual({ started: 'resumed' });
      expect((await again.events(place)).events).toMatchObject([{ text: 'die now' }, { how: 'failed' }]);
      model.script(say('alive'));
      expect(await sends('and now?', again)).toMatchObject([{ text: 'and now?' }, { how: 'done', text: 'alive' }]);
      expect(model.last.has('remember me')).toBe(true);
    },
  );

  claude.it('is given nothing while it asks, and is waiting for what it says [CCC-159, CCC-175]', async () => {
    const { driver, place, model } = await aSession(
      [bash('touch made'), say('done')],
      ['--permission-mode', 'default'],
    );
    await driver.start();
    await submits(driver, 'make it');
    await within(DEADLINE, async () => (await driver.state()).status === 'waiting');
    expect(await driver.state()).toMatchObject({ waitingFor: 'permission prompt' });
    expect(await driver.submit({ key: 'k', text: 'hello' }, NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(await Bun.file(`${place.project}/made`).exists()).toBe(false);
    // A question that is only just being drawn drops a key.
    await within(DEADLINE, async () => {
      if ((await driver.state()).status === 'waiting') await keys(driver, 'Escape');
      return (await driver.state()).status === 'idle';
    });
    expect(model.main.some((asked) => asked.has('hello'))).toBe(false);
  });

  claude.it('starts once more where another conversation is the newest, with its own [CCC-178]', async () => {
    const { driverOf, model, sends } = await aSession([say('for left'), say('for right'), say('left again')]);
    const [left, right] = [
      driverOf({ name: 'left', sharesFolder: true }),
      driverOf({ name: 'right', sharesFolder: true }),
    ];
    for (const driver of [left, right]) {
      expect(await driver.start()).toEqual({ started: 'fresh' });
      await sends(driver === left ? 'I am left' : 'I am right', driver);
    }
    const { conversation = null } = await left.state();
    await left.stop();
    expect(await right.state()).toMatchObject({ status: 'idle' });
    const again = driverOf({ name: 'left', sharesFolder: true, conversation });
    expect(await again.start()).toEqual({ started: 'resumed' });
    expect((await sends('who?', again)).at(-1)).toMatchObject({ text: 'left again' });
    expect([model.last.has('I am left'), model.last.has('I am right')]).toEqual([true, false]);
  });

  claude.it(
    'waits for its user in a folder that is not trusted, is given nothing there, and goes on when it is [CCC-159, CCC-177]',
    async () => {
      const { driver, driverOf, model, sends } = await aSession([say('hello')], [], { trust: false });
      expect(await driver.start()).toEqual({ started: 'fresh' });
      expect(await driver.state()).toEqual({ status: 'waiting', waitingFor: 'dialog open' });
      expect(await driver.screen(50)).toContain('trust');
      expect(await driver.submit({ key: 'k', text: 'one' }, NEVER)).toMatchObject({ outcome: 'left', retry: true });
      const again = driverOf();
      expect(await again.state()).toEqual({ status: 'waiting', waitingFor: 'dialog open' });
      expect(await again.start()).toEqual({ started: 'resumed' });
      // Its first choice is to leave. A second key would go back there, so the first one gets time to be seen.
      const isYes = async (): Promise<boolean> => (await again.screen(50)).includes('❯ Yes, I trust');
      while (!(await isYes())) {
        await keys(again, 'Down');
        await within(5000, isYes).catch(() => 'a dialog that is only just being drawn drops a key');
      }
      await keys(again, 'Enter');
      await within(DEADLINE, async () => {
        const { status } = await again.state();
        expect(status).not.toBe('stopped');
        return status === 'idle';
      });
      expect(await sends('one', again)).toMatchObject([{ text: 'one' }, { how: 'done', text: 'hello' }]);
      expect(model.main).toHaveLength(1);
    },
  );

  claude.it('fails to start with its own words where it ends at once [CCC-177]', async () => {
    const { driverOf, code } = await aSession([]);
    const driver = driverOf({ command: [code.program, '--no-such-option'] });
    await expect(driver.start()).rejects.toThrow(/no-such-option/);
    expect(await driver.state()).toEqual({ status: 'stopped' });
  });
});

async function aSession(
  steps: Step[],
  flags: string[] = ['--dangerously-skip-permissions'],
  options: Partial<ClaudeOptions> = {},
) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aClaude({ place, model, ...options });
  const server = new TmuxServer({ env: code.env });
  opens({ close: async () => void (await server.run(['kill-server']).catch(() => 'it ended before')) });
  const driverOf = (more: Partial<SessionTarget> = {}): ClaudeSessionDriver => {
    const target = { name: 'app', host: 'local', client: 'claude', folder: place.project, conversation: null };
    return opens(
      new ClaudeSessionDriver(
        { ...target, command: [code.program, ...flags], startTimeoutMs: DEADLINE, ...more },
        code.env,
      ),
    );
  };
  const driver = driverOf();
  const ends = async (one: ClaudeSessionDriver, since: string): Promise<TurnEvent[]> => {
    const found: TurnEvent[] = [];
    let next = since;
    await within(DEADLINE, async () => {
      const read = await one.events(next);
      found.push(...read.events);
      ({ next } = read);
      return found.some(({ kind }) => kind === 'end');
    });
    return found;
  };
  const sends = async (text: string, one = driver): Promise<TurnEvent[]> => {
    const since = await one.place();
    await submits(one, text);
    return ends(one, since);
  };
  return { model, place, code, driver, driverOf, sends, ends, terminal: () => driver.screen(50) };
}

/** As the queue does it: again while nothing went in. What left the composer and is not acknowledged in time is in the record later. */
async function submits(driver: ClaudeSessionDriver, text: string): Promise<void> {
  await within(DEADLINE, async () => {
    const said = await driver.submit({ key: 'k', text: driver.prepare(text) }, NEVER);
    if (said.outcome === 'unknown' && said.isTaken !== true) throw new Error(said.because);
    return said.outcome !== 'left';
  });
}

async function keys(driver: ClaudeSessionDriver, ...words: string[]): Promise<void> {
  await new TmuxServer({ env: { ...driver.env } }).run(['send-keys', '-t', '=ccc-app:', ...words]);
}
