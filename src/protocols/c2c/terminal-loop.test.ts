import { writeClientState, clientStatePath } from '../../sessions/client-state.ts';
import type { Activity } from '../../sessions/client-state.ts';
import { describe, expect, it, spyOn } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { HookSession, hookFolder } from './hook-session.ts';
import { TerminalWay } from '../../delivery/terminal.ts';
import { startOf } from '../../platform/process.ts';
import type { Terminal } from '../../sessions/terminal.ts';
import { signsFolder } from './loop-files.ts';
import type { LoopOrder } from './loop-files.ts';
import { signsOf, openTarget, FreshKimi } from './terminal-loop.ts';

const nowhere: Terminal = {
  name: 'nowhere',
  tty: null,
  screen: async () => null,
  paste: async () => {},
  enter: async () => {},
  erase: async () => {},
  close: async () => {},
};

/** How long after a paste Enter follows, in ms. */
async function enterAfter(client: string, options: LoopOrder['options'] = {}, terminal = 'tmux:%1'): Promise<number> {
  const wanted: LoopOrder = { kind: 'wake', session: 's', client, terminal, broker_root: '/b', options };
  const sessionTarget = await openTarget(wanted, { HOME: temporaryHome() }, nowhere);
  await sessionTarget.close();
  const way = sessionTarget.typing(nowhere);
  return way instanceof TerminalWay ? way.options.enterAfter : 0;
}

describe('a client at its terminal', () => {
  it('gets Enter after its paste when it can tell the two apart: Kimi needs 1.5 s [C2C-32]', async () => {
    expect(await enterAfter('kimi')).toBe(1500);
    for (const client of ['claude', 'codex', 'opencode', 'another']) {
      expect(await enterAfter(client)).toBeGreaterThan(0);
    }
  });

  it('gets it later where nobody can see that the paste has come', async () => {
    for (const client of ['claude', 'codex', 'opencode'])
      expect(await enterAfter(client, {}, 'pty:1:1')).toBeGreaterThan(await enterAfter(client));
    expect(await enterAfter('another')).toBe(await enterAfter('another', {}, 'pty:1:1'));
  });

  it('gets it as late as its user says [C2C-32]', async () => {
    expect(await enterAfter('kimi', { submit_delay_ms: 700 })).toBe(700);
    expect(await enterAfter('claude', { submit_delay_ms: 2500 })).toBe(2500);
  });
});

const ROOT = '/somewhere/broker';

function aWish(fields: Partial<LoopOrder> = {}): LoopOrder {
  return {
    kind: 'wake',
    session: 'bob',
    client: 'codex',
    terminal: 'tmux:%1',
    broker_root: ROOT,
    options: {},
    ...fields,
  };
}

class Machine {
  readonly env = { HOME: temporaryHome() };

  async say(name: string, state: Activity, at = Date.now()): Promise<void> {
    mkdirSync(signsFolder(this.env), { recursive: true });
    await writeClientState(clientStatePath(signsFolder(this.env), name), state, at);
  }

  bind(name: string, sessionId: string, sure = true): void {
    HookSession.open(hookFolder(this.env), name)?.bind({ root: ROOT, sessionId, sure });
  }

  claude(pid: number, sessionId: string, status: string): void {
    const folder = `${this.env.HOME}/.claude/sessions`;
    mkdirSync(folder, { recursive: true });
    const facts = {
      pid,
      sessionId,
      cwd: '/',
      kind: 'interactive',
      procStart: startOf(pid),
      status,
      statusUpdatedAt: 1,
    };
    writeFileSync(`${folder}/${pid}.json`, JSON.stringify(facts));
  }

  /** The record of a conversation of Kimi with these lines. */
  kimi(session: string, ...types: string[]): void {
    const [home, dir] = [`${this.env.HOME}/.kimi-code`, `${this.env.HOME}/.kimi-code/sessions/w/${session}`];
    mkdirSync(`${dir}/agents/main`, { recursive: true });
    const entry = { sessionId: session, sessionDir: dir, workDir: '/w' };
    writeFileSync(`${home}/session_index.jsonl`, `${JSON.stringify(entry)}\n`);
    const lines = types.map((type) => `${JSON.stringify({ type, time: 1 })}\n`);
    writeFileSync(`${dir}/agents/main/wire.jsonl`, lines.join(''));
  }

  async state(wanted = aWish()): Promise<Activity | undefined> {
    return (await (await signsOf(wanted, this.env)).latest())?.state;
  }
}

describe('what a session says of itself', () => {
  it('is nothing until it said something', async () => {
    expect(await new Machine().state()).toBeUndefined();
  });

  it('stands under its own name, or under the name that its client has for it', async () => {
    const machine = new Machine();
    await machine.say('thread-1', 'busy');
    expect(await machine.state()).toBeUndefined();
    machine.bind('thread-1', 'bob');
    expect(await machine.state()).toBe('busy');
  });

  it('is what was said last, under whichever name', async () => {
    const machine = new Machine();
    machine.bind('thread-1', 'bob');
    machine.bind('thread-2', 'bob');
    await machine.say('thread-1', 'idle', Date.now() - 60_000);
    await machine.say('thread-2', 'dialog');
    expect(await machine.state()).toBe('dialog');
  });

  it('is never what another session said, nor one that only sits in the same folder', async () => {
    const machine = new Machine();
    machine.bind('thread-1', 'carol');
    machine.bind('thread-2', 'bob', false);
    await machine.say('thread-1', 'idle');
    await machine.say('thread-2', 'idle');
    expect(await machine.state()).toBeUndefined();
  });

  it('of Kimi is idle by its record, where the hook at the start of a short turn was later than that at its end', async () => {
    const machine = new Machine();
    const wanted = aWish({ client: 'kimi' });
    const long = Date.now() - 60_000;
    machine.bind('session_1', 'bob');
    await machine.say('session_1', 'busy', long);
    expect(await machine.state(wanted)).toBe('busy');
    machine.kimi('session_1', 'turn.prompt');
    expect(await machine.state(wanted)).toBe('busy');
    machine.kimi('session_1', 'turn.prompt', 'turn.ended');
    expect(await machine.state(wanted)).toBe('idle');
    // Its record may not have the prompt yet of which a hook just spoke.
    await machine.say('session_1', 'busy');
    expect(await machine.state(wanted)).toBe('busy');
    await machine.say('session_1', 'dialog', long);
    expect(await machine.state(wanted)).toBe('dialog');
  });

  it('of Claude Code stands in its register, by its process or its own name', async () => {
    const machine = new Machine();
    machine.claude(process.pid, 'uuid-1', 'waiting');
    expect(await machine.state(aWish({ client: 'claude', pid: process.pid }))).toBe('dialog');
    expect(await machine.state(aWish({ client: 'claude', session: 'uuid-1' }))).toBe('dialog');
    expect(await machine.state(aWish({ client: 'claude', pid: 1 }))).toBeUndefined();
  });
});

describe('a Kimi that had no prompt yet', () => {
  const EMPTY = ['╭────────╮', '│ >      │', '╰────────╯', 'context: 0%'];
  const screenOf = (lines: string[]) => ({ lines, bright: ['', '>', '', ''], cursor: { row: 1, column: 4 } });

  /** What is reported at each of these screens, one after the other. */
  async function reports(
    screens: string[][],
    { hooks = true, said = null as Activity | null, pid = process.pid } = {},
  ) {
    const env = { HOME: temporaryHome() };
    const hook = `${env.HOME}/.local/share/c2c/hooks/kimi`;
    if (hooks) {
      mkdirSync(hook, { recursive: true });
      writeFileSync(`${hook}/sign.sh`, '');
    }
    const reported = { latest: async () => said && { state: said, at: 1, source: 'hook' as const } };
    let lines: string[] = [];
    const kimi = new FreshKimi(reported, pid, { screen: async () => screenOf(lines) }, env);
    const states: (string | null)[] = [];
    for (lines of screens) {
      states.push((await kimi.latest())?.state ?? null);
      await Bun.sleep(310);
    }
    return states;
  }

  it('counts as idle after two looks at its empty composer', async () => {
    expect(await reports([EMPTY, EMPTY])).toEqual([null, 'idle']);
  });

  it('does so although the clock is set back between them', async () => {
    const now = Date.now();
    const clock = spyOn(Date, 'now')
      .mockReturnValueOnce(now)
      .mockReturnValue(now - 3_600_000);
    try {
      expect(await reports([EMPTY, EMPTY])).toEqual([null, 'idle']);
    } finally {
      clock.mockRestore();
    }
  });

  it('does not while it starts, works or asks, nor after it ended, nor without its hooks', async () => {
    const starting = EMPTY.slice(0, 3);
    expect(await reports([EMPTY, starting, EMPTY])).toEqual([null, null, null]);
    expect(await reports([EMPTY, ['🌕 thinking', ...EMPTY]])).toEqual([null, null]);
    expect(await reports([EMPTY, [...EMPTY, '▶ 1. Allow once']])).toEqual([null, null]);
    expect(await reports([EMPTY, EMPTY], { pid: 2 ** 22 + 1 })).toEqual([null, null]);
    expect(await reports([EMPTY, EMPTY], { hooks: false })).toEqual([null, null]);
  });

  it('says itself how it is as soon as it does', async () => {
    expect(await reports([EMPTY, EMPTY], { said: 'busy' })).toEqual(['busy', 'busy']);
  });
});
