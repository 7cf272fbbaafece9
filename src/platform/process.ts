import { readFileSync, readlinkSync, statSync } from 'node:fs';

/** Ticks of the kernel's clock in a second: the same on every Linux that people run. */
const TICKS = 100;
/** The machine's start is known to the second only. */
const BLUR = 2000;

/** When a process started, in the words of the system: other programs keep the same. Null if it does not run, or cannot be asked. */
export function startOf(pid: number): string | null {
  return statOf(pid)?.[19] ?? null;
}

/** Whether a process runs. One that ended and waits to be noticed does not. */
export function isProcessAlive(pid: number): boolean {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return statOf(pid)?.[0] !== 'Z';
}

/** Whether a process was stopped, as by Ctrl-Z, and waits to go on. */
export function isProcessStopped(pid: number): boolean {
  return statOf(pid)?.[0] === 'T';
}

/** Sends a signal to a process. Nothing happens if it has ended: that can be a moment after the last look. */
export function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Whether a process runs, and ran at that moment already: a number that was used again is another process. */
export function hasRunSince(pid: number, at: number): boolean {
  if (!isProcessAlive(pid)) return false;
  const started = startedAt(pid);
  return started === null || started <= at;
}

/** When a process started, Unix ms, at the latest 2 s too early; null if it does not run, or cannot be asked. */
export function startedAt(pid: number): number | null {
  const started = startOf(pid);
  return started === null ? null : bootedAt() + (Number(started) * 1000) / TICKS - BLUR;
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

export function parentOf(pid: number): number {
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

/** A process above this one: the command line that started it, its program file, and the environment it began with. */
export interface Ancestor {
  pid: number;
  words: string[];
  /** Empty if the system does not say. */
  program: string;
  /** `NAME=value`, as they were when the process started; empty if the system does not say. */
  env: string[];
}

/** Clients of models, by the names of their programs. */
const CLIENTS = [
  'claude',
  'codex',
  'opencode',
  'kimi',
  'kimi-code',
  'gemini',
  'qwen',
  'copilot',
  'crush',
  'cursor-agent',
  'goose',
  'aider',
  'amp',
  'droid',
];
/** Parts of paths under which those clients are installed, also if the program has another name. */
const PACKAGES =
  /\/(claude-code[\w-]*|claude\/versions|@openai\/codex[\w-]*|opencode-(ai|linux|darwin)[\w-]*|kimi-cli|kimi-code|gemini-cli|qwen-code|@github\/copilot)\//;
const INTERPRETERS = /^(node|bun|deno|python[\d.]*)$/;

/** Every process above this one, the nearest first. */
export function* ancestors(): Generator<Ancestor> {
  const table = process.platform === 'linux' ? null : processTable();
  const seen = new Set<number>();
  for (let pid = process.ppid; pid > 0 && !seen.has(pid);) {
    seen.add(pid);
    const found = table ? table.get(pid) : fromProc(pid);
    if (!found) return;
    const { parent, ...ancestor } = found;
    yield ancestor;
    pid = parent;
  }
}

/** True for the program of a client, also when an interpreter or a shell runs it. */
export function isClient({ words: [program = '', ...rest], program: file }: Ancestor): boolean {
  const name = baseOf(program);
  if ([name, baseOf(file)].some((one) => CLIENTS.includes(one)) || PACKAGES.test(file)) return true;
  // What follows a flag of a shell is a text to run, not a file.
  const script = SHELLS.test(name) ? rest[0] : INTERPRETERS.test(name) ? rest.find((one) => !one.startsWith('-')) : '';
  return script !== undefined && (CLIENTS.includes(baseOf(script)) || PACKAGES.test(script));
}

function baseOf(path: string): string {
  // A login shell has a hyphen before its name; some packages name their program for Windows.
  return (path.split('/').at(-1) ?? '').replace(/^-|\.exe$/g, '');
}

type Found = Ancestor & { parent: number };

function fromProc(pid: number): Found | null {
  if (!statOf(pid)) return null;
  return {
    pid,
    parent: parentOf(pid),
    words: commandLine(pid),
    program: linkAt(pid),
    env: listIn(`/proc/${pid}/environ`),
  };
}

/** The words that a process was started with; none if the system does not tell. */
export function commandLine(pid: number): string[] {
  return listIn(`/proc/${pid}/cmdline`);
}

/** Processes of another account keep these to themselves. */
function listIn(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\0');
  } catch {
    return [];
  }
}

function linkAt(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '');
  } catch {
    return '';
  }
}

/** For systems without /proc. Written from the manual page and not yet run on a Mac. */
function processTable(): Map<number, Found> {
  const listed = Bun.spawnSync(['ps', '-axo', 'pid=,ppid=,args=']).stdout.toString().split('\n');
  return new Map(
    listed.flatMap((line) => {
      const [, pid, parent, args = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
      if (pid === undefined) return [];
      return [
        [Number(pid), { pid: Number(pid), parent: Number(parent), words: args.split(' '), program: '', env: [] }],
      ];
    }),
  );
}
