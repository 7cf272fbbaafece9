import { describe, expect, it } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { startOf } from '../../sessions/process.ts';
import { writeClientState, clientStatePath } from '../../sessions/client-state.ts';
import type { Activity } from '../../sessions/client-state.ts';
import { HookSession, hookFolder } from '../dialects/c2c/hook-session.ts';
import { signsFolder } from './folders.ts';
import { signsOf } from './signs.ts';
import type { Wanted } from './wanted.ts';

const ROOT = '/somewhere/broker';

function aWish(fields: Partial<Wanted> = {}): Wanted {
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

  it('of Claude Code stands in its register, by its process or its own name', async () => {
    const machine = new Machine();
    machine.claude(process.pid, 'uuid-1', 'waiting');
    expect(await machine.state(aWish({ client: 'claude', pid: process.pid }))).toBe('dialog');
    expect(await machine.state(aWish({ client: 'claude', session: 'uuid-1' }))).toBe('dialog');
    expect(await machine.state(aWish({ client: 'claude', pid: 1 }))).toBeUndefined();
  });
});
