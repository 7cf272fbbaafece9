import type { Broker } from '../protocols/c2c/broker.ts';
import type { Workspace, Home } from '../flow/workspace.ts';
import type { Env } from '../platform/env.ts';
import type { AgentName, RoomId } from '../protocol/names.ts';
import type { Directory } from '../storage/directory/directory.ts';
import type { Rooms } from '../storage/rooms/rooms.ts';

/** `full`: a message is flushed to disk before it counts as stored. */
export type Durability = 'normal' | 'full';

/** What a workspace is opened with. `agent` and `relay` choose one of several relays. */
export interface WorkspaceSettings {
  bodyLimit: number;
  durability: Durability;
  agent?: AgentName | undefined;
  relay?: string | undefined;
}

/** Which agent at which relay: by its folder; or, for a Backchannel program, by what its own config says. */
export type RemotePlace = { durability: Durability } & (
  | { root: string }
  | { place: { agent: AgentName; url: string; room?: string; token?: string }; below: string }
);

/** A broker directory of c2c: a home like every other, and what else is in it. */
export interface OpenBroker {
  home: Home;
  broker: Broker;
  close(): Promise<void>;
}

/** What a relay serves. */
export interface RelayRooms {
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

/** Where a relay's rooms are, and how they are kept. */
export interface RelayRoomsOrder {
  root: string;
  durability: Durability;
  defaultTokenHash: string | null;
  /** The relay before this one died: what it left undone is finished first. */
  afterDeath: boolean;
  /** Told what went wrong in a room where nobody waits for an answer. */
  onTrouble: (room: RoomId, error: unknown) => void;
}

/** How homes are opened. The only way for a dialect or a service to reach a backend. */
export interface Homes {
  /** The homes that a program of this name sees. `stays`: it is asked often, and closes the directories at its end. */
  openWorkspace(
    env: Env,
    settings: WorkspaceSettings,
    own: 'parley' | 'bch',
    options?: { stays?: boolean; cwd?: string },
  ): Workspace;
  /** The home of an agent whose mail waits at a relay. */
  openRemoteHome(place: RemotePlace): Home;
  openBroker(root: string, durability?: Durability): OpenBroker;
  /** The rooms below a Backchannel home, for a command that looks at them once. A relay may serve them meanwhile. */
  openRooms(root: string): Promise<Rooms & { directory(id: RoomId): Directory }>;
  /** The rooms below a Backchannel home, for the relay that serves them. */
  openRelayRooms(order: RelayRoomsOrder): Promise<RelayRooms>;
}
