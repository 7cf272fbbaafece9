// What `parley agents`, `doctor` and `send` say of sessions with a name: when mail comes to each, and which do not run any more.
import { afterEach, describe, expect, it } from 'bun:test';
import { chmodSync, copyFileSync, existsSync, readlinkSync, realpathSync } from 'node:fs';
import type { AgentName } from '../../src/core/names.ts';
import { SessionNames } from '../../src/delivery/session-names.ts';
import { ScriptedCodex } from '../support/codex-daemon.ts';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';

const hasTmux = Bun.which('tmux') !== null;
const why = hasTmux ? '' : ' (skipped: tmux is not here)';
const NAME = 'codex.project' as AgentName;

interface Finding {
  level: string;
  about: string;
  what: string;
  next?: string;
}

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

/** Codex with its daemon, and one window that has the name of a session, as `parley run codex` leaves it. */
async function aNamedCodex() {
  const codex = new ScriptedCodex();
  opened.push(codex);
  const parley = new Program(codex.home);
  await parley.init('me', NAME);
  const thread = codex.begin();
  const window = await openWindow(codex, 'one', ['resume', thread.id]);
  const names = new SessionNames(`${codex.home}/.parley`);
  names.take({ client: 'codex', folder: codex.folder, pid: window.pid }, () => false);
  names.bind(NAME, thread.id);
  return {
    codex,
    parley,
    thread,
    window,
    up: async (): Promise<void> => {
      const { code, err } = await parley.withoutTerminal(['up', '--ends-when-idle', '--detach'], {
        env: { PARLEY_NO_DAEMON: '' },
      });
      expect({ code, err }).toEqual({ code: 0, err: '' });
      opened.push({ close: async () => void (await parley.run(['down'])) });
    },
    /** Its line in `parley agents`. */
    line: async (): Promise<string | undefined> =>
      (await parley.run(['agents'])).out.split('\n').find((one) => one.startsWith(`@${NAME} `)),
    findings: async (): Promise<Finding[]> =>
      (JSON.parse((await parley.run(['doctor', '--json'])).out) as { findings: Finding[] }).findings,
  };
}

/** A program that looks like a window of Codex to those who look at its process: a shell that waits for a line. */
async function openWindow(codex: ScriptedCodex, name: string, words: string[]) {
  const program = `${codex.home}/codex`;
  if (!existsSync(program)) copyFileSync(realpathSync(Bun.which('bash') ?? '/bin/sh'), program);
  chmodSync(program, 0o755);
  const shape = ['new-session', '-d', '-s', name, '-c', codex.folder, '-P', '-F', '#{pane_pid}'];
  const command = [program, '-c', 'read line', 'codex', ...words];
  const tmux = Bun.spawn(['tmux', ...shape, '--', ...command], { env: codex.env, stdout: 'pipe' });
  const pid = Number((await new Response(tmux.stdout).text()).trim());
  await within(20_000, async () => readlinkSync(`/proc/${pid}/exe`) === program);
  return {
    pid,
    async killed(): Promise<void> {
      process.kill(pid, 'SIGKILL');
      await within(20_000, async () => !existsSync(`/proc/${pid}/exe`));
    },
  };
}

describe.skipIf(!hasTmux)(`a session of \`parley run codex\`${why}`, () => {
  it('says in `agents` and `doctor` when its mail comes, and by which way', async () => {
    const { codex, thread, up, line, findings } = await aNamedCodex();
    const inFolder = `codex in ~/project`;
    expect(await line()).toBe(`@${NAME}  ${inFolder}, idle; mail waits for the daemon: \`parley up --detach\``);
    await up();
    const said = async (): Promise<Finding[]> => (await findings()).filter(({ about }) => about === `session ${NAME}`);
    const idle = `${inFolder}, idle; mail wakes it (rpc)`;
    expect(await line()).toBe(`@${NAME}  ${idle}`);
    expect(await said()).toEqual([{ level: 'ok', about: `session ${NAME}`, what: idle }]);
    codex.status(thread, { type: 'active', activeFlags: [] });
    expect(await line()).toBe(`@${NAME}  ${inFolder}, busy; mail comes after the running tool (rpc)`);
    codex.status(thread, { type: 'active', activeFlags: ['waitingOnApproval'] });
    const asks = `${inFolder}, waiting (permission prompt); mail comes after your answer (rpc)`;
    expect(await line()).toBe(`@${NAME}  ${asks}`);
    expect(await said()).toMatchObject([{ level: 'ok', what: asks }]);
  });

  it('is no reason to warn that its client is not installed', async () => {
    const { window, findings } = await aNamedCodex();
    const said = async (): Promise<Finding[]> => (await findings()).filter(({ about }) => about === 'codex');
    expect(await said()).toEqual([
      {
        level: 'ok',
        about: 'codex',
        what: 'Codex: its sessions were started by `parley run`; `parley install codex` is for those that you start as usual',
      },
    ]);
    await window.killed();
    expect(await said()).toMatchObject([{ level: 'warn', next: '`parley install codex`' }]);
  });

  it('is said by `send` not to run here once its window is gone, also while the daemon of Codex keeps its conversation', async () => {
    const { codex, thread, parley, window, up } = await aNamedCodex();
    const send = async (...more: string[]): Promise<string> =>
      (await parley.run(['send', `@${NAME}`, 'are you there?', ...more])).err;
    expect(await send()).toBe('');
    await window.killed();
    const gone = `@${NAME} does not run here now; the next codex session in ${codex.folder} gets this\n`;
    expect([await send(), await send('--fyi')]).toEqual([gone, gone]);
    await up();
    expect([await send(), await send('--fyi')]).toEqual([gone, gone]);
    await openWindow(codex, 'two', ['resume', thread.id]);
    expect(await send()).toBe('');
  });
});
