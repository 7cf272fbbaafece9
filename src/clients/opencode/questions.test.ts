import { afterEach, describe, expect, it } from 'bun:test';
import { anOpenCodeFile, closeOpenCodeFiles } from '../../../test/support/opencode-file.ts';
import { OpenCodeQuestions } from './questions.ts';
import { messageId } from './record.ts';
import { NotTaken } from './server.ts';

afterEach(closeOpenCodeFiles);

const NEVER = new AbortController().signal;
const TOOL = { messageID: 'm1', callID: 'call_1' };
const AT = Date.now() - 60_000;
const idAt = (kind: string, at: number): string => messageId('abcdefabcdefab', at).replace('msg_', `${kind}_`);
const PERMISSION = {
  id: idAt('per', AT),
  sessionID: 's',
  permission: 'bash',
  patterns: ['touch it'],
  metadata: { command: 'touch it' },
  always: ['touch *'],
  tool: TOOL,
};
const options = [
  { label: 'Red', description: 'r' },
  { label: 'Blue', description: '' },
];
const QUESTION = {
  id: idAt('que', AT),
  sessionID: 's',
  questions: [
    { question: 'Which colour?', header: 'Colour', options },
    { question: 'Which more?', header: 'More', options, multiple: true },
  ],
  tool: TOOL,
};

describe('what a session of OpenCode asks', () => {
  it('is a permission with the labels of its window and the time at which it was asked [CCC-182]', async () => {
    const { api, questions } = asking();
    expect(await questions.open()).toBeNull();
    api.permissions = [PERMISSION];
    const open = await questions.open();
    expect(open).toMatchObject({ call: PERMISSION.id, kind: 'permission', askedAt: AT });
    expect(open?.questions[0]).toEqual({
      question: 'Permission required: bash\n\n$ touch it',
      header: 'bash',
      options: [
        { label: 'Allow once' },
        { label: 'Allow always', description: 'until OpenCode is restarted: touch *' },
        { label: 'Reject' },
      ],
      multiSelect: false,
    });
  });

  it('is a set of questions with their options [CCC-103]', async () => {
    const { api, questions } = asking();
    api.questions = [QUESTION];
    expect(await questions.open()).toMatchObject({
      kind: 'question',
      questions: [
        { question: 'Which colour?', options: [{ label: 'Red', description: 'r' }, { label: 'Blue' }] },
        { multiSelect: true },
      ],
    });
  });

  it('includes questions of its subagents, but not of another conversation', async () => {
    const { api, file, questions } = asking();
    file.db.run("INSERT INTO session VALUES ('child', 's', '/', 0, NULL)");
    api.permissions = [{ ...PERMISSION, sessionID: 'other' }];
    expect(await questions.open()).toBeNull();
    api.permissions.push({ ...PERMISSION, id: 'per_2', sessionID: 'child' });
    expect(await questions.open()).toMatchObject({ call: 'per_2' });
  });

  it('has a different second for each question, so that an answer to one never counts for the next', async () => {
    const { api, questions } = asking();
    api.permissions = [PERMISSION];
    await questions.open();
    api.permissions = [{ ...PERMISSION, id: idAt('per', AT + 1) }];
    expect(Math.floor(((await questions.open())?.askedAt ?? 0) / 1000)).toBe(Math.floor(AT / 1000) + 1);
  });

  it.each([
    [0, 'once'],
    [1, 'always'],
    [2, 'reject'],
  ])('is answered with option %i as `%s`, and OpenCode goes on [CCC-183]', async (option, reply) => {
    const { api, file, questions } = asking();
    api.permissions = [PERMISSION];
    api.goesOn = () => calls(file, { status: reply === 'reject' ? 'error' : 'completed' });
    expect(await questions.answer(PERMISSION.id, [{ options: [option] }], NEVER)).toEqual({ outcome: 'answered' });
    expect(api.posted).toEqual([[`/permission/${PERMISSION.id}/reply`, { reply }]]);
  });

  it('is answered by labels or own words, when the call of the model has just these [CCC-114]', async () => {
    const { api, file, questions } = asking();
    api.questions = [QUESTION];
    const answers = [['mauve'], ['Red', 'Blue']];
    api.goesOn = () => calls(file, { status: 'completed', metadata: { answers } });
    const choices = [{ text: 'mauve' }, { options: [0, 1] }];
    expect(await questions.answer(QUESTION.id, choices, NEVER)).toEqual({ outcome: 'answered' });
    expect(api.posted).toEqual([[`/question/${QUESTION.id}/reply`, { answers }]]);
  });

  it('is gone if it was answered in its window first, or another question is open', async () => {
    const { api, questions } = asking();
    api.permissions = [PERMISSION];
    api.refuses = true;
    expect(await questions.answer(PERMISSION.id, [{ options: [0] }], NEVER)).toEqual({ outcome: 'gone' });
    expect(await questions.answer('per_before', [{ options: [0] }], NEVER)).toEqual({ outcome: 'gone' });
  });

  it('is answered if OpenCode is found a moment later, and not reported as gone if it is not found', async () => {
    const { api, file } = asking();
    api.permissions = [PERMISSION];
    api.goesOn = () => calls(file, { status: 'completed' });
    const missing: null[] = [null, null];
    const late = new OpenCodeQuestions(
      async () => (missing.length > 0 ? (missing.pop() ?? null) : api),
      file.record,
      () => 's',
    );
    expect(await late.answer(PERMISSION.id, [{ options: [0] }], NEVER)).toEqual({ outcome: 'answered' });
    const never = new OpenCodeQuestions(
      async () => null,
      file.record,
      () => 's',
    );
    expect(await never.answer(PERMISSION.id, [{ options: [0] }], NEVER)).toMatchObject({ outcome: 'left' });
  });

  it('gets no answer if OpenCode does not say in time what it asks', async () => {
    const { api, questions } = asking();
    api.get = () => Promise.reject(new Error('OpenCode did not answer within 30 s'));
    const because = 'OpenCode did not answer within 30 s';
    expect(await questions.answer(PERMISSION.id, [{ options: [0] }], NEVER)).toEqual({ outcome: 'left', because });
    expect(api.posted).toEqual([]);
  });

  it('gets no answer after a stop', async () => {
    const { api, questions } = asking();
    api.permissions = [PERMISSION];
    const said = await questions.answer(PERMISSION.id, [{ options: [0] }], AbortSignal.abort());
    expect(said).toMatchObject({ outcome: 'left' });
    expect(api.posted).toEqual([]);
  });
});

function calls(file: ReturnType<typeof anOpenCodeFile>, state: object): void {
  file.parts('m1', { type: 'tool', callID: 'call_1', state });
}

/** A session `s`, and the API of its OpenCode. */
function asking() {
  const file = anOpenCodeFile();
  file.db.run("INSERT INTO session VALUES ('s', NULL, '/', 0, NULL)");
  const api = {
    permissions: [] as object[],
    questions: [] as object[],
    posted: [] as [string, object][],
    refuses: false,
    goesOn: (): void => {},
    get: async (path: string): Promise<unknown> => (path === '/permission' ? api.permissions : api.questions),
    async post(path: string, body: object): Promise<unknown> {
      if (api.refuses) throw new NotTaken('404');
      api.posted.push([path, body]);
      api.goesOn();
      return true;
    },
  };
  const questions = new OpenCodeQuestions(
    async () => api,
    file.record,
    () => 's',
  );
  return { api, file, questions };
}
