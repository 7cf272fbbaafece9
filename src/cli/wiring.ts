import { existsSync, readdirSync } from 'node:fs';
import type { Desk, Home } from '../flow/desk.ts';
import type { HomeLabel } from '../protocol/address.ts';
import type { MessageId, RoomId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Directory } from '../storage/directory/directory.ts';
import { FilesDirectory } from '../storage/directory/files.ts';
import { WatchedDirectory } from '../storage/directory/watched.ts';
import { checkLedger } from '../storage/ledger/sqlite-check.ts';
import type { LedgerState } from '../storage/ledger/sqlite-check.ts';
import type { Rooms } from '../storage/rooms/rooms.ts';
import { Maildir } from '../storage/spool/maildir.ts';
import { brokerRoot } from './dialects/c2c/root.ts';
import type * as FarHome from './far-home.ts';
import type { FarOrder } from './far-home.ts';
import { openBroker } from './wiring-broker.ts';
import { lazyHome } from './wiring-home.ts';
import type { OpenHome, SpoolParts } from './wiring-home.ts';
import { backchannelHome, brokersFolder, parleyHome } from './env.ts';
import type { Env } from './env.ts';
import type { Settings } from './settings.ts';

/** Only this file and those named after it name a backend. `stays`: for a program that is asked often; it closes the directories at its end. */
export function openDesk(
  env: Env,
  settings: Pick<Settings, 'bodyLimit' | 'durability'> & Partial<Pick<Settings, 'agent' | 'relay'>>,
  own: 'parley' | 'bch',
  { stays = false, cwd = process.cwd() } = {},
): Desk {
  const roots = { parley: parleyHome(env), bch: backchannelHome(env) };
  // A Backchannel program sees only its own home; Parley opens every home that exists.
  const others: (typeof own)[] = own === 'parley' && existsSync(roots.bch) ? ['bch'] : [];
  const near = [own, ...others].map((label) => openHome(label, roots[label], settings.durability, stays));
  const broker = own === 'parley' ? knownBroker(env, cwd) : undefined;
  if (broker !== undefined) near.push(openBroker(broker, settings.durability).home);
  const far = own === 'parley' ? relayFolder(roots.parley, settings) : undefined;
  return {
    homes: far === undefined ? near : [openFarHome({ root: far, durability: settings.durability }), ...near],
    now: Date.now,
    newId: () => crypto.randomUUID() as MessageId,
    bodyLimit: settings.bodyLimit,
    ...(own === 'parley' && { unreachable: async (text) => inOtherBroker(env, broker, text) }),
  };
}

/** A name that only the broker of another folder knows is no unknown name. */
async function inOtherBroker(env: Env, own: string | undefined, text: string): Promise<Refusal | null> {
  return existsSync(brokersFolder(env)) ? (await import('./other-brokers.ts')).inOtherBroker(env, own, text) : null;
}

/** A home at a relay. What that takes is read only here, by those who have one: no other command should pay for it. */
export function openFarHome(order: FarOrder): Home {
  const { farHome } = require('./far-home.ts') as typeof FarHome;
  return farHome(order);
}

/** The broker of the working folder, if somebody made one. Who never used c2c pays one look for it. */
function knownBroker(env: Env, cwd: string): string | undefined {
  const isNamed = env['C2C_MCP_BROKER_ROOT'] || env['C2C_BROKER_ROOT'];
  if (!isNamed && !existsSync(brokersFolder(env))) return undefined;
  const root = brokerRoot(env, cwd);
  return existsSync(root) ? root : undefined;
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
  const [{ DEFAULT_ROOM }, { FilesRooms }, { WatchedDirectory }, { ExportedMaildir }] = await Promise.all([
    import('../storage/rooms/rooms.ts'),
    import('../storage/rooms/files.ts'),
    import('../storage/directory/watched.ts'),
    import('../storage/spool/exported-maildir.ts'),
  ]);
  const rooms = new FilesRooms(root, { defaultTokenHash });
  const homes = new Map<RoomId, OpenHome>();
  const home = (id: RoomId): Home => {
    const known = homes.get(id);
    if (known) return known.home;
    const directory = new WatchedDirectory(rooms.root(id), Date.now);
    const told = (error: unknown): void => onTrouble(id, error);
    const spool = (parts: SpoolParts) => new ExportedMaildir({ ...parts, onTrouble: told });
    const opened = lazyHome('bch', rooms.root(id), durability, directory, spool, ({ ledger }) => ledger);
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

/** File events tell of changes at once; where they fail, it is seen after this long. A look at a thousand agents costs 5 ms. */
const LOOK_MS = 5000;

function openHome(label: HomeLabel, root: string, durability: Settings['durability'], stays: boolean): Home {
  const directory = stays
    ? new WatchedDirectory(root, Date.now, { lookMs: LOOK_MS, exact: true })
    : new FilesDirectory(root, Date.now);
  return lazyHome(label, root, durability, directory, (parts) => new Maildir(parts)).home;
}
