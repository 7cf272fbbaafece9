import type { Env } from '../core/env.ts';
import { closeSync, writeSync } from 'node:fs';
import { deliver } from '../core/mail/deliver.ts';
import type { Selection } from '../core/mail/deliver.ts';
import { mailboxesOf, takenBy } from '../core/mail/shared.ts';
import type { ReadMailbox } from '../core/mail/shared.ts';
import { watch, work } from '../core/mail/watch.ts';
import type { Who } from '../core/mail/workspace.ts';
import { writeAll } from '../platform/terminal.ts';
import type { Message } from '../core/message.ts';
import { shortId } from '../core/names.ts';
import type { Evidence } from '../core/receipt.ts';
import { Refusal } from '../core/refusal.ts';
import type { WaitingMessage } from '../core/ports/mailboxes.ts';
import { byCommand } from './print.ts';
import type { PrintedMail } from './print.ts';

/** The options of `watch`, in any dialect. */
export interface WatchMailOptions {
  selection: Selection;
  peek: boolean;
  /** Printed on stderr when the watch begins. */
  greeting: string;
  /** A template for `sh -c`. */
  exec?: string | undefined;
  env: Env;
  /** Renders one message, newline included. */
  render: (shown: PrintedMail) => string;
  /** Called with each message that was printed. */
  announce?: (message: Message) => Promise<void>;
}

/** After the first signal, a running command has this long to end by itself. */
const COMMAND_END_MS = 3000;

/**
 * `watch` of every dialect: prints each message, then leaves it, takes it or runs a command on it. Ends at a signal or a broken pipe. A
 * session also watches the mailbox that it shares. One message is handled at a time.
 */
export async function watchMail(who: Who, options: WatchMailOptions): Promise<void> {
  const command = options.exec === undefined ? undefined : shellCommand(options.exec);
  const signals = listenToSignals();
  note(options.greeting);
  const handlers = mailboxesOf(who).map((mailbox) => new Handler(mailbox, options, signals.kill));
  signals.stop.addEventListener('abort', () => {
    if (handlers.some(({ atWork }) => atWork)) note('stopping when the command has ended; once more ends it now');
  });
  const failed = new AbortController();
  const stop = AbortSignal.any([signals.stop, failed.signal]);
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = (act: () => Promise<number | null>): Promise<number | null> => {
    const own = last.then(() => (stop.aborted ? null : act()));
    last = own.catch(() => {});
    return own;
  };
  const watchOne = async (handler: Handler): Promise<void> => {
    const handle = options.peek ? handler.show : command === undefined ? handler.take : handler.run;
    const { who: reader, taker } = handler.mailbox;
    // A session does not get its own messages from a shared mailbox.
    const isOwn = ({ message }: WaitingMessage): boolean => message.from === taker;
    await watch(reader, {
      selection: options.selection,
      peek: options.peek,
      stop,
      handle: (one) => (isOwn(one) ? Promise.resolve(null) : inTurn(() => handle(one, command))),
    }).finally(() => failed.abort());
  };
  try {
    await Promise.all(handlers.map(watchOne));
  } finally {
    signals.close();
  }
}

/** The three ways to handle a message. Each prints it first: a message that cannot be printed still waits. */
class Handler {
  /** Whether a command is running. */
  atWork = false;

  constructor(
    readonly mailbox: ReadMailbox,
    readonly options: WatchMailOptions,
    readonly kill: AbortSignal,
  ) {}

  /** Leaves the message. A command runs once on it, also if the command fails. */
  show = async ({ message, quiet }: WaitingMessage, command: string | undefined): Promise<null> => {
    const { who } = this.mailbox;
    const copy = await who.home.journal.copy(who.name, message.id);
    await this.#print({ message, quiet, attention: copy?.attention, attempt: copy?.attempt ?? 0 });
    if (command === undefined) return null;
    const ran = await this.#runOn(command, message, this.kill);
    if (!ran.ok) note(`${ran.summary}; message ${shortId(message.id)} stays queued`);
    return null;
  };

  /** Settles the message when it is printed. */
  take = async ({ message }: WaitingMessage): Promise<null> => {
    const { who, taker } = this.mailbox;
    const settlement = { disposition: 'acknowledged', by: this.#by('watch'), ...takenBy(taker) } as const;
    // Always `slow`: earlier lines may still fill the pipe, and the mail of other readers must not wait for ours.
    const [copy] = await deliver(who, [message.id], settlement, (delivered) => ({
      show: () => writeAll(1, delivered.map(this.options.render).join('')),
      slow: true,
    }));
    if (copy) await this.options.announce?.(copy.message);
    return null;
  };

  /** Settles the message when the command has ended with 0. */
  run = async ({ message }: WaitingMessage, command = ''): Promise<number | null> => {
    const worked = await work(this.mailbox, message.id, async (copy, lost) => {
      await this.#print(copy);
      const ran = await this.#runOn(command, copy.message, AbortSignal.any([this.kill, lost]));
      if (ran.ok) return { done: true, evidence: { ...this.#by('watch --exec'), exit: 0 } };
      note(`${ran.summary}; message ${shortId(message.id)} comes back`);
      return { done: false, evidence: { because: ran.summary }, interrupted: this.kill.aborted || lost.aborted };
    });
    return worked.againMs;
  };

  #by(name: string): Evidence {
    const { who, taker } = this.mailbox;
    return byCommand(name, { ...who, name: taker ?? who.name });
  }

  async #runOn(command: string, message: Message, end: AbortSignal): Promise<CommandResult> {
    this.atWork = true;
    try {
      return await runOn(command, message, this.options.env, end);
    } finally {
      this.atWork = false;
    }
  }

  async #print(shown: PrintedMail): Promise<void> {
    writeAll(1, this.options.render(shown));
    await this.options.announce?.(shown.message);
  }
}

function note(text: string): void {
  writeAll(2, `${text}\n`);
}

/** The first signal stops the watch. A running command is ended by the second signal, or after `COMMAND_END_MS`. */
function listenToSignals(): { stop: AbortSignal; kill: AbortSignal; close(): void } {
  const stop = new AbortController();
  const kill = new AbortController();
  let patience: ReturnType<typeof setTimeout> | undefined;
  const onSignal = (): void => {
    if (stop.signal.aborted) return kill.abort();
    stop.abort();
    patience = setTimeout(() => kill.abort(), COMMAND_END_MS);
  };
  // Not SIGHUP: under nohup it must be ignored.
  const names = ['SIGINT', 'SIGTERM'] as const;
  for (const name of names) process.on(name, onSignal);
  return {
    stop: stop.signal,
    kill: kill.signal,
    close() {
      clearTimeout(patience);
      for (const name of names) process.off(name, onSignal);
    },
  };
}

/** How a command ended. */
export interface CommandResult {
  ok: boolean;
  /** In words: its exit code, the signal that ended it, or why it could not be started. */
  summary: string;
}

/** The time between SIGTERM and SIGKILL. */
const PATIENCE_MS = 3000;
/** Linux takes no variable above 128 KiB. A longer body is cut; the whole message is on stdin. */
const VARIABLE_BYTES = 100_000;
const FIELDS = ['id', 'from', 'to', 'priority', 'scope', 'thread', 'ts', 'body'] as const;
const PLACEHOLDER = new RegExp(`\\{\\{(${FIELDS.join('|')})\\}\\}`, 'g');

/**
 * Makes the command line for `sh -c`: each `{{field}}` becomes a *reference* to a variable with that field. So the text of a message is never
 * part of what the shell parses, however the placeholder is quoted.
 */
export function shellCommand(template: string): string {
  refuseMessageAsCommand(template);
  return template.replace(PLACEHOLDER, (_, field: string) => `\${BCH_${field.toUpperCase()}}`);
}

/**
 * Runs a command on a message, with the fields in BCH_ variables and the JSON on stdin. `end` ends the command and its children, and so does
 * our own death: then the next watcher can take the message, and two commands must not work on it at once.
 */
export async function runOn(command: string, message: Message, env: Env, end: AbortSignal): Promise<CommandResult> {
  const child = start(command, message, env);
  if (child instanceof Error) return { ok: false, summary: `the command could not be started: ${child.message}` };
  let killing: ReturnType<typeof setTimeout> | undefined;
  const onEnd = (): void => {
    signalGroup(child.pid, 'SIGTERM');
    killing = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), PATIENCE_MS);
  };
  if (end.aborted) onEnd();
  end.addEventListener('abort', onEnd, { once: true });
  try {
    await child.exited;
    const summary = child.signalCode === null ? `ended with ${child.exitCode}` : `was ended by ${child.signalCode}`;
    return { ok: child.exitCode === 0, summary: `the command ${summary}` };
  } finally {
    clearTimeout(killing);
    end.removeEventListener('abort', onEnd);
    dismissGuard(child.stdio[3]);
  }
}

/** Starts the command. Returns the error if the machine is short of processes or memory: then the message is tried again later. */
function start(command: string, message: Message, env: Env) {
  try {
    return Bun.spawn(['sh', '-c', GUARDED, 'sh', command], {
      env: { ...env, ...variables(message) },
      stdio: [Buffer.from(JSON.stringify(message)), 'inherit', 'inherit', 'pipe'],
      // In its own process group, the command can be ended with its children, and Ctrl-C reaches the watcher first.
      detached: true,
    });
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/**
 * The guard reads descriptor 3. A line means that the command has ended, and the guard ends, too. The end of the file without a line means
 * that we are dead: then the guard ends the whole process group. The command itself does not get descriptor 3.
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
    // The guard was killed with its process group.
  }
  closeSync(fd);
}

/** The fields of a message as variables of the environment. */
function variables(message: Message): Record<string, string> {
  const entries = FIELDS.map((field) => [`BCH_${field.toUpperCase()}`, variable(message[field] ?? '')]);
  const isCut = Buffer.byteLength(message.body) > VARIABLE_BYTES;
  return { ...Object.fromEntries(entries), ...(isCut && { BCH_BODY_CUT: '1' }) };
}

/** The value of a variable: without NUL, and cut to `VARIABLE_BYTES`. */
function variable(text: string): string {
  const bytes = Buffer.from(text.replaceAll('\0', '\u2400'));
  // With `stream`, the decoder leaves out a character that the cut has split.
  return new TextDecoder().decode(bytes.subarray(0, VARIABLE_BYTES), { stream: true });
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended already.
  }
}

/**
 * Refuses `--exec '{{body}}'`, which would run what the sender wrote. Looks for a placeholder where a command begins: at the start, or after
 * ; & | ( or a newline outside quotes. The lines of a here-document are only text, so with `<<` newlines do not count.
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
