import { afterEach, describe, expect, it } from 'bun:test';
import { ControlRig } from '../support/control-rig.ts';
import { within } from '../support/within.ts';

const rigs: ControlRig[] = [];
async function serve(...args: ConstructorParameters<typeof ControlRig>): Promise<ControlRig> {
  const rig = new ControlRig(...args);
  rigs.push(rig);
  return rig.listen();
}
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

/** A prompt that the stand-in answers so. */
const answered = (how: object, text = ''): string => `${text}@@${JSON.stringify(how)}@@`;

describe('an ask', () => {
  it('starts the session and returns the whole answer of its own turn [CCC-40, CCC-146]', async () => {
    const rig = await serve();
    const text = Array.from({ length: 200 }, (_, at) => `line ${at} \u001b[31mred\u001b[0m é漢🙂 \`code\``).join('\n');
    const answer = await rig.ask('api', answered({ text, delay: 1500 }, 'go '), { from: 'orchestrator' });
    expect(answer).toMatchObject({ ok: true, response: text, started: 'fresh' });
    expect(answer['duration_ms'] as number).toBeGreaterThanOrEqual(1500);
  });

  it('returns when the turn has ended, not before and not much later [CCC-38]', async () => {
    const rig = await serve();
    let isOver = false;
    const asking = rig.ask('api', answered({ hold: true }, 'go ')).finally(() => (isOver = true));
    await rig.claude.prompted(1);
    await within(10_000, async () => (await rig.status('api')) === 'active');
    expect(isOver).toBe(false);
    await rig.claude.order({ finish: 'done' });
    await within(3000, async () => isOver);
    expect(await asking).toMatchObject({ response: 'done' });
  });

  it('of many at once over several sessions gets its own answer each time [CCC-17, CCC-49, CCC-157]', async () => {
    const names = ['a', 'b', 'c', 'd'];
    const rig = await serve(Object.fromEntries(names.map((name) => [name, {}])));
    const asked = Array.from({ length: 16 }, (_, at) => ({ session: names[at % 4] ?? '', text: `question ${at}` }));
    const answers = await Promise.all(asked.map(({ session, text }) => rig.ask(session, text)));
    expect(answers.map((answer) => answer['response'])).toEqual(asked.map(({ text }) => `re: ${text}`));
    expect(rig.claude.prompts().sort()).toEqual(asked.map(({ text }) => text).sort());
    expect(rig.claude.harm()).toEqual([]);
    const lines = rig.files();
    expect(lines).toHaveLength(32);
    expect(new Set(lines.map(({ id }) => id)).size).toBe(32);
  });

  it('after its time is over is a time-out; what was typed is answered into the history [CCC-45, CCC-131, CCC-172]', async () => {
    const rig = new ControlRig();
    rigs.push(rig);
    await rig.listen({ PARLEY_CONTROL_ASK_MS: '3000' });
    const first = rig.ask('api', answered({ hold: true }, 'typed '));
    await rig.claude.prompted(1);
    const second = rig.ask('api', 'never typed');
    expect([(await first).error, (await second).error]).toEqual([
      'timeout waiting for response',
      'timeout waiting for response',
    ]);
    await rig.claude.order({ finish: 'late, but here' });
    await within(10_000, async () => (await rig.history('api', { from_filter: 'claude' })).length === 1);
    expect(await rig.history('api')).toMatchObject([
      { from: 'api' },
      { from: 'api', text: 'never typed', status: 'withdrawn' },
      { from: 'claude', text: 'late, but here' },
    ]);
    expect((await rig.ask('api', 'next'))['response']).toBe('re: next');
    expect(rig.claude.prompts()).toHaveLength(2);
  });

  it('that is cut off by Esc, by continue, or by the death of the client says so, and so does the history [CCC-180]', async () => {
    const rig = await serve();
    const first = rig.ask('api', answered({ hold: true }, 'one '));
    await rig.claude.prompted(1);
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'Escape');
    expect(await first).toEqual({ ok: false, error: 'interrupted' });
    // The client puts the prompt back into its composer; who pressed Esc clears it.
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'C-u');
    const second = rig.ask('api', answered({ hold: true }, 'two '));
    await rig.claude.prompted(2);
    expect(await rig.request({ cmd: 'continue', session: 'api' })).toEqual({ ok: true });
    expect(await second).toEqual({ ok: false, error: 'session stopped' });
    const third = rig.ask('api', answered({ die: true }, 'three '));
    expect(await third).toEqual({ ok: false, error: 'session stopped' });
    const lines = (await rig.history('api')).filter(({ from }) => from === 'api');
    expect(lines.map(({ status }) => status)).toEqual(['interrupted', 'failed', 'failed']);
    expect((await rig.ask('api', 'four'))['response']).toBe('re: four');
  });

  it('whose caller went away is answered into the history [CCC-50]', async () => {
    const rig = await serve();
    const caller = await rig.caller();
    caller.write(`${JSON.stringify({ cmd: 'ask', session: 'api', text: 'hello' })}\n`);
    await rig.claude.prompted(1);
    caller.close();
    await within(10_000, async () => (await rig.history('api')).at(-1)?.text === 're: hello');
  });

  it('of a turn without a word is empty, and says so [CCC-51]', async () => {
    const rig = await serve();
    expect(await rig.ask('api', answered({ parts: [] }))).toMatchObject({ ok: true, response: '', empty: true });
  });
});

describe('what is typed', () => {
  const TEXTS: [what: string, text: string][] = [
    ['several lines', 'one\ntwo\n\nfour'],
    ['a leading dash', '-n is an option'],
    ['a shell command of the client', '!echo bang'],
    ['a command of the client', '/status'],
    ['a path', '/home/me/file is broken'],
    ['a hash', '#hash'],
    ['a trailing backslash', 'ends with \\'],
    ['quotes', `'"$(id)\`id\`; %s #{pane_id}`],
    ['a paste that ends itself', 'x\u001b[201~\ry'],
    ['a hidden bang', '\u200b!echo bang'],
    ['a right-to-left mark', 'a\u202eb'],
    ['emoji', '👩‍👩‍👧 é漢🙂'],
    ['100 KB', `long ${'0123456789'.repeat(10_000)} end`],
  ];

  it('is one prompt, whatever it holds, and never a command [CCC-15, CCC-58, CCC-173, CCC-174]', async () => {
    const rig = await serve();
    for (const [count, [what, text]] of TEXTS.entries()) {
      const answer = await rig.ask('api', text);
      expect([what, answer.ok]).toEqual([what, true]);
      expect([what, rig.claude.prompts().length]).toEqual([what, count + 1]);
    }
    expect(rig.claude.harm()).toEqual([]);
    const prompts = rig.claude.prompts();
    for (const [at, [what, text]] of TEXTS.entries()) {
      if (/dash|several|hash|quotes|path|emoji|KB/.test(what)) expect([what, prompts[at]]).toEqual([what, text]);
    }
    const sent = (await rig.history('api', { from_filter: 'api' })).map(({ text }) => text);
    expect(sent).toEqual(TEXTS.map(([, text]) => text));
  });

  it('while the client is busy waits, and comes in order, one turn each [CCC-60]', async () => {
    const rig = await serve();
    const first = rig.ask('api', answered({ hold: true }, 'busy '));
    await rig.claude.prompted(1);
    for (const text of ['one', 'two', 'three', 'four', 'five'])
      expect(await rig.send('api', text)).toMatchObject({ ok: true, status: 'queued' });
    expect((await rig.request({ cmd: 'queue', session: 'api' }))['queue']).toBeArrayOfSize(6);
    await rig.claude.order({ finish: 'done' });
    expect((await first)['response']).toBe('done');
    expect((await rig.claude.prompted(6)).slice(1)).toEqual(['one', 'two', 'three', 'four', 'five']);
    await within(20_000, async () => (await rig.history('api', { from_filter: 'claude' })).length === 6);
    const lines = await rig.history('api');
    for (const line of lines.filter(({ from }) => from === 'claude'))
      expect(lines.find(({ id }) => id === line.reply_to)?.from).toBe('api');
  });

  it('waits while a person types, and while a dialog or a panel is open [CCC-158, CCC-159, CCC-163, CCC-175]', async () => {
    const rig = await serve();
    await rig.ask('api', 'start');
    await rig.claude.order({ draft: 'I am writing' });
    const sent = await rig.send('api', 'later');
    expect(sent).toMatchObject({ ok: true, status: 'queued' });
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'C-u');
    await rig.claude.prompted(2);
    await within(20_000, async () => (await rig.history('api')).at(-1)?.reply_to === sent['message_id']);
    await rig.claude.order({ dialog: 'permission prompt' });
    await within(20_000, async () => {
      const { sessions } = await rig.request({ cmd: 'sessions' });
      return (sessions as { waiting_for?: string }[])[0]?.waiting_for === 'permission prompt';
    });
    expect(await rig.status('api')).toBe('idle');
    expect(await rig.send('api', 'after the dialog')).toMatchObject({ status: 'queued' });
    await Bun.sleep(700);
    expect(rig.claude.prompts()).toHaveLength(2);
    await rig.claude.order({ close: '' });
    expect((await rig.claude.prompted(3)).at(-1)).toBe('after the dialog');
    expect(rig.claude.harm()).toEqual([]);
  });

  it('and was left in the composer by a server that was killed is sent, and not typed a second time [CCC-174]', async () => {
    const rig = await serve();
    await rig.ask('api', 'start');
    await rig.claude.order({ enter: 'ignored' });
    const text = 'pasted, and then the server was killed';
    const asked = rig.ask('api', text).catch(() => 'the server was killed');
    await within(20_000, async () => rig.claude.noted().some(({ ignored }) => ignored === text));
    await rig.end('SIGKILL');
    await asked;
    await rig.claude.order({ enter: 'taken' });
    await rig.listen();
    await within(30_000, async () => (await rig.history('api')).at(-1)?.text === `re: ${text}`);
    expect(rig.claude.prompts()).toEqual(['start', text]);
  });

  it('is not what a person has in the composer with the same words, and that is not sent for them [CCC-158, CCC-175]', async () => {
    const rig = await serve();
    await rig.ask('api', 'start');
    await rig.claude.order({ draft: 'continue' });
    const sent = await rig.send('api', 'continue');
    expect(sent).toMatchObject({ ok: true, status: 'queued' });
    await within(20_000, async () => {
      const { queue } = await rig.request({ cmd: 'queue', session: 'api' });
      return JSON.stringify(queue).includes('there is a draft in the composer');
    });
    expect(rig.claude.prompts()).toEqual(['start']);
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'C-u');
    expect(await rig.claude.prompted(2)).toEqual(['start', 'continue']);
    await within(20_000, async () => (await rig.history('api')).at(-1)?.reply_to === sent['message_id']);
  });

  it('is not called submitted while the client ignores Enter [CCC-59]', async () => {
    const rig = new ControlRig();
    rigs.push(rig);
    rig.claude.starts({ ignoresEnter: true });
    await rig.listen();
    const { message_id: id, status } = await rig.send('api', 'hello');
    expect(status).toBe('queued');
    const inQueue = async (): Promise<unknown> => ((await rig.request({ cmd: 'queue' }))['queue'] as object[])[0];
    // Long enough for a server that trusts its own key press.
    for (let look = 0; look < 20; look++) {
      expect(await inQueue()).toMatchObject({ id, state: expect.stringMatching(/^(queued|submitting)$/) });
      await Bun.sleep(100);
    }
    expect(rig.claude.prompts()).toEqual([]);
  });

  it('is a command of the client only where the file allows it [CCC-173]', async () => {
    const rig = await serve({ api: {} }, { allow_commands: true });
    await rig.ask('api', 'start');
    const answer = await rig.ask('api', '/status', { raw: true });
    expect(answer).toEqual({ ok: false, error: 'no turn' });
  });
});

describe('a message that was sent', () => {
  it('is stored at once, and its answer is found by its id [CCC-53, CCC-56]', async () => {
    const rig = await serve();
    await rig.ask('api', 'start');
    const sent = await rig.send('api', answered({ hold: true }, 'work '), { from: 'ci-bot' });
    expect(sent.ok).toBe(true);
    const poll = { after: sent['message_id'], from_filter: 'claude', limit: 1 };
    await rig.claude.prompted(2);
    expect(await rig.history('api', poll)).toEqual([]);
    await rig.claude.order({ finish: 'done' });
    await within(20_000, async () => (await rig.history('api', poll)).length === 1);
    expect((await rig.history('api', poll))[0]).toMatchObject({ reply_to: sent['message_id'] });
    expect((await rig.history('api', { from_filter: 'api' })).at(-1)?.agent).toBe('ci-bot');
  });

  it('is in the files before its id is told [CCC-187]', async () => {
    const rig = await serve();
    for (const text of ['one', 'two', 'three']) {
      const { message_id: id } = await rig.ask('api', text);
      expect(rig.files().find((line) => line.id === id)?.text).toBe(`re: ${text}`);
    }
  });
});

describe('a person at the keyboard', () => {
  it('is recorded, with the answer, unless the file says no [CCC-34, CCC-83]', async () => {
    const rig = await serve();
    await rig.ask('api', 'start');
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'typed by hand');
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'Enter');
    await within(20_000, async () => (await rig.history('api')).length === 4);
    expect((await rig.history('api')).slice(2)).toMatchObject([
      { from: 'human', username: 'terminal', text: 'typed by hand' },
      { from: 'claude', text: 're: typed by hand' },
    ]);
    rig.configure({ api: {} }, { record_terminal: false });
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'in private');
    await rig.claude.tmux('send-keys', '-t', '=ccc-api:', 'Enter');
    await rig.claude.prompted(3);
    await rig.ask('api', 'end');
    expect((await rig.history('api')).map(({ text }) => text)).not.toContain('in private');
  });
});
