import { dlopen, FFIType, read } from 'bun:ffi';
import { closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync, writeSync } from 'node:fs';
import { Refusal } from '../core/refusal.ts';
import { foregroundOf, isProcessAlive, ttyOf } from '../platform/process.ts';
import { ScreenModel } from './screen.ts';
import { HalfTyped, pasteable } from './terminal.ts';
import type { Screen, Terminal } from './terminal.ts';

const BEGIN = '\u001b[200~';
const END = '\u001b[201~';

export interface PtyOptions {
  cwd: string;
  env: Record<string, string | undefined>;
  width?: number;
  height?: number;
  /** Gets all output of the program, to show it in a person's terminal. Then that terminal answers the program's queries. */
  shown?: (bytes: Uint8Array) => void;
}

/** A terminal that we own, with a program in it. */
export class OwnPty implements Terminal {
  readonly name: string;
  readonly tty: string | null;
  /** Unix ms. */
  readonly startedAt = Date.now();
  readonly #model: ScreenModel;
  readonly #child: Bun.Subprocess;
  readonly #decoder = new TextDecoder();
  readonly #drawn = Promise.withResolvers<void>();

  constructor(command: readonly string[], options: PtyOptions) {
    const { width = 120, height = 40, shown, cwd, env } = options;
    this.#model = new ScreenModel(width, height, shown ? undefined : (text) => void this.#child.terminal?.write(text));
    this.#child = Bun.spawn([...command], {
      cwd,
      env: { TERM: 'xterm-256color', ...env },
      terminal: {
        cols: width,
        rows: height,
        data: (_terminal, bytes) => {
          // The person's terminal comes first.
          shown?.(bytes);
          this.#model.write(this.#decoder.decode(bytes, { stream: true }));
        },
        exit: () => this.#drawn.resolve(),
      },
    });
    this.name = `pty ${this.#child.pid}`;
    this.tty = deviceOf(this.#child.pid);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Resolves to the program's exit code when it has ended. */
  get exited(): Promise<number> {
    return this.#child.exited;
  }

  /** The signal that ended the program, if one did. */
  get signal(): NodeJS.Signals | null {
    const { signalCode } = this.#child;
    return typeof signalCode === 'string' ? signalCode : null;
  }

  /** Resolves when all output has been read: neither the program nor a child of it has the terminal open. */
  get drawn(): Promise<void> {
    return this.#drawn.promise;
  }

  async screen(): Promise<Screen | null> {
    return this.#isGone ? null : this.#model.screen();
  }

  resize(width: number, height: number): void {
    this.#model.resize(width, height);
    if (this.#child.terminal?.closed === false) this.#child.terminal.resize(width, height);
  }

  async paste(text: string): Promise<void> {
    pasteable(text);
    if (!this.#model.bracketed && text.includes('\n'))
      throw new Refusal(
        'busy',
        `${this.name}: its program takes no bracketed paste, and each line would be sent alone`,
      );
    this.type(this.#model.bracketed ? `${BEGIN}${text}${END}` : text);
  }

  async enter(): Promise<void> {
    this.type('\r');
  }

  async erase(): Promise<void> {
    this.type('\u0015');
  }

  /** Writes keys unchanged, as a person typed them. */
  type(keys: string | Uint8Array<ArrayBuffer>): void {
    if (this.#isGone) throw new Refusal('unreachable', `${this.name}: the program in it has ended`);
    this.#child.terminal?.write(keys);
  }

  /** Closes the terminal, as closing its window does. */
  hangUp(): void {
    if (this.#child.terminal?.closed === false) this.#child.terminal.close();
  }

  /** Ends the program, which was started for this terminal. */
  async close(): Promise<void> {
    if (!this.#isGone) this.#child.kill('SIGHUP');
    const late = setTimeout(() => this.#child.kill('SIGKILL'), 3000);
    await this.#child.exited;
    clearTimeout(late);
    this.hangUp();
  }

  get #isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}

function deviceOf(pid: number): string | null {
  try {
    const path = readlinkSync(`/proc/${pid}/fd/0`);
    return path.startsWith('/dev/') ? path : null;
  } catch {
    return null;
  }
}

/** The most bytes that the kernel takes at once while the program does not read. */
const MOST_BYTES = 16 * 1024;
/** The most bytes that the kernel takes as one line. */
const MOST_IN_A_LINE = 4000;
const WRITE_MS = 2000;

const EMPTY: Screen = { lines: [], bright: [], cursor: { row: 0, column: 0 } };

export interface ForeignOptions {
  /** The user asked for this legacy way by name. */
  asked: boolean;
  /** The client's process, or the number of its terminal: then the client is the process that reads from that terminal. */
  where: { pid: number } | { pts: number };
  /** The pid of the terminal program, if known; else it is searched for. */
  terminal?: number;
}

/** The process that has the master of a terminal open, and its file descriptor. */
interface Holder {
  pid: number;
  fd: number;
}

/**
 * A terminal that is neither in tmux nor ours. To type, its master is borrowed from the process that holds it, only for one write: a process
 * that keeps a master open keeps the terminal open after its window was closed.
 * Its screen cannot be read, so a draft of the user is not seen, and only the client's own state says that it is idle. The caller must
 * accept that and pass `unseen` (terminal.ts) as the composer. spec: c2c#foreign
 */
export class ForeignPty implements Terminal {
  readonly name: string;

  private constructor(
    readonly pid: number,
    readonly tty: string,
    readonly holder: Holder,
  ) {
    this.name = `terminal ${tty} of process ${holder.pid}`;
  }

  /** Opens the terminal, or refuses with the reason why typing would not work. */
  static open({ asked, where, terminal }: ForeignOptions): ForeignPty {
    const typing = 'typing into a terminal of another program';
    if (!asked) throw new Refusal('against_policy', `${typing} is off; ask for it by name, or use tmux`);
    if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch))
      throw new Refusal('not_in_this_version', `${typing} needs Linux on x64 or arm64; use tmux`);
    const pid = 'pid' in where ? where.pid : readerOf(`/dev/pts/${where.pts}`);
    const tty = ttyOf(pid);
    if (!tty) throw new Refusal('unreachable', `process ${pid} does not run, or runs in no terminal`);
    const elsewhere = 'its terminal is on another machine; run the client in tmux';
    if (comesBySsh(pid)) throw new Refusal('unreachable', `process ${pid} came by SSH: ${elsewhere}`);
    const holder = holderOf(tty, terminal);
    if (isSshd(holder.pid)) throw new Refusal('unreachable', `${tty} is held by sshd: ${elsewhere}`);
    // Borrow once now, so that a missing permission is reported immediately.
    closeSync(borrow(holder));
    return new ForeignPty(pid, tty, holder);
  }

  async screen(): Promise<Screen | null> {
    return ttyOf(this.pid) === this.tty && isProcessAlive(this.holder.pid) ? EMPTY : null;
  }

  async paste(text: string): Promise<void> {
    pasteable(text);
    const bytes = Buffer.byteLength(text);
    if (bytes > MOST_BYTES)
      throw new Refusal('too_large', `${this.name} takes at most ${MOST_BYTES} bytes; use tmux, or a sentinel`);
    await this.#type((fd) => {
      // A program that reads whole lines does not know bracketed paste.
      if (!readsLines(fd)) return `${BEGIN}${text}${END}`;
      if (text.includes('\n') || bytes > MOST_IN_A_LINE)
        throw new Refusal('busy', `${this.name}: its program reads lines, and this is more than one`);
      return text;
    });
  }

  async enter(): Promise<void> {
    await this.#type(() => '\r');
  }

  async erase(): Promise<void> {
    await this.#type(() => '\u0015');
  }

  async close(): Promise<void> {}

  async #type(keys: (fd: number) => string): Promise<void> {
    if (!(await this.screen())) throw new Refusal('unreachable', `${this.name} is gone`);
    const fd = borrow(this.holder);
    try {
      await writeAll(fd, Buffer.from(keys(fd)));
    } finally {
      closeSync(fd);
    }
  }
}

// The same numbers on x64 and arm64.
const PIDFD_OPEN = 434;
const PIDFD_GETFD = 438;
const [EPERM, EACCES, ENOSYS] = [1, 13, 38];

function borrow({ pid, fd }: Holder): number {
  const process = systemCall(PIDFD_OPEN, pid, 0, 0);
  if (process < 0) throw refused(pid, -process);
  const borrowed = systemCall(PIDFD_GETFD, process, fd, 0);
  closeSync(process);
  if (borrowed < 0) throw refused(pid, -borrowed);
  return borrowed;
}

function refused(pid: number, error: number): Refusal {
  if (error === EPERM || error === EACCES)
    return new Refusal(
      'not_yours',
      `no permission to use the terminal of process ${pid} (needs CAP_SYS_PTRACE, or kernel.yama.ptrace_scope=0 and the same user); use tmux`,
    );
  if (error === ENOSYS)
    return new Refusal('not_in_this_version', 'this kernel cannot lend a terminal: it needs Linux 5.6; use tmux');
  return new Refusal('unreachable', `process ${pid} does not lend its terminal (error ${error}); use tmux`);
}

/** Writes all bytes, or throws an error that says how many were written. Waits while the kernel's buffer is full. */
async function writeAll(fd: number, bytes: Buffer): Promise<void> {
  const until = performance.now() + WRITE_MS;
  for (let done = 0; done < bytes.length;) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      const isFull = codeOf(error) === 'EAGAIN';
      if (isFull && performance.now() < until) await Bun.sleep(5);
      else if (done > 0) throw new HalfTyped(`${done} of ${bytes.length} bytes were typed`);
      else throw new Refusal('busy', 'the terminal takes no input just now');
    }
  }
}

const TCGETS = 0x5401;
/** Flag in the fourth word (c_lflag) of the answer to TCGETS: the program reads whole lines. */
const ICANON = 2;

/** Whether the program in the terminal reads whole lines, with the kernel as line editor. */
function readsLines(fd: number): boolean {
  const settings = new Uint8Array(64);
  return askDevice(fd, TCGETS, settings) && (new DataView(settings.buffer).getUint32(12, true) & ICANON) !== 0;
}

/** The process in the foreground of a terminal: the one that gets the keys. */
function readerOf(tty: string): number {
  const found = processes().find((pid) => ttyOf(pid) === tty && foregroundOf(pid) === pid);
  if (found === undefined) throw new Refusal('unreachable', `no program reads from ${tty}`);
  return found;
}

/** The process that has the master of a terminal open. */
function holderOf(tty: string, known?: number): Holder {
  let hidden = 0;
  for (const pid of known === undefined ? processes() : [known]) {
    const fd = masterIn(pid, tty.replace('/dev/pts/', ''));
    if (typeof fd === 'number') return { pid, fd };
    if (fd === 'hidden') hidden += 1;
  }
  if (hidden === 0) throw new Refusal('unreachable', `no process here holds the other end of ${tty}; use tmux`);
  throw new Refusal(
    'not_yours',
    `no permission to see which process holds ${tty} (needs CAP_SYS_PTRACE, or the same user); use tmux`,
  );
}

function processes(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function masterIn(pid: number, index: string): number | 'hidden' | null {
  try {
    const found = readdirSync(`/proc/${pid}/fd`).find((fd) => isMaster(pid, fd, index));
    return found === undefined ? null : Number(found);
  } catch (error) {
    return codeOf(error) === 'EACCES' ? 'hidden' : null;
  }
}

function isMaster(pid: number, fd: string, index: string): boolean {
  try {
    if (!readlinkSync(`/proc/${pid}/fd/${fd}`).endsWith('/ptmx')) return false;
    return new RegExp(`^tty-index:\\s*${index}$`, 'm').test(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'));
  } catch {
    return false;
  }
}

function comesBySsh(pid: number): boolean {
  let environment: string;
  try {
    environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    throw refused(pid, EACCES);
  }
  if (environment === '') throw new Refusal('unreachable', `process ${pid} does not say where it came from; use tmux`);
  return /(^|\0)SSH_(CONNECTION|CLIENT|TTY)=/.test(environment);
}

function isSshd(pid: number): boolean {
  return readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('sshd');
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

const LOCK_EX_NB = 2 | 4;

/**
 * Locks a terminal for typing: one writer at a time, of all processes on this machine, by a lock on the device itself. The kernel releases
 * it when the holder ends. Null if another writer has it. A terminal without a known device is not shared, so it needs no lock.
 */
export function takeTurn(tty: string | null): { release(): void } | null {
  if (tty === null) return { release: () => undefined };
  const fd = openSync(tty, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
  if (lockFile(fd)) return { release: () => closeSync(fd) };
  closeSync(fd);
  return null;
}

/** Locks an open file exclusively until it is closed. False if another process has the lock. */
export function lockFile(fd: number): boolean {
  common ??= dlopen(LIBC, { flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } });
  return common.symbols.flock(fd, LOCK_EX_NB) === 0;
}

/** The C library. musl accepts this name, too. A fallback name could be loaded from the current folder, so there is none. */
const LIBC = process.platform === 'darwin' ? 'libSystem.dylib' : 'libc.so.6';
let common: { symbols: { flock(fd: number, operation: number): number } } | undefined;
let linux: ReturnType<typeof openLinux> | undefined;

function openLinux() {
  const { i32, i64, ptr } = FFIType;
  return dlopen(LIBC, {
    // The number of the call and its three arguments, all integers.
    syscall: { args: [i64, i64, i64, i64], returns: i64 },
    ioctl: { args: [i32, i64, ptr], returns: i32 },
    __errno_location: { args: [], returns: ptr },
  });
}

/** Makes a Linux system call by its number: returns its result, or the negated errno. */
function systemCall(number: number, ...given: [number, number, number]): number {
  linux ??= openLinux();
  const [first, second, third] = given;
  const answer = Number(linux.symbols.syscall(BigInt(number), BigInt(first), BigInt(second), BigInt(third)));
  if (answer !== -1) return answer;
  const place = linux.symbols.__errno_location();
  return place === null ? -1 : -read.i32(place);
}

/** Makes an ioctl call that fills `answer`; false if it fails. */
function askDevice(fd: number, question: number, answer: Uint8Array): boolean {
  linux ??= openLinux();
  return linux.symbols.ioctl(fd, BigInt(question), answer) === 0;
}
