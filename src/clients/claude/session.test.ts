import { afterEach, describe, expect, it } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { ClaudeTui } from '../../../test/support/claude-tui.ts';
import { within } from '../../../test/support/within.ts';
import type { SessionTarget, TurnEvent } from '../../core/ports/session.ts';
import { isProcessAlive } from '../../platform/process.ts';
import { ClaudeSessionDriver } from './session.ts';

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

describe.skipIf(!hasTmux)(`a session of Claude Code in tmux${why}`, () => {
  it('takes prompts and gives each its own answer', async () => {
    const { driver, say } = await started();
    for (const text of ['one', 'two @@{"tool":true,"parts":["second","answer\\nwhole"]}@@'])
      expect((await say(text)).at(-1)).toMatchObject({
        how: 'done',
        text: text === 'one' ? 're: one' : 'second\n\nanswer\nwhole',
      });
    expect(await driver.state()).toMatchObject({
      status: 'idle',
      conversation: expect.any(String),
      pid: expect.any(Number),
    });
  });

  it.each([
    ['several lines', 'one\n\n  two\n'],
    ['a shell command', '!echo bang'],
    ['a command', '/status'],
    ['an unknown command', '/nosuchcommand hello'],
    ['a word that ends the client', 'exit'],
    ['a backslash at the end', 'C:\\'],
    ['an end of a paste', 'x \u001B[201~\r!touch y'],
    ['a hidden shell command', '\u200B!echo'],
    ['letters from right to left', 'a\u202Eb'],
    ['a tab', 'a\tb'],
    ['a word for which something is offered', 'so :smile'],
    ['a path at its end', 'see @/etc/hostname'],
    ['100 KB', `${'0123456789'.repeat(10_000)}\nend`],
  ])('takes %s as one prompt, and does nothing else [CCC-58, CCC-173, CCC-174]', async (_what, text) => {
    const { claude, driver, say } = await started();
    const [first] = await say(text);
    expect(claude.prompts()).toHaveLength(1);
    expect(first?.kind === 'prompt' && first.text.includes(driver.prepare(text).replaceAll('\t', '    ').trim())).toBe(
      true,
    );
    expect(claude.harm()).toEqual([]);
  });

  it.each([
    ['a question is open', { dialog: 'permission prompt' }, 'waiting', /question|waiting/],
    ['a question of the model is open', { dialog: 'input needed' }, 'waiting', /question|waiting/],
    ['a panel is open', { dialog: 'dialog open' }, 'waiting', /question|waiting/],
    ['its user has typed something', { draft: 'my own words' }, 'idle', /draft/],
    ['it says that it works', { status: 'busy' }, 'active', /busy/],
  ] as const)('is given nothing while %s [CCC-158, CCC-159, CCC-175]', async (_what, order, status, because) => {
    const { claude, driver } = await started();
    await claude.order(order);
    expect(await driver.state()).toMatchObject({ status, ...('dialog' in order && { waitingFor: order.dialog }) });
    if ('draft' in order) await within(DEADLINE, async () => (await driver.screen(50)).includes(order.draft));
    expect(await submitted(driver, 'hello')).toEqual({
      outcome: 'left',
      because: expect.stringMatching(because),
      retry: true,
    });
    expect(claude.harm()).toEqual([]);
    // The user's draft is sent alone.
    if ('draft' in order) {
      await claude.tmux('send-keys', '-t', '=ccc-app:', 'Enter');
      expect(await claude.prompted()).toEqual(['my own words']);
    }
  });

  it('reports `unknown` if the client does not acknowledge what was typed', async () => {
    const { claude, driver } = await started({ start: { ignoresEnter: true } });
    await within(DEADLINE, async () => {
      const said = await submitted(driver, 'hello');
      return said.outcome === 'unknown' && said.isTaken === false;
    });
    expect(claude.prompts()).toEqual([]);
  });

  it('reports as taken a prompt that left the composer without an acknowledgement', async () => {
    const { claude, driver } = await started();
    await claude.order({ enter: 'swallowed' });
    await within(DEADLINE, async () => {
      const said = await submitted(driver, 'hello');
      return said.outcome === 'unknown' && said.isTaken === true;
    });
    expect(claude.prompts()).toEqual([]);
  });

  it('treats an equal draft as the prompt only if an earlier attempt may have left it there [CCC-158]', async () => {
    const { claude, driver } = await started();
    await claude.order({ draft: 'continue' });
    await within(DEADLINE, async () => (await driver.screen(50)).includes('continue'));
    expect(await submitted(driver, 'continue')).toMatchObject({ outcome: 'left', retry: true });
    expect(claude.prompts()).toEqual([]);
    expect(await driver.submit({ key: 'k', text: 'continue', isRetry: true }, NEVER)).toEqual({ outcome: 'submitted' });
    expect(await claude.prompted()).toEqual(['continue']);
  });

  it('never types at the shell that a client left behind, and starts the client there again [CCC-175]', async () => {
    const { claude, driver, folder } = await aSession();
    const pid = await claude.openByHand('ccc-app', folder);
    expect(await driver.state()).toMatchObject({ status: 'idle', pid });
    process.kill(pid, 'SIGKILL');
    await within(DEADLINE, async () => (await driver.state()).status === 'stopped');
    expect(await submitted(driver, 'rm -rf everything')).toMatchObject({ outcome: 'left', retry: true });
    expect(await claude.tmux('capture-pane', '-p', '-t', '=ccc-app:')).not.toContain('everything');
    await driver.start();
    await takes(driver, 'hello');
    expect(await claude.prompted()).toEqual(['hello']);
  });

  it('is not confused with a session whose name begins in the same way [CCC-154]', async () => {
    const { claude, driver, folder, driverOf } = await aSession();
    const web = driverOf({ name: 'app-web', folder: `${folder}/web` });
    await web.start();
    expect(await driver.state()).toEqual({ status: 'stopped' });
    expect(await submitted(driver, 'hello')).toMatchObject({ outcome: 'left' });
    await driver.stop();
    expect(await web.state()).toMatchObject({ status: 'idle' });
    expect(claude.prompts()).toEqual([]);
  });

  it('keeps the size, mode and selection of its terminal when Parley types [CCC-179]', async () => {
    const { claude, say } = await started();
    let shown = '';
    const person = Bun.spawn(['tmux', 'attach-session', '-t', '=ccc-app'], {
      env: claude.env,
      terminal: { cols: 80, rows: 24, data: (_terminal, bytes) => void (shown += Buffer.from(bytes).toString()) },
    });
    const facts = [
      '#{window_width}x#{window_height} #{session_attached} #{mouse} #{pane_in_mode}',
      '#{window_index}.#{pane_index} #{buffer_name}',
    ].join(' ');
    const seen = () => claude.tmux('display-message', '-p', '-t', '=ccc-app:', facts);
    // The client's status line has one row.
    await within(DEADLINE, async () => (await seen()).startsWith('80x23 1 '));
    const before = await seen();
    await say('hello');
    await within(DEADLINE, async () => shown.includes('re: hello'));
    expect(await seen()).toBe(before);
    expect(await claude.tmux('list-clients', '-F', '#{client_width}x#{client_height} #{client_readonly}')).toBe(
      '80x24 0\n',
    );
    expect(await claude.tmux('show-options', '-g', 'mouse')).toBe('mouse off\n');
    person.kill();
    await person.exited;
    person.terminal?.close();
  });
});

describe.skipIf(!hasTmux)(`the start of a session of Claude Code${why}`, () => {
  it('resumes its own conversation, else the newest of its folder, else begins a new one [CCC-176]', async () => {
    const { claude, driver, driverOf, say } = await started();
    await say('hello');
    const { conversation = '' } = await driver.state();
    await driver.stop();
    expect(await driver.state()).toEqual({ status: 'stopped', conversation });
    expect(await driver.start()).toEqual({ started: 'resumed' });
    await driver.stop();
    const knowsNothing = driverOf({ conversation: null });
    expect(await knowsNothing.start()).toEqual({ started: 'resumed' });
    await knowsNothing.stop();
    // Its conversation is deleted, and its folder has another one.
    const lost = driverOf({ conversation: crypto.randomUUID() });
    expect(await lost.start()).toEqual({ started: 'resumed' });
    await lost.stop();
    const starts = claude.noted().flatMap(({ started: argv, session }) => (argv ? [[...argv, session]] : []));
    expect(starts).toEqual([
      [conversation],
      ['--resume', conversation, conversation],
      ['-c', conversation],
      ['-c', conversation],
    ]);
    expect(await driver.state()).toMatchObject({ conversation });
  });

  it('starts with the command that the user configured, in the folder', async () => {
    const { claude, driverOf, folder } = await aSession();
    const driver = driverOf({ command: ['claude', '--model', 'x y;'] });
    await driver.start();
    expect(claude.noted()[0]).toMatchObject({ started: ['--model', 'x y;'], cwd: folder });
  });

  it('waits for a client that starts slowly [CCC-177]', async () => {
    const { claude, driver } = await aSession();
    claude.starts({ isHeld: true });
    const starting = driver.start();
    await within(DEADLINE, async () => claude.running().length > 0);
    expect(await driver.state()).toMatchObject({ status: 'starting' });
    claude.starts({});
    await starting;
    expect(await driver.state()).toMatchObject({ status: 'idle' });
  });

  it('ends at once with the last line of a client that ends [CCC-177]', async () => {
    const { claude, driver } = await aSession();
    claude.starts({ exit: { code: 1, line: 'Invalid API key · Please run /login' } });
    await expect(driver.start()).rejects.toThrow(/^Invalid API key · Please run \/login$/);
    expect(await driver.state()).toEqual({ status: 'stopped' });
    await expect(claude.tmux('has-session', '-t', '=ccc-app')).rejects.toThrow();
  });

  it('gives up a client that never gets ready, and reports what it shows [CCC-177]', async () => {
    const { claude, driverOf } = await aSession();
    claude.starts({ ms: 600_000 });
    await expect(driverOf({ startTimeoutMs: 1500 }).start()).rejects.toThrow('not ready within 1.5 s');
  });

  it('waits for its user while it asks whether to trust the folder, and nothing is typed [CCC-159, CCC-177]', async () => {
    const { claude, driver, driverOf } = await aSession();
    claude.starts({ trust: true });
    expect(await driver.start()).toEqual({ started: 'fresh' });
    expect(await driver.state()).toEqual({ status: 'waiting', waitingFor: 'dialog open' });
    expect(await submitted(driver, 'hello')).toMatchObject({ outcome: 'left', retry: true });
    expect(await driver.screen(50)).toContain('Yes, I trust this folder');
    // Another process finds the running client and does not start a second one.
    const again = driverOf();
    expect(await again.state()).toEqual({ status: 'waiting', waitingFor: 'dialog open' });
    expect(await again.start()).toEqual({ started: 'resumed' });
    const changes: string[] = [];
    again.watch(() => void again.state().then(({ status }) => changes.push(status)));
    expect([claude.harm(), claude.running()]).toEqual([[], [expect.anything()]]);
    await claude.tmux('send-keys', '-t', '=ccc-app:', 'Down', 'Enter');
    await within(DEADLINE, async () => changes.at(-1) === 'idle');
    // Between the question and its first status the client does not count as ended.
    expect(changes).not.toContain('stopped');
    const place = await again.place();
    await takes(again, 'hello');
    expect((await ended(again, place)).at(-1)).toMatchObject({ how: 'done', text: 're: hello' });
    expect(claude.harm()).toEqual([]);
  });

  it('is stopped if its user does not trust the folder, or ends the client at that question [CCC-177]', async () => {
    const { claude, driver } = await aSession();
    claude.starts({ trust: true });
    await driver.start();
    await claude.tmux('send-keys', '-t', '=ccc-app:', 'Escape');
    await within(DEADLINE, async () => (await driver.state()).status === 'stopped');
    await driver.start();
    await driver.stop();
    expect(await driver.state()).toEqual({ status: 'stopped' });
  });

  it('does not touch another program in its tmux session [CCC-175]', async () => {
    const { claude, driver, folder } = await aSession();
    await claude.tmux('new-session', '-d', '-s', 'ccc-app', '-c', folder, '--', 'sleep', '600');
    const running = (): Promise<string> =>
      claude.tmux('display-message', '-p', '-t', '=ccc-app:', '#{pane_current_command}');
    await within(DEADLINE, async () => (await running()).trim() === 'sleep');
    expect(await driver.state()).toEqual({ status: 'stopped' });
    await expect(driver.start()).rejects.toThrow('sleep runs in the tmux session ccc-app; end it first');
  });

  it('says what is missing', async () => {
    const { driverOf, folder } = await aSession();
    await expect(driverOf({ command: ['no-such-claude'] }).start()).rejects.toThrow('no program no-such-claude');
    await expect(driverOf({ folder: `${folder}/gone` }).start()).rejects.toThrow(`no folder ${folder}/gone`);
  });

  it('keeps two sessions in one folder apart, with their own conversations and answers [CCC-155, CCC-178]', async () => {
    const { driverOf, claude } = await aSession();
    const names = ['left', 'right'];
    const pair = names.map((name) => driverOf({ name, sharesFolder: true }));
    for (const driver of pair) await driver.start();
    const places = await Promise.all(pair.map((driver) => driver.place()));
    for (const [n, driver] of pair.entries()) await takes(driver, `for ${names[n]}`);
    const ends = await Promise.all(pair.map((driver, n) => ended(driver, places[n] ?? '')));
    expect(ends.map((events) => events.map((event) => event.text))).toEqual(
      names.map((name) => [`for ${name}`, `re: for ${name}`]),
    );
    const had = await Promise.all(pair.map(async (driver) => (await driver.state()).conversation));
    expect(new Set(had).size).toBe(2);
    for (const driver of pair) await driver.stop();
    const again = names.map((name, n) => driverOf({ name, sharesFolder: true, conversation: had[n] ?? null }));
    for (const driver of again) await driver.start();
    expect(await Promise.all(again.map(async (driver) => (await driver.state()).conversation))).toEqual(had);
    expect(claude.running()).toHaveLength(2);
  });
});

describe.skipIf(!hasTmux)(`a session of Claude Code that a person opened${why}`, () => {
  it('is the only one of its folder, and is typed to in its own pane; only the client is ended', async () => {
    const { claude, driver, folder } = await aSession();
    const pid = await claude.openByHand('mine', folder);
    await claude.tmux('new-window', '-d', '-t', '=mine:', '--', 'env', 'sh');
    expect(await driver.state()).toMatchObject({ status: 'idle', pid });
    const place = await driver.place();
    await takes(driver, 'hello');
    expect((await ended(driver, place)).at(-1)).toMatchObject({ how: 'done', text: 're: hello' });
    expect(await driver.screen(5)).toContain('❯');
    await driver.stop();
    expect(isProcessAlive(pid)).toBe(false);
    expect((await claude.tmux('list-panes', '-s', '-t', '=mine')).trim().split('\n')).toHaveLength(2);
  });

  it('is not guessed where there are two, and not taken from another session', async () => {
    const { claude, driver, folder, driverOf } = await aSession();
    await driverOf({ name: 'other' }).start();
    expect(await driver.state()).toEqual({ status: 'stopped' });
    await claude.openByHand('one', folder);
    await claude.openByHand('two', folder);
    expect(await driver.state()).toEqual({ status: 'stopped' });
  });

  it('is not typed to if it runs outside of tmux', async () => {
    const { claude, driver, folder } = await aSession();
    // A terminal without tmux around it.
    const child = Bun.spawn(['script', '-qfc', `stty rows 30 cols 100; ${claude.program}`, '/dev/null'], {
      cwd: folder,
      env: claude.env,
      stdin: 'pipe',
      stdout: 'ignore',
    });
    opens({
      close: async () => {
        child.kill();
        await child.exited;
      },
    });
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
    expect(await submitted(driver, 'hello')).toEqual({
      outcome: 'left',
      retry: false,
      because: expect.stringContaining('outside of tmux'),
    });
    await expect(driver.screen(5)).rejects.toThrow('no terminal');
    await driver.stop();
  });

  it('continues in the new conversation after its user cleared the old one', async () => {
    const { claude, driver, folder } = await aSession();
    await claude.openByHand('mine', folder);
    const place = await driver.place();
    await takes(driver, 'before');
    const first = await driver.events(place);
    await claude.prompted();
    await claude.until('idle');
    const { conversation } = await driver.state();
    await claude.tmux('send-keys', '-t', '=mine:', '/clear', 'Enter');
    await within(DEADLINE, async () => (await driver.state()).conversation !== conversation);
    await takes(driver, 'after');
    const events = await ended(driver, first.next, 1 + (first.events.some(({ kind }) => kind === 'end') ? 0 : 1));
    expect([...first.events, ...events].map(({ text }) => text)).toEqual([
      'before',
      're: before',
      'after',
      're: after',
    ]);
  });
});

describe.skipIf(!hasTmux)(`a turn of Claude Code${why}`, () => {
  it.each([
    ['before the first word', 'wait @@{"hold":true}@@', ''],
    ['in the middle', 'wait @@{"hold":true,"tool":true}@@', 'I look first.'],
  ])('that its user interrupts %s has ended within 2 s [CCC-180]', async (_when, text, said) => {
    const { claude, driver } = await started();
    const place = await driver.place();
    await takes(driver, text);
    await claude.until('busy');
    await claude.prompted();
    await claude.tmux('send-keys', '-t', '=ccc-app:', 'Escape');
    await within(DEADLINE, async () => claude.noted().some(({ interrupted }) => interrupted));
    expect((await ended(driver, place, 1, 2000)).at(-1)).toMatchObject({ how: 'interrupted', text: said });
  });

  it('has failed if the client died in it, also for a later reader and after a restart [CCC-180]', async () => {
    const { claude, driver, driverOf } = await started();
    const place = await driver.place();
    await takes(driver, 'die @@{"die":true}@@');
    expect((await ended(driver, place)).map((event) => [event.kind, 'how' in event && event.how])).toEqual([
      ['prompt', false],
      ['end', 'failed'],
    ]);
    const { conversation = null } = await driver.state();
    const later = driverOf({ conversation });
    expect((await later.events(place)).events.at(-1)).toMatchObject({ kind: 'end', how: 'failed' });
    await later.start();
    expect((await driverOf({ conversation }).events(place)).events.at(-1)).toMatchObject({
      kind: 'end',
      how: 'failed',
    });
    expect(claude.prompts()).toHaveLength(1);
  });

  it('can be followed by another process that knows only the place [CCC-157]', async () => {
    const { claude, driver, driverOf } = await started();
    const place = await driver.place();
    await takes(driver, 'wait @@{"hold":true}@@');
    await claude.until('busy');
    await within(DEADLINE, async () => (await driver.events(place)).events.length === 1);
    const { next } = await driver.events(place);
    await claude.order({ finish: 'late' });
    const { conversation = null } = await driver.state();
    const events = await ended(driverOf({ conversation }), next);
    expect(events).toMatchObject([{ kind: 'end', how: 'done', text: 'late' }]);
    const after = await driver.place();
    expect((await driverOf({ conversation }).events(after)).events).toEqual([]);
  });

  it('does not move the place while nothing more is recorded', async () => {
    const { driver } = await started();
    const place = await driver.place();
    await takes(driver, 'hello');
    await ended(driver, place);
    const { next } = await driver.events(place);
    // A time in the place would have changed.
    await Bun.sleep(5);
    expect([next === place, await driver.events(next)]).toEqual([false, { events: [], next }]);
  });

  it('of a prompt that was queued with others has the answer to all of them', async () => {
    const { claude, driver } = await started();
    const place = await driver.place();
    await takes(driver, 'first @@{"hold":true}@@');
    for (const text of ['second', 'third']) {
      await claude.tmux('send-keys', '-t', '=ccc-app:', text, 'Enter');
      await within(DEADLINE, async () => claude.noted().some(({ queued }) => queued === text));
    }
    expect(await submitted(driver, 'mine')).toMatchObject({ outcome: 'left', retry: true });
    await claude.order({ finish: 'one' });
    const events = await ended(driver, place, 3);
    expect(events.map(({ kind, text }) => `${kind} ${text}`)).toEqual([
      'prompt first @@{"hold":true}@@',
      'end one',
      'prompt second',
      'prompt third',
      'end re: third',
      'end re: third',
    ]);
  });

  it('without a recorded end has ended when the client is idle', async () => {
    const { driver } = await started();
    const place = await driver.place();
    await takes(driver, 'quiet @@{"noEnd":true,"text":"all"}@@');
    expect((await ended(driver, place)).at(-1)).toMatchObject({ how: 'done', text: 'all' });
  });

  it('of a shell command or a command of the client is not a prompt', async () => {
    const { claude, driver } = await started();
    const place = await driver.place();
    await claude.tmux('send-keys', '-t', '=ccc-app:', '!true', 'Enter');
    await within(DEADLINE, async () => claude.noted().some(({ shell }) => shell === 'true'));
    expect((await driver.events(place)).events).toEqual([]);
  });
});

describe.skipIf(!hasTmux)(`a session of Claude Code that is watched${why}`, () => {
  it('reports each change of its state [CCC-31, CCC-36]', async () => {
    const { claude, driver } = await aSession();
    const seen: string[] = [];
    opens({ close: async () => stop() });
    const look = async (): Promise<void> => {
      const { status } = await driver.state();
      if (status !== seen.at(-1)) seen.push(status);
    };
    const stop = driver.watch(() => void look());
    const sees = (status: string) => within(DEADLINE, async () => seen.at(-1) === status);
    await driver.start();
    await sees('idle');
    await takes(driver, 'wait @@{"hold":true}@@');
    await sees('active');
    await claude.order({ finish: 'x' });
    await sees('idle');
    await claude.order({ dialog: 'input needed' });
    await sees('waiting');
    process.kill(claude.running()[0]?.pid ?? 0, 'SIGKILL');
    await sees('stopped');
    await driver.close();
  });

  it('shows the last lines of its screen, or an error if there is none', async () => {
    const { driver, say } = await started();
    await say('show me');
    expect((await driver.screen(3)).split('\n')).toHaveLength(3);
    expect(await driver.screen(50)).toContain('● re: show me');
    await driver.stop();
    await expect(driver.screen(5)).rejects.toThrow('not running');
  });
});

async function aSession() {
  const claude = opens(new ClaudeTui());
  const folder = `${claude.env['HOME']}/project`;
  mkdirSync(`${folder}/web`, { recursive: true });
  const driverOf = (more: Partial<SessionTarget> = {}): ClaudeSessionDriver =>
    opens(
      new ClaudeSessionDriver(
        {
          name: 'app',
          host: 'local',
          client: 'claude',
          folder,
          command: ['claude'],
          conversation: null,
          startTimeoutMs: 60_000,
          ...more,
        },
        claude.env,
      ),
    );
  return { claude, folder, driverOf, driver: driverOf() };
}

async function started({ start = {} }: { start?: Parameters<ClaudeTui['starts']>[0] } = {}) {
  const session = await aSession();
  session.claude.starts(start);
  expect(await session.driver.start()).toEqual({ started: 'fresh' });
  /** Sends a prompt and waits for the end of its turn. */
  const say = async (text: string): Promise<TurnEvent[]> => {
    const place = await session.driver.place();
    await takes(session.driver, text);
    return ended(session.driver, place);
  };
  return { ...session, say };
}

async function submitted(driver: ClaudeSessionDriver, text: string) {
  return driver.submit({ key: 'k', text: driver.prepare(text) }, NEVER);
}

/** Submits as the queue does: repeats while nothing went in, because a client reports idle a little before its screen shows it. */
async function takes(driver: ClaudeSessionDriver, text: string): Promise<void> {
  await within(DEADLINE, async () => {
    const said = await submitted(driver, text);
    if (said.outcome === 'unknown') throw new Error(said.because);
    return said.outcome === 'submitted';
  });
}

/** The events since a place, up to this number of ended turns. */
async function ended(driver: ClaudeSessionDriver, place: string, ends = 1, ms = DEADLINE): Promise<TurnEvent[]> {
  const found: TurnEvent[] = [];
  let since = place;
  await within(ms, async () => {
    const { events, next } = await driver.events(since);
    found.push(...events);
    since = next;
    return found.filter(({ kind }) => kind === 'end').length >= ends;
  });
  return found;
}
