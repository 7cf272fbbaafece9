import type { BrokerEntry } from '../../protocol/c2c.ts';
import type { MessageId } from '../../protocol/names.ts';
import { stampOf } from '../file-stamp.ts';
import { fingerprint, isEntry, printIn, saidId } from './entry.ts';
import { withFloats } from './files-list.ts';
import { elements } from './json-array.ts';
import { keepBroken, listIn, readBytes, replaceFile } from './state-file.ts';

/** One entry of an inbox, with its text as it stands there. It says its own id, or else has a fingerprint. */
export interface Slip {
  entry: BrokerEntry;
  text: string;
  id: MessageId | null;
  print: string | null;
}

/** What an inbox holds. */
export interface InboxFile {
  slips: Slip[];
  /** What is wrong with it: it is no whole array, or some of it are no messages. */
  broken?: string | undefined;
}

export function readInbox(path: string): InboxFile {
  const bytes = readBytes(path);
  if (bytes === null) return { slips: [] };
  const { values, texts, broken } = listIn(bytes);
  const inbox: InboxFile = { slips: [], broken };
  const said = new Map<MessageId, BrokerEntry>();
  for (const [at, value] of values.entries()) {
    const found = entriesIn(value);
    if (found.length === 0) inbox.broken ??= 'not all of it are messages';
    for (const entry of found) {
      const text = entry === value ? (texts[at] ?? '') : withFloats(entry);
      const slip = slipOf(entry, text, said);
      if (slip) inbox.slips.push(slip);
    }
  }
  return inbox;
}

/** A value is an entry, or an object that somebody put in the place of the list and that has entries in a list of its own. */
function entriesIn(value: unknown): BrokerEntry[] {
  if (isEntry(value)) return [value];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.values(value).flatMap((list: unknown) => (Array.isArray(list) ? list.filter(isEntry) : []));
}

export function slipOf(entry: BrokerEntry, text: string, said = new Map<MessageId, BrokerEntry>()): Slip | null {
  const id = saidId(entry);
  const twin = id && said.get(id);
  // The same id with other words is another message, whoever wrote it there; with the same words it is the same.
  if (twin && twin.content === entry.content && twin.from_alias === entry.from_alias) return null;
  if (id && !twin) said.set(id, entry);
  return id && !twin ? { entry, text, id, print: null } : { entry, text, id: null, print: fingerprint(entry) };
}

/**
 * Finds entries by id. Of those without one, any that is alike, unless that id is in a hand: then it means the one there. An entry that
 * says an id of other words is found by its own words too.
 */
export function pick(
  slips: readonly Slip[],
  ids: Iterable<MessageId>,
  inHand: ReadonlyMap<MessageId, unknown>,
): Map<MessageId, Slip> {
  const byName = Map.groupBy(slips, ({ id, print }) => id ?? print ?? '');
  const alike = (print: string | undefined): Slip | undefined =>
    print === undefined
      ? undefined
      : (byName.get(print)?.shift() ?? slips.find(({ id, entry }) => id !== null && fingerprint(entry) === print));
  const picked = new Map<MessageId, Slip>();
  for (const id of ids) {
    const slip = byName.get(id)?.shift() ?? (inHand.has(id) ? undefined : alike(printIn(id)));
    if (slip) picked.set(id, slip);
  }
  return picked;
}

/** The same entry, which says its id from now on: so it cannot be taken for another one that is alike. */
export function named(slip: Slip, id: MessageId): Slip {
  if (slip.id === id) return slip;
  const entry = { ...slip.entry, message_id: id };
  const isPlain = !Object.hasOwn(slip.entry, 'message_id') && slip.text.endsWith('}');
  const text = isPlain ? `${slip.text.slice(0, -1)},"message_id":"${id}"}` : withFloats(entry);
  return { entry, text, id, print: null };
}

/** Writes an inbox anew. If what stands there is broken, a copy is kept first. The caller holds its lock. */
export function writeInbox(
  root: string,
  path: string,
  slips: readonly Pick<Slip, 'text'>[],
  before: InboxFile,
  andFolder: boolean,
): void {
  if (before.broken !== undefined) keepBroken(root, path, before.broken);
  replaceFile(path, `[${slips.map(({ text }) => text).join(',')}]`, andFolder);
}

/**
 * Adds entries at the end. What stands before them is not changed if the list is in order: ten thousand waiting messages are
 * copied as they are. What is there already is not added. The caller holds the lock.
 */
export function appendToInbox(root: string, path: string, added: readonly { id: MessageId; text: string }[]): void {
  const bytes = readBytes(path);
  const end = bytes === null ? -1 : endOfList(bytes);
  const canGoOn =
    bytes !== null && end !== -1 && ((inOrder.has(path) && inOrder.get(path) === stampOf(path)) || isInOrder(bytes));
  if (canGoOn && added.every(({ id }) => !bytes.includes(`"${id}"`))) {
    const tail = Buffer.from(`,${added.map(({ text }) => text).join(',')}]`);
    replaceFile(path, [bytes.subarray(0, end), tail], false);
    inOrder.clear();
    inOrder.set(path, stampOf(path));
    return;
  }
  const inbox = readInbox(path);
  const there = new Set(inbox.slips.map(({ id }) => id));
  const missing = added.filter(({ id }) => !there.has(id));
  if (missing.length === 0) return;
  writeInbox(root, path, [...inbox.slips, ...missing], inbox, false);
}

const [OPEN, CLOSE, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7d];

/** The inbox that this process last added to, as it left it: then nobody need look whether it is in order. */
const inOrder = new Map<string, string>();

/** A list of objects with nothing before, between or behind them. */
function isInOrder(bytes: Buffer): boolean {
  // All that matters here is ASCII.
  const text = bytes.toString('latin1');
  if (isListOfObjects(text)) return true;
  // What is no JSON may still be a list whose parts can be told apart: those before ours are not our affair.
  const { texts, whole } = elements(text);
  return whole && texts.every((one) => one.startsWith('{') && one.endsWith('}'));
}

/** The runtime's own parser is faster than a search for the ends of objects. */
function isListOfObjects(text: string): boolean {
  try {
    const values: unknown = JSON.parse(text);
    return (
      Array.isArray(values) && values.every((one) => typeof one === 'object' && one !== null && !Array.isArray(one))
    );
  } catch {
    return false;
  }
}

/** Where the last bracket of a list that ends in an object stands; -1 if it looks otherwise. */
function endOfList(bytes: Buffer): number {
  let first = 0;
  while (isBlank(bytes[first])) first += 1;
  let end = bytes.length - 1;
  while (isBlank(bytes[end])) end -= 1;
  let last = end - 1;
  while (isBlank(bytes[last])) last -= 1;
  return bytes[first] === OPEN && bytes[end] === CLOSE && bytes[last] === CLOSE_OBJECT && last > first ? end : -1;
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
