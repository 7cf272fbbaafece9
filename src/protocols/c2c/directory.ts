import { seenLately } from '../../store/directory/record-files.ts';
import type { AgentName, ChannelName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { AgentExtras } from '../../core/ports/directory.ts';
import type { AgentRecord, Amendment, Directory } from '../../core/ports/directory.ts';
import {
  amended,
  channelsAmong,
  holderIn,
  membersIn,
  refuseLikeness,
  refuseUnreadable,
  rolesIn,
} from '../../store/directory/rules.ts';
import { lastSeen, RegistryFile, rowsIn } from './registry.ts';
import type { Kept } from './registry.ts';
import { RoomFiles } from './rooms.ts';
import { dndOf } from './sessions.ts';
import { isRoom, isSameAlias, readRoom } from './shapes.ts';
import type { SessionRow } from './shapes.ts';

/** The channels of each alias. The keys are aliases in lower case. */
type Channels = Map<string, string[]>;

const NO_CHANNELS: Channels = new Map();

/**
 * The registry and the rooms of a c2c broker as a directory: an alias is an agent's name, compared without case; a room is a channel.
 * Parley's own fields of an agent are under `parley` in its row. Rows of other programs do not have that key.
 * spec: c2c#registry
 */
export class C2cDirectory implements Directory {
  readonly registry: RegistryFile;
  readonly #rooms: RoomFiles;

  constructor(
    readonly root: string,
    readonly now: () => number,
  ) {
    this.registry = new RegistryFile(root);
    this.#rooms = new RoomFiles(root);
  }

  async get(name: AgentName): Promise<AgentRecord | null> {
    const row = this.#row(name);
    return row ? this.#record(row) : null;
  }

  async list(): Promise<AgentRecord[]> {
    const channels = this.#channels();
    return sorted(this.#uniqueRows().map((row) => this.#record(row, channels)));
  }

  async unreadable(): Promise<string[]> {
    return this.registry
      .all()
      .flatMap(({ row, value }, at) => (row ? [] : `${this.registry.path}, row ${at + 1}${aliasNote(value)}`));
  }

  async count(): Promise<number> {
    return this.mailboxes().length + (await this.unreadable()).length;
  }

  async channels(): Promise<ChannelName[]> {
    return channelsAmong([...this.#channels().values()].flat());
  }

  /** Includes members whose session is no longer in the registry: messages wait for them. */
  async subscribers(channel: ChannelName): Promise<AgentRecord[]> {
    const room = channel.slice(1);
    const channels = this.#channels();
    const rows = new Map(this.#uniqueRows().map((row) => [row.alias.toLowerCase(), row]));
    // Other programs may have written one alias in two spellings.
    const members = new Map(
      (isRoom(room) ? this.#rooms.members(room) : []).map((member) => [member.alias.toLowerCase(), member]),
    );
    return sorted(
      [...members].map(([key, { alias, joined_at: joined }]) => {
        const row = rows.get(key);
        const then = iso(joined);
        return row
          ? this.#record(row, channels)
          : { name: alias, subscriptions: [channel], createdAt: then, lastSeen: then };
      }),
    );
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

  /** Registers a name without a session: its mailbox has the same name. The broker registers sessions. */
  async register(name: AgentName, kind: 'agent' | 'human' | 'foreign', tokenHash?: string): Promise<AgentRecord> {
    const now = this.now() / 1000;
    const row = this.registry.change<SessionRow>((kept) => {
      const rows = rowsIn(kept);
      const known = rows.find(({ alias }) => alias === name);
      if (known) {
        const seen = { last_activity_ts: now };
        const values = kept.map((one) => (one.row === known ? { ...(one.value as object), ...seen } : one.value));
        return { rows: values, answer: { ...known, ...seen } };
      }
      refuseUnreadableRow(kept, name, this.registry.path);
      refuseLikeness(
        name,
        rows.map(({ alias }) => alias as AgentName),
        rows.map((one) => this.#record(one, NO_CHANNELS)),
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
    const channels = this.#channels();
    const row = this.#amend(name, (row, rows) => {
      const everybody = (): AgentRecord[] => rows.map((one) => this.#record(one, channels));
      const after = amended(JSON.stringify(row), this.#record(row, channels, false), change, everybody);
      return after === null ? null : { parley: (JSON.parse(after) as SessionRow)['parley'] };
    });
    return this.#record(row, channels);
  }

  async subscribe(name: AgentName, channel: ChannelName): Promise<void> {
    const row = this.#row(name);
    if (!row) throw new Refusal('not_found', `no agent is called ${name}`);
    this.#rooms.join(readRoom(channel), row, this.now());
  }

  async unsubscribe(name: AgentName, channel: ChannelName): Promise<void> {
    const room = channel.slice(1);
    if (isRoom(room)) this.#rooms.leave(room, name);
  }

  async seen(name: AgentName): Promise<void> {
    const row = this.#row(name);
    if (!row || this.registry.lent.has(row.session_id)) return;
    this.registry.touchLease(row.session_id, this.now());
    if (seenLately(this.#record(row, NO_CHANNELS), this.now())) return;
    this.registry.amend(
      (rows) => rows.find((one) => one.session_id === row.session_id),
      () => ({ last_activity_ts: this.now() / 1000 }),
    );
  }

  async giveToken(name: AgentName, tokenHash: string | null): Promise<void> {
    this.#amend(name, () => ({ tokenHash: tokenHash ?? undefined }));
  }

  async remove(name: AgentName): Promise<void> {
    this.registry.change((kept) => {
      const rest = kept.filter(({ row }) => row === null || !isSameAlias(row.alias, name));
      return { answer: null, ...(rest.length < kept.length && { rows: rest.map(({ value }) => value) }) };
    });
    for (const room of this.#rooms.names()) this.#rooms.leave(room, name);
  }

  async close(): Promise<void> {}

  /** The session id whose inbox holds the mail of a mailbox. Without a session, the name of the mailbox is the id. */
  fileOf(mailbox: AgentName): string {
    const row = this.#row(mailbox);
    if (row) return row.session_id;
    const members = this.#rooms.names().flatMap((room) => this.#rooms.members(room));
    return members.find(({ alias }) => isSameAlias(alias, mailbox))?.session_id ?? mailbox;
  }

  /** Every alias of the registry. */
  mailboxes(): AgentName[] {
    return this.#uniqueRows().map(({ alias }) => alias as AgentName);
  }

  #row(name: AgentName): SessionRow | undefined {
    return this.registry.rowOf(name);
  }

  /** One row for each alias. */
  #uniqueRows(): SessionRow[] {
    const byAlias = Map.groupBy(this.registry.rows(), ({ alias }) => alias.toLowerCase());
    return [...byAlias].flatMap(([alias, rows]) => this.registry.rowOf(alias, rows) ?? []);
  }

  #amend(name: AgentName, change: (row: SessionRow, rows: SessionRow[]) => Record<string, unknown> | null): SessionRow {
    const row = this.registry.amend((rows, kept) => {
      const found = this.registry.rowOf(name, rows);
      if (!found) refuseUnreadableRow(kept, name, this.registry.path);
      return found;
    }, change);
    if (!row) throw new Refusal('not_found', `no agent is called ${name}`);
    return row;
  }

  /** The agent record of a row. `withDnd`: do-not-disturb of the session also counts as a quiet time of the agent. */
  #record(row: SessionRow, channels = this.#channels(), withDnd = true): AgentRecord {
    const { tokenHash, parley } = row;
    const extras = parley === undefined ? undefined : AgentExtras.safeParse(parley);
    const quiet = withDnd ? quietOf(row, this.now()) : undefined;
    return {
      name: row.alias as AgentName,
      subscriptions: channels.get(row.alias.toLowerCase()) ?? [],
      createdAt: iso(row.registered_at ?? 0),
      lastSeen: iso(lastSeen(row)),
      ...(typeof tokenHash === 'string' && { tokenHash }),
      ...(extras?.success && { parley: { ...extras.data, ...(quiet && { quiet }) } }),
    };
  }

  #channels(): Channels {
    const found: Channels = new Map();
    for (const room of this.#rooms.names()) {
      for (const { alias } of this.#rooms.members(room)) {
        const key = alias.toLowerCase();
        found.set(key, [...(found.get(key) ?? []), `#${room}`]);
      }
    }
    return found;
  }
}

function sorted(records: AgentRecord[]): AgentRecord[] {
  return records.sort((a, b) => a.name.localeCompare(b.name));
}

/** Refuses the alias of a row that cannot be read: the row may still be repaired, so its alias is not free. */
function refuseUnreadableRow(kept: readonly Kept[], name: string, path: string): void {
  for (const { row, value } of kept) {
    const { alias } = { ...(value as Record<string, unknown> | null) };
    if (row !== null || typeof alias !== 'string' || !isSameAlias(alias, name)) continue;
    if (alias === name) throw refuseUnreadable(`the row of ${name} in ${path}`);
    throw new Refusal('name_taken', `"${name}" differs from "${alias}" only by case; pick another name`);
  }
}

function quietOf(row: SessionRow, now: number): AgentExtras['quiet'] {
  const { dnd, dnd_until: until } = dndOf(row, now / 1000);
  if (!dnd) return undefined;
  return until === undefined ? { on: true } : { until: iso(until) };
}

function aliasNote(value: unknown): string {
  const { alias } = { ...(value as Record<string, unknown> | null) };
  return typeof alias === 'string' ? ` (${alias.replace(/\p{Cc}/gu, '?').slice(0, 64)})` : '';
}

function iso(seconds: number): string {
  const ms = Math.round(seconds * 1000);
  return new Date(Math.abs(ms) <= 8.64e15 ? ms : 0).toISOString();
}
