import { closeSync, readdirSync, readFileSync, readlinkSync, writeSync } from 'node:fs';
import { Refusal } from '../protocol/refusal.ts';
import { askDevice, systemCall } from './libc.ts';
import { pasteable } from './pasteable.ts';
import { foregroundOf, isAlive, ttyOf } from './process.ts';
import { HalfTyped, type Screen, type Terminal } from './terminal.ts';

// The same numbers on x64 and arm64.
const PIDFD_OPEN = 434;
const PIDFD_GETFD = 438;
const TCGETS = 0x5401;
/** In the third word of what TCGETS gives: the program reads whole lines. */
const ICANON = 2;
const [EPERM, EACCES, ENOSYS] = [1, 13, 38];

/** What a kernel takes at once without waiting for the program. */
const MOST = 16 * 1024;
/** What it takes as one line. */
const MOST_IN_A_LINE = 4000;
const PATIENCE = 2000;

const EMPTY: Screen = { lines: [], bright: [], cursor: { row: 0, column: 0 } };

export interface ForeignOptions {
  /** Legacy: only for those who asked for it. */
  asked: boolean;
  /** The client's process, or the number of its terminal: then it is whoever reads from that one. */
  where: { pid: number } | { pts: number };
  /** The process that drew the terminal, where it is known; else it is looked for. */
  terminal?: number;
}

/** A process that holds the other end of a terminal, and under which number. */
interface Holder {
  pid: number;
  fd: number;
}

/**
 * A terminal that is neither tmux nor ours. Its master is borrowed from the process that holds it, for as long as a key takes and no
 * longer: whoever keeps one keeps the terminal open after its window was closed.
 * Nobody can read its screen. So a draft is not seen here, and only the client's own sign says that it is idle: those who use this way
 * give `unseen` as its composer (composer.ts) and know it. spec: c2c#foreign
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

  /** Refuses, with the reason, wherever it would not work. */
  static open({ asked, where, terminal }: ForeignOptions): ForeignPty {
    if (!asked)
      throw new Refusal(
        'against_policy',
        'typing into a terminal of another program is off; ask for it by name, or use tmux',
      );
    if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch))
      throw new Refusal(
        'not_in_this_version',
        'typing into a terminal of another program needs Linux on x64 or arm64; use tmux',
      );
    const pid = 'pid' in where ? where.pid : readerOf(`/dev/pts/${where.pts}`);
    const tty = ttyOf(pid);
    if (!tty) throw new Refusal('unreachable', `process ${pid} does not run, or runs in no terminal`);
    if (comesBySsh(pid))
      throw new Refusal(
        'unreachable',
        `process ${pid} came by SSH: its terminal is on another machine; run the client in tmux`,
      );
    const holder = holderOf(tty, terminal);
    if (isSshd(holder.pid))
      throw new Refusal(
        'unreachable',
        `${tty} is held by sshd: its terminal is on another machine; run the client in tmux`,
      );
    const pty = new ForeignPty(pid, tty, holder);
    // Now, so that whoever asked for it learns at once if the right is missing.
    pty.#with(() => undefined);
    return pty;
  }

  async screen(): Promise<Screen | null> {
    return ttyOf(this.pid) === this.tty && isAlive(this.holder.pid) ? EMPTY : null;
  }

  async paste(text: string): Promise<void> {
    pasteable(text);
    const bytes = Buffer.byteLength(text);
    if (bytes > MOST)
      throw new Refusal('too_large', `${this.name} takes at most ${MOST} bytes; use tmux, or a sentinel`);
    await this.#type((fd) => {
      // A program that reads whole lines knows no brackets.
      if (!readsLines(fd)) return `\u001b[200~${text}\u001b[201~`;
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
    await this.#with((fd) => writeAll(fd, Buffer.from(keys(fd))));
  }

  /** Borrows the master for this act. */
  #with<T>(act: (fd: number) => T): T {
    const fd = borrow(this.holder);
    const back = (): void => closeSync(fd);
    try {
      const result = act(fd);
      if (result instanceof Promise) return result.finally(back) as T;
      back();
      return result;
    } catch (error) {
      back();
      throw error;
    }
  }
}

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
      `the right to reach into process ${pid} is missing (CAP_SYS_PTRACE, or kernel.yama.ptrace_scope=0 and the same user); use tmux`,
    );
  if (error === ENOSYS)
    return new Refusal('not_in_this_version', 'this kernel cannot lend a terminal: it needs Linux 5.6; use tmux');
  return new Refusal('unreachable', `process ${pid} does not lend its terminal (error ${error}); use tmux`);
}

/** All of it, or an error that says how much. The kernel may need a moment to take it. */
async function writeAll(fd: number, bytes: Buffer): Promise<void> {
  const until = performance.now() + PATIENCE;
  for (let done = 0; done < bytes.length;) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      const isFull = (error as NodeJS.ErrnoException).code === 'EAGAIN';
      if (isFull && performance.now() < until) await Bun.sleep(5);
      else if (done > 0) throw new HalfTyped(`${done} of ${bytes.length} bytes were typed`);
      else throw new Refusal('busy', 'the terminal takes no input just now');
    }
  }
}

/** Whether the program in the terminal reads whole lines, which the terminal edits for it. */
function readsLines(fd: number): boolean {
  const settings = new Uint8Array(64);
  return askDevice(fd, TCGETS, settings) && (new DataView(settings.buffer).getUint32(12, true) & ICANON) !== 0;
}

/** The process in the foreground of a terminal: the one that gets what is typed. */
function readerOf(tty: string): number {
  const found = processes().find((pid) => ttyOf(pid) === tty && foregroundOf(pid) === pid);
  if (found === undefined) throw new Refusal('unreachable', `no program reads from ${tty}`);
  return found;
}

/** The process that has the master of a terminal open. */
function holderOf(tty: string, known?: number): Holder {
  const pids = known === undefined ? processes() : [known];
  let hidden = 0;
  for (const pid of pids) {
    const fds = masterIn(pid, tty.replace('/dev/pts/', ''));
    if (typeof fds === 'number') return { pid, fd: fds };
    if (fds === 'hidden') hidden += 1;
  }
  if (hidden > 0)
    throw new Refusal(
      'not_yours',
      `the right to see who holds ${tty} is missing (CAP_SYS_PTRACE, or the same user); use tmux`,
    );
  throw new Refusal('unreachable', `no process here holds the other end of ${tty}; use tmux`);
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
    return (error as NodeJS.ErrnoException).code === 'EACCES' ? 'hidden' : null;
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
  const environment = environmentOf(pid);
  if (environment === '') throw new Refusal('unreachable', `process ${pid} does not say where it came from; use tmux`);
  return /(^|\0)SSH_(CONNECTION|CLIENT|TTY)=/.test(environment);
}

function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    throw refused(pid, EACCES);
  }
}

function isSshd(pid: number): boolean {
  return readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('sshd');
}
