import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import type { SqliteJournal } from '../../src/store/journal/sqlite.ts';
import { ExportedMaildir } from '../../src/store/maildir/exported-maildir.ts';
import type { HomeOptions } from './maildir.ts';
import { LOUD } from './mail.ts';

export interface OpenServerHome {
  mailboxes: ExportedMaildir;
  journal: SqliteJournal;
  troubles: unknown[];
  close: () => Promise<void>;
}

/** Opens a home's ledger and spool the way a relay does. */
export async function openServerHome(root: string, options: HomeOptions = {}): Promise<OpenServerHome> {
  const { now = Date.now, judge = async () => LOUD, heal = true } = options;
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal', now });
  const troubles: unknown[] = [];
  const mailboxes = new ExportedMaildir({
    root,
    journal,
    judge: async (mailbox, message) => ({
      attention: await judge(mailbox, message),
      lineage: message.parley?.lineage,
    }),
    now,
    onTrouble: (error) => troubles.push(error),
  });
  if (heal) await mailboxes.heal();
  const close = async (): Promise<void> => {
    await mailboxes.close();
    await journal.close();
  };
  return { mailboxes, journal, troubles, close };
}
