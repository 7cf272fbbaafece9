import { entryOf } from './mail.ts';
import type { MailEntry } from './mail.ts';
import { readSessionId } from './shapes.ts';
import { FLAG, TEXT, command } from '../../core/command.ts';
import { lineForModel } from '../../core/gate.ts';
import type { Who } from '../../core/mail/workspace.ts';
import type { MessageId } from '../../core/names.ts';
import { rounds } from './loop.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';

/** How often we look whether our parent still runs. */
const PARENT_MS = 500;
const BRIEF = 80;
/** More ids than this are not remembered beyond their stay in the inbox. */
const REMEMBERED = 100_000;

/**
 * Prints one line for each message that arrives from now on, and takes nothing. It starts no other process, and ends with its
 * reader, its parent or a signal. spec: c2c#monitor
 */
const monitorCommand = command({
  usage: 'monitor [--alias <alias or session id>] [--from <alias>] [--full-body] [--include-self] [--json]',
  options: {
    alias: { ...TEXT, short: 'a' },
    'session-id': SESSION_ID,
    from: TEXT,
    json: JSON_FLAG,
    'full-body': FLAG,
    body: FLAG,
    'include-self': FLAG,
    'broker-root': TEXT,
    root: TEXT,
  },
  async run(given: C2c, values) {
    const c2c = given.at(values['broker-root'] ?? values.root);
    const session = await watchedSession(c2c, values['session-id'] ?? values.alias);
    const form = { json: values.json ?? false, full: values['full-body'] ?? values.body ?? false, from: values.from };
    await monitor(c2c, session, form);
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

async function monitor(c2c: C2c, session: string, form: Form): Promise<void> {
  const stop = new AbortController();
  const parent = process.ppid;
  const orphaned = setInterval(() => {
    if (process.ppid !== parent) stop.abort();
  }, PARENT_MS);
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort());
  const arrivals = new Arrivals(c2c, form);
  const reader = async (): Promise<Who> => ({ name: await c2c.mailbox(session), home: c2c.home });
  try {
    await rounds(reader, (who) => arrivals.tell(who), stop.signal);
  } finally {
    clearInterval(orphaned);
  }
}

/** What has arrived since the first look. What waits already is no arrival. */
class Arrivals {
  #known: Set<MessageId> | undefined;

  constructor(
    readonly c2c: C2c,
    readonly form: Form,
  ) {}

  async tell({ name, home: { mailboxes } }: Who): Promise<null> {
    const ids = await mailboxes.ids(name);
    const known = this.#known;
    if (!known) {
      this.#known = new Set(ids);
      if (this.form.json) this.c2c.sayJson({ event_type: 'monitor.ready', monitor_ts: now() });
      return null;
    }
    const unseen = new Set(ids.filter((id) => !known.has(id)));
    if (unseen.size === 0) return null;
    this.#known = (known.size > REMEMBERED ? known.intersection(new Set(ids)) : known).union(unseen);
    // What was taken between these two looks has found its reader.
    for (const { message } of await mailboxes.peek(name)) {
      if (unseen.has(message.id) && this.#isWanted(message.from)) this.#say(entryOf(name, message));
    }
    return null;
  }

  #isWanted(sender: string): boolean {
    const { from } = this.form;
    return from === undefined || from.toLowerCase() === sender.toLowerCase();
  }

  #say(entry: MailEntry): void {
    if (this.form.json) this.c2c.sayJson({ event_type: 'message', monitor_ts: now(), ...entry });
    else this.c2c.say(lineOf(entry, this.form.full));
  }
}

/** One line, whatever stands in the message: who reads lines must not see two. */
function lineOf({ from_alias, to_alias, content }: MailEntry, full: boolean): string {
  const [, room] = to_alias.split('#', 2);
  const text = lineForModel(content, full ? Infinity : BRIEF);
  const time = new Date().toTimeString().slice(0, 8);
  return `[${time}] 📬  ${lineForModel(from_alias, 64)}→${room ? `@${room}` : 'you'}  "${text}"`;
}

/** Seconds with three decimals, as a text: so other programs know it. */
function now(): string {
  return (Date.now() / 1000).toFixed(3);
}

export const commands = {
  monitor: monitorCommand,
};
