import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { LineReader } from '../../test/support/line-reader.ts';
import { ScriptedTui } from '../../test/support/scripted-tui.ts';
import { within } from '../../test/support/within.ts';
import { TerminalWay } from '../delivery/terminal.ts';
import { aParcel, NEVER } from '../delivery/way.contract.ts';
import { unseen } from './terminal.ts';
import { ForeignPty } from './pty.ts';
import { HookStateFile } from './client-state.ts';

const HOLDER = new URL('../../test/support/pty-holder.child.ts', import.meta.url).pathname;
const isHere = process.platform === 'linux' && ['x64', 'arm64'].includes(process.arch);
const isRoot = process.getuid?.() === 0;
const canStepDown = isRoot && Bun.which('setpriv') !== null;
const PATH = process.env['PATH'] ?? '';

const started: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const child of started.splice(0)) {
    child.kill('SIGKILL');
    await child.exited;
  }
});

describe.skipIf(!isHere)(`a terminal of another program${isHere ? '' : ' (skipped: Linux only)'}`, () => {
  it('takes a line for a line reader in a plain PTY [C2C-32b]', async () => {
    const reader = new LineReader();
    const { pid, holder } = await held(reader.command);
    const pty = ForeignPty.open({ asked: true, where: { pid } });
    expect(pty.name).toBe(`terminal ${pty.tty} of process ${holder.pid}`);
    await pty.paste('-n $HOME and Grüße');
    await pty.enter();
    expect(await reader.got()).toEqual(['-n $HOME and Grüße']);
    await expect(pty.paste('two\nlines')).rejects.toThrow('more than one');
    await pty.paste('never mind');
    await pty.erase();
    await pty.paste('second');
    await pty.enter();
    expect(await reader.got(2)).toEqual(['-n $HOME and Grüße', 'second']);
  });

  it('takes a bracketed paste for a program in raw mode, when the client says that it is idle', async () => {
    const tui = new ScriptedTui();
    const { pid } = await held(tui.command);
    await tui.ready();
    const options = { states: new HookStateFile(tui.sign), composer: unseen, enterAfter: 5, proofWithin: 10_000 };
    const way = new TerminalWay({ ...options, terminal: ForeignPty.open({ asked: true, where: { pid } }) });
    const parcel = aParcel('several\nlines');
    expect(await way.attempt([parcel], NEVER)).toMatchObject({ outcome: 'taken' });
    expect(await tui.prompted()).toEqual([parcel.text]);
    await tui.order('dialog');
    expect(await way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left' });
    expect(tui.noted().some(({ approved }) => approved)).toBe(false);
  });

  it('is also found by its number and the pid of its terminal program', async () => {
    const reader = new LineReader();
    const { pid, holder } = await held(reader.command);
    const pts = Number(linkOf(`/proc/${pid}/fd/0`).replace('/dev/pts/', ''));
    const pty = ForeignPty.open({ asked: true, where: { pts }, terminal: holder.pid });
    expect(pty.pid).toBe(pid);
    await pty.paste('found');
    await pty.enter();
    expect(await reader.got()).toEqual(['found']);
    expect(() => ForeignPty.open({ asked: true, where: { pts }, terminal: process.pid })).toThrow(
      'no process here holds',
    );
    expect(() => ForeignPty.open({ asked: true, where: { pts: 99_999 } })).toThrow('no program reads');
  });

  it('is refused unless it was asked for [C2C-32b]', async () => {
    const { pid } = await held(['cat']);
    expect(() => ForeignPty.open({ asked: false, where: { pid } })).toThrow('is off');
  });

  it.each(['SSH_CONNECTION', 'SSH_CLIENT', 'SSH_TTY'])(
    'is refused over SSH, with the reason: %s [C2C-32b]',
    async (name) => {
      const { pid } = await held(['cat'], { [name]: '10.0.0.1 22 10.0.0.2 22' });
      expect(() => ForeignPty.open({ asked: true, where: { pid } })).toThrow('came by SSH');
    },
  );

  it.skipIf(isRoot && !canStepDown)('is refused without the permission, with the reason [C2C-32b]', async () => {
    const { pid } = isRoot ? await held(['cat']) : { pid: 1 };
    const script = `
      const { ForeignPty } = await import(${JSON.stringify(new URL('./pty.ts', import.meta.url).pathname)});
      try { ForeignPty.open({ asked: true, where: { pid: ${pid} } }); console.log('opened'); } catch (error) { console.log(error.message); }`;
    const down = isRoot ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--no-new-privs'] : [];
    const child = Bun.spawn([...down, process.execPath, '-e', script], {
      env: { PATH, HOME: '/nonexistent', BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
      stdout: 'pipe',
    });
    const said = await new Response(child.stdout).text();
    expect(said).toMatch(isRoot ? /no permission to .*needs/ : /no permission|runs in no terminal/);
  });

  it('is refused for a process that is gone, and for one without a terminal', async () => {
    const { pid, holder } = await held(['cat']);
    holder.kill('SIGKILL');
    await within(20_000, async () => !existsSync(`/proc/${pid}`));
    expect(() => ForeignPty.open({ asked: true, where: { pid } })).toThrow('does not run');
    const bare = Bun.spawn(['setsid', 'sleep', '60']);
    started.push(bare);
    await within(20_000, async () => existsSync(`/proc/${bare.pid}`));
    expect(() => ForeignPty.open({ asked: true, where: { pid: bare.pid } })).toThrow('runs in no terminal');
  });

  it('is gone when its window is closed, because Parley does not keep it open [C2C-32b]', async () => {
    const { pid, holder } = await held(['cat']);
    const pty = ForeignPty.open({ asked: true, where: { pid } });
    expect(await pty.screen()).not.toBeNull();
    await pty.enter();
    expect(mastersHere()).toBe(0);
    holder.kill('SIGKILL');
    await within(20_000, async () => (await pty.screen()) === null);
    await expect(pty.paste('too late')).rejects.toThrow('is gone');
  });

  it('takes no more than the kernel takes at once', async () => {
    const { pid } = await held(['sh', '-c', 'stty raw -echo; exec sleep 60']);
    const pty = ForeignPty.open({ asked: true, where: { pid } });
    await expect(pty.paste('x'.repeat(20_000))).rejects.toThrow('at most');
  });
});

/** A program in a PTY that another process holds. */
async function held(
  command: string[],
  env: Record<string, string> = {},
): Promise<{ pid: number; holder: Bun.Subprocess }> {
  const holder = Bun.spawn([process.execPath, HOLDER, ...command], {
    env: { PATH, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0', ...env },
    stdout: 'pipe',
  });
  started.push(holder);
  for await (const said of holder.stdout) {
    const pid = Number(new TextDecoder().decode(said));
    // It has no environment until it has executed its program.
    await within(20_000, async () => readFileSync(`/proc/${pid}/environ`, 'utf8') !== '');
    return { pid, holder };
  }
  throw new Error('the holder said nothing');
}

function mastersHere(): number {
  return readdirSync('/proc/self/fd').filter((fd) => linkOf(`/proc/self/fd/${fd}`).endsWith('/ptmx')).length;
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
