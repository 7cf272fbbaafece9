import { readFileSync, statSync } from 'node:fs';

/** Ticks of the kernel's clock in a second: the same on every Linux that people run. */
const TICKS = 100;
/** The machine's start is known to the second only. */
const BLUR = 2000;

/** When a process started, in the words of the system: other programs keep the same. Null if it does not run, or cannot be asked. */
export function startOf(pid: number): string | null {
  return statOf(pid)?.[19] ?? null;
}

/** Whether a process runs. One that ended and waits to be noticed does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return statOf(pid)?.[0] !== 'Z';
}

/** Whether a process runs, and ran at that moment already: a number that was given away again is somebody else. */
export function hasRunSince(pid: number, at: number): boolean {
  if (!isAlive(pid)) return false;
  const started = startOf(pid);
  return started === null || bootedAt() + (Number(started) * 1000) / TICKS <= at + BLUR;
}

/** Whether a process runs in this terminal; true where the system does not tell. */
export function runsIn(pid: number, tty: string | null): boolean {
  if (tty === null || process.platform !== 'linux') return true;
  try {
    return Number(statOf(pid)?.[4]) === deviceNumber(statSync(tty).rdev);
  } catch {
    return false;
  }
}

/** The terminal that a process runs in, `/dev/pts/3`; null if none, or if the system does not tell. */
export function ttyOf(pid: number): string | null {
  const number = Number(statOf(pid)?.[4] ?? 0);
  const [major, minor] = [(number >>> 8) & 0xfff, (number & 0xff) | ((number >>> 12) & 0xfff00)];
  // Linux numbers its pseudo-terminals from here on, a million of them.
  return major >= 136 && major <= 143 ? `/dev/pts/${minor + (major - 136) * 0x100000}` : null;
}

/** The process that leads the foreground of the terminal in which this one runs; null if there is none. */
export function foregroundOf(pid: number): number | null {
  const leader = Number(statOf(pid)?.[5] ?? -1);
  return leader > 0 ? leader : null;
}

const SHELLS = /^(sh|ash|dash|bash|zsh|ksh|fish|busybox)$/;
/** A client starts a shell, which may start another. */
const GENERATIONS = 8;

/** The program that started this one, past the shells between the two. Null if it is gone, or if the system does not tell. */
export function starterOf(pid: number): number | null {
  let found = parentOf(pid);
  for (let n = 0; n < GENERATIONS && SHELLS.test(nameOf(found)); n += 1) found = parentOf(found);
  return found > 1 && !SHELLS.test(nameOf(found)) ? found : null;
}

function parentOf(pid: number): number {
  return Number(statOf(pid)?.[1] ?? 0);
}

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  } catch {
    return '';
  }
}

/** What Linux says of a process, from its state on. Its name comes before that, in brackets, and may have anything in it. */
function statOf(pid: number): string[] | null {
  try {
    return (/\)\s(.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1] ?? '').split(' ');
  } catch {
    return null;
  }
}

function bootedAt(): number {
  return Number(/^btime (\d+)/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? 0) * 1000;
}

/** The kernel writes a device in one form into /proc, and gives it in another one to stat. */
function deviceNumber(rdev: number): number {
  const major = (rdev >>> 8) & 0xfff;
  const minor = (rdev & 0xff) | ((rdev >>> 12) & 0xfff00);
  return (minor & 0xff) | (major << 8) | ((minor & 0xfff00) << 12);
}
