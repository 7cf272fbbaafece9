import { channelNotice } from './envelope.ts';
import { entryOf } from './mail.ts';
import type { MailEntry } from './mail.ts';
import { waiting } from '../../core/mail/deliver.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { attempt } from '../../core/mail/attempt.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Watch } from '../../core/ports/mailboxes.ts';
import type { McpClient } from '../../wire/mcp.ts';
import type { Evidence } from '../../core/receipt.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';

/** The MCP capability, of clients and servers, to show mail without a request. */
export const CHANNEL = 'claude/channel';

/** File events report arrivals immediately. Mail without a file event (a new alias, a dead sender) is found after this time. */
const LOOK_MS = 3000;

export interface ChannelDeps {
  reader: () => Promise<Who>;
  /** Notify of mail that arrives. */
  isOn: boolean;
  /** Notify also of mail that waited before the client connected. */
  withBacklog: boolean;
  /** The user says that the client shows channel mail, although the client does not declare it. */
  isForced: boolean;
  /** Whether the session may be disturbed now. */
  mayDisturb: () => Promise<boolean>;
  proof: ChannelParts['proof'];
  now: () => number;
  /** Called with errors in the background. */
  onTrouble: (error: unknown) => void;
}

/**
 * Notifies a client of mail as it arrives. If the client's own record shows the mail, it is settled. Otherwise it stays in the inbox, for a hook
 * or a poll, and is not sent again. spec: c2c#channel
 */
export class Channel {
  readonly #notified = new Set<MessageId>();
  readonly #stop = new AbortController();
  #watch: Watch | undefined;
  #watched: AgentName | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  /** Rounds run one after the other, and a burst of mail takes one or two. */
  #round: Promise<void> = Promise.resolve();
  #isScheduled = false;

  constructor(readonly deps: ChannelDeps) {}

  /** Called before the client connects: mail that waits now is the backlog, later mail is new. */
  async prepare(): Promise<void> {
    if (this.deps.withBacklog || !this.deps.isOn) return;
    try {
      const { home, name } = await this.deps.reader();
      for (const id of await home.mailboxes.ids(name)) this.#notified.add(id);
    } catch (error) {
      // A session without a mailbox is still served: its tools report what is wrong.
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
    if (this.deps.isOn && !this.#stop.signal.aborted) this.#timer = setInterval(() => this.#schedule(client), LOOK_MS);
    // Mail that came before the watch caused no event.
    await this.#notifyNew(client);
  }

  /** Watches the mailbox of the session, which may take another alias. */
  #follow({ name, home }: Who, client: McpClient): void {
    if (!this.deps.isOn || this.#stop.signal.aborted || name === this.#watched) return;
    this.#watch?.close();
    this.#watch = home.mailboxes.watch(name, () => this.#schedule(client));
    this.#watched = name;
  }

  #schedule(client: McpClient): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#round = this.#runAfter(this.#round, client).catch((error: unknown) => this.deps.onTrouble(error));
  }

  async #runAfter(before: Promise<void>, client: McpClient): Promise<void> {
    await before;
    this.#isScheduled = false;
    await this.#notifyNew(client);
  }

  async #notifyNew(client: McpClient): Promise<void> {
    const { reader, mayDisturb, proof, now } = this.deps;
    if (this.#stop.signal.aborted || !(await mayDisturb())) return;
    const who = await reader();
    this.#follow(who, client);
    const mail = (await waiting(who, { any: true, loudOnly: true })).filter(
      ({ message }) => !this.#notified.has(message.id),
    );
    if (mail.length === 0) return;
    for (const { message } of mail) this.#notified.add(message.id);
    const entries = new Map<MessageId, MailEntry>();
    const way = new ChannelWay({ proof, notify: ({ id }) => notifyClient(client, entries.get(id)) });
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

function notifyClient(client: McpClient, entry: MailEntry | undefined): void {
  if (entry) client.notify(`notifications/${CHANNEL}`, channelNotice(entry));
}

export interface ChannelParts {
  /** Notifies the client. A notification has no answer, so it proves nothing. */
  notify(parcel: Parcel): void;
  /**
   * Waits for the client's own record of these messages, and returns it as evidence; null if there is none in time. Undefined if the client
   * keeps no such record.
   */
  proof?: ((parcels: readonly Parcel[], signal: AbortSignal) => Promise<Evidence | null>) | undefined;
}

/** Way 1: the client's MCP server notifies it, and the client shows it. spec: c2c#channel */
export class ChannelWay implements Way {
  readonly name = 'channel';

  constructor(readonly parts: ChannelParts) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return { outcome: 'left', because: 'there is nothing to hand over', retry: false };
    if (signal.aborted) return { outcome: 'left', because: 'it was stopped before it went in', retry: true };
    try {
      for (const parcel of parcels) this.parts.notify(parcel);
    } catch {
      return { outcome: 'left', because: 'the client is gone', retry: true };
    }
    const evidence = await this.parts.proof?.(parcels, signal);
    if (evidence) return { outcome: 'taken', step: 'shown', evidence };
    return { outcome: 'offered', evidence: { way: this.name, told: parcels.length } };
  }
}
