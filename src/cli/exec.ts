import { closeSync, writeSync } from 'node:fs';
import type { Message } from '../protocol/message.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Env } from './env.ts';

/** How a command ended. */
export interface Ran {
  ok: boolean;
  /** In words: its exit code, the signal that ended it, or why it never began. */
  told: string;
}

/** How long a command that was told to end may take to do so. */
const PATIENCE_MS = 3000;
/** Linux takes no variable above 128 KiB. The whole message is on stdin in any case. */
const VARIABLE_BYTES = 100_000;
const FIELDS = ['id', 'from', 'to', 'priority', 'scope', 'thread', 'ts', 'body'] as const;
const PLACEHOLDER = new RegExp(`\\{\\{(${FIELDS.join('|')})\\}\\}`, 'g');

/**
 * A command line for `sh -c`: each `{{field}}` becomes a *reference* to the variable that holds it. What a message says is
 * never part of the text that the shell parses, however the placeholder is quoted.
 */
export function shellCommand(template: string): string {
  refuseMessageAsCommand(template);
  return template.replace(PLACEHOLDER, (_, field: string) => `\${BCH_${field.toUpperCase()}}`);
}

/**
 * Runs a command on a message: its fields as BCH_ variables, its JSON on stdin. `end` ends the command and its children, and
 * so does our death, however it comes: the message is then free for the next watcher, and must not be worked on twice at once.
 */
export async function runOn(command: string, message: Message, env: Env, end: AbortSignal): Promise<Ran> {
  const child = start(command, message, env);
  if (child instanceof Error) return { ok: false, told: `the command could not be started: ${child.message}` };
  let killing: ReturnType<typeof setTimeout> | undefined;
  const onEnd = (): void => {
    signalGroup(child.pid, 'SIGTERM');
    killing = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), PATIENCE_MS);
  };
  if (end.aborted) onEnd();
  end.addEventListener('abort', onEnd, { once: true });
  try {
    await child.exited;
    const told = child.signalCode === null ? `ended with ${child.exitCode}` : `was ended by ${child.signalCode}`;
    return { ok: child.exitCode === 0, told: `the command ${told}` };
  } finally {
    clearTimeout(killing);
    end.removeEventListener('abort', onEnd);
    dismissGuard(child.stdio[3]);
  }
}

/** A machine that is short of processes or memory is a reason to try later, not an error of ours. */
function start(command: string, message: Message, env: Env) {
  try {
    return Bun.spawn(['sh', '-c', GUARDED, 'sh', command], {
      env: { ...env, ...variables(message) },
      stdio: [Buffer.from(JSON.stringify(message)), 'inherit', 'inherit', 'pipe'],
      // A group of its own: it can be ended with its children, and Ctrl-C reaches the watcher first.
      detached: true,
    });
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/**
 * The guard waits on file 3. A line: the command has ended, go. The end of the file without one: we are dead, so it ends the
 * whole group. The command itself has no file 3.
 */
const GUARDED = `{
  trap '' TERM INT HUP
  read -r _ <&3 || { kill -s TERM -- -$$; sleep ${PATIENCE_MS / 1000}; kill -s KILL -- -$$; }
} >/dev/null 2>&1 &
exec 3<&-
exec sh -c "$1"`;

function dismissGuard(fd: number | null | undefined): void {
  if (typeof fd !== 'number') return;
  try {
    writeSync(fd, '\n');
  } catch {
    // It was killed with the rest of its group.
  }
  closeSync(fd);
}

/** The fields of a message as variables. */
function variables(message: Message): Record<string, string> {
  const entries = FIELDS.map((field) => [`BCH_${field.toUpperCase()}`, variable(message[field] ?? '')]);
  const isCut = Buffer.byteLength(message.body) > VARIABLE_BYTES;
  return { ...Object.fromEntries(entries), ...(isCut && { BCH_BODY_CUT: '1' }) };
}

/** A variable can hold no NUL, and not much. */
function variable(text: string): string {
  const bytes = Buffer.from(text.replaceAll('\0', '\u2400'));
  // `stream`: a character that is cut in two is left out.
  return new TextDecoder().decode(bytes.subarray(0, VARIABLE_BYTES), { stream: true });
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // It ended by itself meanwhile.
  }
}

/**
 * `--exec '{{body}}'` would run whatever the sender wrote. Looks for a placeholder where a command begins: at the start, or
 * after ; & | ( or a newline outside quotes. A here-document has such lines, and they are only text.
 */
function refuseMessageAsCommand(template: string): void {
  const separator = template.includes('<<') ? /[;&|(]/ : /[;&|(\n]/;
  let quote = '';
  let begins = true;
  for (let at = 0; at < template.length; at += 1) {
    const sign = template[at] ?? '';
    if (begins && /^["']?\{\{/.test(template.slice(at))) {
      throw new Refusal(
        'invalid_request',
        '--exec would run what the message says as a command; name a command first, such as: --exec \'my-command "{{body}}"\'',
      );
    }
    if (sign === '\\' && quote !== "'") at += 1;
    else if (quote) quote = sign === quote ? '' : quote;
    else if (sign === '"' || sign === "'") quote = sign;
    begins = !quote && (separator.test(sign) || (begins && /\s/.test(sign)));
  }
}
