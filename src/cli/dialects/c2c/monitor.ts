import { lineForModel } from '../../../delivery/gate.ts';
import { entryOf } from '../../../protocols/c2c/mail.ts';
import type { Entry } from '../../../protocols/c2c/mail.ts';
import type { AgentName, MessageId } from '../../../protocol/names.ts';
import { readSessionId } from '../../../protocols/c2c/shapes.ts';
import type { Watch } from '../../../storage/spool/spool.ts';
import type { C2c } from './c2c.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';

/** File events tell of arrivals at once. What they miss is seen after this long. */
const LOOK_MS = 5000;
/** How soon it is noticed that whoever started us is gone. */
const PARENT_MS = 500;
const BRIEF = 80;
/** More ids than this are not remembered beyond their stay in the inbox. */
const REMEMBERED = 100_000;

/**
 * Prints one line for each message that arrives from now on, and takes nothing. It starts no other process, and ends with its
 * reader, its parent or a signal. spec: c2c#monitor
 */
export default c2cCommand({
  usage: 'monitor [--alias <alias or session id>] [--from <alias>] [--full-body] [--include-self] [--json]',
  options: {
    alias: { ...TEXT, short: 'a' },
    'session-id': { ...TEXT, short: 's' },
    from: TEXT,
    json: { ...FLAG, short: 'j' },
    'full-body': FLAG,
    body: FLAG,
    'include-self': FLAG,
    'broker-root': TEXT,
    root: TEXT,
  },
  words: [0, 0],
  async run(given, values) {
    const c2c = given.at(values['broker-root'] ?? values.root);
    const session = await watchedSession(c2c, values['session-id'] ?? values.alias);
    const form = { json: values.json ?? false, full: values['full-body'] ?? values.body ?? false, from: values.from };
    await new Monitor(c2c, session, form).run();
  },
});

/** A session may be named by its alias too. One that is not registered yet is named by its id. */
async function watchedSession(c2c: C2c, named: string | undefined): Promise<string> {
  if (named === undefined) return c2c.session();
  if (await c2c.broker.session(named)) return named;
  return (await c2c.broker.called(named))?.row.session_id ?? readSessionId(named);
}

interface Form {
  json: boolean;
  full: boolean;
  from: string | undefined;
}

class Monitor {
  #mailbox: AgentName | undefined;
  #watch: Watch | undefined;
  #told = new Set<MessageId>();
  #rung = true;
  #healNow = true;
  #stopped = false;
  #wake = (): void => {};

  constructor(
    readonly c2c: C2c,
    readonly session: string,
    readonly form: Form,
  ) {}

  async run(): Promise<void> {
    const parent = process.ppid;
    const timers = [
      setInterval(() => this.#lookAround(), LOOK_MS),
      setInterval(() => (process.ppid === parent ? undefined : this.#stop()), PARENT_MS),
    ];
    const stop = (): void => this.#stop();
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, stop);
    try {
      // What waits already is no arrival.
      await this.#look(false);
      if (this.form.json) this.c2c.sayJson({ event_type: 'monitor.ready', monitor_ts: now() });
      while (!this.#stopped) {
        await this.#rest();
        if (!this.#stopped) await this.#look(true);
      }
    } finally {
      for (const timer of timers) clearInterval(timer);
      this.#watch?.close();
    }
  }

  /** The mailbox is asked for each time: a session can be registered, or renamed, while it is watched. */
  async #look(tells: boolean): Promise<void> {
    const { spool } = this.c2c.home;
    if (this.#healNow) await spool.heal();
    this.#healNow = false;
    const mailbox = await this.c2c.mailbox(this.session);
    // Before the first telling look: what comes once it is open is told.
    if (tells && mailbox !== this.#mailbox) {
      this.#watch?.close();
      this.#watch = spool.watch(mailbox, () => this.#ring());
      this.#mailbox = mailbox;
    }
    const ids = await spool.ids(mailbox);
    const unseen = new Set(ids.filter((id) => !this.#told.has(id)));
    if (this.#told.size > REMEMBERED) this.#told = this.#told.intersection(new Set(ids));
    for (const id of unseen) this.#told.add(id);
    if (unseen.size === 0 || !tells) return;
    // What somebody takes between these two looks has found its reader.
    for (const { message } of await spool.peek(mailbox)) {
      if (unseen.has(message.id) && this.#isWanted(message.from)) this.#tell(entryOf(mailbox, message));
    }
  }

  #isWanted(sender: string): boolean {
    const { from } = this.form;
    return from === undefined || from.toLowerCase() === sender.toLowerCase();
  }

  #tell(entry: Entry): void {
    if (this.form.json) this.c2c.sayJson({ event_type: 'message', monitor_ts: now(), ...entry });
    else this.c2c.say(lineOf(entry, this.form.full));
  }

  /** What dead processes left comes without any file event. */
  #lookAround(): void {
    this.#healNow = true;
    this.#ring();
  }

  #ring(): void {
    this.#rung = true;
    this.#wake();
  }

  #stop(): void {
    this.#stopped = true;
    this.#ring();
  }

  /** Until the next ring; not at all if there was one since the last time. */
  async #rest(): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#rung = false;
  }
}

/** One line, whatever stands in the message: who reads lines must not see two. */
function lineOf({ from_alias, to_alias, content }: Entry, full: boolean): string {
  const [, room] = to_alias.split('#', 2);
  const text = lineForModel(content, full ? Infinity : BRIEF);
  const time = new Date().toTimeString().slice(0, 8);
  return `[${time}] 📬  ${lineForModel(from_alias, 64)}→${room ? `@${room}` : 'you'}  "${text}"`;
}

/** Seconds with three decimals, as a text: so other programs know it. */
function now(): string {
  return (Date.now() / 1000).toFixed(3);
}
