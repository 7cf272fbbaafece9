import { quieter } from '../../core/attention/decide.ts';
import { readMessage } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { WaitingCopy, CopyRecord } from '../../core/ports/journal.ts';
import type { Who } from '../../core/mail/workspace.ts';
import type { HostContext } from './context.ts';
import { isUnseen, keyOf, placeOf } from './item.ts';
import type { Item } from './item.ts';
import type { HostSession } from './session.ts';
import { isQuiet } from '../../core/attention/attention.ts';
import type { Policy } from '../../core/attention/attention.ts';
import { endObligation } from '../../core/obligations/obligation.ts';
import { HOLD_MS } from './context.ts';

const PAGE = 64;
/** A released or raised copy keeps its old number. The session looks for such copies this often, even if nothing rings. */
const OLD_MS = 30_000;
/** Looking for old copies takes at most 1/n of the time: a mailbox may have thousands waiting. */
const OLD_SHARE = 20;
/** The most unknown copies that one look reads from the journal. */
const MOST_UNKNOWN = 200;

/** Finds the mail that waits for a session, in the order of arrival, and adds it to the session's queue. Claims nothing. */
export class MailScan {
  /** For each mailbox, the number up to which every copy was seen. */
  readonly #seen = new Map<AgentName, number>();
  /** Waiting copies that this session does not take now. */
  readonly #passed = new Set<string>();
  #rung = true;
  #oldAt = -Infinity;
  #oldNotBefore = -Infinity;

  constructor(
    readonly context: HostContext,
    readonly session: HostSession,
    /** Called when an edit of this message arrived. */
    readonly onReplaced: (who: Who, id: MessageId, by: MessageId) => Promise<void>,
  ) {}

  /** Makes the next look start from the beginning. */
  again(): void {
    this.#seen.clear();
    this.#passed.clear();
    this.#rung = true;
    this.#oldAt = -Infinity;
    this.#oldNotBefore = -Infinity;
  }

  get nextAt(): number {
    return Math.max(this.#rung ? -Infinity : this.#oldAt + OLD_MS, this.#oldNotBefore);
  }

  /** `rung`: a copy arrived or was released. */
  async look(rung: boolean): Promise<void> {
    const now = this.context.deps.now();
    this.#rung ||= rung || now >= this.#oldAt + OLD_MS;
    for (const who of this.session.whos) await this.#lookForNew(who);
    if (!this.#rung || now < this.#oldNotBefore) return;
    this.#rung = false;
    if (now >= this.#oldAt + OLD_MS) this.#passed.clear();
    this.#oldAt = now;
    for (const who of this.session.whos) await this.#lookForOld(who);
    const after = this.context.deps.now();
    this.#oldNotBefore = after + (after - now) * OLD_SHARE;
  }

  /** Looks for copies with a higher number than every copy seen. If nothing arrived, this is one query, however much waits. */
  async #lookForNew(who: Who): Promise<void> {
    const { journal } = who.home;
    const newest = await journal.newest();
    while ((this.#seen.get(who.name) ?? 0) < newest && this.#hasRoom) {
      const only = this.session.link?.wantsAll ? undefined : 'loud';
      const page = await journal.waitingCopies(who.name, this.#seen.get(who.name) ?? 0, PAGE, only);
      for (const waiting of page) {
        // The rest stays in the mailbox, and is found when there is room.
        if (!this.#hasRoom) return;
        await this.#enqueue(who, waiting);
        this.#seen.set(who.name, waiting.seq);
      }
      if (page.length < PAGE) this.#seen.set(who.name, Math.max(newest, this.#seen.get(who.name) ?? 0));
    }
  }

  /** Looks for waiting copies with an old number, and for files of other programs. Skips quiet mail, unless the session wants all. */
  async #lookForOld(who: Who): Promise<void> {
    const { journal, mailboxes } = who.home;
    let asked = 0;
    for (const id of await mailboxes.ids(who.name, !this.session.link?.wantsAll)) {
      const key = `${id}:${who.name}`;
      if (this.#passed.has(key) || this.session.queue.hasKey(key) || !this.#hasRoom) continue;
      asked += 1;
      // The next look reads the rest.
      if (asked > MOST_UNKNOWN) return void (this.#rung = true);
      const waiting = await journal.waitingCopy(who.name, id);
      if (waiting && waiting.seq <= (this.#seen.get(who.name) ?? 0)) await this.#enqueue(who, waiting);
      if (waiting && !this.session.queue.hasKey(key)) this.#passed.add(key);
      if (waiting || (await journal.copy(who.name, id))) continue;
      this.#passed.add(key);
      if ((await mailboxes.adopt(who.name)) > 0) return this.#lookForNew(who);
    }
  }

  get #hasRoom(): boolean {
    return this.session.inHand < this.context.limits.inHand;
  }

  async #enqueue(who: Who, { id, seq, text, attention, quiet }: WaitingCopy): Promise<void> {
    const { link } = this.session;
    this.#passed.delete(`${id}:${who.name}`);
    if (!link || (quiet && !link.wantsAll)) return;
    const message = readMessage(JSON.parse(text));
    if (!message || this.session.queue.has({ who, message })) return;
    const mode = quieter(attention.injection, link.capabilities.injection);
    // The digest brings these.
    if (mode === 'digest' || (isUnseen({ mode }) && !link.wantsAll)) return;
    if (await isShownByDuplicate(this.session, who, { id, attention })) return;
    const item = await this.#itemFrom(who, message, { seq, mode, attention });
    const old = message.parley?.replaces;
    this.session.queue.add(item);
    if (old) await this.onReplaced(who, old, message.id);
    this.session.open.delete(keyOf(item));
  }

  async #itemFrom(who: Who, message: Message, fields: Pick<Item, 'seq' | 'mode' | 'attention'>): Promise<Item> {
    const author = await this.context.people.person(message.from);
    const conversation = placeOf(message, who);
    return { who, message, author, conversation, attempts: 0, held: false, ...fields };
  }
}

/** Policies, the most demanding first. */
const ORDER: readonly Policy[] = ['must_respond', 'may_respond', 'ack_only', 'must_not_respond'];

/**
 * Does another mailbox of this session show the same message instead? It does if its copy has the more demanding policy, or the same one
 * and its mailbox comes first.
 */
export async function isShownByDuplicate(
  session: HostSession,
  who: Who,
  copy: Pick<CopyRecord, 'id' | 'attention'>,
): Promise<boolean> {
  if (session.whos.length < 2) return false;
  const mine = session.whos.findIndex(({ name }) => name === who.name);
  for (const [at, duplicate] of (await duplicatesOf(session, who, copy.id)).entries()) {
    const isShown =
      duplicate &&
      (!isQuiet(duplicate.attention) || (session.link?.wantsAll && duplicate.attention.injection !== 'digest'));
    if (!isShown) continue;
    const more = asksMore(duplicate, copy);
    if (more > 0 || (more === 0 && at < mine)) return true;
  }
  return false;
}

/** Settles the copies of a shown message in the session's other mailboxes, except copies with a more demanding policy. */
export async function endDuplicates(session: HostSession, item: Item): Promise<void> {
  const { who, message } = item;
  if (session.whos.length < 2) return;
  const by = { way: 'host', session: session.id, told: who.name };
  for (const [at, duplicate] of (await duplicatesOf(session, who, message.id)).entries()) {
    const other = session.whos[at];
    if (!duplicate || !other || asksMore(duplicate, item) > 0) continue;
    const { name, home } = other;
    const lease = { ms: HOLD_MS, bearer: session.holder };
    const claim = await home.mailboxes.claim(name, [message.id], lease);
    if (!(await home.mailboxes.settle(claim, [message.id], { disposition: 'superseded', by }))) continue;
    await endObligation(home, name, message.id, 'superseded', by, session.context.deps.now());
  }
}

/** More than 0 if the first has the more demanding policy. */
function asksMore(one: Pick<CopyRecord, 'attention'>, other: Pick<CopyRecord, 'attention'>): number {
  return ORDER.indexOf(other.attention.policy) - ORDER.indexOf(one.attention.policy);
}

/** The open copies in the session's other mailboxes, one entry per mailbox, in their order. */
async function duplicatesOf(session: HostSession, who: Who, id: MessageId): Promise<(CopyRecord | null)[]> {
  const duplicates: (CopyRecord | null)[] = [];
  for (const { name, home } of session.whos) {
    const copy = name === who.name || home !== who.home ? null : await home.journal.copy(name, id);
    const isOpen = copy?.state === 'stored' || copy?.owner === session.owner;
    duplicates.push(copy && isOpen ? copy : null);
  }
  return duplicates;
}
