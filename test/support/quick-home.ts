import { onTestFinished } from 'bun:test';
import { existsSync, mkdirSync, rmSync, statfsSync } from 'node:fs';
import { attendForeign } from '../../src/core/mail/attend.ts';
import type { Home } from '../../src/core/mail/workspace.ts';
import type { HomeLabel } from '../../src/core/address.ts';
import type { AgentName, MessageId } from '../../src/core/names.ts';
import { FilesDirectory } from '../../src/store/directory/files.ts';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import { Maildir } from '../../src/store/maildir/maildir.ts';
import type { Watch } from '../../src/core/ports/mailboxes.ts';
import { temporaryHome } from './home.ts';

/** A folder in memory, where the system has one: flushing costs nothing there. Containers may have a very small one. */
const MEMORY = '/dev/shm';
const MEMORY_BYTES = 1e9;

/** A fresh, empty folder for a test that is not about the disk. It is removed when the test ends. */
export function quickFolder(): string {
  const folder = temporaryHome(hasMemory() ? MEMORY : undefined);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function hasMemory(): boolean {
  if (!existsSync(MEMORY)) return false;
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize > MEMORY_BYTES;
}

/** A home of the real backends in a folder that costs no flush. It is closed when the test ends. */
export function openQuickHome(label: HomeLabel, now: () => number, root = quickFolder()): Home {
  mkdirSync(root, { recursive: true });
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal', now });
  const mailboxes = new PromptMaildir({
    root,
    journal,
    now,
    judge: (reader, message) => attendForeign(home, reader, message),
  });
  const home: Home = { label, root, journal, mailboxes, directory: new FilesDirectory(root, now) };
  onTestFinished(() => journal.close());
  return home;
}

/**
 * Notifies watchers of this process's own puts before the call returns. File events arrive later, and a test with a stopped clock cannot
 * wait for them.
 */
class PromptMaildir extends Maildir {
  readonly #watchers = new Map<{ onArrival: () => void }, AgentName>();

  override watch(mailbox: AgentName, onArrival: () => void): Watch {
    const watcher = { onArrival };
    this.#watchers.set(watcher, mailbox);
    return { close: () => void this.#watchers.delete(watcher) };
  }

  override put(...args: Parameters<Maildir['put']>): ReturnType<Maildir['put']> {
    return this.#telling(() => super.put(...args));
  }

  override release(...args: Parameters<Maildir['release']>): ReturnType<Maildir['release']> {
    return this.#telling(() => super.release(...args));
  }

  override raise(...args: Parameters<Maildir['raise']>): ReturnType<Maildir['raise']> {
    return this.#telling(() => super.raise(...args));
  }

  override heal(): Promise<void> {
    return this.#telling(() => super.heal());
  }

  async #telling<T>(act: () => Promise<T>): Promise<T> {
    const before = new Map([...this.#watchers.values()].map((mailbox) => [mailbox, this.#loud(mailbox)]));
    try {
      return await act();
    } finally {
      const gained = [...before].filter(([mailbox, ids]) => !this.#loud(mailbox).isSubsetOf(ids));
      const told = new Set(gained.map(([mailbox]) => mailbox));
      for (const [watcher, mailbox] of this.#watchers) if (told.has(mailbox)) queueMicrotask(() => this.#tell(watcher));
    }
  }

  #tell(watcher: { onArrival: () => void }): void {
    if (this.#watchers.has(watcher)) watcher.onArrival();
  }

  #loud(mailbox: AgentName): Set<MessageId> {
    return new Set(this.files.ids(mailbox, 'new'));
  }
}
