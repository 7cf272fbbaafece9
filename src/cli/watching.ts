import { shortId } from '../protocol/names.ts';
import { deliver } from '../flow/deliver.ts';
import type { Selection } from '../flow/deliver.ts';
import type { Who } from '../flow/desk.ts';
import { watch } from '../flow/watch.ts';
import { work } from '../flow/work.ts';
import type { Message } from '../protocol/message.ts';
import type { Waiting } from '../storage/spool/spool.ts';
import { runOn, shellCommand } from './exec.ts';
import type { Ran } from './exec.ts';
import type { Env } from './env.ts';
import { byCommand } from './show.ts';
import { writeAll } from './terminal.ts';
import type { Shown } from './words.ts';

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
  render: (shown: Shown) => string;
  /** Told of each message that was printed. */
  announce?: (message: Message) => Promise<void>;
}

/** After a signal, a command at work has this long to end by itself. */
const PATIENCE_MS = 3000;

/** `watch` of every dialect: prints each message, then leaves it, takes it or runs a command on it, until a signal or a broken pipe. */
export async function watchMail(who: Who, order: WatchOrder): Promise<void> {
  const command = order.exec === undefined ? undefined : shellCommand(order.exec);
  const signals = listenToSignals();
  note(order.greeting);
  const handler = new Handler(who, order, signals.kill);
  signals.stop.addEventListener('abort', () => {
    if (handler.atWork) note('stopping when the command has ended; once more ends it now');
  });
  const handle = order.peek ? handler.show : command === undefined ? handler.take : handler.run;
  try {
    await watch(who, {
      selection: order.selection,
      peek: order.peek,
      stop: signals.stop,
      handle: (one) => handle(one, command),
    });
  } finally {
    signals.close();
  }
}

/** What can be done with one message. Each prints it first: a message that could not be printed still waits. */
class Handler {
  /** A command is running. */
  atWork = false;

  constructor(
    readonly who: Who,
    readonly order: WatchOrder,
    readonly kill: AbortSignal,
  ) {}

  /** Leaves it. A command runs on it once, whatever becomes of it. */
  show = async ({ message, quiet }: Waiting, command: string | undefined): Promise<null> => {
    const copy = await this.who.home.ledger.copy(this.who.name, message.id);
    await this.#print({ message, quiet, attention: copy?.attention, attempt: copy?.attempt ?? 0 });
    if (command === undefined) return null;
    const ran = await this.#runOn(command, message, this.kill);
    if (!ran.ok) note(`${ran.told}; message ${shortId(message.id)} stays queued`);
    return null;
  };

  /** Settles it when it is printed. */
  take = async ({ message }: Waiting): Promise<null> => {
    const settlement = { disposition: 'acknowledged' as const, by: byCommand('watch', this.who) };
    // Always `slow`: earlier lines may still fill the pipe, and nobody else's mail may wait for our reader.
    const [copy] = await deliver(this.who, [message.id], settlement, (delivered) => ({
      show: () => writeAll(1, delivered.map(this.order.render).join('')),
      slow: true,
    }));
    if (copy) await this.order.announce?.(copy.message);
    return null;
  };

  /** Settles it when the command has ended with 0. */
  run = async ({ message }: Waiting, command = ''): Promise<number | null> => {
    const worked = await work(this.who, message.id, async (copy, lost) => {
      await this.#print(copy);
      const ran = await this.#runOn(command, copy.message, AbortSignal.any([this.kill, lost]));
      if (ran.ok) return { done: true, evidence: { ...byCommand('watch --exec', this.who), exit: 0 } };
      note(`${ran.told}; message ${shortId(message.id)} comes back`);
      return { done: false, evidence: { because: ran.told }, interrupted: this.kill.aborted || lost.aborted };
    });
    return worked.againMs;
  };

  async #runOn(command: string, message: Message, end: AbortSignal): Promise<Ran> {
    this.atWork = true;
    try {
      return await runOn(command, message, this.order.env, end);
    } finally {
      this.atWork = false;
    }
  }

  async #print(shown: Shown): Promise<void> {
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
    patience = setTimeout(() => kill.abort(), PATIENCE_MS);
  };
  // Not SIGHUP: whoever runs this under nohup wants it ignored.
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
