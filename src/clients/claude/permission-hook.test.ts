import { afterEach, describe, expect, it } from 'bun:test';
import { mkdirSync } from 'node:fs';
import type { DialogCall, DialogEnd } from '../../../test/support/claude-dialog.ts';
import { ClaudeTui } from '../../../test/support/claude-tui.ts';
import { within } from '../../../test/support/within.ts';
import type { AskedQuestion, Choice, OpenQuestion } from '../../core/ports/session.ts';
import { type Decision, decisionFor, addHook } from './permission-hook.ts';
import { ClaudeQuestions } from './questions.ts';
import { ClaudeSessionDriver } from './session.ts';
import type { ClaudeSession } from './state.ts';

const hasTmux = Bun.which('tmux') !== null;
const why = hasTmux ? '' : ' (skipped: tmux is not here)';
const DEADLINE = 20_000;
const SLOW = 60_000;
const NEVER = new AbortController().signal;
const opened: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

describe.skipIf(!hasTmux)(`a dialog of Claude Code with its hook beside it${why}`, () => {
  it(
    'is answered by the hook, and no key is pressed [CCC-183]',
    async () => {
      const { asked, waits, answer, keys, decided } = await asks({ questions: [toppings(), database()] });
      const answers = { 'Which toppings?': 'Ham, Nut', 'Which database?': 'none' };
      waits('AskUserQuestion', { questions: [toppings(), database()] }, { answers });
      expect(await answer(asked, { options: [2, 0] }, { text: 'none' })).toEqual({ outcome: 'answered' });
      expect(decided).toEqual([{ behavior: 'allow', updatedInput: { questions: [toppings(), database()], answers } }]);
      expect(keys()).toEqual([]);
    },
    SLOW,
  );

  it.each<[string, number, Decision]>([
    ['Yes', 0, { behavior: 'allow' }],
    ['No', 2, { behavior: 'deny', message: 'The user said no.', interrupt: true }],
  ])(
    'that is a permission takes %s from the hook [CCC-182]',
    async (_label, option, decision) => {
      const { asked, waits, answer, keys, decided } = await asks({ permission: 'touch made' });
      waits('Bash', { command: 'touch made', description: 'a scripted step' }, { option });
      expect(await answer(asked, { options: [option] })).toEqual({ outcome: 'answered' });
      expect([decided, keys()]).toEqual([[decision], []]);
    },
    SLOW,
  );

  it.each<[string, DialogCall[], [tool: string, input: Record<string, unknown>][], number]>([
    ['what is to be allowed from then on is chosen', [{ permission: 'touch made' }], [bash('touch made')], 1],
    ['a plan is approved', [{ plan: 'do it' }], [['ExitPlanMode', { plan: 'do it' }]], 0],
    ['the hook is of another call', [{ permission: 'touch made' }], [bash('rm -rf made')], 0],
    [
      'the hook is of another open call',
      [{ permission: 'touch one' }, { permission: 'rm -rf two' }],
      [bash('rm -rf two')],
      0,
    ],
    [
      'the command of the hook is only a part of the one that is shown',
      [{ permission: 'touch one two' }, { permission: 'touch one' }],
      [bash('touch one')],
      0,
    ],
    ['two hooks wait', [{ permission: 'touch made' }], [bash('touch made'), bash('touch made')], 0],
  ])(
    'is answered by keys where %s, and the hook decides nothing [CCC-183]',
    async (_what, calls, hooks, option) => {
      const { asked, waits, answer, keys, decided } = await asks(...calls);
      for (const [tool, input] of hooks) waits(tool, input, 'cancelled');
      expect(await answer(asked, { options: [option] })).toEqual({ outcome: 'answered' });
      expect([decided, keys().at(-1)]).toEqual([[], 'Enter']);
    },
    SLOW,
  );

  it(
    'that is closed while it is looked at is gone, and the hook decides nothing [CCC-183]',
    async () => {
      const { session, asked, waits, decided } = await asks({ permission: 'touch made' });
      waits(...bash('touch made'), { option: 0 });
      const { places } = session.questions;
      let looks = 0;
      // After the first look another dialog is open.
      const live = async (): Promise<ClaudeSession | null> => {
        const now = await places.live();
        looks += 1;
        return now && looks > 1 ? { ...now, statusUpdatedAt: (now.statusUpdatedAt ?? 0) + 1 } : now;
      };
      const questions = new ClaudeQuestions({
        live,
        terminalOf: (one) => places.terminalOf(one),
        transcriptOf: (conversation) => places.transcriptOf(conversation),
      });
      expect(await questions.answer(asked.call, [{ options: [0] }], NEVER)).toEqual({ outcome: 'gone' });
      expect(decided).toEqual([]);
    },
    SLOW,
  );

  it(
    'that is denied is not answered while the call has no end [CCC-183]',
    async () => {
      const { asked, waits, answer, decided } = await asks({ permission: 'touch made' });
      waits(...bash('touch made'), 'runs');
      expect(await answer(asked, { options: [2] })).toMatchObject({ outcome: 'unknown' });
      expect(decided).toHaveLength(1);
    },
    SLOW,
  );

  it(
    'is answered outside of tmux by a hook that the client starts a moment later [CCC-183]',
    async () => {
      const { session, asked, waits, decided } = await asks({ questions: [database()] });
      const { places } = session.questions;
      const questions = new ClaudeQuestions({
        live: () => places.live(),
        terminalOf: async () => null,
        transcriptOf: (conversation) => places.transcriptOf(conversation),
      });
      const answering = questions.answer(asked.call, [{ options: [1] }], NEVER);
      await Bun.sleep(50);
      waits('AskUserQuestion', { questions: [database()] }, { answers: { 'Which database?': 'MongoDB' } });
      expect(await answering).toEqual({ outcome: 'answered' });
      expect(decided).toHaveLength(1);
    },
    SLOW,
  );

  it(
    'that is closed ends its hook at the next look',
    async () => {
      const { session, waits, ends, press } = await asks({ permission: 'touch one' }, { permission: 'touch two' });
      waits(...bash('touch one'), 'cancelled');
      await session.questions.open();
      expect(ends()).toBe(0);
      await press('1');
      await within(DEADLINE, async () => (await session.questions.open()) !== null && ends() > 0);
    },
    SLOW,
  );
});

it('a question is answered with its labels in the order of the dialog, and never without the input of the tool', () => {
  const open: OpenQuestion = { call: 'c', kind: 'question', questions: [toppings()], askedAt: 0 };
  expect(decisionFor(open, [{ options: [2, 1] }], { questions: [], more: 1 })).toEqual({
    behavior: 'allow',
    updatedInput: { questions: [], more: 1, answers: { 'Which toppings?': 'Egg, Nut' } },
  });
});

function bash(command: string): [string, Record<string, unknown>] {
  return ['Bash', { command, description: 'a scripted step' }];
}

function toppings(): AskedQuestion {
  const options = ['Ham', 'Egg', 'Nut'].map((label) => ({ label, description: `with ${label}` }));
  return { question: 'Which toppings?', header: 'Toppings', options, multiSelect: true };
}

function database(): AskedQuestion {
  const options = ['PostgreSQL', 'MongoDB'].map((label) => ({ label, description: `a ${label}` }));
  return { question: 'Which database?', header: 'Database', options, multiSelect: false };
}

/** A session whose model has made these calls, with hooks that the test simulates. */
async function asks(...calls: DialogCall[]) {
  const claude = new ClaudeTui();
  opened.push(claude);
  const folder = `${claude.env['HOME']}/app`;
  mkdirSync(folder, { recursive: true });
  claude.starts({ ageMs: 60_000 });
  const target = { name: 'app', host: 'local', client: 'claude', folder, conversation: null };
  const session = new ClaudeSessionDriver(
    { ...target, command: [claude.program], startTimeoutMs: DEADLINE },
    claude.env,
  );
  opened.push(session);
  await session.start();
  const text = `ask @@${JSON.stringify({ asks: calls })}@@`;
  await session.submit({ key: 'k', text: session.prepare(text) }, NEVER);
  await within(DEADLINE, async () => (await session.questions.open()) !== null);
  const asked = (await session.questions.open()) as OpenQuestion;
  const { conversation = '' } = await session.state();
  const decided: Decision[] = [];
  let ended = 0;
  /** A waiting hook. Its decision closes the dialog. `runs`: a person was faster, and the command continues. */
  const waits = (tool: string, input: Record<string, unknown>, end: DialogEnd | 'runs'): void => {
    const decide = (decision: Decision): void => {
      decided.push(decision);
      void claude.order(end === 'runs' ? { status: 'busy' } : { decides: JSON.stringify(end) });
    };
    const leave = addHook({ conversation, tool, input, decide, end: () => (ended += 1) });
    opened.push({ close: leave });
  };
  const answer = ({ call }: OpenQuestion, ...choices: Choice[]) => session.questions.answer(call, choices, NEVER);
  const keys = (): string[] => claude.noted().flatMap(({ key }) => key ?? []);
  const press = (key: string): Promise<unknown> => claude.tmux('send-keys', '-t', '=ccc-app:', key);
  return { session, asked, waits, answer, keys, decided, press, ends: () => ended };
}
