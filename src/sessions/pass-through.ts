import { openSync, writeSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { codeOf } from '../core/disk.ts';
import { isProcessStopped, signalTo } from '../platform/process.ts';
import { TtyMode } from '../platform/tty-mode.ts';
import { OwnPty } from './pty.ts';
import type { PtyOptions } from './pty.ts';
import type { Terminal } from './terminal.ts';

/** Sent on to the program, which decides what they mean. The terminal itself sends none of them while it is raw. */
const PASSED = ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;
/** Between two looks whether the program has stopped itself. */
const STOPPED_MS = 200;
/** After its end a program's last output may still be on its way; a child of it may keep the terminal open for ever. */
const DRAIN_MS = 500;
const FULL_MS = 1;
/** What a terminal reports when its user turns to it or away. */
// oxlint-disable-next-line no-control-regex -- it begins with Escape.
const FOCUS = /^(?:\u001b\[[IO])+$/;

export interface HeldOptions extends Pick<PtyOptions, 'cwd' | 'env'> {
  /** Called after the program has drawn something. */
  drew: () => void;
}

/**
 * A program in a terminal of ours inside the user's terminal. Every byte goes through in both directions as it is; size, signals, stop and
 * exit code, too. We only see what is drawn, and can type where the user can.
 *
 * The user's terminal gets its settings back when this ends, also by a signal. If we are killed, `GUARD` does that, and the program ends
 * because its terminal is gone.
 */
export class HeldTerminal {
  readonly pty: OwnPty;
  readonly #mode = new TtyMode(0);
  readonly #keys: ReadStream;
  readonly #guard: Bun.Subprocess<'pipe', 'ignore', 'ignore'>;
  readonly #watch: ReturnType<typeof setInterval>;
  /** Keys that wait until what we type is done. Null: they go through. */
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
    // Opened again: what the runtime does to this file is not done to the one that we share with our shell.
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

  /** For how long the user has typed nothing, ms. What a terminal answers to a program counts as typed, too. */
  get quietMs(): number {
    return performance.now() - this.#typedAt;
  }

  /** When the user last pressed a key, as performance.now() counts. Looking away from the terminal and back is none. */
  get keyAt(): number {
    return this.#keyAt;
  }

  /** The user pressed keys that wait. */
  get hasWaitingKeys(): boolean {
    return (this.#waiting?.length ?? 0) > 0;
  }

  /** Types into the terminal that `act` is given. Until it presses Enter there, or gives up, the user's keys wait: they come after it. */
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

  /** Waits for the end of the program, and gives the terminal back. The exit code, or the signal that ended it. */
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

  /** Our terminal is gone, so the program loses its own: one that ignores the signal would run on unseen, and get mail. */
  #hangUp(): void {
    this.#send('SIGHUP');
    this.pty.hangUp();
  }

  /** The program or we should stop: both do, and the shell gets a usable terminal. Goes on where the shell lets us go on. */
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

/** Waits for a terminal that takes no more: so the program waits, too, as it would without us. */
function draw(bytes: Uint8Array): void {
  for (let rest = bytes; rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      // The terminal is gone: its end comes as a signal.
      if (codeOf(error) !== 'EAGAIN') return;
      Bun.sleepSync(FULL_MS);
    }
  }
}

/**
 * Ends what a program may have asked of a terminal: a drawing that is held back, reports of the mouse, the focus and the colours, keys in
 * another form, the other screen, no line breaks, no cursor. Leaving the other screen moves the cursor to where it was saved: that is
 * here, if the program was not there.
 */
const RESET =
  '\\033[?2026l\\033[?1000l\\033[?1002l\\033[?1003l\\033[?1006l\\033[?1004l\\033[?2031l\\033[<u\\033[>4;0m' +
  '\\0337\\033[?1049l\\033[?7h\\033[?25h\\033[0m';

/**
 * Gives a terminal back as it was if we were killed before we could: our end of its input closes then. A shell that was faster has set
 * its own settings by then, and asked for pastes in brackets: both stay. `$1` are the raw settings, `$2` those before.
 */
const GUARD = `trap '' INT QUIT TERM HUP TSTP TTOU TTIN
read -r word && [ "$word" = done ] && exit
printf '${RESET}' >/dev/tty
[ "$(stty -g </dev/tty)" = "$1" ] && stty "$2" </dev/tty && printf '\\033[?2004l\\r\\n' >/dev/tty`;
