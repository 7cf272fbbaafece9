import { inOtherBroker as sessionElsewhere } from '../protocols/c2c/broker-root.ts';
import { brokerRoot } from '../protocols/c2c/broker-root.ts';
import { Broker } from '../protocols/c2c/broker.ts';
import { C2cDirectory } from '../protocols/c2c/directory.ts';
import { C2cMailbox } from '../protocols/c2c/mailbox.ts';
import type * as Relay from '../storage/relay/open.ts';
import { checkLedger, openSqliteLedger } from '../storage/ledger/sqlite.ts';
import type { LedgerState } from '../storage/ledger/sqlite.ts';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import type {
  Durability,
  Homes,
  OpenBroker,
  RelayRooms,
  RelayRoomsOrder,
  RemotePlace,
  WorkspaceSettings,
} from '../core/homes.ts';
import { attendForeign } from '../flow/attend.ts';
import type { Workspace, Home } from '../flow/workspace.ts';
import { backchannelHome, brokersFolder, parleyHome } from '../platform/env.ts';
import type { Env } from '../platform/env.ts';
import { writeAll } from '../platform/terminal.ts';
import type { HomeLabel } from '../protocol/address.ts';
import type { MessageId, RoomId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Directory } from '../storage/directory/directory.ts';
import { FilesDirectory } from '../storage/directory/files.ts';
import { WatchedDirectory } from '../storage/directory/watched.ts';
import { explained } from '../storage/disk.ts';
import type { Ledger } from '../storage/ledger/ledger.ts';
import { MIGRATIONS } from '../storage/ledger/schema.ts';
import { folderFor, readIdentity } from '../storage/relay/identity.ts';
import type { Identity } from '../storage/relay/identity.ts';
import { DEFAULT_ROOM } from '../storage/rooms/rooms.ts';
import type { MaildirOptions } from '../storage/spool/maildir-send.ts';
import { Maildir } from '../storage/spool/maildir.ts';
import type { Spool } from '../storage/spool/spool.ts';

/** How homes are opened. Only this file names a backend. */
export const homes: Homes = { openWorkspace, openRemoteHome, openBroker, openRooms, openRelayRooms };

function openWorkspace(
  env: Env,
  settings: WorkspaceSettings,
  own: 'parley' | 'bch',
  { stays = false, cwd = process.cwd() } = {},
): Workspace {
  const roots = { parley: parleyHome(env), bch: backchannelHome(env) };
  // A Backchannel program sees only its own home; Parley opens every home that exists.
  const others: (typeof own)[] = own === 'parley' && existsSync(roots.bch) ? ['bch'] : [];
  const near = [own, ...others].map((label) => openHome(label, roots[label], settings.durability, stays));
  const broker = own === 'parley' ? knownBroker(env, cwd) : undefined;
  if (broker !== undefined) near.push(openBroker(broker, settings.durability).home);
  const remote = own === 'parley' ? relayFolder(roots.parley, settings) : undefined;
  return {
    homes: remote === undefined ? near : [openRemoteHome({ root: remote, durability: settings.durability }), ...near],
    now: Date.now,
    newId: () => crypto.randomUUID() as MessageId,
    bodyLimit: settings.bodyLimit,
    ...(own === 'parley' && { unreachable: async (text) => inOtherBroker(env, broker, text) }),
  };
}

/** A name that only the broker of another folder knows is no unknown name. */
async function inOtherBroker(env: Env, own: string | undefined, text: string): Promise<Refusal | null> {
  return existsSync(brokersFolder(env)) ? sessionElsewhere(env, own, text) : null;
}

/** The broker of the working folder, if there is one. Without c2c this costs one look. */
function knownBroker(env: Env, cwd: string): string | undefined {
  const isNamed = env['C2C_MCP_BROKER_ROOT'] || env['C2C_BROKER_ROOT'];
  if (!isNamed && !existsSync(brokersFolder(env))) return undefined;
  const root = brokerRoot(env, cwd);
  return existsSync(root) ? root : undefined;
}

/** Where an agent that joined a relay has its things; undefined for one that lives on this machine. */
function relayFolder(home: string, { agent, relay }: WorkspaceSettings): string | undefined {
  if (agent === undefined || !existsSync(`${home}/relays`)) return undefined;
  const own = readdirSync(`${home}/relays`).filter((name) => name.startsWith(`${agent}@`));
  const [only, ...others] = own.filter((name) => relay === undefined || name.includes(relay));
  if (others.length === 0) return only === undefined ? undefined : `${home}/relays/${only}`;
  throw new Refusal('ambiguous', `@${agent} is at several relays; set PARLEY_RELAY to one of ${own.join(', ')}`);
}

/** The newest format of the ledger that this program knows. */
export const LEDGER_FORMAT = MIGRATIONS.length;

/** How the ledger of a home looks from outside; null if there is none. */
export function inspectLedger(root: string): LedgerState | null {
  return checkLedger(`${root}/ledger.db`);
}

async function openRooms(root: string): ReturnType<Homes['openRooms']> {
  const { FilesRooms } = await import('../storage/rooms/files.ts');
  const rooms = new FilesRooms(root, { defaultTokenHash: null });
  return Object.assign(rooms, { directory: (id: RoomId) => new FilesDirectory(rooms.root(id), Date.now) });
}

/**
 * The rooms below a Backchannel home. After the death of a relay, what it left undone in any of them is finished first; otherwise
 * each is opened at its first request: there may be thousands.
 */
async function openRelayRooms(order: RelayRoomsOrder): Promise<RelayRooms> {
  const { root, durability, defaultTokenHash, afterDeath, onTrouble } = order;
  // Loaded here: only a relay needs them, and they cost every start 4 %.
  const { FilesRooms } = await import('../storage/rooms/files.ts');
  const { ExportedMaildir } = await import('../storage/spool/exported-maildir.ts');
  const rooms = new FilesRooms(root, { defaultTokenHash });
  const homes = new Map<RoomId, OpenHome>();
  const home = (id: RoomId): Home => {
    const known = homes.get(id);
    if (known) return known.home;
    const directory = new WatchedDirectory(rooms.root(id), Date.now);
    const told = (error: unknown): void => onTrouble(id, error);
    const spool = (parts: SpoolParts) => new ExportedMaildir({ ...parts, onTrouble: told });
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
    // There may be thousands: the first request opens it again.
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

function openHome(label: HomeLabel, root: string, durability: Durability, stays: boolean): Home {
  const directory = stays
    ? new WatchedDirectory(root, Date.now, { lookMs: LOOK_MS, exact: true })
    : new FilesDirectory(root, Date.now);
  return lazyHome(label, root, durability, directory, (parts) => new Maildir(parts)).home;
}

/** The home of an agent at a relay: read through a shelf on this machine. Backchannel's agents have no policy and no outbox. */
function openRemoteHome(order: RemotePlace): Home {
  const asOriginal = 'place' in order;
  const { root, identity } = asOriginal ? known(order) : { root: order.root, identity: saved(order.root) };
  // Loaded here: a client of HTTP and its queue cost every start 3 %, and few agents are at a relay.
  const { openRelay } = require('../storage/relay/open.ts') as typeof Relay;
  const { ledger, spool, directory, remote } = openRelay({
    root,
    identity,
    durability: order.durability,
    kind: asOriginal ? 'foreign' : 'agent',
    queues: !asOriginal,
    judge: (known, mailbox, message) => attendForeign({ ...home, ...known }, mailbox, message),
    // The original is silent about a stream that breaks.
    tell: (text) => (asOriginal ? undefined : writeAll(2, `parley: ${text}\n`)),
  });
  const home: Home = { label: 'relay', root, ledger, spool, directory, remote };
  return home;
}

function saved(root: string): Identity {
  const identity = readIdentity(root);
  if (identity) return identity;
  throw new Refusal('bad_config', `${root} has no relay.json; remove the folder and join again`);
}

/** The token of an agent that is not the current one stands in its folder. */
function known({ place, below }: Extract<RemotePlace, { below: string }>): { root: string; identity: Identity } {
  const root = folderFor(below, place);
  return { root, identity: { ...readIdentity(root), v: 1, ...place } };
}

/** What every spool is made of. */
type SpoolParts = MaildirOptions;

/** A home, and how to close as much of it as was opened. */
interface OpenHome {
  home: Home;
  close(): Promise<void>;
}

/** The ledger is opened by the first who asks for it: `parley agents` should not wait for a database. */
export function lazyHome(
  label: HomeLabel,
  root: string,
  durability: Durability,
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
    const spool = newSpool({ root, ledger, judge, now: Date.now });
    return { ledger, spool };
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

/** The ledger of the broker is opened by the first who asks for it. */
function openBroker(root: string, durability: Durability = 'normal'): OpenBroker {
  const directory = new C2cDirectory(root, Date.now);
  const open = lazyHome('c2c', root, durability, directory, (parts) => new C2cMailbox({ ...parts, names: directory }));
  return { ...open, broker: new Broker(root, Date.now, directory.registry) };
}
