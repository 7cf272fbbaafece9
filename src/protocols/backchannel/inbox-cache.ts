import { mkdirSync, rmSync } from 'node:fs';
import { readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { isDead, newHolder } from '../../platform/holder.ts';
import type { MaildirFiles } from '../../store/maildir/files.ts';
import { idsIn, list } from '../../store/maildir/files.ts';
import type { KnownAbilities } from './remote-identity.ts';
import type { RelayHttp } from './remote-http.ts';
import { isNoSuchRoute } from './post.ts';
import { NoRelayAnswer, RelayRefusal } from './remote-http.ts';

/** The lease on messages that we fetch. */
const CARRY_MS = 30_000;
/** The most messages fetched at once. */
const BATCH = 100;
/** The most takes under way at once, at a relay where each take is one request. */
const AT_ONCE = 4;

/** A larger answer cannot be an inbox. */
const INBOX_LIMIT = 512 * 1024 * 1024;

export interface InboxCacheOptions {
  root: string;
  files: MaildirFiles;
  http: RelayHttp;
  abilities: KnownAbilities;
}

/**
 * Fetches messages from a relay into the local mailbox without losing one.
 *
 * At a relay of ours: lease there → write and flush here → settle there. If we are killed in between, the lease runs out and the message
 * waits at the relay again. The local mailbox may have it by then: then it is settled there and not shown a second time.
 *
 * The original's take deletes the message before a reader has stored it. So we write it first, into `landing/<who>/`, then take it there,
 * then move it to the local mailbox. If we are killed in between, the next process asks whether the message still waits at the relay: if it
 * does, it was not taken; if it does not, we took it.
 */
export class InboxCache {
  readonly #holder = newHolder(false);
  readonly #inFlight = new Set<MessageId>();

  constructor(readonly options: InboxCacheOptions) {}

  /** Fetches these messages. `known` are messages seen waiting at the relay. Skips those that another reader has taken. */
  async carry(mailbox: AgentName, ids: MessageId[], known: ReadonlyMap<MessageId, Message>): Promise<void> {
    this.options.files.make(mailbox);
    for (let at = 0; at < ids.length; at += BATCH) {
      const batch = ids.slice(at, at + BATCH);
      if (!(await this.#byLease(mailbox, batch))) await this.#byTake(mailbox, batch, known);
    }
  }

  /** Settles messages at the relay that it still offers, although they were fetched before. */
  async discharge(mailbox: AgentName, ids: MessageId[]): Promise<void> {
    const { http, abilities } = this.options;
    if (!(await abilities.get()).leases) {
      for (const id of ids) await http.ask('POST', '/v1/take', { body: { agent: mailbox, id } });
      return;
    }
    for (let at = 0; at < ids.length; at += BATCH) {
      await this.#leaseAll(ids.slice(at, at + BATCH), (lease, messages) => this.#settle(lease, idsOf(messages)));
    }
  }

  /** Finishes fetches of dead processes. Costs one listing if there are none. */
  async heal(mailbox: AgentName, patienceMs?: number): Promise<void> {
    for (const holder of list(this.#folder)) {
      if (holder !== this.#holder && !isDead(holder)) continue;
      const left = idsIn(`${this.#folder}/${holder}`).filter((id) => !this.#inFlight.has(id));
      if (left.length > 0) await this.#settleDoubt(mailbox, holder, left, patienceMs);
      if (holder !== this.#holder) rmSync(`${this.#folder}/${holder}`, { recursive: true, force: true });
    }
  }

  get #folder(): string {
    return `${this.options.root}/landing`;
  }

  /** False if the relay has no leases. */
  async #byLease(mailbox: AgentName, ids: MessageId[]): Promise<boolean> {
    const { files, abilities } = this.options;
    if (!(await abilities.get()).leases) return false;
    try {
      await this.#leaseAll(ids, async (lease, messages) => {
        for (const message of messages) {
          const draft = files.path(mailbox, 'tmp', message.id);
          files.write(draft, JSON.stringify(message));
          files.move(draft, files.path(mailbox, 'new', message.id));
        }
        files.flushFolder(files.folder(mailbox, 'new'));
        await this.#settleOrLeave(mailbox, lease, idsOf(messages));
      });
      return true;
    } catch (error) {
      if (!isNoSuchRoute(error)) throw error;
      // Another program answers at this address now.
      abilities.forget();
      return (await abilities.askNow()).leases ? Promise.reject(error) : false;
    }
  }

  /** Leases all of them. One answer may hold only some, so this asks again until none is left or none comes. */
  async #leaseAll(ids: MessageId[], use: (lease: string, messages: Message[]) => Promise<void>): Promise<void> {
    let left = ids;
    while (left.length > 0) {
      const { lease, messages } = await this.#lease(left);
      if (messages.length === 0) return;
      await use(lease, messages);
      const had = new Set(idsOf(messages));
      left = left.filter((id) => !had.has(id));
    }
  }

  /** Keeps only messages that we asked for, each once: under another id a relay could replace mail that is here. */
  async #lease(ids: MessageId[]): Promise<{ lease: string; messages: Message[] }> {
    const { data } = await this.options.http.ask('POST', '/v1/lease', { body: { ids, max: ids.length, ms: CARRY_MS } });
    const { lease, messages } = (data ?? {}) as { lease?: unknown; messages?: unknown };
    const found = new Map<MessageId, Message>();
    for (const one of Array.isArray(messages) ? (messages as unknown[]) : []) {
      const message = readMessage((one as { message?: unknown } | null)?.message);
      if (message && ids.includes(message.id)) found.set(message.id, message);
    }
    return { lease: typeof lease === 'string' ? lease : '', messages: [...found.values()] };
  }

  async #settleOrLeave(mailbox: AgentName, lease: string, ids: MessageId[]): Promise<void> {
    try {
      await this.#settle(lease, ids);
    } catch (error) {
      // The lease ran out: the messages wait at the relay again or another reader has them, so we must not show them.
      const { files } = this.options;
      if (error instanceof RelayRefusal && error.status === 409)
        for (const id of ids) files.delete(files.path(mailbox, 'new', id));
      // The messages are stored here. If the relay offers them again, they are settled then.
      else if (!(error instanceof NoRelayAnswer)) throw error;
    }
  }

  async #settle(lease: string, ids: MessageId[]): Promise<void> {
    if (ids.length === 0) return;
    const by = { fetched: 'to the machine of its reader' };
    const body = { lease, ids, outcome: 'done', disposition: 'acknowledged', by };
    await this.options.http.ask('POST', '/v1/settle', { body });
  }

  async #byTake(mailbox: AgentName, ids: MessageId[], known: ReadonlyMap<MessageId, Message>): Promise<void> {
    const waiting = ids.every((id) => known.has(id)) ? known : await this.waiting(mailbox);
    const messages = ids.flatMap((id) => waiting.get(id) ?? []);
    mkdirSync(`${this.#folder}/${this.#holder}`, { recursive: true, mode: 0o700 });
    for (let at = 0; at < messages.length; at += AT_ONCE) {
      const some = messages.slice(at, at + AT_ONCE);
      const ended = await Promise.allSettled(some.map((message) => this.#take(mailbox, message)));
      const failed = ended.find((one) => one.status === 'rejected');
      if (failed) throw failed.reason;
    }
    if (messages.length > 0) this.options.files.flushFolder(this.options.files.folder(mailbox, 'new'));
  }

  async #take(mailbox: AgentName, message: Message): Promise<void> {
    const { files, http } = this.options;
    const { id } = message;
    const landed = this.#path(this.#holder, id);
    this.#inFlight.add(id);
    try {
      files.write(landed, JSON.stringify(message));
      files.flushFolder(`${this.#folder}/${this.#holder}`);
      const { data } = await http.ask('POST', '/v1/take', { body: { agent: mailbox, id } });
      const isOurs = (data as { message?: unknown } | null)?.message != null;
      if (isOurs) files.move(landed, files.path(mailbox, 'new', id));
      else files.delete(landed);
    } catch (error) {
      const isDoubtful = error instanceof NoRelayAnswer && error.fate === 'unknown';
      if (isDoubtful) await this.#settleDoubt(mailbox, this.#holder, [id]);
      else files.delete(landed);
      if (!isDoubtful) throw error;
    } finally {
      this.#inFlight.delete(id);
    }
  }

  /** Messages that still wait at the relay were not taken. We treat the others as taken: showing one twice is better than losing it. */
  async #settleDoubt(mailbox: AgentName, holder: string, ids: MessageId[], patienceMs?: number): Promise<void> {
    const { files } = this.options;
    const waiting = await this.waiting(mailbox, patienceMs);
    files.make(mailbox);
    for (const id of ids) {
      const landed = this.#path(holder, id);
      if (waiting.has(id)) files.delete(landed);
      else files.move(landed, files.path(mailbox, 'new', id));
    }
    files.flushFolder(files.folder(mailbox, 'new'));
  }

  /** Every message that waits at the relay. */
  async waiting(mailbox: AgentName, patienceMs?: number): Promise<Map<MessageId, Message>> {
    const path = `/v1/inbox/${encodeURIComponent(mailbox)}`;
    const patience = patienceMs === undefined ? {} : { patienceMs };
    const { data } = await this.options.http.ask('GET', path, { limit: INBOX_LIMIT, ...patience });
    const messages = (Array.isArray(data) ? data : []).flatMap((one: unknown) => readMessage(one) ?? []);
    return new Map(messages.map((message) => [message.id, message]));
  }

  #path(holder: string, id: MessageId): string {
    return `${this.#folder}/${holder}/${id}.json`;
  }
}

function idsOf(messages: Message[]): MessageId[] {
  return messages.map(({ id }) => id);
}
