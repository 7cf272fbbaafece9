import { isatty } from 'node:tty';
import { ancestors, isClient } from './ancestors.ts';

/** Variables that clients set for what their models start, and that name a session. */
const MARKS = [
  'CLAUDECODE',
  'CLAUDE_CODE_SESSION_ID',
  'CLAUDE_SESSION_ID',
  'CODEX_THREAD_ID',
  'CODEX_SANDBOX',
  'CODEX_SANDBOX_NETWORK_DISABLED',
  'CODEX_CI',
  'OPENCODE',
  'OPENCODE_PID',
  'GEMINI_CLI',
  'QWEN_CODE',
  'COPILOT_CLI',
  'CURSOR_AGENT',
  'AI_AGENT',
  'AGENT',
  'C2C_MCP_SESSION_ID',
  'C2C_SESSION_ID',
  'C2C_INSTANCE_NAME',
];

type Env = Record<string, string | undefined>;

/**
 * Who may act for the user: a process at a terminal, with no client above it and no client's mark in its environment.
 * Returns what speaks against it, as a clause for an error text; null if nothing does. There is no other function for this.
 * It stops models and accidents. It cannot stop a program of the same account that hides where it comes from: SECURITY.md#who-acts-for-you
 */
export function whyNotUser(env: Env): string | null {
  return startedByClient(env) ?? (isAtTerminal() ? null : 'this process has no terminal');
}

/** What says that a client started this process; null if nothing does. */
export function startedByClient(env: Env): string | null {
  const mark = MARKS.find((name) => env[name]);
  if (mark) return `${mark} is set, so a client started this`;
  for (const ancestor of ancestors()) {
    if (isClient(ancestor)) return `a client runs above this process (pid ${ancestor.pid})`;
    const inherited = MARKS.find((name) =>
      ancestor.env.some((one) => one.startsWith(`${name}=`) && one !== `${name}=`),
    );
    if (inherited) return `process ${ancestor.pid} above this one was started with ${inherited} set, so by a client`;
  }
  return null;
}

/** A pipe on one side is common (`git diff | parley send …`): one of the three is enough. */
function isAtTerminal(): boolean {
  return [0, 1, 2].some((fd) => isatty(fd));
}
