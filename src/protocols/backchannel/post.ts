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

/** How often a message whose answer got lost is sent again at once, to a relay that knows keys. */
const AGAIN = 2;
const PAUSE_MS = 500;

export interface PostOptions {
  http: RelayHttp;
  journal: Journal;
  abilities: KnownAbilities;
  /** Without one nothing waits: what could not be sent is an error, and anyone who sent it tries again. */
  outbox: Outbox | null;
  /** Where it is noted that the relay stored a message under another id than ours. */
  aliases: Aliases;
  now: () => number;
}

/**
 * Messages to a relay. A message is queued → claimed → gone, when the relay has answered; → queued again, if it never left this
 * machine; → unknown, if it may have arrived. Only a relay that knows keys is sent the same message twice without being asked to:
 * it answers a repeat as it answered the first. Killed at any point, the message is still in the outbox.
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
    // What was written before leaves before. If it cannot, this one cannot either.
    const trouble = await this.flush({ before: filed });
    if (trouble) {
      if (filed.state === 'queued') outbox.put(filed, 'queued', trouble.message);
      throw queued(filed.outgoing, trouble.message);
    }
    return this.#forward(filed, true);
  }

  /**
   * Sends what waits in the outbox, as far as that is safe, oldest first; only what is older than `before`, if that is given.
   * Answers with what prevents it, if the relay cannot be reached. Nobody waits for these messages: nothing is thrown.
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

  /** A message that is refused, or whose fate is unknown, does not hold up the next; one that cannot leave does. */
  async #forwardIfSafe(filed: Filed): Promise<void> {
    try {
      if (await this.#isSafe(filed)) await this.#forward(filed, false);
    } catch (error) {
      if (error instanceof NoRelayAnswer || !(error instanceof Refusal) || error.code === 'busy') throw error;
    }
  }

  /** Sends a message once more because its sender says so. */
  async retry(name: string): Promise<Posted> {
    return this.#forward(await this.#named(name), true);
  }

  async drop(name: string): Promise<void> {
    this.options.outbox?.remove(await this.#named(name));
  }

  /** By its key or its id, or the beginning of one of them. */
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

  /** It may have left meanwhile, under its id or another. */
  async #notHere(name: string): Promise<Refusal> {
    const [sent] = [
      ...this.options.aliases.like(name),
      ...(name === '' ? [] : await this.options.journal.idsLike(name)),
    ];
    const why = sent ? `; it was sent: parley trace ${sent.slice(0, 8)}` : '; see `parley outbox`';
    return new Refusal('not_found', `nothing in the outbox has the key or id "${name}"${why}`);
  }

  /** May this message be sent without asking anybody? */
  async #isSafe({ state }: Filed): Promise<boolean> {
    if (state === 'queued') return true;
    const { abilities } = this.options;
    return state === 'unknown' && (abilities.known()?.keys ?? false) && (await abilities.askNow()).keys;
  }

  /** Claims a message and sends it. `heard`: its sender is there to hear a no. */
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
        // What may have arrived before is not safe only because it did not leave now; unless its sender wants it again.
        outbox.put(held, filed.state === 'unknown' && !heard ? 'unknown' : 'queued', why);
        throw heard ? queued(held.outgoing, why) : error;
      }
      if (error instanceof Refusal && error.code === 'outcome_unknown') outbox.put(held, 'unknown', why, tried);
      // Nobody would ever hear of it otherwise.
      else if (!heard) outbox.put(held, 'refused', why);
      else outbox.remove(held);
      throw error;
    }
  }

  /** Sends a message, again if its answer got lost and the relay knows keys, and notes what the relay made of it. */
  async #send(outgoing: OutgoingMessage, again = AGAIN): Promise<Posted> {
    const { http, abilities, now } = this.options;
    const began = new Date(now()).toISOString();
    try {
      const { key, tried } = outgoing;
      const headers = {
        'idempotency-key': wireKey(key),
        // Without an outbox nobody has seen it.
        ...(outgoing.id && this.options.outbox && { 'x-parley-id': outgoing.id }),
        ...(tried && { 'x-parley-first-tried': tried }),
      };
      const { data } = await http.ask('POST', '/v1/send', { body: outgoing.content, headers });
      const message = readMessage(data);
      // Anyone who answers with another's words has not taken ours. A body that was forgotten since the first try is empty.
      const isOurs = message?.from === outgoing.from && [outgoing.content.body, ''].includes(message.body);
      if (!message || !isOurs)
        throw new NoRelayAnswer('unknown', `the relay ${http.url} answered with something that is not the message`);
      this.#noteAlias(outgoing, message.id);
      return { message, first: await this.#note(outgoing, message) };
    } catch (error) {
      if (!(error instanceof NoRelayAnswer) || error.fate !== 'unknown') throw error;
      // It must have known keys before, and still know them: at the same address another program may answer by now.
      const isKeyed = abilities.known()?.keys ?? false;
      if (isKeyed && again > 0) {
        await Bun.sleep(PAUSE_MS);
        const still = await abilities.askNow().catch(() => null);
        if (still?.keys) return this.#send({ ...outgoing, tried: outgoing.tried ?? began }, again - 1);
      }
      throw new Refusal('outcome_unknown', `${error.message}; ${this.#unknown(outgoing, isKeyed)}`);
    }
  }

  /** Only an id that was shown: of a message that could not leave at once. */
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

  /** What passed through here can be looked up here. Who got it is the relay's to know. */
  async #note({ key, named, content }: OutgoingMessage, answered: Message): Promise<boolean> {
    // A relay may drop what it does not know; a repeat under the key is compared with what was said.
    const { body, intent, deadline } = content;
    const parley = Extras.safeParse({ v: 1, ...answered.parley, intent, deadline });
    const isExtended = parley.success && Boolean(intent ?? deadline);
    const message: Message = { ...answered, body, ...(isExtended && { parley: parley.data }) };
    try {
      return (await this.options.journal.accept({ message, copies: [], ...(named && { key }) })).first;
    } catch (error) {
      // It was sent: that our own memory of it failed is not its sender's trouble.
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

/** A key as it may be in a header: one of other characters is replaced by its fingerprint. */
export function wireKey(key: string): string {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(key)) return key;
  return `sha256-${new Bun.CryptoHasher('sha256').update(key).digest('hex')}`;
}

/** A relay's "no" to something that it does not know at all. */
export function isNoSuchRoute(error: unknown): boolean {
  return error instanceof RelayRefusal && error.status === 404;
}

/** Our own fields are dropped by relays that do not know them. */
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
