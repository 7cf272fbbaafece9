import { mkdirSync } from 'node:fs';
import { attendForeign } from '../flow/attend.ts';
import type { Home } from '../flow/desk.ts';
import type { HomeLabel } from '../protocol/address.ts';
import { explained } from '../storage/disk.ts';
import type { Directory } from '../storage/directory/directory.ts';
import type { Ledger } from '../storage/ledger/ledger.ts';
import { openSqliteLedger } from '../storage/ledger/sqlite.ts';
import type { MaildirOptions } from '../storage/spool/maildir-send.ts';
import type { Spool } from '../storage/spool/spool.ts';
import type { Settings } from './settings.ts';

/** What every spool is made of. */
export type SpoolParts = MaildirOptions;

/** A home, and how to close as much of it as was opened. */
export interface OpenHome {
  home: Home;
  close(): Promise<void>;
}

/** The ledger is opened by the first who asks for it: `parley agents` should not wait for a database. */
export function lazyHome<S extends Spool>(
  label: HomeLabel,
  root: string,
  durability: Settings['durability'],
  directory: Directory,
  newSpool: (parts: SpoolParts) => S,
  /** For a spool that enters some of it later: the ledger as everybody else should see it. */
  ledgerOf?: (spool: S) => Ledger,
): OpenHome {
  let parts: { ledger: Ledger; spool: Spool } | undefined;
  const open = (): { ledger: Ledger; spool: Spool } => {
    parts ??= openStores();
    return parts;
  };
  const openStores = (): { ledger: Ledger; spool: Spool } => {
    try {
      mkdirSync(root, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw explained(error, root);
    }
    const ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability });
    const judge = (reader: Parameters<typeof attendForeign>[1], message: Parameters<typeof attendForeign>[2]) =>
      attendForeign(home, reader, message);
    const spool = newSpool({ root, ledger, judge, now: Date.now });
    return { ledger: ledgerOf?.(spool) ?? ledger, spool };
  };
  const home: Home = {
    label,
    root,
    directory,
    get ledger() {
      return open().ledger;
    },
    get spool() {
      return open().spool;
    },
  };
  const close = async (): Promise<void> => {
    if (!parts) return;
    const { spool, ledger } = parts;
    try {
      await spool.flush();
    } finally {
      try {
        await spool.close();
      } finally {
        await ledger.close();
      }
    }
  };
  return { home, close };
}
