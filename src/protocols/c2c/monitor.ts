import { mkdirSync, readdirSync } from 'node:fs';
import { FLAG, TEXT, command } from '../../core/command.ts';
import { ifThere } from '../../core/disk.ts';
import { lineForModel } from '../../core/gate.ts';
import type { Who } from '../../core/mail/workspace.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { stampOf } from '../../platform/files.ts';
import { watchFolder } from '../../store/maildir/maildir.ts';
import { isEmptyInbox } from './empty.ts';
import { LoopWakeup } from './loop.ts';
import { entryOf } from './mail.ts';
import type { MailEntry } from './mail.ts';
import { RoomFiles } from './rooms.ts';
import { isC2cSessionId, isSameAlias, readSessionId } from './shapes.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';

/** How often to check whether our parent still runs. */
const PARENT_MS = 500;
/** How often to read the members of rooms, whose folders are not watched. */
const ROOMS_MS = 500;
/** How often to finish the sends of killed processes. */
const HEAL_MS = 5000;
const BRIEF = 80;
/** Above this number, ids that have left the inbox are forgotten. */
const REMEMBERED = 100_000;

/**
 * Prints one line for each message that arrives from now on, and takes nothing. It starts no other process, and ends with its
 * reader, its parent or a signal. spec: c2c#monitor
 */
const monitorCommand = command({
  usage:
    'monitor [--alias <alias or session id>] [--all] [--drains] [--sweeps] [--from <alias>] [--full-body] [--include-self] [--json] [--broker-root <folder>]',
  options: {
    alias: { ...TEXT, short: 'a' },
    'session-id': SESSION_ID,
    from: TEXT,
    json: JSON_FLAG,
    all: FLAG,
    drains: FLAG,
    sweeps: FLAG,
    'full-body': FLAG,
    body: FLAG,
    'include-self': FLAG,
    'broker-root': TEXT,
    root: TEXT,
    // Accepted without effect: in the original it ends another monitor of the alias; here an alias may have many.
    force: FLAG,
  },
  async run(given: C2c, values) {
    const c2c = given.at(values['broker-root'] ?? values.root);
    const named = values['session-id'] ?? values.alias;
    const { all = false, drains = false, sweeps = false } = values;
    const isAnyone = all && named === undefined && c2c.sessionId === null;
    const session = isAnyone ? null : await watchedSession(c2c, named);
    // Refuses a session that may not be read.
    if (session !== null) await c2c.mailbox(session);
    const printer = new Printer(c2c, {
      json: values.json ?? false,
      full: values['full-body'] ?? values.body ?? false,
      from: values.from,
      except: values['include-self'] || session === null ? null : await c2c.broker.aliasOf(session),
    });
    await untilStopped((stop) => followBroker(new BrokerEvents(c2c, printer, { session, all, drains, sweeps }), stop));
  },
});

/** The id of the session to watch, which may be named by its alias. An unregistered session is named by its id. */
async function watchedSession(c2c: C2c, named: string | undefined): Promise<string> {
  if (named === undefined) return c2c.session();
  if (await c2c.broker.session(named)) return named;
  return (await c2c.broker.byAlias(named))?.row.session_id ?? readSessionId(named);
}

async function untilStopped(act: (stop: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const parent = process.ppid;
  const orphaned = setInterval(() => {
    if (process.ppid !== parent) stop.abort();
  }, PARENT_MS);
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort());
  try {
    await act(stop.signal);
  } finally {
    clearInterval(orphaned);
  }
}

async function followBroker(events: BrokerEvents, stop: AbortSignal): Promise<void> {
  const { root, home } = events.c2c;
  const wakeup = new LoopWakeup(stop);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  await home.mailboxes.heal();
  await events.look();
  const watcher = watchFolder(root, () => wakeup.wake());
  const round = setInterval(() => wakeup.wake(true), HEAL_MS);
  try {
    while (!stop.aborted) {
      await wakeup.next(ROOMS_MS);
      if (wakeup.takeRound()) await home.mailboxes.heal();
      await events.look();
    }
  } finally {
    clearInterval(round);
    watcher.close();
  }
}

/** The output format, and which messages to print. */
interface Form {
  json: boolean;
  full: boolean;
  /** Print only messages of this sender. */
  from: string | undefined;
  /** Print no messages of this sender: the session that watches. */
  except: string | null;
}

class Printer {
  constructor(
    readonly c2c: C2c,
    readonly form: Form,
  ) {}

  ready(): void {
    if (this.form.json) this.c2c.sayJson({ event_type: 'monitor.ready', monitor_ts: seconds() });
  }

  event(type: string, fields: { alias: string; room_id?: string }, words: string): void {
    if (this.form.json) this.c2c.sayJson({ event_type: type, ...fields, monitor_ts: seconds() });
    else this.c2c.say(`[${time()}] ${words}`);
  }

  message(entry: MailEntry, reader: string): void {
    const { from, except, json, full } = this.form;
    if (from !== undefined && !isSameAlias(from, entry.from_alias)) return;
    if (except !== null && isSameAlias(except, entry.from_alias)) return;
    if (json) this.c2c.sayJson({ event_type: 'message', monitor_ts: seconds(), ...entry });
    else this.c2c.say(lineOf(entry, full, reader));
  }
}

/** The arrivals in one inbox. Mail that waits at the first look is no arrival, unless the inbox was created after the monitor started. */
class Arrivals {
  #known: Set<MessageId> | null;

  constructor(
    readonly printer: Printer,
    isNewInbox: boolean,
  ) {
    this.#known = isNewInbox ? new Set() : null;
  }

  async look({ name, home: { mailboxes } }: Who, reader: string): Promise<void> {
    const ids = await mailboxes.ids(name);
    const known = this.#known ?? new Set(ids);
    const unseen = new Set(ids.filter((id) => !known.has(id)));
    this.#known = (known.size > REMEMBERED ? known.intersection(new Set(ids)) : known).union(unseen);
    if (unseen.size === 0) return;
    // Mail that was taken since the list of ids was read is not printed: it has found its reader.
    for (const { message } of await mailboxes.peek(name)) {
      if (unseen.has(message.id)) this.printer.message(entryOf(name, message), reader);
    }
  }
}

interface Inbox {
  alias: string;
  stamp: string;
  isEmpty: boolean;
  arrivals: Arrivals;
}

/**
 * The events at a broker: messages, inboxes that were emptied (`drain`) or removed (`sweep`), sessions and room members that come and go. Each
 * look is compared with the one before.
 */
class BrokerEvents {
  readonly #inboxes = new Map<string, Inbox>();
  #peers = new Set<string>();
  #rooms = new Map<string, Set<string>>();
  #isFirst = true;

  constructor(
    readonly c2c: C2c,
    readonly printer: Printer,
    /** `session`: the session that watches; null if none does. */
    readonly wanted: { session: string | null; all: boolean; drains: boolean; sweeps: boolean },
  ) {}

  async look(): Promise<void> {
    const rows = this.c2c.broker.registry.rows();
    await this.#lookAtInboxes(new Map(rows.map(({ session_id, alias }) => [session_id, alias])));
    if (this.wanted.all) {
      this.#lookAtPeers(new Set(rows.map(({ alias }) => alias)));
      this.#lookAtRooms(new RoomFiles(this.c2c.root));
    }
    if (this.#isFirst) this.printer.ready();
    this.#isFirst = false;
  }

  async #lookAtInboxes(aliases: ReadonlyMap<string, string>): Promise<void> {
    const names = ifThere(() => readdirSync(this.c2c.root)) ?? [];
    const inboxes = names.flatMap((name) => /^(.+)\.inbox\.json$/.exec(name)?.[1] ?? []);
    // Skip files whose name only looks like an inbox.
    const sessions = new Set(inboxes.filter(isC2cSessionId));
    for (const session of sessions) {
      const { root, home } = this.c2c;
      const stamp = stampOf(`${root}/${session}.inbox.json`);
      const before = this.#inboxes.get(session);
      if (before?.stamp === stamp) continue;
      const alias = aliases.get(session) ?? session;
      const arrivals = before?.arrivals ?? new Arrivals(this.printer, !this.#isFirst);
      const isEmpty = isEmptyInbox(root, session);
      this.#inboxes.set(session, { alias, stamp, isEmpty, arrivals });
      const isOwn = session === this.wanted.session;
      const name = isOwn ? await this.c2c.mailbox(session) : (alias as AgentName);
      if (isOwn || (this.wanted.all && this.#mayRead(alias)))
        await arrivals.look({ name, home }, isOwn ? 'you' : alias);
      if (this.wanted.drains && before && isEmpty && !before.isEmpty)
        this.printer.event('drain', { alias }, `📤  ${alias} took its mail`);
    }
    for (const [session, { alias }] of this.#inboxes) {
      if (sessions.has(session)) continue;
      this.#inboxes.delete(session);
      if (this.wanted.sweeps) this.printer.event('sweep', { alias }, `🗑️  the inbox of ${alias} was removed`);
    }
  }

  /** False for a supervisor, whose mail is for the user only. */
  #mayRead(alias: string): boolean {
    try {
      this.c2c.refuseSupervisor(alias, 'read');
      return true;
    } catch {
      return false;
    }
  }

  #lookAtPeers(peers: Set<string>): void {
    for (const alias of this.#isFirst ? [] : peers.difference(this.#peers))
      this.printer.event('peer.alive', { alias }, `🟢  ${alias} is registered`);
    for (const alias of this.#peers.difference(peers))
      this.printer.event('peer.dead', { alias }, `🔴  ${alias} is not registered any more`);
    this.#peers = peers;
  }

  #lookAtRooms(files: RoomFiles): void {
    const rooms = new Map(
      files.names().map((room) => [room, new Set<string>(files.members(room).map(({ alias }) => alias))]),
    );
    for (const room_id of new Set([...rooms.keys(), ...this.#rooms.keys()])) {
      const now = rooms.get(room_id) ?? new Set();
      const before = this.#rooms.get(room_id) ?? new Set();
      for (const alias of this.#isFirst ? [] : now.difference(before))
        this.printer.event('room.join', { room_id, alias }, `🚪  ${alias} is in ${room_id}`);
      for (const alias of before.difference(now))
        this.printer.event('room.leave', { room_id, alias }, `👋  ${alias} is not in ${room_id} any more`);
    }
    this.#rooms = rooms;
  }
}

/** A message as exactly one line, whatever its text has. */
function lineOf({ from_alias, to_alias, content }: MailEntry, full: boolean, reader: string): string {
  const [, room] = to_alias.split('#', 2);
  const text = lineForModel(content, full ? Infinity : BRIEF);
  return `[${time()}] 📬  ${lineForModel(from_alias, 64)}→${room ? `@${room}` : reader}  "${text}"`;
}

function time(): string {
  return new Date().toTimeString().slice(0, 8);
}

/** Seconds since 1970 with three decimals, as a text: the format that other programs expect. */
function seconds(): string {
  return (Date.now() / 1000).toFixed(3);
}

export const commands = {
  monitor: monitorCommand,
};
