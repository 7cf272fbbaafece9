import { readFileSync } from 'node:fs';
import type { Env } from '../../env.ts';

/** A process above this one. */
export interface Ancestor {
  pid: number;
  /** Its command line. */
  words: string[];
}

/** Programs whose sessions this dialect is for. Kimi 2.x calls itself `kimi-code`. */
const CLIENTS = ['claude', 'codex', 'opencode', 'kimi', 'kimi-code', 'gemini', 'crush'];
/** Folders of those that are started through an interpreter. */
const PACKAGES = /\/(claude-code|codex|opencode-ai|kimi-cli|kimi-code|gemini-cli)\//;
const INTERPRETERS = /^(node|bun|deno|python[\d.]*)$/;
/** How far up is looked: a client starts a shell, which starts another. */
const GENERATIONS = 12;

/**
 * The process whose life is the session's. What runs a command is often gone the moment after, so the parent's number would prove
 * nothing: the client says it in C2C_MCP_CLIENT_PID, or is found by its name among those who started us. Otherwise it is unknown, and
 * the session counts neither as alive nor as dead. spec: c2c#alive
 */
export function clientProcess(env: Env): number | undefined {
  const told = env['C2C_MCP_CLIENT_PID'];
  if (told && /^[1-9]\d{0,9}$/.test(told)) return Number(told);
  for (const ancestor of ancestors()) if (isClient(ancestor)) return ancestor.pid;
  return undefined;
}

/** The processes above this one, the nearest first. Where the system does not say, none. */
export function* ancestors(): Generator<Ancestor> {
  let pid = process.ppid;
  for (let n = 0; n < GENERATIONS && pid > 1; n += 1) {
    yield { pid, words: wordsOf(pid) };
    pid = parentOf(pid);
  }
}

export function isClient({ words: [program = '', script = ''] }: Ancestor): boolean {
  const name = baseOf(program);
  if (CLIENTS.includes(name)) return true;
  return INTERPRETERS.test(name) && (CLIENTS.includes(baseOf(script)) || PACKAGES.test(script));
}

function baseOf(path: string): string {
  return path.split('/').at(-1) ?? '';
}

/** Where the system does not tell it in files, nobody is found. */
function wordsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

function parentOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0;
  }
}
