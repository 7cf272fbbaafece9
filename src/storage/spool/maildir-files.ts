import {
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { Message } from '../../protocol/message.ts';
import { AgentName, MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';

/**
 * The folders of a mailbox. `tmp`, `new` and `cur` are Backchannel's; `quiet` holds waiting copies that wake nobody, and
 * `held` the copies in a reader's hand. Other programs look at neither.
 */
export type Folder = 'tmp' | 'new' | 'quiet' | 'held' | 'cur';
const FOLDERS: readonly Folder[] = ['tmp', 'new', 'quiet', 'held', 'cur'];

/** A foreign writer may not rename into place: what cannot be parsed yet is left alone this long. */
const HALF_WRITTEN_MS = 10_000;

/** Files and folders of one home's spool. Synchronous throughout: promise calls are about ten times slower. */
export class MaildirFiles {
  readonly #made = new Set<AgentName>();

  constructor(readonly root: string) {}

  folder(mailbox: AgentName, folder: Folder): string {
    return `${this.root}/spool/${mailbox}/${folder}`;
  }

  path(mailbox: AgentName, folder: Folder, id: MessageId): string {
    return `${this.folder(mailbox, folder)}/${id}.json`;
  }

  make(mailbox: AgentName): void {
    if (this.#made.has(mailbox)) return;
    for (const folder of FOLDERS) mkdirSync(this.folder(mailbox, folder), { recursive: true, mode: 0o700 });
    this.#made.add(mailbox);
  }

  mailboxes(): AgentName[] {
    return list(`${this.root}/spool`).filter((name) => AgentName.safeParse(name).success) as AgentName[];
  }

  ids(mailbox: AgentName, folder: Folder): MessageId[] {
    return idsIn(this.folder(mailbox, folder));
  }

  /** Writes a new file and flushes it. It must not exist. */
  write(path: string, text: string): void {
    const fd = openSync(path, 'wx', 0o600);
    try {
      writeSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  }

  link(from: string, to: string): void {
    linkSync(from, to);
  }

  /** True if this call moved it; false if it was not there. */
  move(from: string, to: string): boolean {
    return unlessMissing(() => renameSync(from, to));
  }

  delete(path: string): boolean {
    return unlessMissing(() => unlinkSync(path));
  }

  flushFolder(path: string): void {
    const fd = openSync(path, constants.O_RDONLY);
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  }

  /** A message file; null if it is gone, 'unreadable' if it is no message (or not one yet). */
  read(mailbox: AgentName, folder: Folder, id: MessageId): Message | null | 'unreadable' {
    let text: string;
    try {
      // Another program may have left a link, a pipe or a folder here: follow nothing, wait for nothing.
      const flag = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
      text = readFileSync(this.path(mailbox, folder, id), { encoding: 'utf8', flag: flag as unknown as string });
    } catch (error) {
      return isMissing(error) ? null : 'unreadable';
    }
    const message = parsed(text);
    return message?.id === id ? message : 'unreadable';
  }

  /** Sets a file aside that is no message. Returns false while it may still be being written. */
  setAside(mailbox: AgentName, folder: Folder, id: MessageId, now: number): boolean {
    const path = this.path(mailbox, folder, id);
    const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
    if (changed !== undefined && now - changed < HALF_WRITTEN_MS) return false;
    const aside = `${this.root}/aside/${mailbox}`;
    mkdirSync(aside, { recursive: true, mode: 0o700 });
    return this.move(path, `${aside}/${id}.${now}.json`);
  }

  asides(): string[] {
    return list(`${this.root}/aside`).flatMap((mailbox) =>
      list(`${this.root}/aside/${mailbox}`).map((name) => `${this.root}/aside/${mailbox}/${name}`),
    );
  }

  remove(mailbox: AgentName): void {
    rmSync(`${this.root}/spool/${mailbox}`, { recursive: true, force: true });
    this.#made.delete(mailbox);
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
    const id = MessageId.safeParse(name.slice(0, -5));
    if (id.success) ids.push(id.data);
  }
  return ids;
}

function parsed(text: string): Message | null {
  try {
    const message = Message.safeParse(JSON.parse(text));
    return message.success ? message.data : null;
  } catch {
    return null;
  }
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

export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** What a failing disk says, in one line that says what to do. Anything else is our bug and goes on as it is. */
export function explained(error: unknown, root: string): unknown {
  const code = codeOf(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new Refusal('storage_failed', `no space left for ${root}; nothing was stored: free some space and run it again`);
  }
  if (code === 'EROFS' || code === 'EACCES' || code === 'EPERM') {
    return new Refusal('storage_failed', `${root} cannot be written (${code}); nothing was stored: check its permissions`);
  }
  if (code === 'ENAMETOOLONG') return new Refusal('invalid_request', 'that name is too long for a file: use a shorter one');
  return error;
}
