import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { sweepDrafts } from './files.ts';
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
  /** Whether its process runs; null if that cannot be proven. */
  alive: boolean | null;
  /** When it was last active, in seconds since 1970; 0 if never. */
  lastSeen: number;
}

/**
 * The sessions and rooms of a broker directory. Waiting mail is in mailbox.ts, names are in directory.ts, taken mail is in archive.ts. Other
 * programs may use the same directory at the same time. spec: c2c#broker
 */
export class Broker {
  readonly rooms: RoomFiles;

  constructor(
    readonly root: string,
    readonly now: () => number,
    readonly registry: RegistryFile = new RegistryFile(root),
    /** Called at every step of `register`. Crash tests end the process here. */
    readonly onStep: (step: string) => void = () => {},
  ) {
    this.rooms = new RoomFiles(root);
  }

  async sessions(): Promise<BrokerSession[]> {
    this.registry.mend();
    return this.registry.rows().map((row) => this.#session(row));
  }

  async session(sessionId: string): Promise<BrokerSession | null> {
    const row = this.#row(sessionId);
    return row ? this.#session(row) : null;
  }

  /** The alias of a session; null if it is not registered. Does not check its process. */
  async aliasOf(sessionId: string): Promise<AgentName | null> {
    return (this.#row(sessionId)?.alias as AgentName | undefined) ?? null;
  }

  /** The session that has this alias, compared without case. */
  async byAlias(alias: string): Promise<BrokerSession | null> {
    const row = this.registry.rowOf(alias);
    return row ? this.#session(row) : null;
  }

  /**
   * Gives a session its alias. Refuses an alias that a live session has, and names that session. Takes the alias over from a session that has
   * ended, with its waiting mail. Keeps fields of the row that other programs wrote.
   *
   * Steps, under the registry's lock: decide; copy the mail of the ended sessions; write the registry; remove that mail from the old inboxes.
   * After a crash between any two steps, every message is in at least one inbox that the next registration reads.
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

  /** Changes fields of a row atomically; a field with the value undefined is removed. Null if there is no such session. */
  async amend(sessionId: string, change: (row: SessionRow) => Record<string, unknown>): Promise<BrokerSession | null> {
    const row = this.registry.amend((rows) => rows.find((one) => one.session_id === sessionId), change);
    return row ? this.#session(row) : null;
  }

  /** The members of a room, each with its current session; null if there is no such room. */
  async room(name: string): Promise<{ members: Pick<Member, 'alias' | 'session_id'>[]; visibility: string } | null> {
    if (!this.rooms.exists(name)) return null;
    const rows = this.registry.rows();
    const members = this.rooms.members(name).map((member) => {
      const { alias, session_id } = rows.find((row) => isSameAlias(row.alias, member.alias)) ?? member;
      return { alias: alias as AgentName, session_id };
    });
    return { members, visibility: this.rooms.meta(name).visibility };
  }

  async join(room: string, alias: AgentName): Promise<void> {
    const row = this.registry.rowOf(alias);
    if (!row) throw new Refusal('not_found', `no session is called ${alias}; run \`c2c register ${alias}\` first`);
    this.rooms.join(room, row, this.now());
  }

  #session(row: SessionRow): BrokerSession {
    return { row, alive: this.registry.isAlive(row), lastSeen: lastSeen(row) };
  }

  #row(sessionId: string): SessionRow | undefined {
    return this.registry.rows().find((row) => row.session_id === sessionId);
  }

  /** Puts the session into the rooms of its alias, and of the alias that it had before. */
  #followToRooms(row: SessionRow, before: string | undefined): void {
    const names = [row.alias, ...(before === undefined ? [] : [before])];
    for (const room of this.rooms.names()) {
      const isIn = this.rooms.members(room).some(({ alias }) => names.some((name) => isSameAlias(alias, name)));
      if (isIn) this.rooms.join(room, row, this.now());
    }
  }
}
