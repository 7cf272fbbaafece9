import { mkdirSync } from 'node:fs';
import type { MaildirOptions } from './maildir/send.ts';
import type { Home } from '../core/mail/workspace.ts';
import type { HomeLabel } from '../core/address.ts';
import type { Directory } from '../core/ports/directory.ts';
import type { Mailboxes } from '../core/ports/mailboxes.ts';
import type { MailboxJournal } from '../core/ports/journal.ts';
import { explained } from '../core/disk.ts';
import { openSqliteJournal } from './journal/sqlite.ts';
import { attendForeign } from '../core/mail/attend.ts';
import { WatchedDirectory } from './directory/watched.ts';
import { FilesDirectory } from './directory/files.ts';
import { Maildir } from './maildir/maildir.ts';

/** `full`: a message is flushed to disk before it counts as stored. */
export type Durability = 'normal' | 'full';

/** What a backend of mailboxes is made from. */
export type MailboxParts = MaildirOptions;

/** A home, and a function that closes the parts that were opened. */
export interface OpenHome {
  home: Home;
  close(): Promise<void>;
}

/** A home that opens its journal at the first use: `parley agents` should not wait for a database. */
export function lazyHome(
  label: HomeLabel,
  root: string,
  durability: Durability,
  directory: Directory,
  newSpool: (parts: MailboxParts) => Mailboxes,
): OpenHome {
  let parts: { journal: MailboxJournal; mailboxes: Mailboxes } | undefined;
  const open = (): { journal: MailboxJournal; mailboxes: Mailboxes } => {
    parts ??= openStores();
    return parts;
  };
  const openStores = (): { journal: MailboxJournal; mailboxes: Mailboxes } => {
    try {
      mkdirSync(root, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw explained(error, root);
    }
    const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability });
    const judge = (reader: Parameters<typeof attendForeign>[1], message: Parameters<typeof attendForeign>[2]) =>
      attendForeign(home, reader, message);
    const mailboxes = newSpool({ root, journal, judge, now: Date.now });
    return { journal, mailboxes };
  };
  const home: Home = {
    label,
    root,
    directory,
    get journal() {
      return open().journal;
    },
    get mailboxes() {
      return open().mailboxes;
    },
  };
  const close = async (): Promise<void> => {
    if (!parts) return;
    const { mailboxes, journal } = parts;
    try {
      await mailboxes.flush();
    } finally {
      try {
        await mailboxes.close();
      } finally {
        await journal.close();
      }
    }
  };
  return { home, close };
}

/** How long a change of a record may go unseen if file events fail. A scan of a thousand agents takes 5 ms. */
const LOOK_MS = 5000;

/** A home in files: the layout of Parley and Backchannel. `stays`: for a long-running process. */
export function openHome(label: HomeLabel, root: string, durability: Durability, stays = false): Home {
  const directory = stays
    ? new WatchedDirectory(root, Date.now, { lookMs: LOOK_MS, exact: true })
    : new FilesDirectory(root, Date.now);
  return lazyHome(label, root, durability, directory, (parts) => new Maildir(parts)).home;
}
