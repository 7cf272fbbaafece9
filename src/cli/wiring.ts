import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { attendForeign } from '../flow/attend.ts';
import type { Desk, Home } from '../flow/desk.ts';
import type { HomeLabel } from '../protocol/address.ts';
import type { MessageId, RoomId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Directory } from '../storage/directory/directory.ts';
import { FilesDirectory } from '../storage/directory/files.ts';
import type * as Watched from '../storage/directory/watched.ts';
import type { Ledger } from '../storage/ledger/ledger.ts';
import { checkLedger } from '../storage/ledger/sqlite-check.ts';
import type { LedgerState } from '../storage/ledger/sqlite-check.ts';
import { openSqliteLedger } from '../storage/ledger/sqlite.ts';
import type { Rooms } from '../storage/rooms/rooms.ts';
import { explained } from '../storage/spool/maildir-files.ts';
import { Maildir } from '../storage/spool/maildir.ts';
import type { Spool } from '../storage/spool/spool.ts';
import type * as FarHome from './far-home.ts';
import type { FarOrder } from './far-home.ts';
import { backchannelHome, parleyHome } from './settings.ts';
import type { Env, Settings } from './settings.ts';

/** The only file that names a backend. `stays`: for a program that is asked often; it closes the directories at its end. */
export function openDesk(
  env: Env,
  settings: Pick<Settings, 'bodyLimit' | 'durability'> & Partial<Pick<Settings, 'agent' | 'relay'>>,
  own: 'parley' | 'bch',
  { stays = false } = {},
): Desk {
  const roots = { parley: parleyHome(env), bch: backchannelHome(env) };
  // A Backchannel program sees only its own home; Parley opens every home that exists.
  const others: (typeof own)[] = own === 'parley' && existsSync(roots.bch) ? ['bch'] : [];
  const near = [own, ...others].map((label) => openHome(label, roots[label], settings.durability, stays));
  const far = own === 'parley' ? relayFolder(roots.parley, settings) : undefined;
  return {
    homes: far === undefined ? near : [openFarHome({ root: far, durability: settings.durability }), ...near],
    now: Date.now,
    newId: () => crypto.randomUUID() as MessageId,
    bodyLimit: settings.bodyLimit,
  };
}

/** A home at a relay. What that takes is read only here, by those who have one: no other command should pay for it. */
export function openFarHome(order: FarOrder): Home {
  const { farHome } = require('./far-home.ts') as typeof FarHome;
  return farHome(order);
}

/** Where an agent that joined a relay has its things; undefined for one that lives on this machine. */
function relayFolder(home: string, { agent, relay }: Partial<Pick<Settings, 'agent' | 'relay'>>): string | undefined {
  if (agent === undefined || !existsSync(`${home}/relays`)) return undefined;
  const own = readdirSync(`${home}/relays`).filter((name) => name.startsWith(`${agent}@`));
  const [only, ...others] = own.filter((name) => relay === undefined || name.includes(relay));
  if (others.length === 0) return only === undefined ? undefined : `${home}/relays/${only}`;
  throw new Refusal('ambiguous', `@${agent} is at several relays; set PARLEY_RELAY to one of ${own.join(', ')}`);
}

/** How the ledger of a home looks from outside; null if there is none. */
export function inspectLedger(root: string): LedgerState | null {
  return checkLedger(`${root}/ledger.db`);
}

/** The rooms below a Backchannel home, for a command that looks at them once. A relay may serve them meanwhile. */
export async function openRooms(root: string): Promise<Rooms & { directory(id: RoomId): Directory }> {
  const { FilesRooms } = await import('../storage/rooms/files.ts');
  const rooms = new FilesRooms(root, { defaultTokenHash: null });
  return Object.assign(rooms, { directory: (id: RoomId) => new FilesDirectory(rooms.root(id), Date.now) });
}

/** What a relay serves. */
export interface RelayHouse {
  rooms: Rooms;
  /** A room's home; the same object until it is closed. */
  home(id: RoomId): Home;
  /** What was accepted there is in its place, and nothing is open any more when this returns. */
  closeHome(id: RoomId): Promise<void>;
  /** Rooms that cannot be used as they are, and why. The others are served. */
  troubles: readonly string[];
  /** Everything that was accepted is in its place when this returns. */
  close(): Promise<void>;
}

/** Told what went wrong in a room where nobody waits for an answer. */
type OnTrouble = (room: RoomId, error: unknown) => void;

/**
 * The rooms below a Backchannel home. After the death of a relay, what it left undone in any of them is finished first; otherwise
 * each is opened when somebody comes to it: there may be thousands.
 */
export async function openRelayHouse(
  root: string,
  durability: Settings['durability'],
  defaultTokenHash: string | null,
  afterDeath: boolean,
  onTrouble: OnTrouble,
): Promise<RelayHouse> {
  const [{ DEFAULT_ROOM }, { FilesRooms }, { WatchedDirectory }, { LateMaildir }] = await Promise.all([
    import('../storage/rooms/rooms.ts'),
    import('../storage/rooms/files.ts'),
    import('../storage/directory/watched.ts'),
    import('../storage/spool/late-maildir.ts'),
  ]);
  const rooms = new FilesRooms(root, { defaultTokenHash });
  const homes = new Map<RoomId, OpenHome>();
  const home = (id: RoomId): Home => {
    const known = homes.get(id);
    if (known) return known.home;
    const directory = new WatchedDirectory(rooms.root(id), Date.now);
    const told = (error: unknown): void => onTrouble(id, error);
    const spool = (parts: SpoolParts): Spool => new LateMaildir({ ...parts, onTrouble: told });
    const opened = lazyHome('bch', rooms.root(id), durability, directory, spool);
    const close = async (): Promise<void> => {
      await directory.close();
      await opened.close();
    };
    homes.set(id, { home: opened.home, close });
    return opened.home;
  };
  const closeHome = async (id: RoomId): Promise<void> => {
    const open = homes.get(id);
    homes.delete(id);
    await open?.close();
  };
  const troubles: string[] = [];
  for (const id of afterDeath ? await rooms.list() : [DEFAULT_ROOM]) {
    if (id !== DEFAULT_ROOM && !existsSync(`${rooms.root(id)}/ledger.db`)) continue;
    const heal = async (): Promise<void> => home(id).spool.heal();
    await heal().catch((error: unknown) =>
      troubles.push(`room ${id}: ${error instanceof Error ? error.message : String(error)}`),
    );
    // There may be thousands: whoever comes to one opens it again.
    if (id !== DEFAULT_ROOM) await closeHome(id).catch((error: unknown) => onTrouble(id, error));
  }
  return {
    rooms,
    home,
    closeHome,
    troubles,
    async close() {
      const closed = [...homes.keys()].map(closeHome);
      for (const one of await Promise.allSettled(closed)) if (one.status === 'rejected') throw one.reason;
    },
  };
}

type SpoolParts = ConstructorParameters<typeof Maildir>[0];

/** A home, and how to close as much of it as was opened. */
interface OpenHome {
  home: Home;
  close(): Promise<void>;
}

function openHome(label: HomeLabel, root: string, durability: Settings['durability'], stays: boolean): Home {
  const directory = stays ? watchedDirectory(root) : new FilesDirectory(root, Date.now);
  return lazyHome(label, root, durability, directory, (parts) => new Maildir(parts)).home;
}

/** File events tell of changes at once; where they fail, it is seen after this long. A look at a thousand agents costs 5 ms. */
const LOOK_MS = 5000;

/** Read only here: a command that asks once should not pay for it. */
function watchedDirectory(root: string): Directory {
  const { WatchedDirectory } = require('../storage/directory/watched.ts') as typeof Watched;
  return new WatchedDirectory(root, Date.now, { lookMs: LOOK_MS });
}

/** The ledger is opened by the first who asks for it: `parley agents` should not wait for a database. */
function lazyHome(
  label: HomeLabel,
  root: string,
  durability: Settings['durability'],
  directory: Directory,
  newSpool: (parts: SpoolParts) => Spool,
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
    return { ledger, spool: newSpool({ root, ledger, judge, now: Date.now }) };
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
    try {
      await parts?.spool.flush();
      await parts?.spool.close();
    } finally {
      await parts?.ledger.close();
    }
  };
  return { home, close };
}
