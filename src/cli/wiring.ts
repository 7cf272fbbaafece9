import { existsSync, mkdirSync } from 'node:fs';
import { attendForeign } from '../flow/attend.ts';
import type { Desk, Home } from '../flow/desk.ts';
import type { HomeLabel } from '../protocol/address.ts';
import type { MessageId } from '../protocol/names.ts';
import { FilesDirectory } from '../storage/directory/files.ts';
import type { Ledger } from '../storage/ledger/ledger.ts';
import { checkLedger } from '../storage/ledger/sqlite-check.ts';
import type { LedgerState } from '../storage/ledger/sqlite-check.ts';
import { openSqliteLedger } from '../storage/ledger/sqlite.ts';
import { explained } from '../storage/spool/maildir-files.ts';
import { Maildir } from '../storage/spool/maildir.ts';
import type { Spool } from '../storage/spool/spool.ts';
import { backchannelHome, parleyHome } from './settings.ts';
import type { Env, Settings } from './settings.ts';

/** The only file that names a backend. */
export function openDesk(env: Env, settings: Pick<Settings, 'bodyLimit' | 'durability'>, own: HomeLabel): Desk {
  const roots = { parley: parleyHome(env), bch: backchannelHome(env) };
  // A Backchannel program sees only its own home; Parley opens every home that exists.
  const others: HomeLabel[] = own === 'parley' && existsSync(roots.bch) ? ['bch'] : [];
  return {
    homes: [own, ...others].map((label) => openHome(label, roots[label], settings.durability)),
    now: Date.now,
    newId: () => crypto.randomUUID() as MessageId,
    bodyLimit: settings.bodyLimit,
  };
}

/** How the ledger of a home looks from outside; null if there is none. */
export function inspectLedger(root: string): LedgerState | null {
  return checkLedger(`${root}/ledger.db`);
}

/** The ledger is opened by the first who asks for it: `parley agents` should not wait for a database. */
function openHome(label: HomeLabel, root: string, durability: Settings['durability']): Home {
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
    return { ledger, spool: new Maildir({ root, ledger, judge, now: Date.now }) };
  };
  const home: Home = {
    label,
    root,
    directory: new FilesDirectory(root, Date.now),
    get ledger() {
      return open().ledger;
    },
    get spool() {
      return open().spool;
    },
  };
  return home;
}
