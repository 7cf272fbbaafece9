import { readRoom } from '../../protocol/c2c.ts';
import type { SessionRow } from '../../protocol/c2c.ts';
import type { AgentName, ChannelName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { RoomFiles } from '../c2c/files-rooms.ts';
import type { Member } from '../c2c/files-rooms.ts';
import { isAlive, lastSeen } from '../c2c/files-liveness.ts';
import { isSame, RegistryFile, withFields } from '../c2c/files-rows.ts';
import type { Kept } from '../c2c/files-rows.ts';
import { AgentExtras } from './directory.ts';
import type { AgentRecord, Amendment, Directory } from './directory.ts';
import { amended, channelsAmong, holderIn, membersIn, refuseLikeness, refuseUnreadable, rolesIn } from './rules.ts';
import { seenLately } from './record-files.ts';

/**
 * The registry of a c2c broker as a directory: an alias is an agent's name, compared without case; a room is a channel. What we keep
 * about an agent beyond a session's own fields is under `parley` in its row. Rows of other programs have none. spec: c2c#registry
 */
export class C2cRegistry implements Directory {
  readonly file: RegistryFile;
  readonly rooms: RoomFiles;

  constructor(
    readonly root: string,
    readonly now: () => number,
  ) {
    this.file = new RegistryFile(root);
    this.rooms = new RoomFiles(root);
  }

  async get(name: AgentName): Promise<AgentRecord | null> {
    const row = rowOf(this.file.rows(), name);
    return row ? this.#record(row) : null;
  }

  async list(): Promise<AgentRecord[]> {
    const rooms = this.#roomsOf();
    return eachOnce(this.file.rows())
      .map((row) => this.#record(row, rooms))
      .sort((a, b) => a.name.localeCompare(b.name));
  }

  async unreadable(): Promise<string[]> {
    return this.file
      .all()
      .flatMap(({ row, value }, at) => (row ? [] : `${this.file.path}, row ${at + 1}${calledIn(value)}`));
  }

  async count(): Promise<number> {
    return this.mailboxes().length + (await this.unreadable()).length;
  }

  async channels(): Promise<ChannelName[]> {
    return channelsAmong([...this.#roomsOf().values()].flat());
  }

  /** Includes members whose session is gone from the registry: mail waits for them. */
  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    const room = roomOf(channel);
    const rows = new Map(eachOnce(this.file.rows()).map((row) => [row.alias.toLowerCase(), row]));
    const rooms = this.#roomsOf();
    // Other programs may have left one alias in two spellings.
    const members = new Map(this.#membersOf(room).map((member) => [member.alias.toLowerCase(), member]));
    return [...members.values()]
      .map(({ alias, joined_at: joined }): AgentRecord => {
        const row = rows.get(alias.toLowerCase());
        const then = iso(joined);
        return row
          ? this.#record(row, rooms)
          : { name: alias, subscriptions: [channel], createdAt: then, lastSeen: then };
      })
      .sort((a, b) => a.name.localeCompare(b.name));
  }

  async members(role: AgentName): Promise<AgentRecord[]> {
    return membersIn(await this.list(), role);
  }

  async rolesAmong(names: readonly AgentName[]): Promise<AgentName[]> {
    return rolesIn(await this.list(), names);
  }

  async byToken(tokenHash: string): Promise<AgentName | null> {
    return holderIn(await this.list(), tokenHash);
  }

  /** A name without a session of its own: its mailbox is called like it. Sessions are registered by the broker. */
  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord> {
    const now = this.now() / 1000;
    const row = this.file.change<SessionRow>((kept) => {
      const rows = kept.flatMap(({ row }) => row ?? []);
      const known = rows.find(({ alias }) => alias === name);
      if (known) {
        const touched = { ...known, last_activity_ts: now };
        return {
          rows: kept.map((one) => (one.row === known ? withFields(one.value, { last_activity_ts: now }) : one.value)),
          answer: touched,
        };
      }
      refuseUnread(kept, name, this.file.path);
      refuseLikeness(
        name,
        rows.map(({ alias }) => alias as AgentName),
        rows.map((one) => this.#record(one, NO_ROOMS)),
      );
      const made = {
        session_id: name,
        alias: name,
        registered_at: now,
        last_activity_ts: now,
        ...(tokenHash !== undefined && { tokenHash }),
        ...(kind !== 'foreign' && { parley: { v: 1, kind, roles: [] } }),
      };
      return { rows: [made, ...kept.map(({ value }) => value)], answer: made };
    });
    return this.#record(row);
  }

  async amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    const rooms = this.#roomsOf();
    const row = this.#amend(name, (row, rows) => {
      const all = (): AgentRecord[] => rows.map((one) => this.#record(one, rooms));
      const after = amended(JSON.stringify(row), this.#record(row, rooms, false), change, all);
      return after === null ? null : { parley: (JSON.parse(after) as SessionRow)['parley'] };
    });
    return this.#record(row, rooms);
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    const row = rowOf(this.file.rows(), name);
    if (!row) throw new Refusal('not_found', `no agent is called ${name}`);
    this.rooms.join(readRoom(channel), {
      alias: row.alias as AgentName,
      session_id: row.session_id,
      joined_at: this.now() / 1000,
    });
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    const room = roomOf(channel);
    if (room !== null) this.rooms.leave(room, ({ alias }) => isSame(alias, name));
  }

  async seen(name: AgentName): Promise<void> {
    const row = rowOf(this.file.rows(), name);
    if (!row || seenLately(this.#record(row, NO_ROOMS), this.now())) return;
    this.file.amend(
      (one) => one.session_id === row.session_id,
      () => ({ last_activity_ts: this.now() / 1000 }),
    );
  }

  async giveToken(name: AgentName, tokenHash: string | null): Promise<void> {
    this.#amend(name, () => ({ tokenHash: tokenHash ?? undefined }));
  }

  async remove(name: AgentName): Promise<void> {
    this.file.change((kept) => {
      const rest = kept.filter(({ row }) => row === null || !isSame(row.alias, name));
      return rest.length === kept.length ? { answer: null } : { rows: rest.map(({ value }) => value), answer: null };
    });
    for (const room of this.rooms.names()) this.rooms.leave(room, ({ alias }) => isSame(alias, name));
  }

  async close(): Promise<void> {}

  /** The session id whose file holds the mail of a mailbox. A mailbox without a session uses its own name. */
  fileOf(mailbox: AgentName): string {
    const row = rowOf(this.file.rows(), mailbox);
    if (row) return row.session_id;
    for (const room of this.rooms.names()) {
      const member = this.rooms.members(room).find(({ alias }) => isSame(alias, mailbox));
      if (member) return member.session_id;
    }
    return mailbox;
  }

  /** All agents with a mailbox. */
  mailboxes(): AgentName[] {
    return eachOnce(this.file.rows()).map(({ alias }) => alias as AgentName);
  }

  #amend(name: AgentName, change: (row: SessionRow, rows: SessionRow[]) => Record<string, unknown> | null): SessionRow {
    return this.file.change<SessionRow>((kept) => {
      const rows = kept.flatMap(({ row }) => row ?? []);
      const row = rowOf(rows, name);
      if (!row) {
        refuseUnread(kept, name, this.file.path);
        throw new Refusal('not_found', `no agent is called ${name}`);
      }
      const changes = change(row, rows);
      if (!changes) return { answer: row };
      const values = kept.map((one) => (one.row === row ? withFields(one.value, changes) : one.value));
      return { rows: values, answer: { ...row, ...changes } };
    });
  }

  #record(row: SessionRow, rooms = this.#roomsOf(), withDnd = true): AgentRecord {
    const { tokenHash, parley } = row as Record<string, unknown>;
    const extras = parley === undefined ? undefined : AgentExtras.safeParse(parley);
    const quiet = withDnd ? quietOf(row, this.now()) : undefined;
    return {
      name: row.alias as AgentName,
      subscriptions: rooms.get(row.alias.toLowerCase()) ?? [],
      createdAt: iso(row.registered_at ?? 0),
      lastSeen: iso(lastSeen(row)),
      ...(typeof tokenHash === 'string' && { tokenHash }),
      ...(extras?.success && { parley: { ...extras.data, ...(quiet && { quiet }) } }),
    };
  }

  #membersOf(room: string | null): Member[] {
    return room === null ? [] : this.rooms.members(room);
  }

  /** The rooms of each member, as channels, by alias in lower case. */
  #roomsOf(): Map<string, string[]> {
    const found = new Map<string, string[]>();
    for (const room of this.rooms.names()) {
      for (const { alias } of this.rooms.members(room)) {
        const key = alias.toLowerCase();
        found.set(key, [...(found.get(key) ?? []), `#${room}`]);
      }
    }
    return found;
  }
}

const NO_ROOMS = new Map<string, string[]>();

/** Other programs may leave two rows with one alias: the row whose process may run wins, else the first. */
function rowOf(rows: readonly SessionRow[], name: string): SessionRow | undefined {
  return rightOne(rows.filter(({ alias }) => isSame(alias, name)));
}

function eachOnce(rows: readonly SessionRow[]): SessionRow[] {
  return [...Map.groupBy(rows, ({ alias }) => alias.toLowerCase()).values()].flatMap((alike) => rightOne(alike) ?? []);
}

function rightOne(alike: readonly SessionRow[]): SessionRow | undefined {
  return alike.length > 1 ? (alike.find((row) => isAlive(row) !== false) ?? alike[0]) : alike[0];
}

/** An unreadable row may still be repaired, so its name stays taken. */
function refuseUnread(kept: readonly Kept[], name: string, path: string): void {
  for (const { row, value } of kept) {
    const { alias } = (value ?? {}) as Record<string, unknown>;
    if (row !== null || typeof alias !== 'string' || !isSame(alias, name)) continue;
    if (alias === name) throw refuseUnreadable(`the row of ${name} in ${path}`);
    throw new Refusal('name_taken', `"${name}" differs from "${alias}" only by case; pick another name`);
  }
}

/** A session's `dnd` counts as the agent's quiet time. */
function quietOf({ dnd, dnd_until: until }: SessionRow, now: number): AgentExtras['quiet'] {
  if (!dnd || (until !== undefined && until * 1000 <= now)) return undefined;
  return until === undefined ? { on: true } : { until: iso(until) };
}

function roomOf(channel: ChannelName): string | null {
  return /^#[A-Za-z0-9_-]{1,64}$/.test(channel) ? channel.slice(1) : null;
}

function calledIn(value: unknown): string {
  const { alias } = (value ?? {}) as Record<string, unknown>;
  return typeof alias === 'string' ? ` (${alias.replace(/\p{Cc}/gu, '?').slice(0, 64)})` : '';
}

function iso(seconds: number): string {
  const ms = Math.round(seconds * 1000);
  return new Date(Math.abs(ms) <= 8.64e15 ? ms : 0).toISOString();
}
