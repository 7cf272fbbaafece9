import { newSenderId, shortId } from '../../core/names.ts';
import { Extras, readMessage } from '../../core/message.ts';
import type { Draft, Message } from '../../core/message.ts';
import type { AgentName, MessageId, SendKey } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Journal } from '../../core/ports/journal.ts';
import type { KnownAbilities } from './remote-identity.ts';
import type { Aliases, Filed, Outbox } from './outbox.ts';
import type { RelayHttp } from './remote-http.ts';
import type { OutgoingMessage, Posted } from '../../core/ports/remote.ts';
import { NoRelayAnswer, neverLeft, RelayRefusal } from './remote-http.ts';

/** How often a message is sent again at once after its answer was lost, to a relay that supports keys. */
const AGAIN = 2;
const PAUSE_MS = 500;

export interface PostOptions {
  http: RelayHttp;
  journal: Journal;
  abilities: KnownAbilities;
  /** Without an outbox nothing is queued: a message that cannot be sent is an error, and its sender tries again. */
  outbox: Outbox | null;
  /** The relay's ids of messages that it stored under another id than ours. */
  aliases: Aliases;
  now: () => number;
}

/**
 * Sends messages to a relay. A message is queued → claimed → removed when the relay has answered; → queued again if it never left this
 * machine; → unknown if it may have arrived. Only to a relay that supports keys is a message sent twice without asking the user: such a
 * relay answers a repeat as it answered the first. A kill at any point leaves the message in the outbox.
 */
export class Post {
  constructor(readonly options: PostOptions) {}

  async post(from: AgentName, draft: Draft): Promise<Posted> {
    const { outbox, now } = this.options;
    const outgoing = outgoingOf(from, draft, new Date(now()).toISOString());
    if (!outbox) return this.#send(outgoing);
    const filed = outbox.add(outgoing);
    if (filed.state === 'unknown' && !(await this.#isSafe(filed)))
      throw new Refusal('outcome_unknown', this.#unknown(filed.outgoing, false));
    // Earlier messages are sent first. If they cannot be sent, this one cannot either.
    const trouble = await this.flush({ before: filed });
    if (trouble) {
      if (filed.state === 'queued') outbox.put(filed, 'queued', trouble.message);
      throw queued(filed.outgoing, trouble.message);
    }
    return this.#forward(filed, true);
  }

  /**
   * Sends the messages in the outbox that are safe to send, oldest first; with `before`, only older ones. Returns the reason if the relay
   * cannot be reached. Throws nothing, because no caller waits for these messages.
   */
  async flush({ before, connectMs }: { before?: Filed; connectMs?: number } = {}): Promise<Refusal | null> {
    const { outbox, http } = this.options;
    if (!outbox || outbox.isEmpty()) return null;
    try {
      await http.reach(connectMs);
      for (const filed of outbox.list()) {
        if (before && filed.outgoing.key === before.outgoing.key) break;
        await this.#forwardIfSafe(filed);
      }
      return null;
    } catch (error) {
      if (error instanceof Refusal) return error;
      throw error;
    }
  }

  /** Sends one message if that is safe. A refused message, or one with an unknown outcome, does not stop the next; an unreachable relay does. */
  async #forwardIfSafe(filed: Filed): Promise<void> {
    try {
      if (await this.#isSafe(filed)) await this.#forward(filed, false);
    } catch (error) {
      if (error instanceof NoRelayAnswer || !(error instanceof Refusal) || error.code === 'busy') throw error;
    }
  }

  /** Sends a message again at its sender's request. */
  async retry(name: string): Promise<Posted> {
    return this.#forward(await this.#named(name), true);
  }

  async drop(name: string): Promise<void> {
    this.options.outbox?.remove(await this.#named(name));
  }

  /** Finds a message by its key or id, or by the beginning of either. */
  async #named(name: string): Promise<Filed> {
    const all = this.options.outbox?.list() ?? [];
    const exact = all.find(({ outgoing }) => outgoing.key === name || outgoing.id === name);
    const [only, ...others] = exact ? [exact] : all.filter(({ outgoing }) => isNamed(outgoing, name));
    if (!only) throw await this.#notHere(name);
    if (others.length > 0)
      throw new Refusal('ambiguous', `"${name}" begins several keys or ids in the outbox; give more of it`);
    if (only.state !== 'sending') return only;
    throw new Refusal('already_claimed', 'a running process is sending it at this moment; see `parley outbox`');
  }

  /** The error for a name that is not in the outbox. It says so if that message was sent meanwhile. */
  async #notHere(name: string): Promise<Refusal> {
    const [sent] = [
      ...this.options.aliases.like(name),
      ...(name === '' ? [] : await this.options.journal.idsLike(name)),
    ];
    const why = sent ? `; it was sent: parley trace ${sent.slice(0, 8)}` : '; see `parley outbox`';
    return new Refusal('not_found', `nothing in the outbox has the key or id "${name}"${why}`);
  }

  /** May this message be sent without asking its sender? */
  async #isSafe({ state }: Filed): Promise<boolean> {
    if (state === 'queued') return true;
    const { abilities } = this.options;
    return state === 'unknown' && (abilities.known()?.keys ?? false) && (await abilities.askNow()).keys;
  }

  /** Claims a message and sends it. `heard`: its sender waits and sees a refusal. */
  async #forward(filed: Filed, heard: boolean): Promise<Posted> {
    const { outbox } = this.options;
    const held = filed.state === 'sending' ? null : outbox?.begin(filed);
    if (!outbox || !held)
      throw new Refusal('already_claimed', 'another process is sending this message at this moment');
    const tried = held.outgoing.tried ?? new Date(this.options.now()).toISOString();
    try {
      const posted = await this.#send(held.outgoing);
      outbox.remove(held);
      return posted;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (neverLeft(error) || (error instanceof Refusal && error.code === 'busy' && !heard)) {
        // If an earlier attempt may have arrived, the message stays unknown although this one did not leave; unless its sender asked for it.
        outbox.put(held, filed.state === 'unknown' && !heard ? 'unknown' : 'queued', why);
        throw heard ? queued(held.outgoing, why) : error;
      }
      if (error instanceof Refusal && error.code === 'outcome_unknown') outbox.put(held, 'unknown', why, tried);
      // Otherwise no sender would learn of the refusal.
      else if (!heard) outbox.put(held, 'refused', why);
      else outbox.remove(held);
      throw error;
    }
  }

  /** Sends a message, again if the answer was lost and the relay supports keys, and records the relay's answer. */
  async #send(outgoing: OutgoingMessage, again = AGAIN): Promise<Posted> {
    const { http, abilities, now } = this.options;
    const began = new Date(now()).toISOString();
    try {
      const { key, tried } = outgoing;
      const headers = {
        'idempotency-key': wireKey(key),
        // Without an outbox nobody has seen our id.
        ...(outgoing.id && this.options.outbox && { 'x-parley-id': outgoing.id }),
        ...(tried && { 'x-parley-first-tried': tried }),
      };
      const { data } = await http.ask('POST', '/v1/send', { body: outgoing.content, headers });
      const message = readMessage(data);
      // An answer with another message means that ours was not stored. The body is empty if the relay has forgotten it since the first try.
      const isOurs = message?.from === outgoing.from && [outgoing.content.body, ''].includes(message.body);
      if (!message || !isOurs)
        throw new NoRelayAnswer('unknown', `the relay ${http.url} answered with something that is not the message`);
      this.#noteAlias(outgoing, message.id);
      return { message, first: await this.#note(outgoing, message) };
    } catch (error) {
      if (!(error instanceof NoRelayAnswer) || error.fate !== 'unknown') throw error;
      // The relay must have supported keys before and still do: another program may answer at this address now.
      const isKeyed = abilities.known()?.keys ?? false;
      if (isKeyed && again > 0) {
        await Bun.sleep(PAUSE_MS);
        const still = await abilities.askNow().catch(() => null);
        if (still?.keys) return this.#send({ ...outgoing, tried: outgoing.tried ?? began }, again - 1);
      }
      throw new Refusal('outcome_unknown', `${error.message}; ${this.#unknown(outgoing, isKeyed)}`);
    }
  }

  /** Records an alias only for an id that the user has seen: that of a message that was queued. */
  #noteAlias({ id, why, tried }: OutgoingMessage, theirs: MessageId): void {
    const wasShown = why !== undefined || tried !== undefined;
    if (id !== undefined && id !== theirs && wasShown) this.options.aliases.note(id, theirs);
  }

  #unknown({ id, key, named }: OutgoingMessage, isKeyed: boolean): string {
    if (!this.options.outbox)
      return 'nobody can tell whether the message was sent: ask its reader before you send it again';
    if (isKeyed)
      return `the message may have arrived: it is sent once more under its key when the relay is back (\`parley outbox\`)`;
    const name = id === undefined || named ? key : shortId(id);
    return `nobody can tell whether the message arrived: ask its reader, then \`parley outbox retry ${name}\` or \`parley outbox drop ${name}\``;
  }

  /** Records the sent message in the local journal, so that it can be looked up. Only the relay knows its recipients. */
  async #note({ key, named, content }: OutgoingMessage, answered: Message): Promise<boolean> {
    // A relay may drop fields that it does not know, but a repeat under the key is compared with what was sent.
    const { body, intent, deadline } = content;
    const parley = Extras.safeParse({ v: 1, ...answered.parley, intent, deadline });
    const isExtended = parley.success && Boolean(intent ?? deadline);
    const message: Message = { ...answered, body, ...(isExtended && { parley: parley.data }) };
    try {
      return (await this.options.journal.accept({ message, copies: [], ...(named && { key }) })).first;
    } catch (error) {
      // The message was sent: a failure of our own record must not look like a failed send.
      if (error instanceof Refusal) return true;
      throw error;
    }
  }
}

function queued({ id, key, named }: OutgoingMessage, why: string): Refusal {
  const name = id === undefined ? key : named ? `${shortId(id)} (key ${key})` : shortId(id);
  return new Refusal(
    'queued',
    `queued as ${name}: ${why}; your next command that reaches the relay sends it (see \`parley outbox\`)`,
  );
}

function isNamed({ key, id }: OutgoingMessage, name: string): boolean {
  return name !== '' && (key.startsWith(name) || id?.startsWith(name) === true);
}

/** A key for a header. A key with other characters is replaced by its hash. */
export function wireKey(key: string): string {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(key)) return key;
  return `sha256-${new Bun.CryptoHasher('sha256').update(key).digest('hex')}`;
}

/** Is this a relay's answer to a route that it does not have? */
export function isNoSuchRoute(error: unknown): boolean {
  return error instanceof RelayRefusal && error.status === 404;
}

/** The message as it is sent. Other relays drop the fields that are ours. */
function outgoingOf(from: AgentName, draft: Draft, written: string): OutgoingMessage {
  const { to, body, priority, scope, thread, refs, intent, deadline, key } = draft;
  const id = newSenderId(from);
  return {
    v: 1,
    key: key ?? (id as string as SendKey),
    id,
    from,
    written,
    content: {
      to,
      body,
      priority,
      ...(scope && { scope }),
      ...(thread && { thread }),
      ...(refs?.length && { refs }),
      ...(intent !== 'none' && { intent }),
      ...(deadline && { deadline }),
    },
    named: key !== undefined,
  };
}
