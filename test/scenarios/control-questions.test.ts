import { afterEach, describe, expect, it } from 'bun:test';
import { cpSync } from 'node:fs';
import type { DialogCall } from '../support/claude-dialog.ts';
import { ControlRig } from '../support/control-rig.ts';
import { within } from '../support/within.ts';

const EXAMPLES = new URL('../../examples/control', import.meta.url).pathname;
const withPython = it.skipIf(Bun.which('python3') === null);
const DEADLINE = 20_000;

const rigs: ControlRig[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

describe('what a session asks its user', () => {
  it('is shown and answered over the socket, also by a server that was started later [CCC-103, CCC-163, CCC-183]', async () => {
    const rig = await asking([{ questions: [database(), { ...database('Which too?'), multiSelect: true }] }]);
    const { sessions } = await rig.request({ cmd: 'sessions' });
    expect(sessions).toMatchObject([{ name: 'api', status: 'idle', waiting_for: 'input needed' }]);
    const before = await rig.request({ cmd: 'questions', session: 'api' });
    expect(before).toMatchObject({
      ok: true,
      questions: { session: 'api', questions: [{ multi_select: false, answered: false }, { multi_select: true }] },
    });
    await rig.end();
    await rig.listen();
    expect(await rig.request({ cmd: 'questions', session: 'api' })).toEqual(before);
    const answer = { cmd: 'answer', session: 'api' };
    await rig.send('api', 'and then this');
    expect(await rig.request({ ...answer, question_index: 1, option_indexes: [0, 1] })).toMatchObject({ ok: true });
    expect(keys(rig)).toEqual([]);
    expect(await rig.request({ ...answer, question_index: 0, option_index: 1 })).toEqual({
      ok: true,
      response: 'answered question 0 with option 1 (MongoDB)',
    });
    expect(ends(rig)).toEqual([{ answers: { 'Which database?': 'MongoDB', 'Which too?': 'PostgreSQL, MongoDB' } }]);
    // What was sent meanwhile went into no dialog: it is the next prompt.
    expect((await rig.claude.prompted(2))[1]).toBe('and then this');
    const human = await rig.history('api', { from_filter: 'human' });
    expect(human.map(({ text }) => text)).toEqual(['Selected: MongoDB', 'Selected: PostgreSQL, MongoDB']);
  });

  it('is a permission, and no key is pressed unless a person wrote into the file that it may [CCC-182]', async () => {
    const rig = await asking([{ permission: 'touch made' }]);
    expect(await rig.request({ cmd: 'questions', session: 'api' })).toMatchObject({
      questions: { kind: 'permission', questions: [{ header: 'Bash command', options: [{ label: 'Yes' }, {}, {}] }] },
    });
    const refuse = { cmd: 'answer', session: 'api', question_index: 0, option_index: 2 };
    expect(await rig.request(refuse)).toEqual({ ok: false, error: 'answering permissions is off' });
    expect(keys(rig)).toEqual([]);
    rig.configure({ api: {} }, { control_may_approve: true });
    expect(await rig.request(refuse)).toMatchObject({ ok: true, response: 'answered question 0 with option 2 (No)' });
    expect(ends(rig)).toEqual([{ option: 2 }]);
  });

  it('is read and answered by commands', async () => {
    const rig = await asking([{ questions: [database()] }]);
    const shown = await rig.run('parley', ['questions', 'api']);
    expect(shown.out).toBe('0  Database\n  Which database?\n  0  PostgreSQL: Relational\n  1  MongoDB\n');
    const said = await rig.run('parley', ['answer', 'api', '0', '--text', 'a file']);
    expect([said.out, said.code]).toEqual(['answered question 0 with text (a file)\n', 0]);
    expect(ends(rig)).toEqual([{ answers: { 'Which database?': 'a file' } }]);
  });

  withPython('is answered by the program of the document [CCC-153]', async () => {
    const rig = await asking([{ questions: [database(), database('Which other one?')] }], 'myproject');
    cpSync(EXAMPLES, `${rig.home}/examples`, { recursive: true });
    const words = ['python3', 'patterns.py', 'questions', 'myproject'];
    const { err, code } = await rig.program(words, { cwd: `${rig.home}/examples` });
    expect([err, code]).toEqual(['', 0]);
    expect(ends(rig)).toEqual([{ answers: { 'Which database?': 'PostgreSQL', 'Which other one?': 'PostgreSQL' } }]);
  });
});

function database(question = 'Which database?') {
  const options = [{ label: 'PostgreSQL', description: 'Relational' }, { label: 'MongoDB' }];
  return { question, header: 'Database', options, multiSelect: false };
}

/** A server with a session whose model has asked this. */
async function asking(calls: DialogCall[], name = 'api'): Promise<ControlRig> {
  const rig = new ControlRig({ [name]: {} });
  rigs.push(rig);
  rig.claude.starts({ ageMs: 60_000 });
  await rig.listen();
  await rig.send(name, `ask @@${JSON.stringify({ asks: calls })}@@`);
  const isAsked = async (): Promise<boolean> => 'questions' in (await rig.request({ cmd: 'questions', session: name }));
  await within(DEADLINE, isAsked);
  return rig;
}

const keys = (rig: ControlRig): string[] => rig.claude.noted().flatMap(({ key }) => key ?? []);
const ends = (rig: ControlRig): unknown[] => rig.claude.noted().flatMap(({ end }) => end ?? []);
