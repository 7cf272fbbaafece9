// What the real Codex asks its user, answered through its daemon.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { CodexDaemon } from '../../src/clients/codex/rpc.ts';
import { CodexSession } from '../../src/clients/codex/session.ts';
import type { OpenQuestion } from '../../src/core/ports/session.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { call, say, type Call, type Step } from './model/steps.ts';
import { aCodex } from './support/codex.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const real = client('codex');
const DEADLINE = 200_000;
const NEVER = new AbortController().signal;
afterEach(closeAll);

describe(`what the real Codex asks${real.why}`, () => {
  real.it('is a permission for each command, and the one that was chosen runs [CCC-182, CCC-183]', async () => {
    const steps = [{ calls: [escalated('touch one'), escalated('touch two')] }, say('done')];
    const { driver, place, window } = await asking(steps);
    const one = await asked(driver);
    expect(one).toMatchObject({ kind: 'permission', questions: [{ header: 'Command', multiSelect: false }] });
    // Codex begins both calls at once, and asks in any order.
    const [first, second] = one.questions[0]?.question.includes('touch one') ? ['one', 'two'] : ['two', 'one'];
    expect(one.questions[0]?.question).toContain(`touch ${first}`);
    // The same options, in the same order, as on its screen.
    const labels = one.questions[0]?.options.map(({ label }) => label) ?? [];
    await within(DEADLINE, async () => {
      const screen = await driver.screen(50);
      return labels.every((label, at) => screen.includes(`${at + 1}. ${label}`));
    });
    expect(await driver.questions.answer(one.call, [{ options: [0] }], NEVER)).toEqual({ outcome: 'answered' });
    await within(DEADLINE, async () => existsSync(`${place.project}/${first}`));
    const two = await asked(driver, one);
    expect(two.questions[0]?.question).toContain(`touch ${second}`);
    // A person is faster. A key for a dialog that is not drawn yet would be lost.
    await within(DEADLINE, async () => (await driver.screen(50)).includes(`$ touch ${second}`));
    await window('y');
    await within(DEADLINE, async () => existsSync(`${place.project}/${second}`));
    expect(await driver.questions.answer(two.call, [{ options: [2] }], NEVER)).toEqual({ outcome: 'gone' });
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
    expect(await driver.questions.open()).toBeNull();
  });

  for (const [what, step] of [
    ['a command', escalated('touch made')],
    ['a change of files', { tool: 'exec_command', input: { cmd: adding('made') } }],
  ] as const)
    real.it(`is a permission for ${what} that can be denied, and nothing is done [CCC-182, CCC-183]`, async () => {
      const { driver, place } = await asking([{ calls: [step] }, say('done')]);
      const { call: named, questions } = await asked(driver);
      const no = questions[0]?.options.findIndex(({ label }) => label.startsWith('No')) ?? -1;
      expect(await driver.questions.answer(named, [{ options: [no] }], NEVER)).toEqual({ outcome: 'answered' });
      await within(DEADLINE, async () => (await driver.state()).status === 'idle');
      expect(existsSync(`${place.project}/made`)).toBe(false);
    });

  real.it('is a permission to change files, which says what is changed [CCC-182]', async () => {
    const { driver, place } = await asking([call('exec_command', { cmd: adding('new.txt') }), say('done')]);
    const open = await asked(driver);
    expect(open.questions[0]).toMatchObject({ header: 'File change' });
    expect(open.questions[0]?.question).toEndWith(`add ${place.project}/new.txt\nhello`);
    expect(await driver.questions.answer(open.call, [{ options: [0] }], NEVER)).toEqual({ outcome: 'answered' });
    await within(DEADLINE, async () => existsSync(`${place.project}/new.txt`));
    expect(readFileSync(`${place.project}/new.txt`, 'utf8')).toBe('hello\n');
  });

  real.it('is a set of questions, and the model is told the answers [CCC-103, CCC-114]', async () => {
    const questions = [question('color', 'Red', 'Blue'), question('size', 'S', 'L')];
    const { driver, model } = await asking([call('request_user_input', { questions }), say('done')], 'plan');
    const open = await asked(driver);
    expect(open).toMatchObject({ kind: 'question', questions: [{ question: 'Which color?' }, { header: 'size' }] });
    const choices = [{ options: [1] }, { text: 'as large as it gets' }];
    expect(await driver.questions.answer(open.call, choices, NEVER)).toEqual({ outcome: 'answered' });
    // Codex gives them to the model in any order.
    await model.saw('"color":{"answers":["Blue"]}');
    await model.saw('"size":{"answers":["as large as it gets"]}');
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
  });
});

function question(id: string, ...labels: string[]) {
  const options = labels.map((label) => ({ label, description: `it is ${label}` }));
  return { id, header: id, question: `Which ${id}?`, options };
}

function adding(file: string): string {
  return `apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: ${file}\n+hello\n*** End Patch\nEOF`;
}

function escalated(cmd: string): Call {
  const why = { sandbox_permissions: 'require_escalated', justification: 'to see it' };
  return { tool: 'exec_command', input: { cmd, ...why } };
}

/** What it asks, when it does; another one than before. */
async function asked(driver: CodexSession, before?: OpenQuestion): Promise<OpenQuestion> {
  let open: OpenQuestion | null = null;
  await within(DEADLINE, async () => {
    open = await driver.questions.open();
    return open !== null && open.call !== before?.call;
  });
  return open as unknown as OpenQuestion;
}

/** A session that asks before it does anything, and was given a prompt. */
async function asking(steps: Step[], mode: 'default' | 'plan' = 'default') {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aCodex({ place, model });
  const file = `${code.folder}/config.toml`;
  const settings = readFileSync(file, 'utf8').replace('"never"', '"on-request"');
  writeFileSync(file, settings.replace('"danger-full-access"', '"read-only"'));
  const target = { name: 'one', host: '', client: 'codex', command: ['codex'], conversation: null };
  const driver = opens(new CodexSession({ ...target, folder: place.project, startTimeoutMs: DEADLINE }, code.env));
  await driver.start();
  const window = async (key: string): Promise<void> => {
    await Bun.spawn(['tmux', 'send-keys', '-t', '=ccc-one:', key], { env: code.env }).exited;
  };
  if (mode === 'plan') await plans(code.folder, driver);
  else
    await within(DEADLINE, async () => (await driver.submit({ key: 'k', text: 'go' }, NEVER)).outcome === 'submitted');
  return { driver, place, model, window };
}

/** Only in a plan the model may ask questions. Codex takes the mode with a turn. */
async function plans(folder: string, driver: CodexSession): Promise<void> {
  const daemon = CodexDaemon.at(folder);
  try {
    const settings = { model: 'scripted', reasoning_effort: null, developer_instructions: null };
    const input = [{ type: 'text', text: 'go', text_elements: [] }];
    const { conversation: threadId } = await driver.state();
    await daemon.call('turn/start', { threadId, input, collaborationMode: { mode: 'plan', settings } });
  } finally {
    daemon.release();
  }
}
