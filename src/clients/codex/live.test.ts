import { afterEach, describe, expect, it } from 'bun:test';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { ScriptedCodex } from '../../../test/support/codex-daemon.ts';
import { within } from '../../../test/support/within.ts';
import type { LiveSession, RecordedProof } from '../../core/ports/live-session.ts';
import { aParcel, NEVER } from '../../delivery/way.contract.ts';
import { startOf } from '../../platform/process.ts';
import { clientWindows } from '../../sessions/client-window.ts';
import { CodexLive } from './live.ts';

const hasTmux = Bun.which('tmux') !== null;
const why = hasTmux ? '' : ' (skipped: tmux is not here)';
const DEADLINE = 20_000;
const SILENT_MS = 100;
const BUN = process.execPath;
const SERVER = new URL('../../../test/support/codex-app-server.child.ts', import.meta.url).pathname;
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});
function opens<T extends { close(): Promise<void> }>(one: T): T {
  opened.push(one);
  return one;
}

describe.skipIf(!hasTmux)(`the running sessions of Codex${why}`, () => {
  it('are the loaded threads of the user in a folder with a window, with the process if only one window is possible', async () => {
    const { codex, live } = aCodex();
    const thread = codex.begin();
    codex.begin(codex.folder, { ephemeral: true });
    codex.begin(`${codex.home}/elsewhere`);
    expect(await live.list()).toEqual([]);
    const pid = await opensWindow(codex, 'one');
    const known = { client: 'codex', id: thread.id, folder: codex.folder, status: 'idle' } as const;
    expect(await live.list()).toEqual([{ ...known, pid, start: String(startOf(pid)) }]);
    await opensWindow(codex, 'two');
    expect(await live.list()).toEqual([known]);
  });

  it('are uncertain and have no process while there is one window for two threads', async () => {
    const { codex, live } = aCodex();
    const [one, two] = [codex.begin(), codex.begin()];
    await opensWindow(codex, 'one');
    const known = { client: 'codex', folder: codex.folder, status: 'idle', isUncertain: true } as const;
    expect(await live.list()).toEqual([
      { ...known, id: one.id },
      { ...known, id: two.id },
    ]);
    await opensWindow(codex, 'two');
    expect((await live.list()).map(({ isUncertain, pid }) => [isUncertain, pid])).toEqual([
      [undefined, undefined],
      [undefined, undefined],
    ]);
  });

  it('belong to the window that was started with their id, even if an ended window loaded them', async () => {
    const { codex, live } = aCodex();
    const [left, resumed] = [codex.begin(codex.folder, { port: 1 }), codex.begin(codex.folder, { port: 2 })];
    await opensWindow(codex, 'one');
    expect(await live.list()).toEqual([]);
    const pid = await opensWindow(codex, 'two', ['resume', resumed.id]);
    expect(await live.list()).toMatchObject([{ id: resumed.id, pid }]);
    codex.unload(left);
  });

  it('are none without a thread, and no process is scanned for that', async () => {
    const codex = opens(new ScriptedCodex());
    let looks = 0;
    const live = opens(new CodexLive(codex.env, SILENT_MS, () => ((looks += 1), [])));
    codex.begin(codex.folder, { ephemeral: true });
    expect(await live.list()).toEqual([]);
    expect(looks).toBe(0);
    codex.begin();
    await within(DEADLINE, async () => (await live.list()).length === 0 && looks > 0);
  });

  it('are found in the working folder of the window, not in the folder where it was started', async () => {
    const { codex, live } = aCodex();
    mkdirSync(`${codex.home}/there`);
    const thread = codex.begin(`${codex.home}/there`);
    await opensWindow(codex, 'one', ['-C', '../there']);
    await within(DEADLINE, async () => (await live.list()).length > 0);
    expect(await live.list()).toMatchObject([{ id: thread.id, folder: `${codex.home}/there` }]);
  });

  it('belong to their Codex home, by whatever path a window names that home', async () => {
    const { codex, live } = aCodex();
    symlinkSync(codex.codexHome, `${codex.home}/link`);
    const thread = codex.begin();
    await opensWindow(codex, 'one', [], { CODEX_HOME: `${codex.home}/link/` });
    expect(await live.list()).toMatchObject([{ id: thread.id }]);
  });

  it('do not belong to a window without the daemon or of another home', async () => {
    const { codex, live } = aCodex();
    codex.begin();
    await opensWindow(codex, 'one', ['--no-daemon']);
    await opensWindow(codex, 'two', [], { CODEX_HOME: '/elsewhere' });
    expect(await live.list()).toEqual([]);
  });

  it('are idle after a kill within a turn, when a window without the daemon resumes them, and active in its next turn', async () => {
    const { codex, live } = aCodex();
    const thread = codex.begin(codex.folder, { isLoaded: false });
    codex.answers = () => null;
    codex.typed(thread, 'killed in this turn');
    await within(DEADLINE, async () => Date.now() > statSync(thread.path).mtimeMs);
    const pid = await opensWindow(codex, 'one', ['--no-daemon'], {}, thread.id);
    await within(DEADLINE, async () => (await live.list()).length > 0);
    expect(await live.list()).toMatchObject([{ id: thread.id, pid, status: 'idle' }]);
    codex.typed(thread, 'again');
    expect(await live.list()).toMatchObject([{ id: thread.id, status: 'active' }]);
    const later = opens(new CodexLive(codex.env, SILENT_MS));
    expect(await later.list()).toMatchObject([{ id: thread.id, status: 'active' }]);
  });

  it.each([
    [{ type: 'active', activeFlags: [] }, { status: 'active' }],
    [
      { type: 'active', activeFlags: ['waitingOnApproval'] },
      { status: 'waiting', waitingFor: 'permission prompt' },
    ],
    [
      { type: 'active', activeFlags: ['waitingOnUserInput'] },
      { status: 'waiting', waitingFor: 'input needed' },
    ],
    [{ type: 'systemError' }, { status: 'idle' }],
  ])('say what they do: %j', async (status, state) => {
    const { codex, live } = aCodex();
    codex.begin(codex.folder, { status });
    await opensWindow(codex, 'one');
    expect(await live.list()).toMatchObject([state]);
  });

  it('call back when a thread or a record changes, and after a restart of the daemon', async () => {
    const { codex, live } = aCodex();
    let calls = 0;
    const stop = live.watch(() => (calls += 1));
    const hears = async (act: () => unknown): Promise<void> => {
      const before = calls;
      await act();
      await within(DEADLINE, async () => calls > before);
    };
    await live.list();
    const thread = codex.begin();
    await within(DEADLINE, async () => calls > 0);
    await hears(() => codex.typed(thread, 'hello'));
    await hears(() => codex.kill());
    await hears(() => codex.start());
    stop();
  });

  it('call back when a window opens or closes, but not while nothing changes', async () => {
    const codex = opens(new ScriptedCodex());
    let looks = 0;
    const live = opens(new CodexLive(codex.env, SILENT_MS, (isClient) => ((looks += 1), clientWindows(isClient))));
    codex.begin();
    await live.list();
    let calls = 0;
    const stop = live.watch(() => (calls += 1));
    const before = looks;
    await within(DEADLINE, async () => looks >= before + 2);
    expect(calls).toBe(0);
    const pid = await opensWindow(codex, 'one');
    await within(DEADLINE, async () => calls >= 1);
    process.kill(pid, 'SIGKILL');
    await within(DEADLINE, async () => calls >= 2);
    stop();
  });
});

describe.skipIf(!hasTmux)(`what the record of a session of Codex proves${why}`, () => {
  it('is shown, with the turn that the message began and its end', async () => {
    const { codex, live } = aCodex();
    const session = sessionOf(codex.begin());
    const parcel = { ...aParcel(), ownTurn: true };
    const since = Date.now();
    await Promise.all([live.list(), opensWindow(codex, 'one')]);
    const [way] = live.ways(session);
    expect(await way?.attempt([parcel], NEVER)).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(await live.proof(session, parcel.id, since)).toMatchObject({
      step: 'shown',
      turn: { end: { how: 'done', text: `re: ${parcel.text}` } },
    });
  });

  it('is nothing, and over only after the thread has been idle for a while with an empty queue', async () => {
    const { codex, live } = aCodex();
    const thread = codex.begin();
    const [session, { id }] = [sessionOf(thread), aParcel()];
    const isOver = async (): Promise<boolean> => {
      const proof = await live.proof(session, id, 0);
      return proof.step === 'none' && proof.isOver;
    };
    codex.answers = () => null;
    codex.typed(thread, 'work');
    expect(await isOver()).toBe(false);
    await Bun.sleep(2 * SILENT_MS);
    expect(await isOver()).toBe(false);
    thread.queue.push({ id: 'item', clientUserMessageId: id, input: [] });
    codex.interrupt(thread);
    await Bun.sleep(2 * SILENT_MS);
    expect(await isOver()).toBe(false);
    thread.queue.pop();
    await within(DEADLINE, isOver);
  });

  it('is nothing, and over once the thread is unloaded, but not while the daemon is unreachable', async () => {
    const { codex, live } = aCodex();
    const thread = codex.begin();
    const [session, { id }] = [sessionOf(thread), aParcel()];
    codex.typed(thread, 'work');
    await live.list();
    await codex.kill();
    expect(await live.proof(session, id, 0)).toEqual({ step: 'none', isOver: false });
    codex.start();
    await within(DEADLINE, async () => {
      const proof = await live.proof(session, id, 0);
      return proof.step === 'none' && proof.isOver;
    });
  });

  it('is not asked for again at a late daemon, because all other sessions would wait too', async () => {
    const { codex, live } = aCodex();
    const [one, two] = [codex.begin(), codex.begin()];
    await live.list();
    for (const thread of [one, two]) codex.status(thread, { type: 'active', activeFlags: [] });
    codex.silent.add('thread/loaded/list').add('mcpServerStatus/list');
    const asked = (): number => codex.called.filter((method) => codex.silent.has(method)).length;
    const before = asked();
    for (const thread of [one, two])
      expect(await live.proof(sessionOf(thread), aParcel().id, 0)).toEqual({ step: 'none', isOver: false });
    codex.begin();
    await live.list();
    expect(asked()).toBe(before + 1);
  });

  it('is over once the message is out of the queue of a dead daemon, and no look waits for its removal', async () => {
    const [codex, program] = [opens(new ScriptedCodex()), opens(new ScriptedCodex())];
    // This thread has the same id as the first thread of the other program.
    const thread = codex.begin();
    const { queue } = program.begin();
    const parcel = aParcel();
    queue.push({ id: 'item', clientUserMessageId: parcel.id, input: [] });
    const [bin, started, go] = ['bin', 'started', 'go'].map((name) => `${codex.home}/${name}`);
    mkdirSync(String(bin));
    const lines = [
      `touch ${started}`,
      `until [ -e ${go} ]; do sleep 0.05; done`,
      `exec ${BUN} ${SERVER} ${program.socket}`,
    ];
    writeFileSync(`${bin}/codex`, ['#!/bin/sh', ...lines, ''].join('\n'), { mode: 0o755 });
    const live = opens(new CodexLive({ ...codex.env, PATH: `${bin}:${codex.env['PATH']}` }, SILENT_MS));
    await codex.kill();
    const ended = { ...sessionOf(thread), pid: 999_999_999 };
    const isOver = async (): Promise<boolean> => {
      const proof = await live.proof(ended, parcel.id, 0);
      return proof.step === 'none' && proof.isOver;
    };
    expect(await isOver()).toBe(false);
    await within(DEADLINE, async () => existsSync(String(started)));
    expect([await isOver(), program.called]).toEqual([false, []]);
    writeFileSync(String(go), '');
    await within(DEADLINE, isOver);
    expect(queue).toEqual([]);
  });

  it('is accepted, after a kill before the request', async () => {
    const { codex, live } = aCodex();
    const thread = codex.begin();
    const parcel = aParcel();
    await Promise.all([live.list(), opensWindow(codex, 'one')]);
    codex.diesBeforeRequest = true;
    const attempt = live.ways(sessionOf(thread))[0]?.attempt([parcel], NEVER);
    await within(DEADLINE, async () => thread.turn !== null);
    await codex.kill();
    expect(await attempt).toMatchObject({ outcome: 'offered' });
    codex.start();
    expect(await live.proof(sessionOf(thread), parcel.id, 0)).toMatchObject({ step: 'accepted' });
    expect(codex.shown).toEqual([]);
  });

  it('is over when the window ended before the request, unless Codex still has the thread loaded or loads it again', async () => {
    const { codex, live } = aCodex();
    const thread = codex.begin();
    const parcel = aParcel();
    const pid = await opensWindow(codex, 'one');
    await live.list();
    const session = { ...sessionOf(thread), pid, start: String(startOf(pid)) };
    codex.diesBeforeRequest = true;
    const attempt = live.ways(session)[0]?.attempt([parcel], NEVER);
    await within(DEADLINE, async () => thread.turn !== null);
    const proof = async (): Promise<RecordedProof> => live.proof(session, parcel.id, 0);
    process.kill(pid, 'SIGKILL');
    await within(DEADLINE, async () => (await live.list()).length === 0);
    expect(await proof()).toMatchObject({ step: 'accepted' });
    await codex.kill();
    expect(await attempt).toMatchObject({ outcome: 'offered' });
    expect(await proof()).toEqual({ step: 'none', isOver: true });
    codex.start();
    await within(DEADLINE, async () => codex.clients > 1);
    expect(await proof()).toEqual({ step: 'none', isOver: true });
    codex.load(thread);
    expect(await proof()).toMatchObject({ step: 'accepted' });
  });
});

function aCodex() {
  const codex = opens(new ScriptedCodex());
  return { codex, live: opens(new CodexLive(codex.env, SILENT_MS)) };
}

function sessionOf({ id, cwd }: { id: string; cwd: string }): LiveSession {
  return { client: 'codex', id, folder: cwd, status: 'idle' };
}

/** A process that looks like a window of Codex: a shell that waits for a line. `runs`: a thread that it loads itself. */
async function opensWindow(
  codex: ScriptedCodex,
  name: string,
  words: string[] = [],
  env = {},
  runs?: string,
): Promise<number> {
  const program = `${codex.home}/codex`;
  if (!existsSync(program)) copyFileSync(realpathSync(Bun.which('bash') ?? '/bin/sh'), program);
  chmodSync(program, 0o755);
  const shape = ['new-session', '-d', '-s', name, '-c', codex.folder, '-P', '-F', '#{pane_pid}'];
  const set = Object.entries(env).map(([key, value]) => `${key}=${String(value)}`);
  const locks = `${codex.codexHome}/thread-writer-locks`;
  if (runs) mkdirSync(locks, { recursive: true });
  const script = `${runs ? `exec 9>${locks}/${runs}.lock; ` : ''}read line`;
  const command = ['env', ...set, program, '-c', script, 'codex', ...words];
  const tmux = Bun.spawn(['tmux', ...shape, '--', ...command], { env: codex.env, stdout: 'pipe' });
  const pid = Number((await new Response(tmux.stdout).text()).trim());
  const isSetUp = (): boolean => readFileSync(`/proc/${pid}/environ`, 'utf8').includes('HOME=');
  await within(DEADLINE, async () => readlinkSync(`/proc/${pid}/exe`) === program && isSetUp());
  return pid;
}
