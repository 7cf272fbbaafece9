import { readdirSync } from 'node:fs';
import { BrokerEntry, readSessionId } from '../../protocol/c2c.ts';
import type { SessionRow } from '../../protocol/c2c.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { ifThere } from '../disk.ts';
import { pruneArchive, readArchive } from './archive.ts';
import type { Archived, Broker, Pending, Registration, Session } from './broker.ts';
import { sweepDrafts } from './drafts.ts';
import { isAlive, lastSeen } from './files-liveness.ts';
import { clearMail, copyMail, returnDeadLetters } from './files-mail.ts';
import { findPending, writePending } from './files-pending.ts';
import { registered } from './files-register.ts';
import { RoomFiles } from './files-rooms.ts';
import { isSame, RegistryFile } from './files-rows.ts';
import type { Kept } from './files-rows.ts';
import { linesIn } from './lines-file.ts';
import { readBytes, takeRepairs } from './state-file.ts';

/** Files that others read too, and who wants to be told of every step (a test that ends the process there). */
interface Parts {
  registry?: RegistryFile;
  rooms?: RoomFiles;
  onStep?: (step: string) => void;
}

/** A broker as files that other programs use too. */
export class BrokerFiles implements Broker {
  readonly #registry: RegistryFile;
  readonly #rooms: RoomFiles;
  readonly #onStep: (step: string) => void;

  constructor(
    readonly root: string,
    readonly now: () => number,
    { registry = new RegistryFile(root), rooms = new RoomFiles(root), onStep = () => {} }: Parts = {},
  ) {
    this.#registry = registry;
    this.#rooms = rooms;
    this.#onStep = onStep;
  }

  async sessions(): Promise<Session[]> {
    this.#registry.mend();
    return this.#registry.rows().map(seen);
  }

  async session(sessionId: string): Promise<Session | null> {
    const row = this.#registry.rows().find((one) => one.session_id === sessionId);
    return row ? seen(row) : null;
  }

  async aliasOf(sessionId: string): Promise<AgentName | null> {
    const row = this.#registry.rows().find((one) => one.session_id === sessionId);
    return row ? (row.alias as AgentName) : null;
  }

  /** Others may have left two rows with one alias: the one whose process runs has it, else the first. */
  async called(alias: string): Promise<Session | null> {
    const [first, ...others] = this.#registry
      .rows()
      .filter((row) => isSame(row.alias, alias))
      .map(seen);
    if (!first) return null;
    return [first, ...others].find(({ alive }) => alive !== false) ?? first;
  }

  /**
   * Under the registry's lock: the decision; a copy of the mail of those who are gone; the registry; then that mail is taken out of its
   * old place. Killed between any two, every message is in at least one place that the next one who registers looks into.
   */
  async register(wish: Registration): Promise<Session> {
    const decide = (kept: Kept[]) => {
      const done = registered(kept, wish, this.now());
      const moved = done.heirless.map((from) => ({ from, mail: copyMail(this.root, from, wish.sessionId) }));
      this.#onStep('copied');
      return { rows: done.rows, answer: { ...done, moved } };
    };
    const { row, before } = this.#registry.change(decide, ({ moved }) => {
      this.#onStep('registered');
      for (const { from, mail } of moved) clearMail(this.root, from, mail);
      this.#onStep('cleared');
    });
    this.#followToRooms(row, before);
    this.#onStep('in its rooms');
    returnDeadLetters(this.root, row.session_id, row.alias);
    // Nobody waits for it: a session registers now and then.
    sweepDrafts(this.root, this.now());
    return seen(row);
  }

  async amend(sessionId: string, change: (row: SessionRow) => Record<string, unknown>): Promise<Session | null> {
    const row = this.#registry.amend((one) => one.session_id === sessionId, change);
    return row ? seen(row) : null;
  }

  async room(name: string): Promise<{ members: SessionRow[]; visibility: string } | null> {
    if (!this.#rooms.exists(name)) return null;
    const rows = this.#registry.rows();
    const members = this.#rooms
      .members(name)
      .map(
        ({ alias, session_id }): SessionRow =>
          rows.find((row) => isSame(row.alias, alias)) ?? blankRow(alias, session_id),
      );
    return { members, visibility: this.#rooms.meta(name).visibility };
  }

  async rooms(): Promise<string[]> {
    return this.#rooms.names().filter((name) => this.#rooms.exists(name));
  }

  async join(room: string, alias: AgentName): Promise<void> {
    const row = await this.#registered(alias);
    this.#rooms.join(room, { alias: row.alias as AgentName, session_id: row.session_id, joined_at: this.now() / 1000 });
  }

  async leave(room: string, alias: AgentName): Promise<void> {
    this.#rooms.leave(room, (member) => isSame(member.alias, alias));
  }

  async roomHistory(room: string, limit: number): Promise<BrokerEntry[]> {
    return this.#rooms.history(room, limit);
  }

  async archive(sessionId: string, limit: number): Promise<Archived[]> {
    const taken: Archived[] = [];
    const known = new Set<string>();
    for (const { drained_at: drainedAt, ...line } of readArchive(this.root, readSessionId(sessionId))) {
      const entry = BrokerEntry.safeParse(line);
      if (!entry.success) continue;
      const id = entry.data.message_id;
      if (id !== undefined && known.has(id)) continue;
      if (id !== undefined) known.add(id);
      taken.push({ entry: entry.data, drainedAt });
    }
    return limit > 0 ? taken.slice(-limit) : [];
  }

  async pruneArchives(before: number, how: 'remove' | 'count'): Promise<number> {
    const names = ifThere(() => readdirSync(`${this.root}/archive`)) ?? [];
    const sessions = names.flatMap((name) => /^([A-Za-z0-9_-][A-Za-z0-9._-]*)\.jsonl$/.exec(name)?.[1] ?? []);
    return sessions.reduce((sum, session) => sum + pruneArchive(this.root, session, before, how), 0);
  }

  async deadLetters(): Promise<Record<string, unknown>[]> {
    const letters = linesIn(readBytes(`${this.root}/dead-letter.jsonl`) ?? Buffer.alloc(0));
    return letters.filter((one): one is Record<string, unknown> => typeof one === 'object' && one !== null);
  }

  async openPending(pending: Pending): Promise<void> {
    writePending(this.root, pending, this.now());
  }

  async pending(id: string): Promise<Pending | null> {
    return findPending(this.root, id, this.now());
  }

  async repairs(): Promise<{ file: string; copy: string; what: string }[]> {
    return takeRepairs(this.root);
  }

  async #registered(alias: AgentName): Promise<SessionRow> {
    const found = await this.called(alias);
    if (found) return found.row;
    throw new Refusal('not_found', `no session is called ${alias}; run \`c2c register ${alias}\` first`);
  }

  /** Whoever takes an alias over is in its rooms; whoever takes another alias stays in the rooms where it was. */
  #followToRooms(row: SessionRow, before: string | undefined): void {
    for (const room of this.#rooms.names()) {
      const isIn = this.#rooms
        .members(room)
        .some(({ alias }) => isSame(alias, row.alias) || (before !== undefined && isSame(alias, before)));
      if (!isIn) continue;
      this.#rooms.join(room, {
        alias: row.alias as AgentName,
        session_id: row.session_id,
        joined_at: this.now() / 1000,
      });
    }
  }
}

function seen(row: SessionRow): Session {
  return { row, alive: isAlive(row), lastSeen: lastSeen(row) };
}

/** A member of a room whom the registry no longer knows. */
function blankRow(alias: string, sessionId: string): SessionRow {
  const nothing = { pid: undefined, pid_start_time: undefined, registered_at: undefined, last_activity_ts: undefined };
  const quiet = { client_type: undefined, dnd: undefined, dnd_since: undefined, dnd_until: undefined };
  return { session_id: sessionId, alias, ...nothing, ...quiet };
}
