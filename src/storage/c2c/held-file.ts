import { existsSync, unlinkSync } from 'node:fs';
import type { BrokerEntry } from '../../protocol/c2c.ts';
import type { MessageId } from '../../protocol/names.ts';
import { isMessageId } from '../../protocol/names.ts';
import { ifThere } from '../disk.ts';
import { isEntry } from './entry.ts';
import { readBytes, replaceFile } from './state-file.ts';

/** An entry that is in somebody's hand, with its text as it stood in the inbox. */
export interface Held {
  entry: BrokerEntry;
  text: string;
}

/** What readers have in hand of one mailbox. No other program knows of this file. */
export function readHeld(path: string): Map<MessageId, Held> {
  const held = new Map<MessageId, Held>();
  const bytes = readBytes(path);
  // One line for each: its id, a tab, its text. A line break can stand only between the words of JSON, never in one.
  for (const line of bytes?.toString('utf8').split('\n') ?? []) {
    const tab = line.indexOf('\t');
    const id = line.slice(0, tab);
    const text = line.slice(tab + 1);
    const entry = tab > 0 ? parsed(text) : null;
    if (isMessageId(id) && isEntry(entry)) held.set(id, { entry, text });
  }
  return held;
}

/** Those of these ids that are in no hand. Nothing is parsed: an id between a line break and a tab can only be one of a line. */
export function withoutHeld<T extends { id: MessageId }>(path: string, added: readonly T[]): T[] {
  // Nearly always nobody holds anything, and then there is no file.
  const bytes = existsSync(path) ? readBytes(path) : null;
  return added.filter(({ id }) => bytes?.indexOf(`${id}\t`) !== 0 && !bytes?.includes(`\n${id}\t`));
}

/** On disk when it returns: only then may the inbox lose what is here. The caller holds the lock. An empty hand has no file. */
export function writeHeld(path: string, held: ReadonlyMap<MessageId, Held>): void {
  if (held.size === 0) ifThere(() => unlinkSync(path));
  else replaceFile(path, [...held].map(([id, { text }]) => `${id}\t${text.replaceAll(/[\r\n]/g, ' ')}\n`).join(''));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
