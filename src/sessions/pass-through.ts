import { openSync, writeSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { codeOf } from '../core/disk.ts';
import { isProcessStopped, signalTo } from '../platform/process.ts';
import { TtyMode } from '../platform/tty-mode.ts';
import { OwnPty } from './pty.ts';
import type { PtyOptions } from './pty.ts';
import type { Terminal } from './terminal.ts';

/** Signals that are passed on to the program. A terminal in raw mode sends none of them by itself. */
const PASSED = ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;
/** How often to check whether the program has stopped itself. */
const STOPPED_MS = 200;
/** How long to wait for a program's last output after it ended. Limited, because a child of it may keep the terminal open. */
const DRAIN_MS = 500;
/** Pause before the next write to a terminal whose buffer is full. */
const FULL_MS = 1;
/** What a terminal reports when it gains or loses the focus. */
// oxlint-disable-next-line no-control-regex -- it begins with Escape.
const FOCUS = /^(?:\u001b\[[IO])+$/;

export interface HeldOptions extends Pick<PtyOptions, 'cwd' | 'env'> {
  /** Called after the program has drawn something. */
  drew: () => void;
}

/**
 * A program in a terminal of ours inside the user's terminal. Every byte passes unchanged in both directions; so do size, signals, stop and
 * exit code. Parley only reads the screen, and can type where the user can.
 *
 * The user's terminal gets its settings back when this ends, even by a signal. If this process is killed, `GUARD` restores them, and the
 * program ends because its terminal is gone.
 */
export class HeldTerminal {
  readonly pty: OwnPty;
  readonly #mode = new TtyMode(0);
  readonly #keys: ReadStream;
  readonly #guard: Bun.Subprocess<'pipe', 'ignore', 'ignore'>;
  readonly #watch: ReturnType<typeof setInterval>;
  /** Keys of the user that wait until Parley has finished typing. Null: keys pass through. */
  #waiting: Uint8Array<ArrayBuffer>[] | null = null;
  #typedAt = -Infinity;
  #keyAt = -Infinity;
  #isStopped = false;

  constructor(command: readonly string[], { cwd, env, drew }: HeldOptions) {
    const [width, height] = process.stdout.getWindowSize();
    const before = settings();
    this.#mode.raw();
    this.#guard = Bun.spawn(['/bin/sh', '-c', GUARD, 'sh', settings(), before], {
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    const shown = (bytes: Uint8Array): void => {
      draw(bytes);
      drew();
    };
    this.pty = new OwnPty(command, { cwd, env, width: width || 80, height: height || 24, shown });
    // Open the terminal again, so that the runtime's changes to this file do not affect the one that we share with our shell.
    this.#keys = new ReadStream(openSync('/dev/tty', 'r'));
    this.#keys.on('data', (keys: Buffer) => this.#press(new Uint8Array(keys)));
    this.#keys.on('error', () => this.#hangUp());
    this.#keys.on('end', () => this.#hangUp());
    process.on('SIGWINCH', () => this.#resize());
    for (const signal of PASSED) process.on(signal, () => this.#send(signal));
    process.on('SIGTSTP', () => this.#suspend());
    process.on('SIGCONT', () => this.#resume());
    this.#watch = setInterval(() => isProcessStopped(this.pty.pid) && this.#suspend(), STOPPED_MS);
  }

  /** For how long nothing was typed, ms. The terminal's own answers to the program count as typing, too. */
  get quietMs(): number {
    return performance.now() - this.#typedAt;
  }

  /** When the user last pressed a key, by performance.now(). A change of the focus does not count. */
  get keyAt(): number {
    return this.#keyAt;
  }

  /** Whether keys of the user wait. */
  get hasWaitingKeys(): boolean {
    return (this.#waiting?.length ?? 0) > 0;
  }

  /** Lets `act` type into the terminal alone. The user's keys wait until `act` presses Enter or ends, and then follow. */
  async alone<T>(act: (terminal: Terminal) => Promise<T>): Promise<T> {
    const { pty } = this;
    const enter = async (): Promise<void> => {
      await pty.enter();
      this.#passKeys();
    };
    this.#waiting = [];
    try {
      return await act({
        name: pty.name,
        tty: pty.tty,
        screen: () => pty.screen(),
        paste: (text) => pty.paste(text),
        erase: () => pty.erase(),
        close: () => pty.close(),
        enter,
      });
    } finally {
      this.#passKeys();
    }
  }

  #passKeys(): void {
    const keys = this.#waiting ?? [];
    this.#waiting = null;
    for (const some of keys) this.#press(some);
  }

  /** Waits until the program ends, and restores the terminal. Returns the exit code, or the signal that ended the program. */
  async ended(): Promise<number | NodeJS.Signals> {
    const code = await this.pty.exited;
    await Promise.race([this.pty.drawn, Bun.sleep(DRAIN_MS)]);
    clearInterval(this.#watch);
    this.#keys.destroy();
    this.#mode.restore();
    void this.#guard.stdin.write('done\n');
    await this.#guard.stdin.end();
    await this.#guard.exited;
    return this.pty.signal ?? code;
  }

  #press(keys: Uint8Array<ArrayBuffer>): void {
    this.#typedAt = performance.now();
    if (!FOCUS.test(Buffer.from(keys).toString('latin1'))) this.#keyAt = this.#typedAt;
    if (this.#waiting) return void this.#waiting.push(keys);
    try {
      this.pty.type(keys);
    } catch {
      // The program has just ended.
    }
  }

  #resize(): void {
    const [width, height] = process.stdout.getWindowSize();
    this.pty.resize(width || 80, height || 24);
  }

  #send(signal: NodeJS.Signals): void {
    signalTo(this.pty.pid, signal);
  }

  /** The user's terminal is gone, so close the program's, too: a program that ignores SIGHUP would run on unseen, and get mail. */
  #hangUp(): void {
    this.#send('SIGHUP');
    this.pty.hangUp();
  }

  /** The program or this process was told to stop: stop both, and give the shell a usable terminal. `#resume` follows when the shell continues us. */
  #suspend(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#send('SIGSTOP');
    this.#mode.restore();
    process.kill(process.pid, 'SIGSTOP');
  }

  #resume(): void {
    this.#mode.raw();
    this.#resize();
    this.#send('SIGCONT');
    this.#isStopped = false;
  }
}

/** The settings of our terminal, as stty writes them. */
function settings(): string {
  return Bun.spawnSync(['stty', '-g'], { stdin: 'inherit', stderr: 'ignore' }).stdout.toString().trim();
}

/** Writes to the user's terminal, and waits while its buffer is full. So the program waits, too, as it would without us. */
function draw(bytes: Uint8Array): void {
  for (let rest = bytes; rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      // The terminal is gone; SIGHUP follows.
      if (codeOf(error) !== 'EAGAIN') return;
      Bun.sleepSync(FULL_MS);
    }
  }
}

/**
 * Switches off every mode that a program may have switched on: synchronized output, reports of mouse, focus and colours, other key
 * encodings, the alternate screen, no line wrap, a hidden cursor. Leaving the alternate screen restores the saved cursor, so the cursor is
 * saved first, for a program that did not use that screen.
 */
const RESET =
  '\\033[?2026l\\033[?1000l\\033[?1002l\\033[?1003l\\033[?1006l\\033[?1004l\\033[?2031l\\033[<u\\033[>4;0m' +
  '\\0337\\033[?1049l\\033[?7h\\033[?25h\\033[0m';

/**
 * A shell script that restores the terminal if this process was killed before it could: then the script's input closes. If the shell was
 * faster and has set its own settings and bracketed paste, both stay. `$1` are the raw settings, `$2` the settings before.
 */
const GUARD = `trap '' INT QUIT TERM HUP TSTP TTOU TTIN
read -r word && [ "$word" = done ] && exit
printf '${RESET}' >/dev/tty
[ "$(stty -g </dev/tty)" = "$1" ] && stty "$2" </dev/tty && printf '\\033[?2004l\\r\\n' >/dev/tty`;
