import { afterEach, describe, expect, it } from 'bun:test';
import { ScriptedCodex } from '../../../test/support/codex-daemon.ts';
import { within } from '../../../test/support/within.ts';
import { NoAnswer, RemoteError } from '../../wire/jsonrpc.ts';
import { CodexDaemon } from './rpc.ts';

const DEADLINE = 20_000;
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

describe('the connection to the daemon of Codex', () => {
  it('knows the loaded conversations and their status, and then follows them without asking', async () => {
    const codex = aCodex();
    const [one, two] = [codex.begin(), codex.begin('/elsewhere', { ephemeral: true })];
    const daemon = connectionTo(codex);
    expect(await daemon.connect()).toBe(true);
    expect([...daemon.threads.values()]).toEqual([
      { id: one.id, cwd: codex.folder, path: one.path, isUsers: true, status: 'idle' },
      { id: two.id, cwd: '/elsewhere', path: two.path, isUsers: false, status: 'idle' },
    ]);
    const calls = codex.called.length;
    const three = codex.begin();
    codex.unload(two);
    codex.status(three, { type: 'systemError' });
    const statuses = {
      active: [],
      waitingOnApproval: ['waitingOnApproval'],
      waitingOnUserInput: ['waitingOnUserInput'],
    };
    for (const [status, activeFlags] of Object.entries(statuses)) {
      codex.status(one, { type: 'active', activeFlags });
      await within(DEADLINE, async () => daemon.threads.get(one.id)?.status === status);
    }
    expect([...daemon.threads.values()].map(({ id, status }) => [id, status])).toEqual([
      [one.id, 'waitingOnUserInput'],
      [three.id, 'failed'],
    ]);
    expect(codex.called.length).toBe(calls);
  });

  it('learns of a conversation that was resumed', async () => {
    const codex = aCodex();
    const old = codex.begin(codex.folder, { isLoaded: false });
    const daemon = connectionTo(codex);
    await daemon.connect();
    expect(daemon.threads.size).toBe(0);
    codex.load(old);
    await within(DEADLINE, async () => daemon.threads.get(old.id)?.path === old.path);
  });

  it('is shared by all users in a process, and closed by the last of them', async () => {
    const codex = aCodex();
    const [one, two] = [CodexDaemon.at(codex.codexHome), CodexDaemon.at(codex.codexHome)];
    await Promise.all([one.connect(), two.connect(), one.call('thread/loaded/list', {})]);
    expect([one === two, codex.clients]).toEqual([true, 1]);
    one.release();
    expect(one.isConnected).toBe(true);
    two.release();
    await within(DEADLINE, async () => !one.isConnected);
  });

  it('reconnects after the daemon was killed and restarted, and knows the loaded conversations', async () => {
    const codex = aCodex();
    const before = codex.begin();
    const daemon = connectionTo(codex);
    await daemon.connect();
    const told: (string | null)[] = [];
    opened.push(daemon.listen((thread) => told.push(thread)));
    const waiting = daemon.call('thread/nothing', {}).catch((error: Error) => error.message);
    codex.silent.add('thread/nothing');
    await codex.kill();
    expect(await waiting).not.toBe('');
    await within(DEADLINE, async () => !daemon.isConnected);
    expect([daemon.threads.size, daemon.isDead(), await daemon.connect()]).toEqual([0, true, false]);
    await expect(daemon.call('thread/read', { threadId: before.id })).rejects.toThrow('does not run');
    codex.start();
    const after = codex.begin();
    await within(DEADLINE, async () => daemon.isConnected);
    expect([[...daemon.threads.keys()], daemon.isDead(), told.includes(null)]).toEqual([[after.id], false, true]);
  });

  it('is never the first client of a new daemon, which takes over the name of its first client', async () => {
    const codex = aCodex();
    codex.startedAt(Date.now() + 3_600_000);
    const daemon = connectionTo(codex);
    expect([await daemon.connect(), codex.clients]).toEqual([false, 0]);
    codex.startedAt(Date.now() - 3_600_000);
    expect([await daemon.connect(), codex.clients]).toEqual([true, 1]);
  });

  it('gives up a call without an answer in time, and passes on a refusal of Codex', async () => {
    const codex = aCodex();
    const { id } = codex.begin();
    const daemon = connectionTo(codex);
    codex.silent.add('thread/queue/list');
    await expect(daemon.call('thread/queue/list', { threadId: id }, 50)).rejects.toBeInstanceOf(NoAnswer);
    await expect(daemon.call('thread/read', { threadId: 'gone' })).rejects.toBeInstanceOf(RemoteError);
  });

  it('leaves questions of Codex to its user', async () => {
    const codex = aCodex();
    const daemon = connectionTo(codex);
    await daemon.connect();
    codex.ask('item/commandExecution/requestApproval');
    await daemon.call('thread/loaded/list', {});
    expect(codex.replies).toEqual([]);
  });
});

function aCodex(): ScriptedCodex {
  const codex = new ScriptedCodex();
  opened.push(() => codex.close());
  return codex;
}

function connectionTo(codex: ScriptedCodex): CodexDaemon {
  const daemon = CodexDaemon.at(codex.codexHome);
  opened.push(() => daemon.release());
  return daemon;
}
