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
 * The folders of a mailbox. `tmp`, `new` and `cur` are Backchannel's; `quiet` has waiting copies that wake nobody, and
 * `held` has copies that a reader holds. Other programs read neither of these two.
 */
export type Folder = 'tmp' | 'new' | 'quiet' | 'held' | 'cur';
/** In the order in which they are made: if the last folder exists, all of them do. */
const FOLDERS: readonly Folder[] = ['tmp', 'new', 'cur', 'quiet', 'held'];

/** The differences between a mailbox's folders and its rows: copies whose file is not where it should wait, and files that may have no row. */
export interface FolderDifferences {
  missing: MessageId[];
  strangers: MessageId[];
}

/** Compares rows and files. Read the journal before the folders: a copy that moves meanwhile is then checked again, not lost. */
export function compareFolders(
  open: ReadonlyMap<MessageId, boolean>,
  loud: ReadonlySet<MessageId>,
  quiet: ReadonlySet<MessageId>,
): FolderDifferences {
  const found: FolderDifferences = { missing: [], strangers: [] };
  for (const [id, hasFile] of open) if (hasFile && !loud.has(id) && !quiet.has(id)) found.missing.push(id);
  for (const id of loud) if (!open.has(id)) found.strangers.push(id);
  return found;
}

/** The message with our computed lineage in place of the one that its file claims. */
export function withLineage(message: Message, lineage: Lineage | undefined): Message {
  const { lineage: claimed, ...extras } = message.parley ?? { v: 1 as const };
  if (!claimed && !lineage) return message;
  return { ...message, parley: { ...extras, ...(lineage && { lineage }) } };
}

/** Another program may write a message in place: a file that cannot be parsed is left alone for this long. */
const HALF_WRITTEN_MS = 10_000;

/** A message; null if its file is gone; 'unreadable' if it is no message (or not yet); 'shut' if we cannot read it now. */
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
   * Writes a new file, and flushes it unless `isFlushed` is false. A file that a dead process left under this name is unlinked, never
   * overwritten: it may be a link to the file of another recipient.
   */
  write(path: string, text: string, isFlushed = true): void {
    const fd = inPlaceOf(path, () => openSync(path, 'wx', 0o600));
    try {
      const bytes = new TextEncoder().encode(text);
      // One call may write only a part of the bytes, on a nearly full disk without an error.
      for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
      if (isFlushed) flush(fd);
    } finally {
      closeSync(fd);
    }
  }

  link(from: string, to: string): void {
    inPlaceOf(to, () => linkSync(from, to));
  }

  /** True if this call moved the file; false if it was not there. */
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

  /** The draft of an exported copy. Its writer publishes it only after the journal says `drafted`: see export-files.ts. */
  draft(mailbox: AgentName, id: MessageId): string {
    return `${this.folder(mailbox, 'tmp')}/${id}.late`;
  }

  /** The ids of all drafts of exported copies. */
  drafts(mailbox: AgentName): MessageId[] {
    return idsIn(this.folder(mailbox, 'tmp'), '.late');
  }

  /** The file of a settled copy that never had one, before it is renamed to cur/. It is no draft: nobody publishes it, and no exporter deletes it. */
  keeping(mailbox: AgentName, id: MessageId): string {
    return `${this.folder(mailbox, 'tmp')}/${id}.keep`;
  }

  keepings(mailbox: AgentName): MessageId[] {
    return idsIn(this.folder(mailbox, 'tmp'), '.keep');
  }

  /**
   * Makes the folders for files that are not flushed, without a flush and without held/. A mailbox counts as made when held/ exists:
   * a process that needs held/, or needs a durable file, calls `make`, which makes the rest and flushes all.
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
      // A folder, a pipe or a device is never a message. Other errors may pass: no permission, no descriptor left, a failing disk.
      return isNoPlainFile(error) ? 'unreadable' : 'shut';
    }
    const message = parsed(text);
    return message?.id === id ? message : 'unreadable';
  }

  /** Sets aside a file that is no message. Returns false while another program may still be writing it. */
  setAsideIfOld(mailbox: AgentName, folder: Folder, id: MessageId, now: number): boolean {
    const changed = lstatSync(this.path(mailbox, folder, id), { throwIfNoEntry: false })?.mtimeMs;
    if (changed !== undefined && now - changed < HALF_WRITTEN_MS) return false;
    return this.setAside(mailbox, folder, id, now);
  }

  /** Returns false if the file is not there or cannot be moved. One that cannot be moved stays, and `parley doctor` names it. */
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

/** The ids in the names of a folder's files with this ending. Other files are ignored. */
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

/** Runs `make`. If a file already has the name, unlinks that file and runs `make` again. */
function inPlaceOf<T>(path: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    unlinkSync(path);
    return make();
  }
}

/** Sorts by the text of `ts`. Equal ones keep the order in which they were found, as in the original. spec: spool#differences */
export function oldestFirst(waiting: WaitingMessage[]): WaitingMessage[] {
  return waiting.sort((a, b) => byTime(a.message, b.message));
}
