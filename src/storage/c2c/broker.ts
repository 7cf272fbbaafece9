import type { BrokerEntry, SessionRow } from '../../protocol/c2c.ts';
import type { AgentName } from '../../protocol/names.ts';

/** A registered session, and whether its process runs. `alive` is null where the row names no process. */
export interface Session {
  row: SessionRow;
  alive: boolean | null;
  /** Seconds since 1970 of its last sign of life; 0 if there never was one. */
  lastSeen: number;
}

/** Who asks to be registered, and as what. Without an alias the session keeps the one it has. */
export interface Registration {
  sessionId: string;
  alias?: AgentName | undefined;
  pid?: number | undefined;
  clientType?: string | undefined;
}

/** A message that was taken, as the archive keeps it. */
export interface Archived {
  entry: BrokerEntry;
  /** Seconds since 1970. */
  drainedAt: number;
}

/** A question to people that a session waits for, and who may answer it. */
export interface Pending {
  id: string;
  kind: string;
  sessionId: string;
  alias: string;
  supervisors: readonly string[];
  createdAt: number;
  expiresAt: number;
}

/**
 * What a broker directory holds besides waiting mail (the spool) and names (the directory): sessions, rooms' pasts, the archive,
 * dead letters and open questions. The same directory may be used by other programs at the same time. spec: c2c#broker
 */
export interface Broker {
  readonly root: string;
  sessions(): Promise<Session[]>;
  session(sessionId: string): Promise<Session | null>;
  /** The alias of a session; null if it is not registered. Nobody looks for its process. */
  aliasOf(sessionId: string): Promise<AgentName | null>;
  /** The session that has this alias, compared without case. */
  called(alias: string): Promise<Session | null>;
  /**
   * Gives a session its alias. An alias that a live session has is refused, and its holder is named; from a session that is gone it
   * passes on, with all the mail that waits for it. Fields of a row that others wrote stay.
   */
  register(wish: Registration): Promise<Session>;
  /** Changes fields of a row, as one act; undefined removes one. Null if there is no such session. */
  amend(sessionId: string, change: (row: SessionRow) => Record<string, unknown>): Promise<Session | null>;
  /** The members of a room; a room without any, that nobody ever spoke in, does not exist: null. */
  room(name: string): Promise<{ members: SessionRow[]; visibility: string } | null>;
  rooms(): Promise<string[]>;
  join(room: string, alias: AgentName): Promise<void>;
  leave(room: string, alias: AgentName): Promise<void>;
  /** What was said in a room, oldest first: the last `limit`. */
  roomHistory(room: string, limit: number): Promise<BrokerEntry[]>;
  /** What a session took, oldest first: the last `limit`. Each message once, however often it was taken. */
  archive(sessionId: string, limit: number): Promise<Archived[]>;
  /** Forgets what was taken before then (seconds since 1970), in every session's archive, or only counts it. Returns how many. */
  pruneArchives(before: number, how: 'remove' | 'count'): Promise<number>;
  /** Mail that nobody can get any more, as it stands. */
  deadLetters(): Promise<Record<string, unknown>[]>;
  openPending(pending: Pending): Promise<void>;
  pending(id: string): Promise<Pending | null>;
  /** Files that were found broken and mended beside a copy: what was found, and where the copy is. Told once. */
  repairs(): Promise<{ file: string; copy: string; what: string }[]>;
}
