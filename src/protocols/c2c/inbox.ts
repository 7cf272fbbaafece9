import type { MessageId } from '../../core/names.ts';
import { entryFingerprint, idOf, isEntry, printIn } from './entry.ts';
import type { BrokerEntry } from './entry.ts';
import { keepBroken, readList, replaceDurably, withFloats } from './files.ts';

/** One entry of an inbox, with its text as it is there. It has its own id, or else a fingerprint. */
export interface InboxEntry {
  entry: BrokerEntry;
  text: string;
  id: MessageId | null;
  print: string | null;
}

/** What an inbox holds. */
export interface InboxList {
  entries: InboxEntry[];
  /** It is no whole array, or some of it are no messages. */
  broken?: string | undefined;
}

export function readInbox(path: string): InboxList {
  const { values, texts, broken } = readList(path);
  const inbox: InboxList = { entries: [], broken };
  const known = new Map<MessageId, BrokerEntry>();
  for (const [at, value] of values.entries()) {
    const found = entriesIn(value);
    if (found.length === 0) inbox.broken ??= 'not all of it are messages';
    for (const entry of found) {
      const text = entry === value ? (texts[at] ?? '') : withFloats(entry);
      const one = inboxEntry(entry, text, known);
      if (one) inbox.entries.push(one);
    }
  }
  return inbox;
}

/** A value is an entry, or an object in the place of the list that has entries in a list of its own. */
function entriesIn(value: unknown): BrokerEntry[] {
  if (isEntry(value)) return [value];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.values(value).flatMap((list: unknown) => (Array.isArray(list) ? list.filter(isEntry) : []));
}

/** Null if the same message was read before (`known`). The same id with other words is another message. */
export function inboxEntry(
  entry: BrokerEntry,
  text: string,
  known = new Map<MessageId, BrokerEntry>(),
): InboxEntry | null {
  const id = idOf(entry);
  const other = id && known.get(id);
  if (other && other.content === entry.content && other.from_alias === entry.from_alias) return null;
  if (!id || other) return { entry, text, id: null, print: entryFingerprint(entry) };
  known.set(id, entry);
  return { entry, text, id, print: null };
}

/**
 * Finds entries by id. An id that we made means any entry alike, unless that id is held: then it means the held one. An entry that
 * carries an id of other words is found by its own words too.
 */
export function pick(
  entries: readonly InboxEntry[],
  ids: Iterable<MessageId>,
  held: ReadonlyMap<MessageId, unknown>,
): Map<MessageId, InboxEntry> {
  const byName = Map.groupBy(entries, ({ id, print }) => id ?? print ?? '');
  const alike = (print: string | undefined): InboxEntry | undefined =>
    print === undefined
      ? undefined
      : (byName.get(print)?.shift() ??
        entries.find(({ id, entry }) => id !== null && entryFingerprint(entry) === print));
  const picked = new Map<MessageId, InboxEntry>();
  for (const id of ids) {
    const found = byName.get(id)?.shift() ?? (held.has(id) ? undefined : alike(printIn(id)));
    if (found) picked.set(id, found);
  }
  return picked;
}

/** The same entry with its id written into it: it cannot be taken for another one that is alike. */
export function withId(one: InboxEntry, id: MessageId): InboxEntry {
  if (one.id === id) return one;
  const entry = { ...one.entry, message_id: id };
  const isPlain = !Object.hasOwn(one.entry, 'message_id') && one.text.endsWith('}');
  const text = isPlain ? `${one.text.slice(0, -1)},"message_id":"${id}"}` : withFloats(entry);
  return { entry, text, id, print: null };
}

/** Writes an inbox. If it was broken, a copy is kept first. The caller holds its lock and flushes the folder, if at all. */
export function writeInbox(
  root: string,
  path: string,
  entries: readonly Pick<InboxEntry, 'text'>[],
  broken: string | undefined,
): void {
  if (broken !== undefined) keepBroken(root, path, broken);
  replaceDurably(path, `[${entries.map(({ text }) => text).join(',')}]`, false);
}

/** An entry that comes back goes before the first younger one; the others keep the order in which they arrived. */
export function merged(back: readonly InboxEntry[], waiting: readonly InboxEntry[]): InboxEntry[] {
  const rest = back.toSorted((a, b) => timeOf(a) - timeOf(b));
  const all: InboxEntry[] = [];
  for (const one of waiting) {
    while (rest[0] && timeOf(rest[0]) <= timeOf(one)) all.push(...rest.splice(0, 1));
    all.push(one);
  }
  return [...all, ...rest];
}

function timeOf({ entry }: InboxEntry): number {
  return typeof entry.ts === 'number' ? entry.ts : 0;
}
