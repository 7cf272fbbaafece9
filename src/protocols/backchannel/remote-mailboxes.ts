import type { Message } from '../../core/message.ts';
import { isQuiet } from '../../core/attention/attention.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Acceptance, CopyRecord, Entry } from '../../core/ports/journal.ts';
import { sameOrConflict } from '../../store/journal/rules.ts';
import { EventStream } from './remote-events.ts';
import type { RelayHttp } from './remote-http.ts';
import type { InboxCache } from './inbox-cache.ts';
import type { Post } from './post.ts';
import { oldestFirst } from '../../store/maildir/files.ts';
import { Maildir } from '../../store/maildir/maildir.ts';
import type { MaildirOptions } from '../../store/maildir/send.ts';
import type { Claim, Lease, WaitingMessage, Watch } from '../../core/ports/mailboxes.ts';

/** How long background work may delay a command. */
const BACKGROUND_MS = 1500;

/** What a mailbox at a relay has besides its local one. */
interface RelayParts {
  /** Whose mailbox it is. */
  agent: AgentName;
  http: RelayHttp;
  cache: InboxCache;
  post: Post;
  /** True for Parley's own agents: sends wait in an outbox, and fetched mail is shown while the relay is away. */
  queues: boolean;
  /** Called once for each kind of error that no caller sees. */
  tell: (text: string) => void;
}

/**
 * One agent's mailbox at a relay, with a local mailbox as its cache. It lists what waits at the relay. A message is fetched into the local
 * mailbox before it is claimed; from then on the local mailbox handles leases, settling and crashes.
 */
export class RemoteMailboxes extends Maildir {
  /** Messages known to wait at the relay. While a stream is open, no request is needed. */
  #there = new Map<MessageId, Message>();
  /** Those of them that the local mailbox never had. */
  readonly #fresh = new Set<MessageId>();
  readonly #streams = new Set<EventStream>();
  readonly #told = new Set<string>();

  constructor(
    options: MaildirOptions,
    readonly relay: RelayParts,
  ) {
    super(options);
  }

  override async peek(mailbox: AgentName): Promise<WaitingMessage[]> {
    const local = await super.peek(mailbox);
    const there = await this.#lookIfReachable(mailbox);
    const here = new Set(local.map(({ message }) => message.id));
    const others = [...there.values()].filter(({ id }) => !here.has(id));
    const waiting = await Promise.all(others.map((message) => this.#judged(mailbox, message)));
    return oldestFirst([...local, ...waiting]);
  }

  override async ids(mailbox: AgentName, loudOnly = false): Promise<MessageId[]> {
    const local = await super.ids(mailbox, loudOnly);
    return [...new Set([...local, ...(await this.#look(mailbox)).keys()])];
  }

  override async read(mailbox: AgentName, id: MessageId): Promise<WaitingMessage | null> {
    const here = await super.read(mailbox, id);
    if (here) return here;
    const message = this.#there.get(id) ?? (await this.#look(mailbox)).get(id);
    return message ? this.#judged(mailbox, message) : null;
  }

  override async claim(
    mailbox: AgentName,
    ids: MessageId[],
    lease: Lease,
    read?: ReadonlyMap<MessageId, Message>,
  ): Promise<Claim> {
    try {
      await this.#carry(mailbox, ids);
    } catch (error) {
      // A watch continues: a message that could not be fetched is tried again at the next look.
      if (this.#streams.size === 0 || !(error instanceof Refusal)) throw error;
      this.#tellOnce(error);
    }
    return super.claim(mailbox, ids, lease, read);
  }

  async bring(mailbox: AgentName, wanted: (message: Message) => boolean, patienceMs?: number): Promise<number> {
    const there = await this.#look(mailbox, patienceMs);
    const ids = [...there.values()].filter(wanted).map(({ id }) => id);
    if (ids.length > 0) await this.#carry(mailbox, ids);
    return ids.length;
  }

  override watch(mailbox: AgentName, onArrival: () => void): Watch {
    const local = super.watch(mailbox, onArrival);
    const stream = new EventStream(this.relay.http, `/v1/events/${encodeURIComponent(mailbox)}`, {
      onMessage: (message) => {
        this.#there.set(message.id, message);
        this.#told.clear();
        onArrival();
      },
      // A known message is not announced again: a watcher remembers what it has shown.
      onResumed: async () => {
        for (const [id, message] of await this.relay.cache.waiting(mailbox)) this.#there.set(id, message);
        onArrival();
      },
      onTrouble: (error) => this.#tellOnce(error),
    });
    this.#streams.add(stream);
    return {
      close: () => {
        local.close();
        this.#streams.delete(stream);
        stream.close().catch(() => {});
      },
    };
  }

  /** Sends through the relay, which decides who gets a copy. A repeated key is answered from the local journal. */
  override async put(entry: Entry): Promise<Acceptance> {
    const { message, key } = entry;
    const earlier = key && (await this.options.journal.underKey(message.from as AgentName, key));
    if (earlier) return sameOrConflict(earlier, entry);
    throw new Error('send a draft to a relay, not an entry');
  }

  override async withdraw(): Promise<CopyRecord[]> {
    throw new Refusal(
      'not_in_this_version',
      'a message that a relay has accepted cannot be withdrawn; write to its readers instead (`parley outbox drop` forgets one that was never sent)',
    );
  }

  /** Also sends what waits in the outbox. */
  override async heal(): Promise<void> {
    await super.heal();
    await this.#inBackground(async () => {
      await this.relay.cache.heal(this.relay.agent, BACKGROUND_MS);
      await this.relay.post.flush({ connectMs: BACKGROUND_MS });
    });
  }

  override async close(): Promise<void> {
    await Promise.all([...this.#streams].map((stream) => stream.close()));
    await super.close();
  }

  /** Messages that wait at the relay and were never here. */
  async #look(mailbox: AgentName, patienceMs?: number): Promise<ReadonlyMap<MessageId, Message>> {
    if (this.#streams.size === 0) this.#there = await this.relay.cache.waiting(mailbox, patienceMs);
    const spent: MessageId[] = [];
    for (const id of this.#there.keys()) {
      if (this.#fresh.has(id)) continue;
      if (await this.#wasHere(mailbox, id)) spent.push(id);
      else this.#fresh.add(id);
    }
    for (const id of spent) this.#there.delete(id);
    // These were fetched, but the relay does not know that.
    if (spent.length > 0) await this.#inBackground(() => this.relay.cache.discharge(mailbox, spent));
    return this.#there;
  }

  /** Like `#look`, but without the relay it returns nothing, so that fetched mail is still shown. */
  async #lookIfReachable(mailbox: AgentName): Promise<ReadonlyMap<MessageId, Message>> {
    try {
      return await this.#look(mailbox);
    } catch (error) {
      if (!this.relay.queues || !(error instanceof Refusal) || error.code !== 'unreachable') throw error;
      this.#tellOnce(error, 'only mail that was fetched earlier is shown');
      return new Map();
    }
  }

  async #carry(mailbox: AgentName, ids: MessageId[]): Promise<void> {
    const missing: MessageId[] = [];
    // A fetched file may not have a row yet. It stays unchanged, whatever the relay offers under its id now.
    const here = new Set(await super.ids(mailbox));
    for (const id of ids) if (!here.has(id) && !(await this.#wasHere(mailbox, id))) missing.push(id);
    if (missing.length > 0) await this.relay.cache.carry(mailbox, missing, this.#there);
    for (const id of ids) {
      this.#there.delete(id);
      this.#fresh.delete(id);
    }
  }

  /** A copy that another program took from the local mailbox may be fetched again. */
  async #wasHere(mailbox: AgentName, id: MessageId): Promise<boolean> {
    const copy = await this.options.journal.copy(mailbox, id);
    return copy !== null && copy.state !== 'gone';
  }

  async #judged(mailbox: AgentName, message: Message): Promise<WaitingMessage> {
    const { attention } = await this.options.judge(mailbox, message);
    return { message, quiet: isQuiet(attention) };
  }

  /** Runs background work and reports a failure once: it is tried again later, and a command that needs the relay gets its own error. */
  async #inBackground(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }

  #tellOnce(error: unknown, next = 'it is tried again'): void {
    if (!(error instanceof Refusal) || this.#told.has(error.message)) return;
    this.#told.add(error.message);
    this.relay.tell(`${error.message}; ${next}`);
  }
}
