import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { within } from '../../test/support/within.ts';
import { isProcessAlive, isProcessStopped } from '../platform/process.ts';

const HELD = new URL('../../test/support/held.child.ts', import.meta.url).pathname;
const DEADLINE = 30_000;
const isHere = process.platform === 'linux';

const windows: Window[] = [];
afterEach(async () => {
  for (const one of windows.splice(0)) await one.close();
});

describe.skipIf(!isHere)(`a program in a terminal that we hold${isHere ? '' : ' (skipped: Linux only)'}`, () => {
  it('gets a typed megabyte unchanged, and its own megabyte of output is drawn unchanged', async () => {
    const typed = crypto.getRandomValues(Buffer.alloc(1024)).toString('latin1').repeat(1024);
    const bytes = Buffer.from(typed, 'latin1');
    const window = aWindow(`stty raw -echo; printf ready; head -c ${bytes.length} > got; cat got`);
    await window.shows('ready');
    window.write(bytes);
    expect(await window.exited).toBe(0);
    expect(readFileSync(`${window.folder}/got`).equals(bytes)).toBe(true);
    expect(Buffer.concat(window.drawn).subarray('ready'.length).equals(bytes)).toBe(true);
  });

  it('sees the size of the terminal, and each change of it', async () => {
    const window = aWindow("trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done");
    await window.shows('33 101');
    window.resize(77, 22);
    await window.shows('22 77');
  });

  it.each([
    ['its exit code', 'exit 7', '7'],
    ['the signal that ended it', 'kill -KILL $$', '137'],
  ])('is seen to end as it did: %s; and the terminal is as it was', async (_what, script, code) => {
    const window = inShell(script);
    expect(await window.exited).toBe(0);
    expect(window.file('code')).toBe(code);
    expect(window.file('after')).toBe(window.file('before'));
  });

  it('gets keys such as Ctrl-C as keys, and the signals that we get as signals', async () => {
    const script = 'stty raw -echo; echo ready; dd bs=1 count=3 2>/dev/null | od -An -tx1; stty sane';
    const keys = aWindow(script);
    await keys.shows('ready');
    keys.write(Buffer.from([3, 26, 28]));
    await keys.shows('03 1a 1c');
    const window = inShell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done");
    await window.shows('ready');
    process.kill(window.holder, 'SIGTERM');
    expect(await window.exited).toBe(0);
    expect([window.file('code'), window.file('after')]).toEqual(['9', window.file('before')]);
  });

  it('stops and continues together with us, and the shell has its terminal meanwhile', async () => {
    const stopped = 'stty -g > now; mv now during; until [ -e go ]; do sleep 0.05; done; fg >/dev/null; code=$?';
    const window = inShell('echo $$ > inner; echo ready; while :; do sleep 0.05; [ -e end ] && exit 4; done', stopped);
    await window.shows('ready');
    process.kill(window.holder, 'SIGTSTP');
    await within(DEADLINE, async () => existsSync(`${window.folder}/during`));
    expect(window.file('during')).toBe(window.file('before'));
    const inner = Number(window.file('inner'));
    // It stops only when the system schedules it next.
    await within(DEADLINE, async () => isProcessStopped(inner));
    writeFileSync(`${window.folder}/go`, '');
    await within(DEADLINE, async () => !isProcessStopped(inner));
    writeFileSync(`${window.folder}/end`, '');
    expect(await window.exited).toBe(0);
    expect([window.file('code'), window.file('after')]).toEqual(['4', window.file('before')]);
  });

  it('ends if we are killed, and the terminal is still restored', async () => {
    const window = inShell('echo $$ > inner; echo ready; cat', 'code=$?; until [ -e go ]; do sleep 0.05; done');
    await window.shows('ready');
    const inner = Number(window.file('inner'));
    const settings = async (): Promise<string> => Bun.$`stty -F ${window.device} -g`.text().then((text) => text.trim());
    expect(await settings()).not.toBe(window.file('before'));
    process.kill(window.holder, 'SIGKILL');
    await within(DEADLINE, async () => !isProcessAlive(inner) && (await settings()) === window.file('before'));
    writeFileSync(`${window.folder}/go`, '');
    expect(await window.exited).toBe(0);
    expect(window.file('code')).toBe('137');
  });

  it('loses its terminal when we lose ours, even if it ignores SIGHUP', async () => {
    const window = aWindow(`trap '' HUP; echo $$ > inner; echo ready; cat; sleep 0.1`);
    await window.shows('ready');
    const inner = Number(window.file('inner'));
    window.hangUp();
    await within(DEADLINE, async () => !isProcessAlive(inner));
    await window.exited;
  });

  it.each([
    ['the other screen', '[?1049h', '[?1049l'],
    ['reports of clicks', '[?1000h', '[?1000l'],
    ['reports of drags', '[?1002h', '[?1002l'],
    ['reports of moves', '[?1003h', '[?1003l'],
    ['long reports of the mouse', '[?1006h', '[?1006l'],
    ['reports of the focus', '[?1004h', '[?1004l'],
    ['reports of the colours', '[?2031h', '[?2031l'],
    ['keys of the kitty protocol', '[>1u', '[<u'],
    ['keys of xterm', '[>4;2m', '[>4;0m'],
    ['a drawing that is held back', '[?2026h', '[?2026l'],
    ['no line breaks', '[?7l', '[?7h'],
    ['no cursor', '[?25l', '[?25h'],
    ['pastes in brackets', '[?2004h', '[?2004l'],
  ])('takes nothing from the terminal if we are killed: %s', async (_what, set, reset) => {
    const then = 'code=$?; until [ -e go ]; do sleep 0.05; done';
    const window = inShell(`printf '\\033${set}'; echo ready; cat`, then);
    await window.shows('ready');
    process.kill(window.holder, 'SIGKILL');
    await window.shows(`\u001b${reset}`);
    writeFileSync(`${window.folder}/go`, '');
    expect(await window.exited).toBe(0);
    const drawn = Buffer.concat(window.drawn).toString('latin1');
    expect(drawn.indexOf(`\u001b${reset}`)).toBeGreaterThan(drawn.indexOf(`\u001b${set}`));
  });
});

/** The outer terminal, with a program in it. */
class Window {
  readonly folder: string;
  readonly drawn: Buffer[] = [];
  readonly #child: Bun.Subprocess;

  constructor(folder: string, command: string[]) {
    this.folder = folder;
    this.#child = Bun.spawn(command, {
      cwd: folder,
      env: { PATH: process.env['PATH'] ?? '', BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0', TERM: 'xterm' },
      terminal: { cols: 101, rows: 33, data: (_terminal, bytes) => void this.drawn.push(Buffer.from(bytes)) },
    });
    windows.push(this);
  }

  get exited(): Promise<number> {
    return this.#child.exited;
  }

  /** The process that holds the inner terminal. */
  get holder(): number {
    const { stdout } = Bun.spawnSync(['pgrep', '-P', String(this.#child.pid), 'bun']);
    return Number(stdout.toString().trim());
  }

  get device(): string {
    return Bun.spawnSync(['readlink', `/proc/${this.#child.pid}/fd/0`])
      .stdout.toString()
      .trim();
  }

  file(name: string): string {
    return readFileSync(`${this.folder}/${name}`, 'utf8').trim();
  }

  write(bytes: Buffer<ArrayBuffer>): void {
    this.#child.terminal?.write(bytes);
  }

  resize(width: number, height: number): void {
    this.#child.terminal?.resize(width, height);
  }

  /** Closes the outer terminal, as its user would. */
  hangUp(): void {
    this.#child.terminal?.close();
  }

  async shows(text: string): Promise<void> {
    await within(DEADLINE, async () => Buffer.concat(this.drawn).includes(text));
  }

  async close(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#child.exited;
    this.#child.terminal?.close();
  }
}

/** A command that runs this script in a held terminal. */
function aWindow(script: string): Window {
  return new Window(temporaryHome(), [process.execPath, HELD, 'sh', '-c', script]);
}

/** The same as a job of a shell, which records its terminal's settings before and after. `then`: what the shell does when the job stops or ends. */
function inShell(script: string, then = 'code=$?'): Window {
  const shell = `set -m; stty -g > before; "$@"; ${then}; stty -g > after; echo $code > code`;
  return new Window(temporaryHome(), ['sh', '-c', shell, 'sh', process.execPath, HELD, 'sh', '-c', script]);
}
