import { afterEach, describe, expect, it } from 'bun:test';
import { mkdirSync } from 'node:fs';
import type { DialogCall } from '../../../test/support/claude-dialog.ts';
import { type ClaudeStart, ClaudeTui } from '../../../test/support/claude-tui.ts';
import { within } from '../../../test/support/within.ts';
import type { Answering, AskedQuestion, Choice, OpenQuestion, SessionTarget } from '../../core/ports/session.ts';
import { ClaudeSessionDriver } from './session.ts';

const hasTmux = Bun.which('tmux') !== null;
const why = hasTmux ? '' : ' (skipped: tmux is not here)';
const DEADLINE = 20_000;
const NEVER = new AbortController().signal;
/** Time for one answer on an overloaded machine. */
const SLOW = 600_000;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

describe.skipIf(!hasTmux)(`a question of Claude Code in tmux${why}`, () => {
  it(
    'is what its model asks, from its own record, also for a driver that was made later [CCC-103]',
    async () => {
      const { session, asked } = await asks([{ questions: [database()] }]);
      expect(asked).toEqual({
        call: expect.stringMatching(/^toolu_/),
        kind: 'question',
        questions: [database()],
        askedAt: expect.any(Number),
      });
      expect(await session.again().questions.open()).toEqual(asked);
    },
    SLOW,
  );

  it.each([0, 1, 2])(
    'is answered with option %i by Down as often, then one Enter [CCC-109, CCC-184]',
    async (option) => {
      const { session, answer, keys } = await asks([{ questions: [database()] }, { permission: 'touch made' }]);
      expect(await answer({ options: [option] })).toEqual({ outcome: 'answered' });
      const [, next] = await session.opened(2);
      expect(keys()).toEqual([...Array<string>(option).fill('Down'), 'Enter']);
      expect(session.ends()).toEqual([{ answers: { 'Which database?': database().options[option]?.label ?? '' } }]);
      expect(session.keysInto(next)).toEqual([]);
    },
    SLOW,
  );

  it(
    'is one of several, and all are entered in order, with one more Enter on the review page [CCC-110, CCC-114]',
    async () => {
      const calls = [{ questions: [database(), toppings(), database('Why?')] }];
      const { session, answer, keys } = await asks(calls, { drawMs: 60 });
      expect(await answer({ options: [1] }, { options: [2, 0] }, { text: 'because I like it' })).toEqual({
        outcome: 'answered',
      });
      expect(session.ends()).toEqual([
        { answers: { 'Which database?': 'MongoDB', 'Which toppings?': 'Ham, Nut', 'Why?': 'because I like it' } },
      ]);
      expect(keys().filter((key) => key === 'Enter')).toHaveLength(1 + 3 + 1 + 1);
      await session.claude.until('idle');
    },
    SLOW,
  );

  it.each<[string, AskedQuestion, Choice, string]>([
    ['several options', toppings(), { options: [0, 2] }, 'Ham, Nut'],
    ['one of several options', toppings(), { options: [1] }, 'Egg'],
    ['a text', database(), { text: '$(touch x) #{pid} `x`' }, '$(touch x) #{pid} `x`'],
    ['a text beside several options', toppings(), { text: 'Salt' }, 'Salt'],
    ['words of any kind', odd(), { options: [1] }, '漢字 #(touch x) "quoted", #{pane_id} 🙂'],
  ])(
    'takes %s [CCC-115, CCC-185]',
    async (_what, question, choice, words) => {
      const { session, answer } = await asks([{ questions: [question] }]);
      expect(await answer(choice)).toEqual({ outcome: 'answered' });
      expect(session.ends()).toEqual([{ answers: { [question.question]: words } }]);
    },
    SLOW,
  );

  it(
    'is answered as asked where somebody moved the mark, checked a box or turned the page before [CCC-114]',
    async () => {
      const { session, answer } = await asks([{ questions: [toppings(), database()] }]);
      for (const key of ['Down', 'Enter', 'Right', 'Down', 'Down']) await session.press(key);
      await session.shows('❯ 3. SQLite');
      expect(await answer({ options: [0] }, { options: [1] })).toEqual({ outcome: 'answered' });
      expect(session.ends()).toEqual([{ answers: { 'Which toppings?': 'Ham', 'Which database?': 'MongoDB' } }]);
    },
    SLOW,
  );

  it(
    'waits for a client that has just started, and would drop keys',
    async () => {
      const { answer, keys } = await asks([{ questions: [database()] }], { ageMs: 0, deafMs: 3000 });
      expect(await answer({ options: [1] })).toEqual({ outcome: 'answered' });
      expect(keys()).toEqual(['Down', 'Enter']);
    },
    SLOW,
  );

  it(
    'is not there while nothing is asked, and in a panel',
    async () => {
      const session = await started();
      expect(await session.driver.questions.open()).toBeNull();
      await session.claude.order({ dialog: 'dialog open' });
      expect(await session.driver.questions.open()).toBeNull();
    },
    SLOW,
  );

  it(
    'that was closed is answered no more, and nothing reaches the one after it [CCC-183]',
    async () => {
      const { session, asked } = await asks([{ questions: [database()] }, { questions: [database()] }]);
      await session.press('2');
      const [, second = ''] = await session.opened(2);
      expect(await session.answer(asked, [{ options: [0] }])).toEqual({ outcome: 'gone' });
      await within(DEADLINE, async () => (await session.driver.questions.open())?.call === second);
      expect(session.keysInto(second)).toEqual([]);
    },
    SLOW,
  );

  it(
    'is left alone where the screen does not show it whole, and where its user scrolls [CCC-183]',
    async () => {
      const { session, answer, keys } = await asks([{ questions: [database()] }]);
      await session.claude.tmux('copy-mode', '-t', TARGET);
      expect(await answer({ options: [1] })).toMatchObject({
        outcome: 'left',
        because: expect.stringMatching(/scroll/),
      });
      await session.claude.tmux('send-keys', '-t', TARGET, '-X', 'cancel');
      await session.claude.tmux('resize-window', '-t', TARGET, '-x', '100', '-y', '8');
      await session.shows('☐ Database', false);
      expect(await answer({ options: [1] })).toMatchObject({
        outcome: 'left',
        because: expect.stringMatching(/only part of it/),
      });
      expect(keys()).toEqual([]);
    },
    SLOW,
  );
});

describe.skipIf(!hasTmux)(`a permission of Claude Code in tmux${why}`, () => {
  it(
    'is shown with what its dialog says, and is answered by its own option only [CCC-182]',
    async () => {
      const { session, asked, answer, keys } = await asks([{ permission: 'touch made' }, { permission: 'touch more' }]);
      expect(asked).toMatchObject({
        kind: 'permission',
        questions: [
          {
            header: 'Bash command',
            question: expect.stringMatching(/touch made\nDo you want to proceed\?$/),
            options: [{ label: 'Yes' }, { label: expect.stringMatching(/^Yes, and always allow/) }, { label: 'No' }],
            multiSelect: false,
          },
        ],
      });
      expect(await answer({ options: [2] })).toEqual({ outcome: 'answered' });
      expect(keys()).toEqual(['Down', 'Down', 'Enter']);
      expect(session.ends()).toEqual([{ option: 2 }]);
      // This is a later question, for which the answer was not meant.
      expect(await session.answer(asked, [{ options: [0] }])).toEqual({ outcome: 'gone' });
    },
    SLOW,
  );

  it(
    'is called a plan where the model wants to leave its plan mode [CCC-182]',
    async () => {
      const { asked } = await asks([{ plan: '# Plan' }]);
      const options = [{ label: expect.stringMatching(/^Yes, and switch/) }, { label: 'No' }];
      expect(asked).toMatchObject({ kind: 'plan', questions: [{ header: 'Exit plan mode?', options }] });
    },
    SLOW,
  );
});

const TARGET = '=ccc-app:';

function database(question = 'Which database?'): AskedQuestion {
  const options = [
    { label: 'PostgreSQL', description: 'Relational, ACID compliant' },
    { label: 'MongoDB', description: 'Document store, flexible schema' },
    { label: 'SQLite' },
  ];
  return { question, header: 'Database', options, multiSelect: false };
}

function toppings(): AskedQuestion {
  const options = ['Ham', 'Egg', 'Nut'].map((label) => ({ label, description: `with ${label}` }));
  return { question: 'Which toppings?', header: 'Toppings', options, multiSelect: true };
}

function odd(): AskedQuestion {
  const options = [{ label: '❯ 2. it?*[x]' }, { label: '漢字 #(touch x) "quoted", #{pane_id} 🙂' }];
  return { question: 'What, #{x} `this` \\ "that"?', header: '#(x)', options, multiSelect: false };
}

class Session {
  readonly claude = new ClaudeTui();
  readonly folder = `${this.claude.env['HOME']}/project`;
  readonly driver: ClaudeSessionDriver;

  constructor() {
    opened.push(this.claude);
    mkdirSync(this.folder);
    this.driver = this.again();
  }

  again(): ClaudeSessionDriver {
    const target: SessionTarget = {
      name: 'app',
      host: 'local',
      client: 'claude',
      folder: this.folder,
      command: [this.claude.program],
      conversation: null,
      startTimeoutMs: DEADLINE,
    };
    const driver = new ClaudeSessionDriver(target, this.claude.env);
    opened.push(driver);
    return driver;
  }

  answer({ call }: OpenQuestion, choices: Choice[]): Promise<Answering> {
    return this.driver.questions.answer(call, choices, NEVER);
  }

  /** Presses a key as a person does. */
  async press(key: string): Promise<void> {
    await this.claude.tmux('send-keys', '-t', TARGET, key);
  }

  async shows(text: string, isSo = true): Promise<void> {
    const screen = (): Promise<string> => this.claude.tmux('capture-pane', '-p', '-t', TARGET);
    await within(DEADLINE, async () => (await screen()).includes(text) === isSo);
  }

  /** Waits until this many dialogs have opened, and returns their calls. */
  async opened(count: number): Promise<string[]> {
    const all = (): string[] => this.claude.noted().flatMap(({ opened: id }) => id ?? []);
    await within(DEADLINE, async () => all().length >= count);
    return all();
  }

  keysInto(call: string | undefined): string[] {
    return this.claude.noted().flatMap(({ key, into }) => (into === call && key !== undefined ? [key] : []));
  }

  ends(): unknown[] {
    return this.claude.noted().flatMap(({ end }) => end ?? []);
  }
}

async function started(how: ClaudeStart = {}): Promise<Session> {
  const session = new Session();
  session.claude.starts({ ageMs: 60_000, ...how });
  await session.driver.start();
  return session;
}

/** A session whose model has asked these questions. */
async function asks(calls: DialogCall[], how: ClaudeStart = {}) {
  const session = await started(how);
  const text = `ask @@${JSON.stringify({ asks: calls })}@@`;
  const prompt = { key: 'k', text: session.driver.prepare(text) };
  // A client that draws slowly may report idle before its composer is there: then nothing was typed.
  await within(DEADLINE, async () => (await session.driver.submit(prompt, NEVER)).outcome !== 'left');
  const [first] = await session.opened(1);
  await within(DEADLINE, async () => (await session.driver.questions.open()) !== null);
  const asked = (await session.driver.questions.open()) as OpenQuestion;
  return {
    session,
    asked,
    answer: (...choices: Choice[]) => session.answer(asked, choices),
    keys: () => session.keysInto(first),
  };
}
