import {
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { codeOf, isMissing, isNoPlainFile, storageTrouble } from '../../core/disk.ts';
import { byTime, readMessage } from '../../core/message.ts';
import type { Lineage, Message } from '../../core/message.ts';
import { AgentName, isMessageId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import type { WaitingMessage } from '../../core/ports/mailboxes.ts';
import { Refusal } from '../../core/refusal.ts';
import { flush, readPlain } from '../../platform/files.ts';

/**
 * The folders of a mailbox. `tmp`, `new` and `cur` are Backchannel's; `quiet` holds waiting copies that wake nobody, and
 * `held` the copies held by a reader. Other programs look at neither.
 */
export type Folder = 'tmp' | 'new' | 'quiet' | 'held' | 'cur';
/** In the order in which they are made: if the last one exists, all do. */
const FOLDERS: readonly Folder[] = ['tmp', 'new', 'cur', 'quiet', 'held'];

/** What a look into the folders of a mailbox found: copies that are not where they wait, and files that may have no row. */
export interface FoundMessage {
  missing: MessageId[];
  strangers: MessageId[];
}

/** The journal is read before the folders are listed: so a copy that moves meanwhile is looked at once more, and not lost. */
export function compared(
  open: ReadonlyMap<MessageId, boolean>,
  loud: ReadonlySet<MessageId>,
  quiet: ReadonlySet<MessageId>,
): FoundMessage {
  const found: FoundMessage = { missing: [], strangers: [] };
  for (const [id, hasFile] of open) if (hasFile && !loud.has(id) && !quiet.has(id)) found.missing.push(id);
  for (const id of loud) if (!open.has(id)) found.strangers.push(id);
  return found;
}

/** A message with the lineage that we computed in place of the one that its file claims. */
export function withLineage(message: Message, lineage: Lineage | undefined): Message {
  const { lineage: claimed, ...extras } = message.parley ?? { v: 1 as const };
  if (!claimed && !lineage) return message;
  return { ...message, parley: { ...extras, ...(lineage && { lineage }) } };
}

/** A foreign writer may not rename into place: what cannot be parsed yet is left alone this long. */
const HALF_WRITTEN_MS = 10_000;

/** A message; null if its file is gone, 'unreadable' if it is no message (or not one yet), 'shut' if we may not look now. */
export type Reading = Message | null | 'unreadable' | 'shut';

/** The files of one home's spool. Synchronous throughout: promise calls are about ten times slower. */
export class MaildirFiles {
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

  /**
   * Writes a new file, and flushes it unless told otherwise. What a dead process left under this name is unlinked, never overwritten: it
   * may be a link to the file of another recipient.
   */
  write(path: string, text: string, isFlushed = true): void {
    const fd = inPlaceOf(path, () => openSync(path, 'wx', 0o600));
    try {
      const bytes = new TextEncoder().encode(text);
      // One call may write only a part, and on a nearly full disk it does so without an error.
      for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
      if (isFlushed) flush(fd);
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

  /** A draft that only its writer may publish, and only once the journal says so: see export-files.ts. */
  draft(mailbox: AgentName, id: MessageId): string {
    return `${this.folder(mailbox, 'tmp')}/${id}.late`;
  }

  /** The copies of which a draft is here. */
  drafts(mailbox: AgentName): MessageId[] {
    return idsIn(this.folder(mailbox, 'tmp'), '.late');
  }

  /** A copy on its way to cur/ that never had a file. Not a draft: nobody may publish it, and no exporter deletes it. */
  keeping(mailbox: AgentName, id: MessageId): string {
    return `${this.folder(mailbox, 'tmp')}/${id}.keep`;
  }

  keepings(mailbox: AgentName): MessageId[] {
    return idsIn(this.folder(mailbox, 'tmp'), '.keep');
  }

  /**
   * For files that are not flushed: their folders are not flushed either. A mailbox is made when its last folder exists; anyone who
   * needs that one, or stores something for good, makes the rest and flushes all.
   */
  begin(mailbox: AgentName): void {
    for (const name of FOLDERS.slice(0, -1)) mkdirSync(this.folder(mailbox, name), { recursive: true, mode: 0o700 });
  }

  mailboxes(): AgentName[] {
    return list(`${this.root}/spool`).filter((name) => AgentName.safeParse(name).success) as AgentName[];
  }

  ids(mailbox: AgentName, folder: Folder): MessageId[] {
    return idsIn(this.folder(mailbox, folder));
  }

  has(mailbox: AgentName, folder: Folder, id: MessageId): boolean {
    return lstatSync(this.path(mailbox, folder, id), { throwIfNoEntry: false }) !== undefined;
  }

  hasDraft(mailbox: AgentName, id: MessageId): boolean {
    return lstatSync(this.draft(mailbox, id), { throwIfNoEntry: false }) !== undefined;
  }

  read(mailbox: AgentName, folder: Folder, id: MessageId): Reading {
    return this.#readAt(this.path(mailbox, folder, id), id);
  }

  isWhole(path: string, id: MessageId): boolean {
    const found = this.#readAt(path, id);
    if (found === 'shut') throw new Error(`${path} cannot be read`);
    return found !== null && found !== 'unreadable';
  }

  #readAt(path: string, id: MessageId): Reading {
    let text: string;
    try {
      text = readPlain(path).toString('utf8');
    } catch (error) {
      if (isMissing(error)) return null;
      // What is no plain file is never a message. Anything else may pass: no permission, no descriptor, a failing disk.
      return isNoPlainFile(error) ? 'unreadable' : 'shut';
    }
    const message = parsed(text);
    return message?.id === id ? message : 'unreadable';
  }

  /** Sets a file aside that is no message. Returns false while it may still be being written. */
  setAsideIfOld(mailbox: AgentName, folder: Folder, id: MessageId, now: number): boolean {
    const changed = lstatSync(this.path(mailbox, folder, id), { throwIfNoEntry: false })?.mtimeMs;
    if (changed !== undefined && now - changed < HALF_WRITTEN_MS) return false;
    return this.setAside(mailbox, folder, id, now);
  }

  /** False if it is not there, or cannot be moved: then it stays, `parley doctor` names it, and the rest goes on. */
  setAside(mailbox: AgentName, folder: Folder, id: MessageId, now: number): boolean {
    const path = this.path(mailbox, folder, id);
    if (!lstatSync(path, { throwIfNoEntry: false })) return false;
    const aside = `${this.root}/aside/${mailbox}`;
    try {
      mkdirSync(aside, { recursive: true, mode: 0o700 });
      return this.move(path, `${aside}/${id}.${now}.json`);
    } catch (error) {
      if (storageTrouble(error) instanceof Refusal) return false;
      throw error;
    }
  }

  asides(): string[] {
    return list(`${this.root}/aside`).flatMap((mailbox) =>
      list(`${this.root}/aside/${mailbox}`).map((name) => `${this.root}/aside/${mailbox}/${name}`),
    );
  }

  remove(mailbox: AgentName): void {
    rmSync(`${this.root}/spool/${mailbox}`, { recursive: true, force: true });
  }
}

function parsed(text: string): Message | null {
  try {
    return readMessage(JSON.parse(text));
  } catch {
    return null;
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

/** The ids of the message files in a folder, or of those with another ending; anything else there is not ours to judge. */
export function idsIn(folder: string, ending = '.json'): MessageId[] {
  const ids: MessageId[] = [];
  for (const name of list(folder)) {
    if (!name.endsWith(ending)) continue;
    const id = name.slice(0, -ending.length);
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
