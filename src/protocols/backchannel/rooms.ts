import * as v from 'valibot';
import { RoomId } from '../../core/names.ts';
import { mkdirSync, readdirSync, realpathSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Schema } from '../../core/schema.ts';
import { hashOf, newRoomId, newRoomToken } from '../../wire/tokens.ts';
import { codeOf, explained, ifThere, isMissing } from '../../core/disk.ts';
import { readPlain } from '../../platform/files.ts';
import { RecordFiles } from '../../store/directory/record-files.ts';

/** Who names no room is in this one. It is always there. spec: relay#rooms */
export const DEFAULT_ROOM = RoomId.parse('default');

/** The rooms of a relay: who is in one sees nothing of the others. Each is a home of its own. */
export interface Rooms {
  /**
   * The hash of the token that admits new agents; null: anybody may register; undefined: there is no such room. A room whose own
   * record cannot be read admits nobody: its hash is no token's. Never makes a folder.
   */
  tokenHash(id: RoomId): Promise<string | null | undefined>;
  /** Makes a room. Its token is told here and never again. */
  create(): Promise<{ roomId: RoomId; roomToken: string }>;
  /** Its folder: agents/ and spool/ are in it. The same as long as the relay runs. */
  root(id: RoomId): string;
  /** Every room, sorted, the default one among them. */
  list(): Promise<RoomId[]>;
}

/** `room.json`, shared with the original relay. spec: relay#rooms */
const RoomRecord = new Schema(() => v.looseObject({ tokenHash: v.pipe(v.string(), v.minLength(1)) }));

/** The hash of no token. */
const NOBODYS = '';

/** What was read of a room is believed so long: every request of its agents asks. */
const BELIEVED_MS = 500;

/**
 * One folder per room, `rooms/<id>/`, each with a `room.json`. The default room is the home itself, so that agents of this machine
 * and of others meet there; but where an original relay has left a `rooms/default/`, its agents and their mail are in that. It makes
 * that folder at its first request, no matter who asks: while nobody is in it, anyone who has joined in the home itself is found there.
 */
export class FilesRooms implements Rooms {
  readonly #folder: string;
  readonly #defaultRoot: string;
  readonly #known = new Map<RoomId, { hash: string; at: number }>();

  constructor(
    readonly home: string,
    readonly settings: { defaultTokenHash: string | null },
  ) {
    this.#folder = `${home}/rooms`;
    const apart = `${this.#folder}/${DEFAULT_ROOM}`;
    this.#defaultRoot = isFolder(apart) && !isDeserted(apart, home) ? apart : home;
  }

  async tokenHash(id: RoomId): Promise<string | null | undefined> {
    if (id === DEFAULT_ROOM && this.settings.defaultTokenHash !== null) return this.settings.defaultTokenHash;
    const known = this.#known.get(id);
    if (known && performance.now() - known.at < BELIEVED_MS) return known.hash;
    const hash = this.#read(id);
    // Only what is there is remembered: names of rooms that never were are for the asking.
    if (hash === undefined) this.#known.delete(id);
    else this.#known.set(id, { hash, at: performance.now() });
    // A token that somebody has set for the default room counts, also if the relay was told of none.
    return hash ?? (id === DEFAULT_ROOM ? null : undefined);
  }

  async create(): Promise<{ roomId: RoomId; roomToken: string }> {
    const roomToken = newRoomToken();
    const record = { tokenHash: hashOf(roomToken), createdAt: new Date().toISOString() };
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      const roomId = this.#claimId();
      const path = `${this.#folder}/${roomId}/room.json`;
      // Without this file there is no room: anyone who dies here leaves an empty folder that is nobody's.
      writeFileSync(`${path}.draft`, JSON.stringify(record, null, 2), { mode: 0o600, flush: true });
      renameSync(`${path}.draft`, path);
      return { roomId, roomToken };
    } catch (error) {
      throw explained(error, this.#folder, 'no room was made');
    }
  }

  root(id: RoomId): string {
    return id === DEFAULT_ROOM ? this.#defaultRoot : `${this.#folder}/${id}`;
  }

  async list(): Promise<RoomId[]> {
    const others = this.#ids().filter((id) => id !== DEFAULT_ROOM && this.#read(id) !== undefined);
    return [DEFAULT_ROOM, ...others].sort();
  }

  /** A folder of its own: of several who hit upon the same id, one gets it, also where the file system folds case. */
  #claimId(): RoomId {
    const id = newRoomId();
    try {
      mkdirSync(`${this.#folder}/${id}`, { mode: 0o700 });
      return id;
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
      return this.#claimId();
    }
  }

  /** Undefined: there is no such room. */
  #read(id: RoomId): string | undefined {
    try {
      const text = readPlain(`${this.#folder}/${id}/room.json`, 'follow').toString('utf8');
      return isWrittenSo(`${this.#folder}/${id}`, id) ? hashIn(text) : undefined;
    } catch (error) {
      return isMissing(error) ? undefined : NOBODYS;
    }
  }

  #ids(): RoomId[] {
    try {
      return readdirSync(this.#folder)
        .map((name) => RoomId.safeParse(name))
        .flatMap((id) => (id.success ? [id.data] : []));
    } catch (error) {
      if (isMissing(error)) return [];
      throw explained(error, this.#folder, 'no room can be looked up');
    }
  }
}

function hashIn(text: string): string {
  try {
    const record = RoomRecord.safeParse(JSON.parse(text));
    return record.success ? record.data.tokenHash : NOBODYS;
  } catch {
    return NOBODYS;
  }
}

/** Where the file system folds case, a folder answers to many names; a room has one, or its mail would have several homes. */
function isWrittenSo(path: string, id: RoomId): boolean {
  const name = basename(realpathSync.native(path));
  return name === id || name.toLowerCase() !== id.toLowerCase();
}

function isDeserted(apart: string, home: string): boolean {
  return new RecordFiles(apart).names().length === 0 && new RecordFiles(home).all().some(({ tokenHash }) => tokenHash);
}

function isFolder(path: string): boolean {
  return ifThere(() => statSync(path))?.isDirectory() ?? false;
}
