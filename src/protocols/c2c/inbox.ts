import type { MessageId } from '../../core/names.ts';
import { entryFingerprint, idOf, isEntry, printIn } from './entry.ts';
import type { BrokerEntry } from './entry.ts';
import { keepBroken, readList, replaceDurably, withFloats } from './files.ts';

/** One entry of an inbox, with its exact text. It has either an id or a fingerprint (`print`). */
export interface InboxEntry {
  entry: BrokerEntry;
  text: string;
  id: MessageId | null;
  print: string | null;
}

/** The content of an inbox. */
export interface InboxList {
  entries: InboxEntry[];
  /** What is wrong with the file: it is not a whole JSON array, or has values that are not messages. */
  broken?: string | undefined;
}

export function readInbox(path: string): InboxList {
  const { values, texts, broken } = readList(path);
  const inbox: InboxList = { entries: [], broken };
  const known = new Map<MessageId, BrokerEntry>();
  for (const [at, value] of values.entries()) {
    const found = entriesIn(value);
    if (found.length === 0) inbox.broken ??= 'some of its values are not messages';
    for (const entry of found) {
      const text = entry === value ? (texts[at] ?? '') : withFloats(entry);
      const one = inboxEntry(entry, text, known);
      if (one) inbox.entries.push(one);
    }
  }
  return inbox;
}

/** The entries in a value: the value itself, or the entries in the lists of an object. */
function entriesIn(value: unknown): BrokerEntry[] {
  if (isEntry(value)) return [value];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.values(value).flatMap((list: unknown) => (Array.isArray(list) ? list.filter(isEntry) : []));
}

/** An entry with its id or fingerprint. Null if `known` has the same message. The same id with another text is another message. */
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
 * Finds entries by id. An id that we derived from a fingerprint also matches any entry with that fingerprint, even one that has an id of its
 * own. If the id is held, only the held entry is meant, so no other entry matches.
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

/** The same entry with this id written into its text, so that it cannot be confused with an equal entry. */
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

/** Puts entries that come back before the first younger one. The waiting entries keep their order. */
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
