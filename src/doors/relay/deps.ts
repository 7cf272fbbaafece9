import type { Home } from '../../flow/workspace.ts';
import type { RoomId } from '../../protocol/names.ts';
import type { Rooms } from '../../storage/rooms/rooms.ts';

/** What the relay works with. Time comes in from outside. */
export interface RelayDeps {
  rooms: Rooms;
  /** A room's home; the same object every time until it is closed. Its ledger and spool are opened by whoever asks for them. */
  home(id: RoomId): Home;
  /** Everything that was accepted there has its file, and nothing is open any more. */
  closeHome(id: RoomId): Promise<void>;
  settings: RelaySettings;
  /** Of this program, for whoever asks. */
  version: string;
  /** Never a body, never a token, never what a caller wrote. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  now: () => number;
}

export interface RelaySettings {
  /** The largest body of a message, in bytes. A request may have six times that: so much can JSON's escapes take. */
  bodyLimit: number;
  /** Who may make rooms and see figures from elsewhere; null: anybody may make rooms. */
  adminTokenHash: string | null;
  rate: { perMinute: number } | null;
  quota: { waiting: number };
  /** How many agents a room may have: each is a file and a mailbox on our disk. */
  mostAgents: number;
  /** How many rooms stay open although nobody is at work there: each has open files. */
  mostRooms: number;
  /** How long mail may wait before it expires; null: for ever. */
  keepWaitingMs: number | null;
  /** Set if only this machine can reach us: then only its own names for itself are right. */
  loopback: { port: () => number } | null;
  /** A proxy stands in front and says for whom it asks. */
  proxied: boolean;
  times?: Partial<RelayTimes>;
}

export interface RelayTimes {
  /** A sign of life on every stream. */
  keepaliveMs: number;
  /** A body, or its next 64 KiB, must be here within this time. */
  bodyMs: number;
  /** What dead readers held waits again after this time. */
  healMs: number;
  /** How often expired mail is looked for. */
  sweepMs: number;
  /** A room in which nobody was at work for so long is closed. */
  idleMs: number;
  /** How long requests in hand may take when the relay stops. */
  stopMs: number;
}

const TIMES: RelayTimes = {
  keepaliveMs: 25_000,
  bodyMs: 15_000,
  healMs: 5000,
  sweepMs: 3_600_000,
  idleMs: 300_000,
  stopMs: 5000,
};

export function timesOf({ times }: RelaySettings): RelayTimes {
  return { ...TIMES, ...times };
}

/** What can be said of and done to a connection. In-process callers have none. Bun's server is one. */
export interface Connections {
  requestIP(request: Request): { address: string } | null;
  /** Ends the connection if nothing moves for so many seconds; 0: never. */
  timeout(request: Request, seconds: number): void;
}
