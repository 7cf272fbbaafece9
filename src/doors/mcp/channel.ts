import { channelNotice, ChannelWay } from '../../delivery/channel.ts';
import type { ChannelParts } from '../../delivery/channel.ts';
import { entryOf } from '../../flow/c2c/mail.ts';
import type { Entry } from '../../flow/c2c/mail.ts';
import { waiting } from '../../flow/deliver.ts';
import type { Who } from '../../flow/desk.ts';
import { attempt } from '../../flow/attempt.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Watch } from '../../storage/spool/spool.ts';
import type { McpClient } from './face.ts';

/** The capability of a client, and of a server, that mail can be shown unasked. */
export const CHANNEL = 'claude/channel';

/** File events tell of arrivals at once. What comes without one (a new alias, what a dead sender left) is seen after this long. */
const LOOK_MS = 3000;

export interface ChannelDeps {
  reader: () => Promise<Who>;
  /** Told of what arrives; off: of nothing. */
  isOn: boolean;
  /** Told also of what waited before the client came. */
  withBacklog: boolean;
  /** The user says that the client shows it, although it does not say so itself. */
  isForced: boolean;
  /** May the session be disturbed now? */
  mayDisturb: () => Promise<boolean>;
  proof: ChannelParts['proof'];
  now: () => number;
  /** Hears of what went wrong where nobody waits for an answer. */
  onTrouble: (error: unknown) => void;
}

/**
 * Tells a client of mail as it arrives. What the client's own record shows ends there; all else stays in the inbox, for a hook or a
 * poll, and is not told again. spec: c2c#channel
 */
export class Channel {
  readonly #told = new Set<MessageId>();
  readonly #stop = new AbortController();
  #watch: Watch | undefined;
  #watched: AgentName | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  /** One round after the other: a burst is told in one or two. */
  #round: Promise<void> = Promise.resolve();
  #isAsked = false;

  constructor(readonly deps: ChannelDeps) {}

  /** Before the client says a word: what waits by now is the backlog, and everything that comes later is news. */
  async prepare(): Promise<void> {
    if (this.deps.withBacklog || !this.deps.isOn) return;
    try {
      const { home, name } = await this.deps.reader();
      for (const id of await home.spool.ids(name)) this.#told.add(id);
    } catch (error) {
      // A session without a mailbox of its own is served all the same: its tools say what is wrong.
      this.deps.onTrouble(error);
    }
  }

  open(client: McpClient): void {
    const { isOn, withBacklog, isForced } = this.deps;
    if (!(isForced || canShow(client)) || !(isOn || withBacklog)) return;
    this.#round = this.#begin(client).catch((error: unknown) => this.deps.onTrouble(error));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#timer);
    await this.#round;
    this.#watch?.close();
  }

  async #begin(client: McpClient): Promise<void> {
    this.#follow(await this.deps.reader(), client);
    if (this.deps.isOn && !this.#stop.signal.aborted) this.#timer = setInterval(() => this.#ask(client), LOOK_MS);
    // What came before the watch has woken nobody.
    await this.#tell(client);
  }

  /** A session can take another alias while it is watched. */
  #follow({ name, home }: Who, client: McpClient): void {
    if (!this.deps.isOn || this.#stop.signal.aborted || name === this.#watched) return;
    this.#watch?.close();
    this.#watch = home.spool.watch(name, () => this.#ask(client));
    this.#watched = name;
  }

  #ask(client: McpClient): void {
    if (this.#isAsked) return;
    this.#isAsked = true;
    this.#round = this.#after(this.#round, client).catch((error: unknown) => this.deps.onTrouble(error));
  }

  async #after(before: Promise<void>, client: McpClient): Promise<void> {
    await before;
    this.#isAsked = false;
    await this.#tell(client);
  }

  async #tell(client: McpClient): Promise<void> {
    const { reader, mayDisturb, proof, now } = this.deps;
    if (this.#stop.signal.aborted || !(await mayDisturb())) return;
    const who = await reader();
    this.#follow(who, client);
    const mail = (await waiting(who, { any: true, loudOnly: true })).filter(
      ({ message }) => !this.#told.has(message.id),
    );
    if (mail.length === 0) return;
    for (const { message } of mail) this.#told.add(message.id);
    const entries = new Map<MessageId, Entry>();
    const way = new ChannelWay({ proof, notify: ({ id }) => tell(client, entries.get(id)) });
    await attempt(
      who,
      mail.map(({ message }) => message),
      {
        way,
        wrap: (outgoing) =>
          outgoing.map(({ message, redelivered }) => {
            entries.set(message.id, entryOf(who.name, message, redelivered ? 1 : 0));
            return { id: message.id, text: message.body };
          }),
        by: { drained_by: 'watcher' },
        now,
        signal: this.#stop.signal,
      },
    );
  }
}

function canShow({ capabilities }: McpClient): boolean {
  const { experimental } = capabilities;
  return typeof experimental === 'object' && experimental !== null && Object.hasOwn(experimental, CHANNEL);
}

function tell(client: McpClient, entry: Entry | undefined): void {
  if (entry) client.notify(`notifications/${CHANNEL}`, channelNotice(entry));
}
