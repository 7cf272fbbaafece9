import type { Lineage, Message } from '../../core/message.ts';
import type { MessageId } from '../../core/names.ts';
import { lstatSync, mkdirSync, rmSync } from 'node:fs';
import { readMessage } from '../../core/message.ts';
import { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { isMissing, isNoPlainFile, storageTrouble } from '../../core/disk.ts';
import { readPlain } from '../../platform/files.ts';
import { FOLDERS, idsIn, list, MaildirPlaces } from './folders.ts';
import type { Folder } from './folders.ts';

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

/** The files of one home's spool, as who looks for them and reads them needs them. */
export class MaildirFiles extends MaildirPlaces {
  /** A draft that only its writer may publish, and only once the journal says so: see export-files.ts. */
  draft(mailbox: AgentName, id: MessageId): string {
    return `${this.folder(mailbox, 'tmp')}/${id}.late`;
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
