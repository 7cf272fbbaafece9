import { readFileSync, readlinkSync } from 'node:fs';

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
const SHELLS = /^(ba|da|z|k)?sh$/;
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
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    return {
      pid,
      parent,
      words: listIn(`/proc/${pid}/cmdline`),
      program: linkAt(pid),
      env: listIn(`/proc/${pid}/environ`),
    };
  } catch {
    return null;
  }
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
