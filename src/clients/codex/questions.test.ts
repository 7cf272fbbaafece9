import { afterEach, describe, expect, it } from 'bun:test';
import { ScriptedCodex } from '../../../test/support/codex-daemon.ts';
import { within } from '../../../test/support/within.ts';
import type { Thread } from './rpc.ts';
import { CodexDaemon } from './rpc.ts';
import { CodexQuestions } from './questions.ts';

const DEADLINE = 20_000;
const NEVER = new AbortController().signal;
const QUESTION = 'item/tool/requestUserInput';
const COMMAND = 'item/commandExecution/requestApproval';
const FILES = 'item/fileChange/requestApproval';
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

describe('a question of Codex', () => {
  it('is shown while it waits, and its answer is the one that the model is told [CCC-103, CCC-183]', async () => {
    const { codex, thread, questions } = await aThread();
    expect(await questions.open()).toBeNull();
    const before = Date.now();
    codex.asks(thread, QUESTION, { questions: [color(), size()] });
    const open = await asked(questions);
    expect(open).toMatchObject({
      kind: 'question',
      questions: [
        {
          question: 'Which color?',
          header: 'Color',
          options: [{ label: 'Red', description: 'warm' }, { label: 'Blue' }],
        },
        { question: 'Which size?', options: [{ label: 'S' }] },
      ],
    });
    expect(open.askedAt).toBeWithin(before - 1, Date.now() + 1);
    const choices = [{ options: [1] }, { text: 'huge' }];
    expect(await questions.answer(open.call, choices, NEVER)).toEqual({ outcome: 'answered' });
    const answers = { color: { answers: ['Blue'] }, size: { answers: ['huge'] } };
    expect(codex.replies).toMatchObject([{ result: { answers } }]);
    expect(await questions.open()).toBeNull();
    expect(await questions.answer(open.call, choices, NEVER)).toEqual({ outcome: 'gone' });
    expect(codex.replies).toHaveLength(1);
  });

  it('is gone if it was answered in the window, and nothing is sent [CCC-183]', async () => {
    const { codex, thread, questions } = await aThread();
    const request = codex.asks(thread, QUESTION, { questions: [color()] });
    const { call } = await asked(questions);
    codex.resolve(request, { answers: { color: { answers: ['Red'] } } });
    codex.asks(thread, QUESTION, { questions: [color()] });
    await within(DEADLINE, async () => (await questions.open())?.call !== call);
    expect(await questions.answer(call, [{ options: [1] }], NEVER)).toEqual({ outcome: 'gone' });
    expect(codex.replies).toEqual([]);
  });

  it('is answered by the answer in the record if two are given at the same moment [CCC-183]', async () => {
    const { codex, thread, questions } = await aThread();
    codex.asks(thread, QUESTION, { questions: [color()] });
    const { call } = await asked(questions);
    codex.taken = (request) => codex.resolve(request, { answers: { color: { answers: ['Red'] } } });
    expect(await questions.answer(call, [{ options: [1] }], NEVER)).toEqual({ outcome: 'gone' });
  });

  it('for a secret is answered only in the window, because Parley would store the answer', async () => {
    const { codex, thread, questions } = await aThread();
    codex.asks(thread, QUESTION, { questions: [{ ...color(), isSecret: true, options: null }] });
    const { call } = await asked(questions);
    expect(await questions.answer(call, [{ text: 'hunter2' }], NEVER)).toMatchObject({
      outcome: 'left',
      because: expect.stringContaining('secret'),
    });
    expect(codex.replies).toEqual([]);
  });

  it('is still there after a reconnect to the daemon, with the time at which it was asked', async () => {
    const { codex, thread, questions, another } = await aThread();
    codex.asks(thread, QUESTION, { questions: [color()] });
    const first = await asked(questions);
    questions.close();
    await within(DEADLINE, async () => codex.joinedTo(thread) === 0);
    expect(await asked(another())).toEqual(first);
  });
});

describe('an approval that Codex asks for', () => {
  it('is a permission with the options of its window, and the answer is the decision behind the option [CCC-182]', async () => {
    const { codex, thread, questions } = await aThread();
    const amendment = { acceptWithExecpolicyAmendment: { execpolicy_amendment: ['touch', 'made'] } };
    const availableDecisions = ['accept', amendment, { somethingNew: {} }, 'cancel'];
    codex.asks(thread, COMMAND, { startedAtMs: 5000, command: 'touch made', reason: 'why not', availableDecisions });
    const open = await asked(questions);
    expect(open).toMatchObject({ kind: 'permission', askedAt: 5000 });
    expect(open.questions).toEqual([
      {
        header: 'Command',
        question: 'Would you like to run the following command?\n\nwhy not\n\n$ touch made',
        options: [
          { label: 'Yes, proceed' },
          { label: "Yes, and don't ask again for commands that start with `touch made`" },
          { label: 'No, and tell Codex what to do differently' },
        ],
        multiSelect: false,
      },
    ]);
    expect(await questions.answer(open.call, [{ text: 'yes' }], NEVER)).toMatchObject({ outcome: 'left' });
    expect(await questions.answer(open.call, [{ options: [1] }], NEVER)).toEqual({ outcome: 'answered' });
    expect(codex.replies).toMatchObject([{ result: { decision: amendment } }]);
  });

  it('to change files shows the files, even if it was asked before anybody looked', async () => {
    const { codex, thread, questions } = await aThread();
    const { params } = codex.asks(thread, FILES, { startedAtMs: 5000 });
    codex.items = [{ id: params['itemId'], changes: [{ path: '/x/new.txt', kind: { type: 'add' }, diff: 'hello\n' }] }];
    const open = await asked(questions);
    expect(open.questions[0]?.question).toBe('Would you like to make the following edits?\n\nadd /x/new.txt\nhello');
    expect(await questions.answer(open.call, [{ options: [2] }], NEVER)).toEqual({ outcome: 'answered' });
    expect(codex.replies).toMatchObject([{ result: { decision: 'cancel' } }]);
  });

  it('to change files names every file before the first diff and omits nothing [CCC-182]', async () => {
    const { codex, thread, questions } = await aThread();
    const { params } = codex.asks(thread, FILES, { startedAtMs: 5000 });
    const long = 'x'.repeat(5000);
    const changes = [
      { path: '/x/new.txt', kind: { type: 'add' }, diff: `${long}\n` },
      { path: '/x/key', kind: { type: 'update', move_path: '/home/me/.ssh/authorized_keys' }, diff: '+key\n' },
    ];
    codex.items = [{ id: params['itemId'], changes }];
    const open = await asked(questions);
    const names = ['add /x/new.txt', 'update /x/key → /home/me/.ssh/authorized_keys'];
    const diffs = [`${names[0]}\n${long}`, `${names[1]}\n+key`];
    expect(open.questions[0]?.question).toBe(
      ['Would you like to make the following edits?', names.join('\n'), ...diffs].join('\n\n'),
    );
  });

  it('to change unknown files can only be denied, and that answer approves nothing later [CCC-182]', async () => {
    const { codex, thread, questions } = await aThread();
    const { params } = codex.asks(thread, FILES, { startedAtMs: 5000 });
    const open = await asked(questions);
    expect(open.questions[0]?.options).toEqual([{ label: 'No, and tell Codex what to do differently' }]);
    codex.begins(thread, { id: params['itemId'], changes: [{ path: '/x/a', kind: { type: 'add' }, diff: 'a' }] });
    await within(DEADLINE, async () => (await questions.open())?.questions[0]?.options.length === 3);
    expect(await questions.answer(open.call, [{ options: [0] }], NEVER)).toEqual({ outcome: 'gone' });
    expect(codex.replies).toEqual([]);
    const { call } = await asked(questions);
    expect(await questions.answer(call, [{ options: [2] }], NEVER)).toEqual({ outcome: 'answered' });
  });

  it('that was denied is not answered while its item has no end [CCC-183]', async () => {
    const { codex, thread, questions } = await aThread();
    codex.asks(thread, COMMAND, { startedAtMs: 5000, command: 'touch made' });
    const { call } = await asked(questions);
    // In the same moment the window approves it, and the command runs.
    codex.taken = (request) => codex.resolve(request, { decision: 'accept' });
    expect(await questions.answer(call, [{ options: [1] }], NEVER)).toMatchObject({ outcome: 'unknown' });
  });

  it('counts as answered by somebody else if the item ends differently from our answer [CCC-183]', async () => {
    const { codex, thread, questions } = await aThread();
    codex.asks(thread, COMMAND, { startedAtMs: 5000, command: 'touch made' });
    const { call } = await asked(questions);
    codex.taken = (request) => codex.resolve(request, { decision: 'cancel' }, { status: 'declined' });
    expect(await questions.answer(call, [{ options: [0] }], NEVER)).toEqual({ outcome: 'gone' });
  });

  it('is never answered by the answer to another one of the same second [CCC-183]', async () => {
    const { codex, thread, questions } = await aThread();
    const first = codex.asks(thread, COMMAND, { startedAtMs: 5000, command: 'touch one' });
    codex.asks(thread, COMMAND, { startedAtMs: 5008, command: 'rm -rf two' });
    const one = await asked(questions);
    codex.resolve(first, { decision: 'accept' });
    await within(DEADLINE, async () => (await questions.open())?.call !== one.call);
    const two = await asked(questions);
    expect(Math.floor(two.askedAt / 1000)).toBeGreaterThan(Math.floor(one.askedAt / 1000));
    expect(await questions.answer(one.call, [{ options: [0] }], NEVER)).toEqual({ outcome: 'gone' });
    expect(codex.replies).toEqual([]);
  });

  it('has an unknown outcome if the daemon ends before it reports one', async () => {
    const { codex, thread, questions } = await aThread();
    codex.asks(thread, COMMAND, { startedAtMs: 5000, command: 'touch made' });
    const { call } = await asked(questions);
    codex.taken = () => void codex.kill();
    expect(await questions.answer(call, [{ options: [0] }], NEVER)).toMatchObject({ outcome: 'unknown' });
  });

  it('of an unknown kind is left to the window', async () => {
    const { codex, thread, questions } = await aThread();
    codex.asks(thread, 'item/permissions/requestApproval', { startedAtMs: 5000, permissions: {} });
    expect(await questions.open()).toBeNull();
    expect(codex.replies).toEqual([]);
  });
});

it('Parley joins a thread of Codex only while somebody looks for its questions', async () => {
  const { codex, thread, questions } = await aThread();
  await questions.open();
  expect(codex.joinedTo(thread)).toBe(0);
  const request = codex.asks(thread, QUESTION, { questions: [color()] });
  await asked(questions);
  expect(codex.joinedTo(thread)).toBe(1);
  codex.resolve(request, { answers: {} });
  await within(DEADLINE, async () => (await questions.open()) === null && codex.joinedTo(thread) === 0);
});

it('Parley leaves a thread of Codex even if the time runs out while an answer is under way', async () => {
  const { codex, thread, another } = await aThread();
  const questions = another({ stayMs: 20 });
  codex.asks(thread, COMMAND, { startedAtMs: 5000, command: 'touch made' });
  const { call } = await asked(questions);
  const { promise, resolve } = Promise.withResolvers<void>();
  codex.taken = (request, result) => void promise.then(() => codex.resolve(request, result, { status: 'completed' }));
  const answering = questions.answer(call, [{ options: [0] }], NEVER);
  await within(DEADLINE, async () => codex.replies.length === 1);
  await Bun.sleep(60);
  expect(codex.joinedTo(thread)).toBe(1);
  resolve();
  expect(await answering).toEqual({ outcome: 'answered' });
  await within(DEADLINE, async () => codex.joinedTo(thread) === 0);
});

it('two threads of Codex keep their questions apart when both are looked at in the same moment', async () => {
  const { codex, thread, daemon, another } = await aThread();
  const other = codex.begin();
  codex.typed(other, 'go');
  codex.asks(thread, COMMAND, { startedAtMs: 5000, command: 'touch one' });
  codex.asks(other, COMMAND, { startedAtMs: 9000, command: 'rm -rf two' });
  const threads = [thread, other].map(({ id }) => id);
  const isWaiting = (id: string): boolean => daemon.threads.get(id)?.status.startsWith('waiting') === true;
  await within(DEADLINE, async () => threads.every(isWaiting));
  const looked = threads.map((id) => daemon.threads.get(id) ?? null);
  const questions = another({ waiting: async () => looked.shift() ?? null });
  const opens = await Promise.all([questions.open(), questions.open()]);
  expect(opens.map((open) => open?.questions[0]?.question.split('$ ')[1])).toEqual(['touch one', 'rm -rf two']);
});

function color() {
  const options = [
    { label: 'Red', description: 'warm' },
    { label: 'Blue', description: '' },
  ];
  return { id: 'color', header: 'Color', question: 'Which color?', isOther: true, isSecret: false, options };
}

function size() {
  return { ...color(), id: 'size', question: 'Which size?', options: [{ label: 'S', description: 'small' }] };
}

/** A conversation in a turn, and a reader of its questions. */
async function aThread() {
  const codex = new ScriptedCodex();
  opened.push(() => codex.close());
  const thread = codex.begin();
  codex.answers = () => null;
  codex.typed(thread, 'go');
  const daemon = CodexDaemon.at(codex.codexHome);
  opened.push(() => daemon.release());
  await daemon.connect();
  const waiting = async (): Promise<Thread | null> => {
    await daemon.connect();
    const known = daemon.threads.get(thread.id) ?? null;
    return known?.status.startsWith('waiting') === true ? known : null;
  };
  const another = (how: { waiting?: typeof waiting; stayMs?: number } = {}): CodexQuestions => {
    const questions = new CodexQuestions(daemon, how.waiting ?? waiting, how.stayMs);
    opened.push(() => questions.close());
    return questions;
  };
  return { codex, thread, daemon, questions: another(), another };
}

async function asked(questions: CodexQuestions) {
  let open = await questions.open();
  await within(DEADLINE, async () => (open ??= await questions.open()) !== null);
  if (!open) throw new Error('nothing is asked');
  return open;
}
