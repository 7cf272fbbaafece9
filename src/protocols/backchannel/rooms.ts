import * as v from 'valibot';
import { RoomId } from '../../core/names.ts';
import { mkdirSync, readdirSync, realpathSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Schema } from '../../core/schema.ts';
import { hashOf, newRoomId, newRoomToken } from '../../wire/tokens.ts';
import { codeOf, explained, ifThere, isMissing } from '../../core/disk.ts';
import { readPlain } from '../../platform/files.ts';
import { RecordFiles } from '../../store/directory/record-files.ts';

/** The room of requests that name none. It always exists. spec: relay#rooms */
export const DEFAULT_ROOM = RoomId.parse('default');

/** The rooms of a relay. Each is a separate home; agents of one room see nothing of the others. */
export interface Rooms {
  /**
   * The hash of the token that admits new agents; null: anyone may register; undefined: there is no such room. A room whose record cannot
   * be read admits nobody: no token has its hash. Never makes a folder.
   */
  tokenHash(id: RoomId): Promise<string | null | undefined>;
  /** Makes a room. Only this call returns its token. */
  create(): Promise<{ roomId: RoomId; roomToken: string }>;
  /** The room's folder, with agents/ and spool/ in it. It does not change while the relay runs. */
  root(id: RoomId): string;
  /** Every room, sorted, including the default one. */
  list(): Promise<RoomId[]>;
}

/** `room.json`, shared with the original relay. spec: relay#rooms */
const RoomRecord = new Schema(() => v.looseObject({ tokenHash: v.pipe(v.string(), v.minLength(1)) }));

/** A hash that no token has. */
const NO_TOKEN_HASH = '';

/** How long a room's token hash is cached: every request of its agents needs it. */
const CACHE_MS = 500;

/**
 * One folder per room, `rooms/<id>/`, each with a `room.json`. The default room is the home itself, so that agents of this machine and of
 * others meet there. But if an original relay has left a `rooms/default/`, the default room is that folder, unless it has no agents and the
 * home has some that joined, because the original makes that folder even at a stranger’s request.
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
    this.#defaultRoot = isFolder(apart) && !isWithoutAgents(apart, home) ? apart : home;
  }

  async tokenHash(id: RoomId): Promise<string | null | undefined> {
    if (id === DEFAULT_ROOM && this.settings.defaultTokenHash !== null) return this.settings.defaultTokenHash;
    const known = this.#known.get(id);
    if (known && performance.now() - known.at < CACHE_MS) return known.hash;
    const hash = this.#read(id);
    // Cache only rooms that exist: a stranger may name any number of others.
    if (hash === undefined) this.#known.delete(id);
    else this.#known.set(id, { hash, at: performance.now() });
    // A token in the default room's own record counts even if the relay was started without one.
    return hash ?? (id === DEFAULT_ROOM ? null : undefined);
  }

  async create(): Promise<{ roomId: RoomId; roomToken: string }> {
    const roomToken = newRoomToken();
    const record = { tokenHash: hashOf(roomToken), createdAt: new Date().toISOString() };
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      const roomId = this.#claimId();
      const path = `${this.#folder}/${roomId}/room.json`;
      // Without this file there is no room: a crash here leaves an empty folder without meaning.
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

  /** Makes the folder of a new id. If several calls pick the same id, one gets it, even on a case-insensitive file system. */
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
      return isSpelled(`${this.#folder}/${id}`, id) ? hashIn(text) : undefined;
    } catch (error) {
      return isMissing(error) ? undefined : NO_TOKEN_HASH;
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
    return record.success ? record.data.tokenHash : NO_TOKEN_HASH;
  } catch {
    return NO_TOKEN_HASH;
  }
}

/** Is the folder's name exactly this id? On a case-insensitive file system other spellings would find it too. */
function isSpelled(path: string, id: RoomId): boolean {
  const name = basename(realpathSync.native(path));
  return name === id || name.toLowerCase() !== id.toLowerCase();
}

function isWithoutAgents(apart: string, home: string): boolean {
  return new RecordFiles(apart).names().length === 0 && new RecordFiles(home).all().some(({ tokenHash }) => tokenHash);
}

function isFolder(path: string): boolean {
  return ifThere(() => statSync(path))?.isDirectory() ?? false;
}
