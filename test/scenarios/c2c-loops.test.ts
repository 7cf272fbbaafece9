import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { platform } from '../../src/platform/os.ts';
import { LoopMachine } from '../support/c2c-loops.ts';
import { ScriptedKimi } from '../support/kimi.ts';
import type { KimiAct } from '../support/kimi.ts';

let machine: LoopMachine;
beforeEach(async () => {
  machine = new LoopMachine();
  await machine.register('alice');
  await machine.register('bob');
});
afterEach(() => machine.close());

const NO_INTERVALS = new URL('../support/no-intervals.ts', import.meta.url).pathname;
const SENTINEL = '<c2c event="message_pending">poll mcp__c2c__poll_inbox</c2c>';

/** The wake loop of bob, who sits in a pane of tmux. */
async function wakeLoop(terminal: string, more: string[] = [], env: Record<string, string> = {}) {
  const words = ['--session-id', 's-bob', '--client', 'codex', '--terminal', terminal];
  const staying = machine.spawn('c2c-deliver-inbox', ['--notify-only', '--loop', ...words, ...more], env);
  await machine.until(() => staying.said.includes('wake_started') || staying.child.exitCode !== null);
  expect(staying.child.exitCode).toBeNull();
  return staying;
}

describe('the wake daemon', () => {
  it('wakes a client once for a burst of 100, and not again for the same mail after kill -9 [C2C-35]', async () => {
    machine.be('busy');
    const terminal = await machine.pane('s-bob');
    const first = await wakeLoop(terminal);
    await machine.send('bob', 'letter 1');
    const theirs = Array.from({ length: 99 }, (_, n) => ({
      from_alias: 'carol',
      to_alias: 'bob',
      content: `letter ${n + 2}`,
      ts: Date.now() / 1000 + n,
    }));
    const [ours] = JSON.parse(readFileSync(`${machine.root}/s-bob.inbox.json`, 'utf8')) as object[];
    for (let n = 9; n <= 99; n += 10) machine.plant('s-bob', [ours ?? {}, ...theirs.slice(0, n)]);
    // Two more reasons to wait: the look that gives the second one began after the whole burst was there.
    for (const state of ['dialog', 'busy'] as const) {
      machine.be(state);
      await machine.until(() => (first.said.split('not_woken_yet').at(-1) ?? '').includes(state));
    }
    machine.be();
    await machine.until(() => machine.sent('s-bob').length > 0);
    await machine.until(() => /wake_woken session=s-bob count=100\b/.test(first.said));
    first.child.kill('SIGKILL');
    await first.child.exited;

    const second = await wakeLoop(terminal, ['--min-inject-gap', '0']);
    await machine.send('bob', 'letter 101');
    await machine.until(() => /wake_woken session=s-bob count=1\b/.test(second.said));
    expect(machine.sent('s-bob')).toEqual([SENTINEL, SENTINEL]);
    second.child.kill('SIGTERM');
    expect(await second.child.exited).toBe(0);
    expect(await machine.json<unknown[]>(['peek-inbox', '--session-id', 's-bob'])).toHaveLength(101);
  });

  it('wakes at once after a quiet time, and for what comes then only after the gap [C2C-35, C2C-35b]', async () => {
    const staying = await wakeLoop(await machine.pane('s-bob'), ['--min-inject-gap', '4']);
    await machine.send('bob', 'one');
    await machine.until(() => machine.sent('s-bob').length === 1);
    await machine.send('bob', 'two');
    await machine.until(() => machine.sent('s-bob').length === 2);
    const id =
      (await machine.json<{ message_id: string }[]>(['peek-inbox', '--session-id', 's-bob']))[0]?.message_id ?? '';
    const trace = await machine.parley(['trace', id, '--json']);
    expect(trace.out).toMatch(/"step": "knocked",\s+"at": "[^"]+",\s+"evidence": \{\s+"way": "wake"/);
    const [one = 0, two = 0] = machine.noted('s-bob').flatMap(({ at }) => at ?? []);
    // Between the key and the client's note of it some time may pass.
    expect(two - one).toBeGreaterThan(1500);
    await machine.until(() => staying.said.match(/wake_woken/g)?.length === 2);
  });

  it('waits while the client asks its user something, and types nothing meanwhile [C2C-35]', async () => {
    machine.be('dialog');
    const terminal = await machine.pane('s-bob');
    const staying = await wakeLoop(terminal);
    await machine.send('bob', 'hello');
    await machine.until(() => staying.said.includes('wake_not_woken_yet'));
    expect(staying.said).toContain('the client says that it is dialog');
    expect(machine.sent('s-bob')).toEqual([]);
    machine.be();
    await machine.until(() => machine.sent('s-bob').length > 0);
    expect(machine.sent('s-bob')).toEqual([SENTINEL]);
  });

  it('is told by its file of mail that another program renames into the inbox: nothing looks from time to time [C2C-35]', async () => {
    const staying = await wakeLoop(await machine.pane('s-bob'), ['--min-inject-gap', '0'], {
      BUN_OPTIONS: `--preload=${NO_INTERVALS}`,
    });
    const letter = (n: number) => ({ from_alias: 'carol', to_alias: 'bob', content: `letter ${n}`, ts: n });
    // The first may be found by the look with which it begins.
    for (let n = 1; n <= 3; n += 1) {
      machine.plant(
        's-bob',
        Array.from({ length: n }, (_, at) => letter(at + 1)),
      );
      await machine.until(() => staying.said.match(/wake_woken session=s-bob count=1\b/g)?.length === n);
    }
    expect(machine.sent('s-bob')).toEqual([SENTINEL, SENTINEL, SENTINEL]);
  });

  it('sends a heartbeat only if it is asked to [C2C-35c]', async () => {
    await wakeLoop(await machine.pane('s-bob'), ['--heartbeat', '0.3']);
    await machine.until(() => machine.sent('s-bob').length > 1);
    for (const sent of machine.sent('s-bob'))
      expect(sent).toMatch(/^<c2c event="heartbeat" alias="[\w-]+" ts="[^"]+" waiting="0"\/>$/);
  });

  it('lets 15 s lie between two wakes and beats no heart, unless it is told otherwise [C2C-35, C2C-35c]', async () => {
    const words = ['--session-id', 's-bob', '--client', 'codex', '--terminal', await machine.pane('s-bob')];
    const { pid } = await machine.json<{ pid: number }>(['deliver-inbox', '--notify-only', '--daemon', ...words]);
    const [wanted = ''] = /\{"kind":.*\}/.exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8')) ?? [];
    process.kill(pid);
    expect((JSON.parse(wanted) as { options: object }).options).toEqual({ gap_ms: 15_000 });
  });

  it('lets a session sleep that wants no disturbance', async () => {
    const terminal = await machine.pane('s-bob');
    await machine.send('bob', 'hello');
    await machine.c2c(['set-dnd', 'on'], { C2C_MCP_SESSION_ID: 's-bob' });
    await wakeLoop(terminal, ['--interval', '0.1']);
    const before = Date.now();
    await machine.c2c(['set-dnd', 'off'], { C2C_MCP_SESSION_ID: 's-bob' });
    await machine.until(() => machine.sent('s-bob').length > 0);
    expect(machine.noted('s-bob').find(({ sent }) => sent)?.at).toBeGreaterThan(before);
  });

  it('is one per session: a second one is told who runs [C2C-35b]', async () => {
    const terminal = await machine.pane('s-bob');
    const first = await wakeLoop(terminal);
    const words = ['--notify-only', '--loop', '--session-id', 's-bob', '--terminal', terminal];
    const { err, code } = await machine.c2c(['deliver-inbox', ...words]);
    expect(code).toBe(1);
    expect(err).toContain(`runs already for s-bob (pid ${first.child.pid}`);
  });

  it('puts the mail itself into the terminal in full mode, and the sign of the client ends it [C2C-35b]', async () => {
    const terminal = await machine.pane('s-bob');
    await machine.send('bob', 'the build is red');
    const words = ['--loop', '--session-id', 's-bob', '--client', 'codex', '--terminal', terminal];
    machine.spawn('c2c-deliver-inbox', words);
    await machine.until(() => machine.sent('s-bob').length > 0);
    const [text = ''] = machine.sent('s-bob');
    expect(text).toMatch(/^<c2c event="message" from="alice" .*>\nthe build is red\n<\/c2c>\s*$/);
    await machine.until(() => readFileSync(`${machine.root}/s-bob.inbox.json`, 'utf8').trim() === '[]');
    await machine.send('bob', 'and green again');
    await machine.until(() => machine.sent('s-bob').length > 1);
    expect(machine.sent('s-bob').filter((one) => one.includes('build is red'))).toHaveLength(1);
  });

  it('can be called for one look, which says what it did and what keeps it from more', async () => {
    const words = ['--session-id', 's-bob', '--client', 'codex', '--terminal', await machine.pane('s-bob')];
    const once = ['deliver-inbox', '--notify-only', ...words];
    expect(await machine.json<object>(once)).toMatchObject({ ok: true, notified: 0 });
    await machine.send('bob', 'one');
    expect(await machine.json<object>(once)).toMatchObject({ ok: true, notified: 1 });
    expect((await machine.c2c(once)).out).toBe('nothing new waits\n');
    await machine.send('bob', 'two');
    const early = await machine.c2c(once);
    expect([early.code, early.err]).toEqual([
      1,
      expect.stringMatching(/^error: not before \d+ s from now; the mail waits\n$/),
    ]);
    expect(machine.sent('s-bob')).toEqual([SENTINEL]);
  });

  it('says in one line what is wrong with its words', async () => {
    for (const [words, because] of [
      [['--session-id', 's-bob'], 'give the terminal in which the client runs'],
      [['--session-id', 's-bob', '--terminal', 'screen:1'], 'is not a terminal'],
      [['--session-id', 's-bob', '--terminal', 'tmux:%1', '--client', 'vim'], 'no client is called "vim"'],
      [
        ['--session-id', 's-bob', '--terminal', 'tmux:%1', '--min-inject-gap', 'soon'],
        '--min-inject-gap takes a number',
      ],
      [['--session-id', '../x', '--terminal', 'tmux:%1'], 'no session id'],
    ] as const) {
      const { err, code } = await machine.c2c(['deliver-inbox', ...words]);
      expect([code, err.split('\n').length]).toEqual([1, 2]);
      expect(err).toContain(because);
    }
  });
});

/** A kimi of the old kind for bob, and how its bridge is called. */
function kimiOf(acts: KimiAct[], version?: string) {
  const kimi = new ScriptedKimi(acts, version);
  return { kimi, words: ['--session-id', 's-bob', '--command', kimi.path] };
}

describe('the wire daemon', () => {
  it('delivers once to a kimi that fails twice and then accepts [C2C-36]', async () => {
    const { kimi, words } = kimiOf(['fall', 'refuse', 'accept']);
    await machine.send('bob', 'hello kimi');
    const started = await machine.json<{ pid: number }>(['wire-daemon', 'start', ...words]);
    await machine.until(() => kimi.prompts.length > 1);
    await machine.until(() => existsSync(`${machine.root}/archive/s-bob.jsonl`));
    expect(kimi.starts).toHaveLength(3);
    await machine.until(() => readFileSync(`${machine.root}/../kimi-wire/s-bob.spool.json`, 'utf8') === '[]\n');
    expect(readFileSync(`${machine.root}/s-bob.inbox.json`, 'utf8').trim()).toBe('[]');
    expect(readFileSync(`${machine.data}/wire-daemons/s-bob.pid`, 'utf8')).toBe(`${started.pid}\n`);

    await machine.send('bob', 'hello again');
    await machine.until(() => kimi.prompts.length > 2);
    expect(kimi.prompts.at(-1)).toContain('hello again');
    expect(kimi.prompts.at(-1)).not.toContain('hello kimi');
  });

  it('is started, seen, started again and stopped, with its pid and log [C2C-36]', async () => {
    const { words } = kimiOf(['accept']);
    const start = ['wire-daemon', 'start', '--interval', '7', ...words];
    const first = await machine.json<{ pid: number; log: string }>(start);
    expect(readFileSync(`/proc/${first.pid}/cmdline`, 'utf8')).toContain('"interval_ms":7000');
    expect(first.log).toBe(`${machine.data}/wire-daemons/s-bob.log`);
    expect(await machine.json<object>(['wire-daemon', 'start', ...words])).toMatchObject({
      already_running: true,
      pid: first.pid,
    });
    expect(await machine.json<object>(['wire-daemon', 'status', 's-bob'])).toMatchObject({
      running: true,
      pid: first.pid,
    });
    const again = await machine.json<{ pid: number }>(['wire-daemon', 'restart', 's-bob']);
    expect(again.pid).not.toBe(first.pid);
    const pidfile = `${machine.home}/kimi.pid`;
    await machine.json(['wire-daemon', '--daemon', '--pidfile', pidfile, '--session-id', 's-bob']);
    expect(readFileSync(pidfile, 'utf8')).toBe(`${again.pid}\n`);
    expect(await machine.json<object[]>(['wire-daemon', 'list'])).toMatchObject([
      { session_id: 's-bob', pid: again.pid },
    ]);
    expect(await machine.json<object>(['wire-daemon', 'stop', 's-bob'])).toMatchObject({ status: 'stopped' });
    expect(platform.processStart(again.pid)).toBeNull();
    expect(existsSync(`${machine.data}/wire-daemons/s-bob.pid`)).toBe(false);
    expect(await machine.json<object>(['wire-daemon', 'stop', 's-bob'])).toMatchObject({ status: 'not running' });
    expect((await machine.c2c(['wire-daemon', 'status', 's-bob'])).code).toBe(3);
  });

  it('does not believe a pid file whose process is another one now', async () => {
    const { words } = kimiOf(['accept']);
    await machine.json(['wire-daemon', 'start', ...words]);
    await machine.json(['wire-daemon', 'stop', 's-bob']);
    writeFileSync(`${machine.data}/wire-daemons/s-bob.pid`, `${process.pid}\n`);
    expect(await machine.json<object[]>(['wire-daemon', 'list'])).toMatchObject([{ running: false, pid: null }]);
    await machine.json(['wire-daemon', 'stop', 's-bob']);
  });

  it('brings mail once, on demand, and says what stood in the way [C2C-36]', async () => {
    const { kimi, words } = kimiOf(['busy', 'accept']);
    const once = ['wire-daemon', '--once', ...words];
    expect(await machine.json<object>(once)).toEqual({ ok: true, delivered: 0 });
    expect(kimi.starts).toEqual([]);
    await machine.send('bob', 'hello');
    const busy = await machine.c2c(once);
    expect([busy.code, busy.err]).toEqual([1, expect.stringContaining('a turn is running already')]);
    expect(await machine.json<object>(once)).toEqual({ ok: true, delivered: 1 });
  });

  it('brings what a dying kimi may have seen once more under the same id, marked, also after kill -9 of the bridge [C2C-36]', async () => {
    const { kimi, words } = kimiOf(['hang', 'die', 'accept']);
    await machine.send('bob', 'hello');
    const bridge = machine.spawn('c2c', ['wire-daemon', '--loop', ...words]);
    await machine.until(() => kimi.prompts.length === 1);
    bridge.child.kill('SIGKILL');
    await bridge.child.exited;
    expect(readFileSync(`${machine.root}/../kimi-wire/s-bob.spool.json`, 'utf8')).toContain('hello');
    machine.spawn('c2c', ['wire-daemon', '--loop', '--interval', '0.2', ...words]);
    await machine.until(() => existsSync(`${machine.root}/archive/s-bob.jsonl`));
    const ids = kimi.prompts.map((text) => /message_id="([^"]+)"/.exec(text)?.[1]);
    expect([kimi.prompts.length, new Set(ids).size]).toEqual([3, 1]);
    expect(kimi.prompts.map((text) => text.includes('redelivered="true"'))).toEqual([false, true, true]);
  });

  it('does not start for a kimi without a wire, and says what to use instead', async () => {
    const { words } = kimiOf(['accept'], '2.1.0');
    const { err, code } = await machine.c2c(['wire-daemon', 'start', ...words]);
    expect(code).toBe(1);
    expect(err).toMatch(/^error: kimi 2\.1\.0 has no --wire .*c2c start kimi.*\n$/);
  });
});

describe('parley up --with loops', () => {
  it('is not held up by what it cannot read or start', async () => {
    const folder = `${machine.data}/loops`;
    mkdirSync(folder, { recursive: true });
    const wake = {
      kind: 'wake',
      session: 's-alice',
      client: 'codex',
      terminal: 'tmux@nowhere:%99',
      broker_root: machine.root,
      options: {},
    };
    writeFileSync(`${folder}/half.json`, '{"kind":"wa');
    writeFileSync(`${folder}/other.json`, JSON.stringify({ ...wake, session: '../../x' }));
    writeFileSync(`${folder}/s-alice.json`, JSON.stringify(wake));
    const up = machine.spawn('parley', ['up', '--with', 'loops']);
    await machine.until(() => up.said.includes('loop_failed session=s-alice'));
    const { kimi, words } = kimiOf(['accept']);
    await machine.json(['wire-daemon', 'start', ...words]);
    await machine.send('bob', 'hello');
    await machine.until(() => kimi.prompts.length > 0);
    expect((await machine.parley(['status'])).out).toContain('wake s-alice (codex in tmux@nowhere:%99)  does not run');
  });

  it('runs the loops that are wanted, shows them, follows the folder, and ends them', async () => {
    const { child: up } = machine.spawn('parley', ['up', '--with', 'loops']);
    await machine.until(() => existsSync(`${machine.home}/.parley/daemon.json`));
    await machine.until(() => readFileSync(`${machine.home}/.parley/daemon.json`, 'utf8').includes('loops'));
    const { kimi, words } = kimiOf(['accept']);
    const started = await machine.json<{ pid: number }>(['wire-daemon', 'start', ...words]);
    expect(started.pid).toBe(up.pid);
    const terminal = await machine.pane('s-alice');
    const woken = ['--session-id', 's-alice', '--client', 'codex', '--terminal', terminal];
    await machine.json(['deliver-inbox', '--notify-only', '--daemon', ...woken]);
    await machine.send('bob', 'to the kimi');
    await machine.send('alice', 'to the terminal', 'bob');
    await machine.until(() => kimi.prompts.length > 0 && machine.sent('s-alice').length > 0);

    const { out } = await machine.parley(['status']);
    expect(out).toContain(`wire s-bob (kimi)  runs, pid ${up.pid}`);
    expect(out).toContain(`wake s-alice (codex in ${terminal})  runs, pid ${up.pid}`);
    expect(await machine.json<object>(['wire-daemon', 'stop', 's-bob'])).toMatchObject({ status: 'stopped' });
    expect(up.exitCode).toBeNull();
    expect((await machine.parley(['status'])).out).not.toContain('wire s-bob');
    const down = await machine.parley(['down']);
    expect(down.code).toBe(0);
    expect(down.err).toContain('no longer woken: s-alice; `parley up --with loops --detach` wakes them again');
    expect(await up.exited).toBe(0);
    expect(existsSync(`${machine.data}/loops/run/s-alice.pid`)).toBe(false);
  });
});
