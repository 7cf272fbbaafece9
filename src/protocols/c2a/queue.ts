import { splitCode } from '../../core/attention/text.ts';
import type { MessageId } from '../../core/names.ts';
import { aGroup, isUnseen, keyOf, lastOf, saidAt } from './item.ts';
import type { Group, Item } from './item.ts';

/** One of several messages that somebody writes in a row. */
export interface Fragment {
  at: number;
  text: string;
}

/** Nobody writes forever: what began this long ago is shown as it is. */
const MOST_MS = 30_000;
/** What a person's text waits for more, unless the settings say another time. */
const PERSON_MS = 2_500;
const UNFINISHED_MS = 4_000;
const FINISHED_MS = 2_000;
/** A sentence this long that ends like one is rarely followed by another at once. */
const LONG = 40;
const AGENT_MS = 250;

/** How long to wait after a text before it is shown: somebody may not be done yet. spec: c2a#compose */
export function windowMs(text: string, fromAgent: boolean, personMs = PERSON_MS): number {
  if (fromAgent) return AGENT_MS;
  const end = text.trimEnd();
  if (/(?:[:,…]|\.\.\.)$/.test(end) || isFenceOpen(end)) return Math.max(UNFINISHED_MS, personMs);
  return /[?.!]$/.test(end) && end.length > LONG ? FINISHED_MS : personMs;
}

/**
 * When what somebody wrote may be shown, as one text (ms). While they type it is held, but never for more than 30 s after the
 * first. Agents do not type: what they say within a moment is joined, and that is all. spec: c2a#compose
 */
export function readyAt(
  fragments: readonly Fragment[],
  fromAgent: boolean,
  typingSince: number | null,
  personMs = PERSON_MS,
): number {
  const first = fragments[0]?.at ?? 0;
  const latest = first + MOST_MS;
  if (fromAgent) return first + AGENT_MS;
  if (typingSince !== null) return latest;
  const last = fragments.at(-1)?.at ?? first;
  return Math.min(latest, last + windowMs(fragments.map(({ text }) => text).join('\n'), fromAgent, personMs));
}

function isFenceOpen(text: string): boolean {
  // A line of its own behind it is code only if a fence is still open there.
  return splitCode(`${text}\n\u0000`).blocks.at(-1)?.endsWith('\u0000') ?? false;
}

/** How long knocks wait for others, so that many are one disturbance. */
const KNOCKS_MS = 5000;
/** What a person began this long ago takes in nothing more. Agents write whole texts: only what comes at once is joined. */
const MERGE_MS = 30_000;
/** More than these are not one turn, however fast they came. */
const MERGE_MOST = 50;

/** What a queue asks of the world: the time, since when somebody types in a conversation, and how long a person's text waits for more. */
export interface Sight {
  now: () => number;
  typingSince: (item: Item) => number | null;
  composeMs?: number | undefined;
}

/** One conversation: what is to go out, in order, and what is out and not accepted yet. */
interface ConversationQueue {
  pending: Group[];
  out: Group | null;
}

/**
 * What is on its way to one session. Each conversation is a queue: its groups go out in the order of their last message, and none before
 * the one ahead of it was accepted. Several messages of one author in a row become one group while they wait. Queues do not wait for
 * each other. Nothing here is held yet: it is still where it waits, and can be taken back.
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

  /** Puts it in its place. An edit of something that has not gone out yet takes that one's place. */
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

  /** Puts a group back into its place: it was out, and comes again. */
  putBack(group: Group): void {
    const queue = this.#queueOf(lastOf(group).conversation.id);
    for (const item of group.items) this.#known.add(keyOf(item));
    if (queue.out === group) queue.out = null;
    if (!queue.pending.includes(group)) queue.pending.unshift(group);
    queue.pending.sort((a, b) => lastOf(a).seq - lastOf(b).seq);
  }

  /** Takes a message out of what has not gone out yet, wherever it is. */
  drop(mailbox: string, id: MessageId): Item | null {
    const is = ({ who, message }: Item): boolean => who.name === mailbox && message.id === id;
    for (const queue of this.#queues.values()) {
      const group = queue.pending.find(({ items }) => items.some(is));
      const item = group?.items.find(is);
      if (!group || !item) continue;
      this.#known.delete(keyOf(item));
      group.items = group.items.filter((one) => one !== item);
      if (group.items.length === 0) queue.pending.splice(queue.pending.indexOf(group), 1);
      this.#close(item.conversation.id);
      return item;
    }
    return null;
  }

  /** What can go out now: heads of their queues whose time has come. */
  due(): Group[] {
    const now = this.sight.now();
    return this.#heads().filter((group) => this.#dueAt(group) <= now);
  }

  /** Can it still go out now, after others have? */
  isDue(group: Group): boolean {
    return this.isHead(group) && this.#dueAt(group) <= this.sight.now();
  }

  /** Is it the next of its queue? */
  isHead(group: Group): boolean {
    const last = group.items.at(-1);
    const queue = last && this.#queues.get(last.conversation.id);
    return queue !== undefined && queue.out === null && queue.pending[0] === group;
  }

  /** Everything whose own time has come, also behind others: a boundary lets all of it go. */
  ripe(): Group[] {
    const now = this.sight.now();
    return [...this.#queues.values()].flatMap(({ pending }) => {
      const last = pending.findLastIndex((group) => this.#ownTime(group) <= now);
      return pending.slice(0, last + 1);
    });
  }

  /** When a head will be due that is not yet, or null. */
  nextAt(): number | null {
    const now = this.sight.now();
    const times = this.#heads().map((group) => this.#dueAt(group));
    const next = Math.min(...times.filter((time) => time > now));
    return Number.isFinite(next) ? next : null;
  }

  /** Everything that has not gone out, each with what goes out before it. */
  waiting(): { group: Group; ahead: Group[] }[] {
    return [...this.#queues.values()].flatMap(({ pending }) =>
      pending.map((group, at) => ({ group, ahead: pending.slice(0, at) })),
    );
  }

  /** Knocks that have not gone out: they can ride with the next event. */
  knocks(): Group[] {
    return this.#heads().filter(({ mode, notBefore }) => mode === 'notify' && notBefore <= this.sight.now());
  }

  /** It leaves now; its queue waits until it is `done` or `putBack`. */
  leave(group: Group): void {
    const queue = this.#queueOf(lastOf(group).conversation.id);
    queue.pending.splice(queue.pending.indexOf(group), 1);
    queue.out = group;
  }

  done(group: Group): void {
    for (const item of group.items) this.#known.delete(keyOf(item));
    const id = group.items.at(-1)?.conversation.id;
    // Whatever was taken out of it, its queue is the one in which it is out.
    for (const [at, queue] of id === undefined ? this.#queues : [[id, this.#queueOf(id)] as const]) {
      if (queue.out === group) queue.out = null;
      this.#close(at);
    }
  }

  /** A queue in which nothing is any more. */
  #close(id: string): void {
    const queue = this.#queues.get(id);
    if (queue && queue.out === null && queue.pending.length === 0) this.#queues.delete(id);
  }

  /** Has it left, and is not done? */
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

  /** Its own time; but a knock goes when something behind it goes, and everything when something behind it cannot wait. */
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

/** Only what one author writes to one reader in a row, under one rule. What blocks the work of others is shown by itself. */
function mayJoin(group: Group, item: Item, now: number): boolean {
  const [first] = group.items;
  if (!first || group.mode !== 'buffered' || item.mode !== 'buffered' || group.cleared || group.returns > 0)
    return false;
  return (
    group.items.length < MERGE_MOST &&
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
