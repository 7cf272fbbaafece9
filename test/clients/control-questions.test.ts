import { afterEach, describe, expect } from 'bun:test';
import { existsSync } from 'node:fs';
import { ClaudeSessionDriver } from '../../src/clients/claude/session.ts';
import type { AskedQuestion, Choice, OpenQuestion } from '../../src/core/ports/session.ts';
import { within } from '../support/within.ts';
import { aModel, type Model } from './model/model.ts';
import { bash, call, say, type Step } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace, type Place } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');
const DEADLINE = 200_000;
const NEVER = new AbortController().signal;

afterEach(closeAll);

describe(`a question of the real Claude Code${claude.why}`, () => {
  claude.it('is seen while its dialog is open, and answered [CCC-103, CCC-109, CCC-184]', async () => {
    const { session, model } = await asking([ask(colors()), say('done')]);
    const open = await session.asked();
    expect(open).toMatchObject({ kind: 'question', questions: [colors()] });
    expect(await session.answer(open, { options: [1] })).toEqual({ outcome: 'answered' });
    await model.saw('"Which color?"="Blue"');
    await session.until('idle');
    expect(await session.driver.questions.open()).toBeNull();
  });

  claude.it('is one of several, with several options and free text [CCC-110, CCC-115, CCC-185]', async () => {
    const questions = [toppings(), colors(), colors('Which other color?')];
    const { session, model } = await asking([ask(...questions), ask(toppings()), say('done')]);
    const open = await session.asked();
    expect(open.questions).toEqual(questions);
    const choices = [{ options: [0, 2] }, { options: [2] }, { text: 'a dark `pink`, #{x} $(touch x)' }];
    expect(await session.answer(open, ...choices)).toEqual({ outcome: 'answered' });
    await model.saw('"Which toppings?"="Ham, Nut"');
    await model.saw('"Which color?"="Green"');
    await model.saw('"Which other color?"="a dark `pink`, #{x} $(touch x)"');
    const next = await session.asked();
    expect(next.call).not.toBe(open.call);
    // The answer to the last ones is no answer to this.
    expect(await session.answer(open, ...choices)).toEqual({ outcome: 'gone' });
    expect(await session.answer(next, { options: [1] })).toEqual({ outcome: 'answered' });
    await model.saw('"Which toppings?"="Egg"');
  });

  claude.it('takes words that a screen breaks and that tmux would read as its own [CCC-183]', async () => {
    const { session, model } = await asking([ask(long()), say('done')]);
    const open = await session.asked();
    await session.tmux('resize-window', '-t', TARGET, '-x', '60', '-y', '40');
    expect(await session.answer(open, { options: [1] })).toEqual({ outcome: 'answered' });
    await model.saw(long().options[1]?.label ?? '');
  });

  claude.it(
    'is followed at once by a permission, which is shown and not answered by it [CCC-182, CCC-183]',
    async () => {
      const calls = [
        { tool: 'AskUserQuestion', input: { questions: [colors()] } },
        { tool: 'Bash', input: { command: 'touch made', description: 'a scripted step' } },
      ];
      const { session, place, model } = await asking([{ calls }, say('done'), bash('touch more'), say('done')]);
      const open = await session.asked();
      expect(await session.answer(open, { options: [2] })).toEqual({ outcome: 'answered' });
      const permission = await session.asked('permission');
      expect(permission).toMatchObject({
        questions: [{ header: 'Bash command', question: expect.stringContaining('touch made'), multiSelect: false }],
      });
      const labels = permission.questions[0]?.options.map(({ label }) => label) ?? [];
      expect([labels[0], labels.at(-1)]).toEqual(['Yes', 'No']);
      expect(await session.answer(open, { options: [2] })).toEqual({ outcome: 'gone' });
      expect(existsSync(`${place.project}/made`)).toBe(false);
      expect(await session.answer(permission, { options: [0] })).toEqual({ outcome: 'answered' });
      await within(DEADLINE, async () => existsSync(`${place.project}/made`));
      await model.saw('"Which color?"="Green"');
    },
  );

  claude.it('is a plan where its model wants to leave plan mode [CCC-182]', async () => {
    const { session } = await asking([call('ExitPlanMode', { plan: '# Plan\n- do it' }), say('done')], 'plan');
    const plan = await session.asked('plan');
    const labels = plan.questions[0]?.options.map(({ label }) => label) ?? [];
    expect(labels.at(-1)).toBe('No');
    expect(await session.answer(plan, { options: [labels.length - 1] })).toEqual({ outcome: 'answered' });
  });
});

const TARGET = '=ccc-app:';
const ask = (...questions: AskedQuestion[]): Step => call('AskUserQuestion', { questions });

function colors(question = 'Which color?'): AskedQuestion {
  const options = [
    { label: 'Red', description: 'warm' },
    { label: 'Blue', description: 'cold' },
    { label: 'Green', description: 'like grass' },
  ];
  return { question, header: 'Color', options, multiSelect: false };
}

function toppings(): AskedQuestion {
  const options = ['Ham', 'Egg', 'Nut'].map((label) => ({ label, description: `with ${label}` }));
  return { question: 'Which toppings?', header: 'Toppings', options, multiSelect: true };
}

function long(): AskedQuestion {
  const question =
    'Which `layout` is **best** for a question so long that it goes over the end of a line, and then on and on, #{x}?';
  const options = [
    {
      label: 'A label that needs more than a line where it is narrow (Recommended)',
      description: 'a bar, '.repeat(12),
    },
    { label: '漢字 🙂 `code`, #(touch x) and "more"', description: 'cold' },
  ];
  return { question, header: 'Layout', options, multiSelect: false };
}

class Session {
  constructor(
    readonly driver: ClaudeSessionDriver,
    readonly place: Place,
  ) {}

  /** What it asks, when it does. */
  async asked(kind: OpenQuestion['kind'] = 'question'): Promise<OpenQuestion> {
    let open: OpenQuestion | null = null;
    await within(DEADLINE, async () => {
      open = await this.driver.questions.open();
      return open?.kind === kind;
    });
    return open as unknown as OpenQuestion;
  }

  answer({ call: id }: OpenQuestion, ...choices: Choice[]) {
    return this.driver.questions.answer(id, choices, NEVER);
  }

  async until(status: string): Promise<void> {
    await within(DEADLINE, async () => (await this.driver.state()).status === status);
  }

  async tmux(...words: string[]): Promise<void> {
    await Bun.spawn(['tmux', ...words], { env: this.place.env, stdout: 'ignore', stderr: 'ignore' }).exited;
  }
}

/** A session that was given a prompt, with a model that does this. */
async function asking(steps: Step[], mode = 'default'): Promise<{ session: Session; place: Place; model: Model }> {
  const place = await aPlace();
  const model = opens(aModel(steps));
  const real = aClaude({ place, model, permissions: 'ask' });
  const target = {
    name: 'app',
    host: 'local',
    client: 'claude',
    folder: place.project,
    command: [real.program, '--permission-mode', mode],
    conversation: null,
    startTimeoutMs: DEADLINE,
  };
  const driver = new ClaudeSessionDriver(target, real.env);
  const session = new Session(driver, place);
  opens({
    close: async () => {
      await driver.close();
      await session.tmux('kill-server');
    },
  });
  await driver.start();
  await within(DEADLINE, async () => {
    const { outcome } = await driver.submit({ key: 'k', text: driver.prepare('go on') }, NEVER);
    return outcome !== 'left';
  });
  return { session, place, model };
}
