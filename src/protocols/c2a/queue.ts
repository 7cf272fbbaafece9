import { splitCode } from '../../core/attention/text.ts';
import type { MessageId } from '../../core/names.ts';
import { aGroup, isUnseen, keyOf, lastOf, saidAt } from './item.ts';
import type { Group, Item } from './item.ts';

/** One of several messages that one author writes in a row. */
export interface Fragment {
  at: number;
  text: string;
}

/** The longest time that a text is held while its author goes on writing (ms). */
const LONGEST_HOLD_MS = 30_000;
/** How long a person's text is held in case more follows, unless the settings name another time. */
const PERSON_MS = 2_500;
const UNFINISHED_MS = 4_000;
const FINISHED_MS = 2_000;
/** A sentence this long that ends like one is rarely followed by another at once. */
const LONG_SENTENCE = 40;
const AGENT_MS = 250;

/** How long a text is held before it is shown, because its author may write more. spec: c2a#compose */
export function windowMs(text: string, fromAgent: boolean, personMs = PERSON_MS): number {
  if (fromAgent) return AGENT_MS;
  const end = text.trimEnd();
  if (/(?:[:,…]|\.\.\.)$/.test(end) || isFenceOpen(end)) return Math.max(UNFINISHED_MS, personMs);
  return /[?.!]$/.test(end) && end.length > LONG_SENTENCE ? FINISHED_MS : personMs;
}

/**
 * When the fragments may be shown as one text (ms). They are held while a person types, but at most 30 s after the first fragment.
 * Agents do not type: their fragments are joined only if they arrive within `AGENT_MS`. spec: c2a#compose
 */
export function readyAt(
  fragments: readonly Fragment[],
  fromAgent: boolean,
  typingSince: number | null,
  personMs = PERSON_MS,
): number {
  const first = fragments[0]?.at ?? 0;
  const latest = first + LONGEST_HOLD_MS;
  if (fromAgent) return first + AGENT_MS;
  if (typingSince !== null) return latest;
  const last = fragments.at(-1)?.at ?? first;
  return Math.min(latest, last + windowMs(fragments.map(({ text }) => text).join('\n'), fromAgent, personMs));
}

function isFenceOpen(text: string): boolean {
  // A line of its own behind it is code only if a fence is still open there.
  return splitCode(`${text}\n\u0000`).blocks.at(-1)?.endsWith('\u0000') ?? false;
}

/** How long a knock waits for other knocks, so that several interrupt the model only once. */
const KNOCKS_MS = 5000;
/** A person's group takes no further message this long after its first. For agents the limit is `AGENT_MS`: they write whole texts. */
const MERGE_MS = 30_000;
/** The most messages that one turn shows, however fast they arrived. */
const MOST_MERGED = 50;

/** What a queue needs from outside: the time, since when an author has been typing, and how long a person's text is held. */
export interface Sight {
  now: () => number;
  typingSince: (item: Item) => number | null;
  composeMs?: number | undefined;
}

/** One conversation: the groups that wait, in order, and the group that was sent and is not accepted yet. */
interface ConversationQueue {
  pending: Group[];
  out: Group | null;
}

/**
 * The messages for one session. Each conversation is a queue: its groups are sent in the order of their last message, and a group is
 * sent only after the one ahead of it was accepted. Several messages of one author in a row become one group while they wait. Queues do
 * not wait for each other. A queued message is not claimed: it still waits in its mailbox and can be withdrawn.
 */
export class SessionQueue {
  readonly #queues = new Map<string, ConversationQueue>();
  readonly #known = new Set<string>();

  constructor(readonly sight: Sight) {}

  get size(): number {
    return this.#known.size;
  }

  has(item: Pick<Item, 'who' | 'message'>): boolean {
    return this.hasKey(keyOf(item));
  }

  hasKey(key: string): boolean {
    return this.#known.has(key);
  }

  /** Inserts an item by its number. An edit replaces the message that it edits, if that was not sent yet. */
  add(item: Item): void {
    if (this.has(item)) return;
    const queue = this.#queueOf(item.conversation.id);
    this.#known.add(keyOf(item));
    const old = item.message.parley?.replaces;
    if (old && this.#replaced(queue, old, item)) return;
    const group = queue.pending.find((one) => mayJoin(one, item, this.sight.now()));
    if (group) group.items = [...group.items, item].toSorted((a, b) => a.seq - b.seq);
    else queue.pending.push(aGroup(item));
    queue.pending.sort((a, b) => lastOf(a).seq - lastOf(b).seq);
  }

  /** Puts a group that was sent back into its place, to be sent again. */
  putBack(group: Group): void {
    const queue = this.#queueOf(lastOf(group).conversation.id);
    for (const item of group.items) this.#known.add(keyOf(item));
    if (queue.out === group) queue.out = null;
    if (!queue.pending.includes(group)) queue.pending.unshift(group);
    queue.pending.sort((a, b) => lastOf(a).seq - lastOf(b).seq);
  }

  /** Removes one message that was not sent yet, from whichever queue has it. */
  drop(mailbox: string, id: MessageId): Item | null {
    const is = ({ who, message }: Item): boolean => who.name === mailbox && message.id === id;
    for (const queue of this.#queues.values()) {
      const group = queue.pending.find(({ items }) => items.some(is));
      const item = group?.items.find(is);
      if (!group || !item) continue;
      this.#known.delete(keyOf(item));
      group.items = group.items.filter((one) => one !== item);
      if (group.items.length === 0) queue.pending.splice(queue.pending.indexOf(group), 1);
      this.#deleteIfEmpty(item.conversation.id);
      return item;
    }
    return null;
  }

  /** The groups that can be sent now: heads of their queues whose time has come. */
  due(): Group[] {
    const now = this.sight.now();
    return this.#heads().filter((group) => this.#dueAt(group) <= now);
  }

  /** Can this group still be sent, after others of the same round were? */
  isDue(group: Group): boolean {
    return this.isHead(group) && this.#dueAt(group) <= this.sight.now();
  }

  /** Is this group the next of its queue? */
  isHead(group: Group): boolean {
    const last = group.items.at(-1);
    const queue = last && this.#queues.get(last.conversation.id);
    return queue !== undefined && queue.out === null && queue.pending[0] === group;
  }

  /** Every group whose own time has come, and all groups ahead of it: at a boundary of a turn all of them may be sent. */
  ripe(): Group[] {
    const now = this.sight.now();
    return [...this.#queues.values()].flatMap(({ pending }) => {
      const last = pending.findLastIndex((group) => this.#ownTime(group) <= now);
      return pending.slice(0, last + 1);
    });
  }

  /** When the next head that is not due yet will be due, or null. */
  nextAt(): number | null {
    const now = this.sight.now();
    const times = this.#heads().map((group) => this.#dueAt(group));
    const next = Math.min(...times.filter((time) => time > now));
    return Number.isFinite(next) ? next : null;
  }

  /** Every group that was not sent, each with the groups ahead of it. */
  waiting(): { group: Group; ahead: Group[] }[] {
    return [...this.#queues.values()].flatMap(({ pending }) =>
      pending.map((group, at) => ({ group, ahead: pending.slice(0, at) })),
    );
  }

  /** Knocks that were not sent: they can be sent together with the next event. */
  knocks(): Group[] {
    return this.#heads().filter(({ mode, notBefore }) => mode === 'notify' && notBefore <= this.sight.now());
  }

  /** Marks a group as sent. Its queue waits until `done` or `putBack`. */
  leave(group: Group): void {
    const queue = this.#queueOf(lastOf(group).conversation.id);
    queue.pending.splice(queue.pending.indexOf(group), 1);
    queue.out = group;
  }

  done(group: Group): void {
    for (const item of group.items) this.#known.delete(keyOf(item));
    const id = group.items.at(-1)?.conversation.id;
    // A group whose items were all removed names no conversation: search every queue for it.
    for (const [at, queue] of id === undefined ? this.#queues : [[id, this.#queueOf(id)] as const]) {
      if (queue.out === group) queue.out = null;
      this.#deleteIfEmpty(at);
    }
  }

  /** Deletes a queue that is empty. */
  #deleteIfEmpty(id: string): void {
    const queue = this.#queues.get(id);
    if (queue && queue.out === null && queue.pending.length === 0) this.#queues.delete(id);
  }

  /** Was this group sent, and is it neither done nor put back? */
  isOut(group: Group): boolean {
    return [...this.#queues.values()].some(({ out }) => out === group);
  }

  #replaced(queue: ConversationQueue, old: MessageId, item: Item): boolean {
    for (const group of queue.pending) {
      const at = group.items.findIndex(({ message, who }) => message.id === old && who.name === item.who.name);
      const before = group.items[at];
      if (!before || before.held) continue;
      this.#known.delete(keyOf(before));
      group.items[at] = { ...item, seq: before.seq };
      return true;
    }
    return false;
  }

  #heads(): Group[] {
    return [...this.#queues.values()].flatMap(({ pending: [head], out }) => (head && out === null ? [head] : []));
  }

  /** A group's own time, or that of a group behind it if that is earlier: any group pushes a knock, only an immediate one pushes a message. */
  #dueAt(group: Group): number {
    const { pending } = this.#queueOf(lastOf(group).conversation.id);
    const behind = pending.slice(pending.indexOf(group) + 1);
    const pushing = group.mode === 'buffered' ? behind.filter(({ mode }) => mode === 'immediate') : behind;
    const time = Math.min(this.#ownTime(group), ...pushing.map((one) => this.#ownTime(one)));
    return Math.max(group.notBefore, group.cleared ? 0 : time);
  }

  #ownTime(group: Group): number {
    const now = this.sight.now();
    const fragments = group.items.map((item) => ({ at: saidAt(item, now), text: item.message.body }));
    const { author, held } = lastOf(group);
    if (group.cleared || held || group.mode === 'immediate' || isUnseen(group)) return 0;
    if (group.mode === 'notify') return (fragments[0]?.at ?? now) + KNOCKS_MS;
    return readyAt(fragments, author.kind !== 'human', this.sight.typingSince(lastOf(group)), this.sight.composeMs);
  }

  #queueOf(id: string): ConversationQueue {
    const queue = this.#queues.get(id) ?? { pending: [], out: null };
    this.#queues.set(id, queue);
    return queue;
  }
}

/** Joins only messages of one author to one reader under one policy. A message that blocks others' work is shown by itself. */
function mayJoin(group: Group, item: Item, now: number): boolean {
  const [first] = group.items;
  if (!first || group.mode !== 'buffered' || item.mode !== 'buffered' || group.cleared || group.returns > 0)
    return false;
  return (
    group.items.length < MOST_MERGED &&
    first.author.name === item.author.name &&
    first.who.name === item.who.name &&
    first.conversation.threadId === item.conversation.threadId &&
    // Two people may have several DMs with each other.
    first.message.parley?.conversation === item.message.parley?.conversation &&
    first.attention.policy === item.attention.policy &&
    group.items.every(({ held, message }) => !held && message.parley?.obligation === undefined) &&
    item.message.parley?.obligation === undefined &&
    !item.held &&
    saidAt(item, now) < saidAt(first, now) + (item.author.kind === 'human' ? MERGE_MS : windowMs('', true))
  );
}
