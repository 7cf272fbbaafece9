import { RoomId } from '../../protocol/names.ts';

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
  /** Its folder: agents/ and spool/ stand in it. The same as long as the relay runs. */
  root(id: RoomId): string;
  /** Every room, sorted, the default one among them. */
  list(): Promise<RoomId[]>;
}
