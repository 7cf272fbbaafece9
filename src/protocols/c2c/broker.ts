import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { pruneArchives, readArchive } from './archive.ts';
import type { Archived } from './archive.ts';
import type { BrokerEntry } from './entry.ts';
import { readObjects, sweepDrafts, takeRepairs } from './files.ts';
import type { Repair } from './files.ts';
import { clearMail, copyMail, registered, returnDeadLetters } from './register.ts';
import type { Registration } from './register.ts';
import { lastSeen, RegistryFile } from './registry.ts';
import { RoomFiles } from './rooms.ts';
import type { Member } from './rooms.ts';
import { isSameAlias } from './shapes.ts';
import type { SessionRow } from './shapes.ts';

/** A registered session. */
export interface BrokerSession {
  row: SessionRow;
  /** Whether its process runs; null where nothing proves it. */
  alive: boolean | null;
  /** Seconds since 1970 of its last sign of life; 0 if there never was one. */
  lastSeen: number;
}

/**
 * What a broker directory holds besides waiting mail (mailbox.ts) and names (directory.ts): sessions, rooms, archives and dead letters.
 * Other programs may use the same directory at the same time. spec: c2c#broker
 */
export class Broker {
  readonly #rooms: RoomFiles;

  constructor(
    readonly root: string,
    readonly now: () => number,
    readonly registry: RegistryFile = new RegistryFile(root),
    /** Called at every step of `register`. Tests die here. */
    readonly onStep: (step: string) => void = () => {},
  ) {
    this.#rooms = new RoomFiles(root);
  }

  async sessions(): Promise<BrokerSession[]> {
    this.registry.mend();
    return this.registry.rows().map((row) => this.#session(row));
  }

  async session(sessionId: string): Promise<BrokerSession | null> {
    const row = this.#row(sessionId);
    return row ? this.#session(row) : null;
  }

  /** The alias of a session; null if it is not registered. Does not look for its process. */
  async aliasOf(sessionId: string): Promise<AgentName | null> {
    return (this.#row(sessionId)?.alias as AgentName | undefined) ?? null;
  }

  /** The session that has this alias, compared without case. */
  async called(alias: string): Promise<BrokerSession | null> {
    const row = this.registry.rowOf(alias);
    return row ? this.#session(row) : null;
  }

  /**
   * Gives a session its alias. An alias of a live session is refused, and its holder is named; from an ended session it passes on,
   * with the waiting mail. Fields of a row that others wrote stay.
   *
   * Under the registry's lock: decide; copy the mail of the ended; write the registry; remove that mail from its old inbox. Killed
   * between any two, every message is in at least one inbox that the next registration looks into.
   */
  async register(wish: Registration): Promise<BrokerSession> {
    const { row, before } = this.registry.change(
      (kept) => {
        const done = registered(kept, wish, this.now(), (row) => this.registry.isAlive(row));
        const moved = done.ended.map((from) => ({ from, mail: copyMail(this.root, from, wish.sessionId) }));
        this.onStep('copied');
        return { rows: done.rows, answer: { ...done, moved } };
      },
      ({ moved }) => {
        this.onStep('registered');
        for (const { from, mail } of moved) clearMail(this.root, from, mail);
        this.onStep('cleared');
      },
    );
    this.registry.touchLease(row.session_id, this.now());
    this.#followToRooms(row, before);
    this.onStep('in its rooms');
    returnDeadLetters(this.root, row.session_id, row.alias);
    sweepDrafts(this.root, this.now());
    return this.#session(row);
  }

  /** Changes fields of a row, as one act; undefined removes one. Null if there is no such session. */
  async amend(sessionId: string, change: (row: SessionRow) => Record<string, unknown>): Promise<BrokerSession | null> {
    const row = this.registry.amend((rows) => rows.find((one) => one.session_id === sessionId), change);
    return row ? this.#session(row) : null;
  }

  /** The members of a room, each with the session that it has now; null if there is no such room. */
  async room(name: string): Promise<{ members: Pick<Member, 'alias' | 'session_id'>[]; visibility: string } | null> {
    if (!this.#rooms.exists(name)) return null;
    const rows = this.registry.rows();
    const members = this.#rooms.members(name).map((member) => {
      const { alias, session_id } = rows.find((row) => isSameAlias(row.alias, member.alias)) ?? member;
      return { alias: alias as AgentName, session_id };
    });
    return { members, visibility: this.#rooms.meta(name).visibility };
  }

  async rooms(): Promise<string[]> {
    return this.#rooms.names().filter((name) => this.#rooms.exists(name));
  }

  async join(room: string, alias: AgentName): Promise<void> {
    const row = this.registry.rowOf(alias);
    if (!row) throw new Refusal('not_found', `no session is called ${alias}; run \`c2c register ${alias}\` first`);
    this.#rooms.join(room, row, this.now());
  }

  async leave(room: string, alias: AgentName): Promise<void> {
    this.#rooms.leave(room, alias);
  }

  /** What was said in a room, oldest first: the last `limit`. */
  async roomHistory(room: string, limit: number): Promise<BrokerEntry[]> {
    return this.#rooms.history(room, limit);
  }

  /** What a session took, oldest first: the last `limit`. Each message once, however often it was taken. */
  async archive(sessionId: string, limit: number): Promise<Archived[]> {
    return readArchive(this.root, sessionId, limit);
  }

  /** Removes, or only counts, what was taken before then (seconds since 1970), in every archive. Returns how many. */
  async pruneArchives(before: number, how: 'remove' | 'count'): Promise<number> {
    return pruneArchives(this.root, before, how);
  }

  /** Mail that nobody can get any more, as it is in the file. */
  async deadLetters(): Promise<Record<string, unknown>[]> {
    return readObjects(`${this.root}/dead-letter.jsonl`);
  }

  /** Files that were found broken and mended, and where the copy of each is. Each is told once. */
  async repairs(): Promise<Repair[]> {
    return takeRepairs(this.root);
  }

  #session(row: SessionRow): BrokerSession {
    return { row, alive: this.registry.isAlive(row), lastSeen: lastSeen(row) };
  }

  #row(sessionId: string): SessionRow | undefined {
    return this.registry.rows().find((row) => row.session_id === sessionId);
  }

  /** A session that takes an alias over is in its rooms; one that takes another alias stays in its own. */
  #followToRooms(row: SessionRow, before: string | undefined): void {
    const names = [row.alias, ...(before === undefined ? [] : [before])];
    for (const room of this.#rooms.names()) {
      const isIn = this.#rooms.members(room).some(({ alias }) => names.some((name) => isSameAlias(alias, name)));
      if (isIn) this.#rooms.join(room, row, this.now());
    }
  }
}
