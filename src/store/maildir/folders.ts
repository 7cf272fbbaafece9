import { byTime } from '../../core/message.ts';
import {
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { isMessageId } from '../../core/names.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { codeOf, isMissing } from '../../core/disk.ts';
import { flush } from '../../platform/files.ts';
import type { WaitingMessage } from '../../core/ports/mailboxes.ts';

/**
 * The folders of a mailbox. `tmp`, `new` and `cur` are Backchannel's; `quiet` holds waiting copies that wake nobody, and
 * `held` the copies held by a reader. Other programs look at neither.
 */
export type Folder = 'tmp' | 'new' | 'quiet' | 'held' | 'cur';
/** In the order in which they are made: if the last one exists, all do. */
export const FOLDERS: readonly Folder[] = ['tmp', 'new', 'cur', 'quiet', 'held'];

/** Where the files of one home's spool are, and how they come there. Synchronous throughout: promise calls are about ten times slower. */
export class MaildirPlaces {
  constructor(readonly root: string) {}

  folder(mailbox: AgentName, folder: Folder): string {
    return `${this.root}/spool/${mailbox}/${folder}`;
  }

  path(mailbox: AgentName, folder: Folder, id: MessageId): string {
    return `${this.folder(mailbox, folder)}/${id}.json`;
  }

  make(mailbox: AgentName): void {
    if (existsSync(this.folder(mailbox, 'held'))) return;
    const made = FOLDERS.map((name) => mkdirSync(this.folder(mailbox, name), { recursive: true, mode: 0o700 }));
    // A flushed message in a folder that a power cut forgets would be lost.
    if (made.some(Boolean)) {
      for (const above of [`/spool/${mailbox}`, '/spool', '']) this.flushFolder(this.root + above);
    }
  }

  /** Writes a new file and flushes it. What a dead sender left under this name gives way. */
  write(path: string, text: string): void {
    const fd = inPlaceOf(path, () => openSync(path, 'wx', 0o600));
    try {
      const bytes = new TextEncoder().encode(text);
      // One call may write only a part, and on a nearly full disk it does so without an error.
      for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
      flush(fd);
    } finally {
      closeSync(fd);
    }
  }

  link(from: string, to: string): void {
    inPlaceOf(to, () => linkSync(from, to));
  }

  /** True if this call moved it; false if it was not there. */
  move(from: string, to: string): boolean {
    return unlessMissing(() => renameSync(from, to));
  }

  delete(path: string): boolean {
    return unlessMissing(() => unlinkSync(path));
  }

  flushFolder(path: string): void {
    const fd = openSync(path, 'r');
    try {
      flush(fd);
    } finally {
      closeSync(fd);
    }
  }
}

export function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** The ids of the message files in a folder; anything else there is not ours to judge. */
export function idsIn(folder: string): MessageId[] {
  const ids: MessageId[] = [];
  for (const name of list(folder)) {
    if (!name.endsWith('.json')) continue;
    const id = name.slice(0, -5);
    if (isMessageId(id)) ids.push(id);
  }
  return ids;
}

function unlessMissing(act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** Makes something new under a name; what is there gives way. */
function inPlaceOf<T>(path: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    unlinkSync(path);
    return make();
  }
}

/** By the text of `ts`; what is alike stays in the order in which it was found, as in the original. spec: spool#differences */
export function oldestFirst(waiting: WaitingMessage[]): WaitingMessage[] {
  return waiting.sort((a, b) => byTime(a.message, b.message));
}
