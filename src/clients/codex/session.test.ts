import { afterEach, describe, expect, it } from 'bun:test';
import { chmodSync, copyFileSync, readFileSync } from 'node:fs';
import { ScriptedCodex } from '../../../test/support/codex-daemon.ts';
import { saysAndEnds } from '../../../test/support/tmux.ts';
import { within } from '../../../test/support/within.ts';
import type { SessionState, SessionTarget, TurnEvent } from '../../core/ports/session.ts';
import { CodexSession } from './session.ts';

const hasTmux = Bun.which('tmux') !== null;
const why = hasTmux ? '' : ' (skipped: tmux is not here)';
const DEADLINE = 20_000;
const NEVER = new AbortController().signal;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});
function opens<T extends { close(): Promise<void> }>(one: T): T {
  opened.push(one);
  return one;
}

describe.skipIf(!hasTmux)(`a session of Codex${why}`, () => {
  it('starts, answers, stops and resumes like that of any other client [CCC-205]', async () => {
    const { session } = aCodex();
    const driver = session();
    expect(await driver.state()).toEqual({ status: 'stopped' });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    const { conversation } = await driver.state();
    expect(await asks(driver, 'one')).toMatchObject({ end: { how: 'done', text: 're: one' } });
    await driver.stop();
    expect(await driver.state()).toEqual({ status: 'stopped', conversation: String(conversation) });
    await expect(driver.screen(10)).rejects.toThrow('no terminal');
    expect(await driver.start()).toEqual({ started: 'resumed' });
    expect(await driver.state()).toMatchObject({ status: 'idle', conversation });
    expect(await asks(driver, 'two')).toMatchObject({ end: { text: 're: two' } });
    expect(await driver.screen(10)).toContain('ok');
  });

  it('keeps its conversation beside others in the same folder [CCC-155, CCC-178]', async () => {
    const { codex, session } = aCodex();
    const [one, two] = [session(), session({ name: 'two' })];
    expect(await Promise.all([one.start(), two.start()])).toEqual([{ started: 'fresh' }, { started: 'fresh' }]);
    codex.answers = () => null;
    const both = [asks(one, 'for one'), asks(two, 'for two')];
    const [first, second] = await Promise.all([one, two].map(async (driver) => thread(codex, await driver.state())));
    await within(DEADLINE, async () => first?.turn !== null && second?.turn !== null);
    if (!first || !second) throw new Error('both have a conversation');
    codex.finish(second, 'from two');
    codex.finish(first, 'from one');
    expect((await Promise.all(both)).map(({ end }) => end.text)).toEqual(['from one', 'from two']);
  });

  it('without a conversation takes the newest of its folder, but never that of another session [CCC-176, CCC-178]', async () => {
    const { codex, session } = aCodex();
    const one = session();
    await one.start();
    await asks(one, 'hello');
    const { conversation } = await one.state();
    const ends = async (driver: CodexSession): Promise<void> => {
      await driver.stop();
      codex.unload(thread(codex, await driver.state()));
    };
    await ends(one);
    expect(await session({ name: 'two' }).start()).toEqual({ started: 'fresh' });
    await one.close();
    const three = session({ name: 'three' });
    expect(await three.start()).toEqual({ started: 'resumed' });
    expect(await three.state()).toMatchObject({ conversation });
    await ends(three);
    await three.close();
    expect(await session({ name: 'four', sharesFolder: true }).start()).toEqual({ started: 'fresh' });
  });

  it('ends its turn when it is stopped, because Codex would continue without a window [CCC-180]', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    codex.answers = () => null;
    const slow = asks(driver, 'slow');
    const its = thread(codex, await driver.state());
    await within(DEADLINE, async () => its.turn !== null);
    await within(DEADLINE, async () => (await driver.state()).status === 'active');
    await driver.stop();
    expect((await slow).end).toMatchObject({ how: 'interrupted' });
    expect(await driver.state()).toMatchObject({ status: 'stopped' });
  });

  it.each([
    ['active', { type: 'active', activeFlags: [] }, { status: 'active' }],
    [
      'waitingOnApproval',
      { type: 'active', activeFlags: ['waitingOnApproval'] },
      { status: 'waiting', waitingFor: 'permission prompt' },
    ],
    [
      'waitingOnUserInput',
      { type: 'active', activeFlags: ['waitingOnUserInput'] },
      { status: 'waiting', waitingFor: 'input needed' },
    ],
  ])('that Codex calls %s takes no prompt [CCC-159]', async (_name, status, state) => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    const its = thread(codex, await driver.state());
    codex.status(its, status);
    await within(DEADLINE, async () => (await driver.state()).status === state.status);
    expect(await driver.state()).toMatchObject(state);
    expect(await driver.submit({ key: 'k', text: 'no' }, NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(codex.called).not.toContain('thread/queue/add');
  });

  it('asks its user both in its window and through Parley, until the window is closed [CCC-103]', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    const its = thread(codex, await driver.state());
    codex.answers = () => null;
    codex.typed(its, 'go');
    codex.asks(its, 'item/commandExecution/requestApproval', { startedAtMs: 1000, command: 'touch made' });
    await within(DEADLINE, async () => (await driver.questions.open())?.kind === 'permission');
    await Bun.spawn(['tmux', 'kill-server'], { env: codex.env }).exited;
    // Codex would keep the conversation loaded for us.
    await within(DEADLINE, async () => (await driver.questions.open()) === null && codex.joinedTo(its) === 0);
  });

  it('begins the next prompt even after an interrupt, when Codex does not begin its queue [CCC-180]', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    codex.answers = (text) => (text === 'slow' ? null : `re: ${text}`);
    const slow = asks(driver, 'slow');
    const its = thread(codex, await driver.state());
    await within(DEADLINE, async () => its.turn !== null);
    codex.interrupt(its);
    expect((await slow).end).toMatchObject({ how: 'interrupted' });
    expect((await asks(driver, 'next')).end).toMatchObject({ how: 'done', text: 're: next' });
  });

  it('begins a prompt that waited for a turn of its user after that turn is interrupted', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    const its = thread(codex, await driver.state());
    codex.answers = (text) => (text === 'by hand' ? null : `re: ${text}`);
    // The turn begins between the look and the prompt.
    const turn = its.turn;
    its.turn = 'by hand';
    const asked = asks(driver, 'ours');
    await within(DEADLINE, async () => its.queue.length > 0);
    its.turn = turn;
    codex.typed(its, 'by hand');
    codex.interrupt(its);
    expect((await asked).end).toMatchObject({ how: 'done', text: 're: ours' });
  });

  it('reports `unknown` for a prompt that Codex did not acknowledge, and never submits it twice', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    const its = thread(codex, await driver.state());
    its.isPaused = true;
    codex.silent.add('thread/queue/add');
    const gone = new AbortController();
    const submitted = driver.submit({ key: 'k-1', text: 'once' }, gone.signal);
    await within(DEADLINE, async () => its.queue.length > 0);
    gone.abort();
    expect(await submitted).toMatchObject({ outcome: 'unknown' });
    codex.silent.clear();
    expect(await driver.submit({ key: 'k-1', text: 'once' }, NEVER)).toEqual({ outcome: 'submitted' });
    expect(codex.called.filter((method) => method === 'thread/queue/add')).toHaveLength(1);
  });

  it('removes a prompt that no turn has begun from the queue of Codex, so that it does not run later', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    const its = thread(codex, await driver.state());
    its.isPaused = true;
    // The turn of its user begins between the look and the prompt.
    its.turn = 'by hand';
    expect(await driver.submit({ key: 'k-1', text: 'deploy' }, NEVER)).toEqual({ outcome: 'submitted' });
    expect(its.queue).toHaveLength(1);
    await driver.takeBack({ key: 'k-1', text: 'deploy' });
    await driver.takeBack({ key: 'k-1', text: 'deploy' });
    expect(its.queue).toEqual([]);
    codex.interrupt(its);
    expect((await asks(driver, 'next')).end).toMatchObject({ how: 'done', text: 're: next' });
    expect(readFileSync(its.path, 'utf8')).not.toContain('deploy');
  });

  it('is stopped when its daemon ends; the open turn has failed, and a start resumes the conversation [CCC-180]', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    const place = await driver.place();
    codex.answers = () => null;
    const slow = asks(driver, 'slow');
    const its = thread(codex, await driver.state());
    await within(DEADLINE, async () => its.turn !== null);
    await codex.kill();
    await within(DEADLINE, async () => (await driver.state()).status === 'stopped');
    expect((await slow).end).toMatchObject({ how: 'failed' });
    codex.start();
    expect(await driver.start()).toEqual({ started: 'resumed' });
    // Also for a reader that begins only now.
    expect((await driver.events(place)).events.at(-1)).toMatchObject({ kind: 'end', how: 'failed' });
  });

  it('reports each change, and the prompts that a person typed', async () => {
    const { codex, session } = aCodex();
    const driver = session();
    await driver.start();
    const place = await driver.place();
    let changes = 0;
    const stop = driver.watch(() => (changes += 1));
    codex.typed(thread(codex, await driver.state()), 'by hand');
    await within(DEADLINE, async () => changes > 0);
    stop();
    const { events } = await driver.events(place);
    expect(events).toMatchObject([
      { kind: 'prompt', text: 'by hand' },
      { kind: 'end', how: 'done', text: 're: by hand' },
    ]);
    expect(events.some((event) => driver.isOurs(event, { key: 'k', text: 'by hand' }))).toBe(false);
  });

  it('fails a start with the last line of Codex if Codex ends [CCC-177]', async () => {
    const { session } = aCodex();
    const driver = session({ command: saysAndEnds('I give up', 3) });
    await expect(driver.start()).rejects.toThrow('I give up');
    expect(await driver.state()).toEqual({ status: 'stopped' });
    await expect(session({ command: ['codex', '--no-daemon'] }).start()).rejects.toThrow('remove --no-daemon');
  });

  it('waits for its user while the window shows a question, and nothing is typed [CCC-159]', async () => {
    const { codex, session } = aCodex();
    const command = [...codex.command, '--asks'];
    const driver = session({ command });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    expect(await driver.state()).toMatchObject({ status: 'waiting', waitingFor: 'dialog open: review hooks' });
    expect(await driver.submit({ key: 'k', text: 'no' }, NEVER)).toMatchObject({ outcome: 'left', retry: true });
    // A conversation that begins meanwhile is not the one of this window.
    const other = codex.begin();
    expect(await driver.state()).toMatchObject({ status: 'waiting' });
    codex.unload(other);
    // Another process finds the running client and does not start a second one.
    const { pid } = await driver.state();
    const again = session({ command });
    expect(await again.start()).toEqual({ started: 'resumed' });
    expect(await again.state()).toMatchObject({ status: 'waiting', pid });
    await again.close();
    await tmux(codex, 'send-keys', '-t', '=ccc-one:', 'Enter');
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
    expect((await asks(driver, 'hello')).end).toMatchObject({ how: 'done', text: 're: hello' });
  });

  it('waits for its user even before Codex has a daemon', async () => {
    const { codex, session } = aCodex();
    await codex.kill();
    const login = ['sh', '-c', 'printf "> 1. Sign in with ChatGPT\\n\\n  Press enter to continue"; read answer'];
    const driver = session({ command: login });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    expect(await driver.state()).toMatchObject({ status: 'waiting', waitingFor: 'dialog open: sign in' });
    await driver.stop();
    expect(await driver.state()).toEqual({ status: 'stopped' });
  });

  it('reports what the window shows if the window never gets ready [CCC-177]', async () => {
    const { session } = aCodex();
    const driver = session({ command: ['sh', '-c', 'echo loading; exec sleep 600'], startTimeoutMs: 1500 });
    await expect(driver.start()).rejects.toThrow(/^Codex was not ready in 2 s: (loading)?$/);
  });
});

describe.skipIf(!hasTmux || process.platform !== 'linux')(`a window of Codex that a person opened${why}`, () => {
  it('is the session, if it is the only one in the folder, and ends with it', async () => {
    const { codex, session } = aCodex();
    const { id } = codex.begin();
    await opensByHand(codex, 'person');
    const driver = session();
    expect(await driver.state()).toEqual({ status: 'idle', conversation: id });
    expect((await asks(driver, 'hello')).end).toMatchObject({ text: 're: hello' });
    await driver.stop();
    expect(await driver.state()).toEqual({ status: 'stopped', conversation: id });
  });

  it.each([
    ['it is the one of another session', 'ccc-two', {}, 1],
    ['another session has the same folder', 'person', { sharesFolder: true }, 1],
    ['there is another conversation in the folder', 'person', {}, 2],
  ])('is not taken for the session where %s [CCC-178]', async (_why, name, more, threads) => {
    const { codex, session } = aCodex();
    for (let n = 0; n < threads; n += 1) codex.begin();
    await opensByHand(codex, name);
    expect(await session(more).state()).toEqual({ status: 'stopped' });
  });
});

describe('a prompt for Codex', () => {
  it.each([
    ['/status', '/status'],
    ['!echo bang', '!echo bang'],
    ['a\r\nb\rc\td', 'a\nb\nc\td'],
    ['x\u001B[201~\u0000y\u009Bz', 'x[201~yz'],
    ['half \uD800', 'half \uFFFD'],
  ])('is plain text: %j [CCC-58, CCC-173, CCC-174]', (text, prepared) => {
    expect(aCodex().session().prepare(text)).toBe(prepared);
  });

  it('is refused if it has no visible text or is meant as a command', () => {
    const driver = aCodex().session();
    expect(() => driver.prepare(' \u0007\n')).toThrow('the prompt is empty');
    expect(() => driver.prepare('/compact', { raw: true })).toThrow('only in its own window');
  });
});

function aCodex() {
  const codex = opens(new ScriptedCodex());
  const target: SessionTarget = {
    name: 'one',
    host: '',
    client: 'codex',
    folder: codex.folder,
    command: codex.command,
    conversation: null,
    startTimeoutMs: DEADLINE,
  };
  const session = (more: Partial<SessionTarget> = {}): CodexSession =>
    opens(new CodexSession({ ...target, ...more }, codex.env));
  return { codex, session };
}

/** A process that looks like Codex. */
async function opensByHand(codex: ScriptedCodex, name: string): Promise<void> {
  const { home, folder } = codex;
  copyFileSync(Bun.which('sleep') ?? '', `${home}/codex`);
  chmodSync(`${home}/codex`, 0o755);
  await tmux(codex, 'new-session', '-d', '-s', name, '-c', folder, '--', 'env', `${home}/codex`, '600');
  const look = ['display-message', '-p', '-t', `=${name}:`, '#{pane_current_command}'];
  await within(DEADLINE, async () => (await tmux(codex, ...look)).trim() === 'codex');
}

/** Runs a command of these sessions' tmux server and returns its output. */
async function tmux({ env }: ScriptedCodex, ...words: string[]): Promise<string> {
  return new Response(Bun.spawn(['tmux', ...words], { env, stderr: 'ignore' }).stdout).text();
}

function thread(codex: ScriptedCodex, { conversation = '' }: SessionState) {
  const found = codex.threads.get(conversation);
  if (!found) throw new Error('the session has no conversation');
  return found;
}

/** Submits as control does: repeats until Codex has the prompt, then reads the record until the turn is over. */
async function asks(driver: CodexSession, text: string) {
  const prompt = { key: crypto.randomUUID(), text };
  let place = await driver.place();
  await within(DEADLINE, async () => (await driver.submit(prompt, NEVER)).outcome === 'submitted');
  const seen: TurnEvent[] = [];
  let found: { turn: string; end: Extract<TurnEvent, { kind: 'end' }> } | undefined;
  await within(DEADLINE, async () => {
    const { events, next } = await driver.events(place);
    place = next;
    seen.push(...events);
    const turn = seen.find((event) => driver.isOurs(event, prompt))?.turn;
    const end = seen.find((event) => event.kind === 'end' && event.turn === turn);
    if (turn !== undefined && end?.kind === 'end') found = { turn, end };
    return found !== undefined;
  });
  if (!found) throw new Error(`no end of the turn with ${text}`);
  return found;
}
