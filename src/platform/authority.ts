import type { Env } from '../core/env.ts';
import { ancestors, isClient } from './process.ts';
import { isTerminal } from './terminal.ts';
import { readSync } from 'node:fs';
import { Refusal } from '../core/refusal.ts';

/** Variables that clients set in the processes of their models, or that name a session. */
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
  'C2C_MCP_SESSION_ID',
  'C2C_SESSION_ID',
  'C2C_INSTANCE_NAME',
];

/** What a command does under a name: `act` changes what others see, `read` only its own mail, `serve` is for a model. */
export type Use = 'act' | 'read' | 'serve';

/** The reason why this process may not use a person's or a supervisor's name for this, as a sentence; null if it may. */
export function whyNotFor(env: Env, use: Use): string | null {
  if (use === 'serve') return 'This serves a model';
  return use === 'read' ? startedByClient(env) : whyNotUser(env);
}

/**
 * Who may act for the user: a process at a terminal, with no client above it and no client's mark in its environment.
 * Returns the reason why not, as a sentence for an error text; null if this process may act for the user. There is no other function for this.
 * It stops models and accidents. It cannot stop a program of the same account that hides where it comes from: SECURITY.md#who-acts-for-you
 */
export function whyNotUser(env: Env): string | null {
  return startedByClient(env) ?? (isAtTerminal() ? null : 'This process has no terminal');
}

/** The evidence that a client started this process, as a sentence; null if there is none. */
export function startedByClient(env: Env): string | null {
  const mark = MARKS.find((name) => env[name]);
  if (mark) return `A client started this process (${mark} is set)`;
  for (const ancestor of ancestors()) {
    if (isClient(ancestor)) return `A client runs above this process (pid ${ancestor.pid})`;
    const inherited = MARKS.find((name) =>
      ancestor.env.some((one) => one.startsWith(`${name}=`) && one !== `${name}=`),
    );
    if (inherited) return `A client started process ${ancestor.pid} above this one (${inherited} was set)`;
  }
  return null;
}

/** A pipe on one side is common (`git diff | parley send …`): one of the three is enough. */
function isAtTerminal(): boolean {
  return [0, 1, 2].some((fd) => isTerminal(fd));
}

/** Throws unless this process acts for the user. `what` follows "Only the user can". No option turns this off. */
export function refuseUnlessUser(env: Env, what: string): void {
  const why = whyNotUser(env);
  if (why) throw new Refusal('not_yours', `Only the user can ${what}. ${why}. Run it in your own terminal.`);
}

/** Throws if a model may be acting under a person's name. */
export function refusePersonsName(env: Env, name: string, use: Use, option = '--as <agent>'): void {
  const why = whyNotFor(env, use);
  if (!why) return;
  throw new Refusal(
    use === 'serve' ? 'no_identity' : 'not_yours',
    `@${name} is a person. ${why}. Use an agent's mailbox: ${option} (\`parley init <agent>\` makes one)`,
  );
}

/** The caller of a question, and how it prints. */
export interface Asking {
  json: boolean;
  note(text: string): void;
}

/** Asks at the terminal. True only for the whole word `yes`. */
export function isSure(context: Pick<Asking, 'note'>, question: string): boolean {
  const [first, ...more] = wordsAfter(context, `${question} Type yes:`);
  return first === 'yes' && more.length === 0;
}

/** Asks at the terminal. After `yes` or `y`, returns the words that follow it; null for any other answer. */
export function yesWith(context: Pick<Asking, 'note'>, question: string): string[] | null {
  const [first = '', ...more] = wordsAfter(context, question);
  return ['y', 'yes'].includes(first) ? more : null;
}

function wordsAfter({ note }: Pick<Asking, 'note'>, question: string): string[] {
  note(question);
  return lineFromTerminal()
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
}

/** One line from the terminal; empty at the end of input. */
function lineFromTerminal(): string {
  const bytes = new Uint8Array(1024);
  const length = readSync(0, bytes);
  return new TextDecoder().decode(bytes.subarray(0, length));
}
