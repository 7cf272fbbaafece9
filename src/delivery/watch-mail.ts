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

/** What `watch` was asked to do, in any dialect. */
export interface WatchOrder {
  selection: Selection;
  peek: boolean;
  /** Said on stderr when the watch begins. */
  greeting: string;
  /** A template for `sh -c`. */
  exec?: string | undefined;
  env: Env;
  /** One message as it is printed, newline included. */
  render: (shown: PrintedMail) => string;
  /** Told of each message that was printed. */
  announce?: (message: Message) => Promise<void>;
}

/** After a signal, a command at work has this long to end by itself. */
const COMMAND_END_MS = 3000;

/**
 * `watch` of every dialect: prints each message, then leaves it, takes it or runs a command on it, until a signal or a broken pipe. A
 * session also watches the mailbox that it shares. One message is handled at a time.
 */
export async function watchMail(who: Who, order: WatchOrder): Promise<void> {
  const command = order.exec === undefined ? undefined : shellCommand(order.exec);
  const signals = listenToSignals();
  note(order.greeting);
  const handlers = mailboxesOf(who).map((mailbox) => new Handler(mailbox, order, signals.kill));
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
    const handle = order.peek ? handler.show : command === undefined ? handler.take : handler.run;
    const { who: reader, taker } = handler.mailbox;
    // Nobody gets its own words.
    const isOwn = ({ message }: WaitingMessage): boolean => message.from === taker;
    await watch(reader, {
      selection: order.selection,
      peek: order.peek,
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

/** What can be done with one message. Each prints it first: a message that could not be printed still waits. */
class Handler {
  /** A command is running. */
  atWork = false;

  constructor(
    readonly mailbox: ReadMailbox,
    readonly order: WatchOrder,
    readonly kill: AbortSignal,
  ) {}

  /** Leaves it. A command runs on it once, whatever becomes of it. */
  show = async ({ message, quiet }: WaitingMessage, command: string | undefined): Promise<null> => {
    const { who } = this.mailbox;
    const copy = await who.home.journal.copy(who.name, message.id);
    await this.#print({ message, quiet, attention: copy?.attention, attempt: copy?.attempt ?? 0 });
    if (command === undefined) return null;
    const ran = await this.#runOn(command, message, this.kill);
    if (!ran.ok) note(`${ran.told}; message ${shortId(message.id)} stays queued`);
    return null;
  };

  /** Settles it when it is printed. */
  take = async ({ message }: WaitingMessage): Promise<null> => {
    const { who, taker } = this.mailbox;
    const settlement = { disposition: 'acknowledged', by: this.#by('watch'), ...takenBy(taker) } as const;
    // Always `slow`: earlier lines may still fill the pipe, and nobody else's mail may wait for our reader.
    const [copy] = await deliver(who, [message.id], settlement, (delivered) => ({
      show: () => writeAll(1, delivered.map(this.order.render).join('')),
      slow: true,
    }));
    if (copy) await this.order.announce?.(copy.message);
    return null;
  };

  /** Settles it when the command has ended with 0. */
  run = async ({ message }: WaitingMessage, command = ''): Promise<number | null> => {
    const worked = await work(this.mailbox, message.id, async (copy, lost) => {
      await this.#print(copy);
      const ran = await this.#runOn(command, copy.message, AbortSignal.any([this.kill, lost]));
      if (ran.ok) return { done: true, evidence: { ...this.#by('watch --exec'), exit: 0 } };
      note(`${ran.told}; message ${shortId(message.id)} comes back`);
      return { done: false, evidence: { because: ran.told }, interrupted: this.kill.aborted || lost.aborted };
    });
    return worked.againMs;
  };

  #by(name: string): Evidence {
    const { who, taker } = this.mailbox;
    return byCommand(name, { ...who, name: taker ?? who.name });
  }

  async #runOn(command: string, message: Message, end: AbortSignal): Promise<Ran> {
    this.atWork = true;
    try {
      return await runOn(command, message, this.order.env, end);
    } finally {
      this.atWork = false;
    }
  }

  async #print(shown: PrintedMail): Promise<void> {
    writeAll(1, this.order.render(shown));
    await this.order.announce?.(shown.message);
  }
}

function note(text: string): void {
  writeAll(2, `${text}\n`);
}

/** The first signal stops the watch; the second one, or a little later time itself, also ends a command at work. */
function listenToSignals(): { stop: AbortSignal; kill: AbortSignal; close(): void } {
  const stop = new AbortController();
  const kill = new AbortController();
  let patience: ReturnType<typeof setTimeout> | undefined;
  const onSignal = (): void => {
    if (stop.signal.aborted) return kill.abort();
    stop.abort();
    patience = setTimeout(() => kill.abort(), COMMAND_END_MS);
  };
  // Not SIGHUP: under nohup it is to be ignored.
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
