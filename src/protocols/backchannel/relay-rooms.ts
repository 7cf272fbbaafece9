import { existsSync } from 'node:fs';
import { FilesRooms, DEFAULT_ROOM } from './rooms.ts';
import type { Rooms } from './rooms.ts';
import type { RoomId } from '../../core/names.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { lazyHome } from '../../store/home.ts';
import type { Durability, OpenHome, MailboxParts } from '../../store/home.ts';
import type { Directory } from '../../core/ports/directory.ts';
import { FilesDirectory } from '../../store/directory/files.ts';
import { WatchedDirectory } from '../../store/directory/watched.ts';
import { ExportedMaildir } from '../../store/maildir/exported-maildir.ts';
/** The rooms that a relay serves. */
export interface RelayRooms {
  rooms: Rooms;
  /** A room's home; the same object until it is closed. */
  home(id: RoomId): Home;
  /** Closes a room's home: returns when every accepted message has its file. */
  closeHome(id: RoomId): Promise<void>;
  /** Rooms that cannot be used, each with the reason. The others are served. */
  troubles: readonly string[];
  /** Closes every room: returns when every accepted message has its file. */
  close(): Promise<void>;
}

/** Where a relay's rooms are, and how to open them. */
export interface RelayRoomsOrder {
  root: string;
  durability: Durability;
  defaultTokenHash: string | null;
  /** The relay before this one died: finish its work first. */
  afterDeath: boolean;
  /** Called with an error in a room if no caller waits for an answer. */
  onTrouble: (room: RoomId, error: unknown) => void;
}

/** The rooms of a Backchannel home, for one command. A relay may serve them at the same time. */
export async function openRooms(root: string): Promise<Rooms & { directory(id: RoomId): Directory }> {
  const rooms = new FilesRooms(root, { defaultTokenHash: null });
  return Object.assign(rooms, { directory: (id: RoomId) => new FilesDirectory(rooms.root(id), Date.now) });
}

/**
 * The rooms of a Backchannel home, for a relay. After the death of an earlier relay, its work in every room is finished first. Otherwise
 * each room is opened at its first request, because there may be thousands.
 */
export async function openRelayRooms(order: RelayRoomsOrder): Promise<RelayRooms> {
  const { root, durability, defaultTokenHash, afterDeath, onTrouble } = order;
  const rooms = new FilesRooms(root, { defaultTokenHash });
  const homes = new Map<RoomId, OpenHome>();
  const home = (id: RoomId): Home => {
    const known = homes.get(id);
    if (known) return known.home;
    const directory = new WatchedDirectory(rooms.root(id), Date.now);
    const told = (error: unknown): void => onTrouble(id, error);
    const mailboxes = (parts: MailboxParts) => new ExportedMaildir({ ...parts, onTrouble: told });
    const opened = lazyHome('bch', rooms.root(id), durability, directory, mailboxes);
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
    const heal = async (): Promise<void> => home(id).mailboxes.heal();
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
