import { readFileSync, readlinkSync, statSync } from 'node:fs';

/** Kernel clock ticks per second: the same on all common Linux systems. */
const TICKS = 100;
/** How much too early a start time may be: the boot time is known only to the second. */
const BOOT_ERROR_MS = 2000;

/** The start time of a process as /proc has it, in clock ticks: other programs store the same text. Null if it does not run or cannot be read. */
export function startOf(pid: number): string | null {
  return statOf(pid)?.[19] ?? null;
}

/** True if a process runs. A zombie does not. */
export function isProcessAlive(pid: number): boolean {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return statOf(pid)?.[0] !== 'Z';
}

/** True if a process is stopped, as by Ctrl-Z. */
export function isProcessStopped(pid: number): boolean {
  return statOf(pid)?.[0] === 'T';
}

/** Sends a signal to a process. Does nothing if the process has ended: it may end right after the caller checked it. */
export function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** True if a process runs and was already running at that time: a reused pid is another process. */
export function hasRunSince(pid: number, at: number): boolean {
  if (!isProcessAlive(pid)) return false;
  const started = startedAt(pid);
  return started === null || started <= at;
}

/** The start time of a process in Unix ms, at most 2 s too early; null if it does not run or cannot be read. */
export function startedAt(pid: number): number | null {
  const started = startOf(pid);
  return started === null ? null : bootedAt() + (Number(started) * 1000) / TICKS - BOOT_ERROR_MS;
}

/** True if a process runs in this terminal, or if the system cannot tell. */
export function runsIn(pid: number, tty: string | null): boolean {
  if (tty === null || process.platform !== 'linux') return true;
  try {
    return Number(statOf(pid)?.[4]) === deviceNumber(statSync(tty).rdev);
  } catch {
    return false;
  }
}

/** The terminal of a process, as `/dev/pts/3`; null if it has none, or the system cannot tell. */
export function ttyOf(pid: number): string | null {
  const number = Number(statOf(pid)?.[4] ?? 0);
  const [major, minor] = [(number >>> 8) & 0xfff, (number & 0xff) | ((number >>> 12) & 0xfff00)];
  // The major numbers 136 to 143 are Linux's pseudo-terminals.
  return major >= 136 && major <= 143 ? `/dev/pts/${minor + (major - 136) * 0x100000}` : null;
}

/** The leader of the foreground process group in the terminal of this process; null if there is none. */
export function foregroundOf(pid: number): number | null {
  const leader = Number(statOf(pid)?.[5] ?? -1);
  return leader > 0 ? leader : null;
}

const SHELLS = /^(sh|ash|dash|bash|zsh|ksh|fish|busybox)$/;
/** The most shells between a process and its starter: a client starts a shell, which may start another. */
const GENERATIONS = 8;

/** The process that started this one, skipping shells between the two. Null if it has ended, or the system cannot tell. */
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

/** The fields of /proc/<pid>/stat, from the state on. The name before them is in brackets and may contain any character. */
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

/** A device number of stat, converted to the form that /proc uses. */
function deviceNumber(rdev: number): number {
  const major = (rdev >>> 8) & 0xfff;
  const minor = (rdev & 0xff) | ((rdev >>> 12) & 0xfff00);
  return (minor & 0xff) | (major << 8) | ((minor & 0xfff00) << 12);
}

/** A process above this one: its command line, its program file, and the environment it started with. */
export interface Ancestor {
  pid: number;
  words: string[];
  /** Empty if the system cannot tell. */
  program: string;
  /** `NAME=value`, as at the start of the process; empty if the system cannot tell. */
  env: string[];
}

/** The program names of clients. */
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
/** Parts of the paths where these clients are installed: the program there may have another name. */
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

/** True if the process is a client, also if an interpreter or a shell runs it. */
export function isClient({ words: [program = '', ...rest], program: file }: Ancestor): boolean {
  const name = baseOf(program);
  if ([name, baseOf(file)].some((one) => CLIENTS.includes(one)) || PACKAGES.test(file)) return true;
  // After a shell's flag comes a command text, not a file.
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

/** The command line of a process; empty if the system cannot tell. */
export function commandLine(pid: number): string[] {
  return listIn(`/proc/${pid}/cmdline`);
}

/** A list in /proc. Empty for a process of another account, which cannot be read. */
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
