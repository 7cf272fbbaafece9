import { existsSync, lstatSync, mkdirSync, readdirSync } from 'node:fs';
import type { Stats } from 'node:fs';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { explained, ifThere } from '../../core/disk.ts';
import type { BrokerEntry } from './entry.ts';
import { appendLines, readBytes, readFileLines, readList, replaceDurably, writeList } from './files.ts';
import { jsonValue } from './json-list.ts';
import { withLock } from './lock.ts';
import { isRoom, isSameAlias, readRoom, readRow } from './shapes.ts';
import type { SessionRow } from './shapes.ts';

/** A member of a room, by alias, and the session under which it was last seen there. */
export interface Member {
  alias: AgentName;
  session_id: string;
  joined_at: number;
}

/** Visibilities of rooms that only invited members may join. */
const CLOSED = ['invite_only', 'gated', 'private'];
/** How much of the end of a room's history is searched for a message that may already be in it. */
const TAIL_BYTES = 256 * 1024;

/** `rooms/<name>/`: members, history, and who may join. Shared with other programs. spec: c2c#rooms */
export class RoomFiles {
  constructor(readonly root: string) {}

  /** Every room that has a folder, sorted. */
  names(): string[] {
    const folder = `${this.root}/rooms`;
    // Every send calls this, and a check costs less than an error.
    if (!existsSync(folder)) return [];
    return (ifThere(() => readdirSync(folder)) ?? []).filter(isRoom).sort();
  }

  /** Every room that exists. */
  existing(): string[] {
    return this.names().filter((name) => this.exists(name));
  }

  /** Whether the room has a member or a history. */
  exists(room: string): boolean {
    return this.members(room).length > 0 || statOf(`${this.#folder(room)}/history.jsonl`)?.isFile() === true;
  }

  /** The members in the order in which they joined. Leaves out members that cannot be read. */
  members(room: string): Member[] {
    const path = `${this.#folder(room)}/members.json`;
    // A path that is not a plain file must not stop every send. Changing that room refuses it.
    return statOf(path)?.isFile() ? readList(path).values.flatMap((value) => readMember(value) ?? []) : [];
  }

  /** Adds a member. A known member keeps its time of joining. A session is in a room once, even under a new alias. */
  join(room: string, row: Pick<SessionRow, 'alias' | 'session_id'>, now: number): void {
    const member: Member = { alias: row.alias as AgentName, session_id: row.session_id, joined_at: now / 1000 };
    this.#change(room, (values) => {
      this.#refuseUninvited(room, member.alias, values);
      this.#makeMeta(room, member.alias);
      const at = values.findIndex((value) => {
        const one = readMember(value);
        return one !== null && (isSameAlias(one.alias, member.alias) || one.session_id === member.session_id);
      });
      const before = values[at] as Member | undefined;
      if (!before) return [...values, member];
      if (before.alias === member.alias && before.session_id === member.session_id) return null;
      return values.with(at, { ...before, alias: member.alias, session_id: member.session_id });
    });
  }

  leave(room: string, alias: string): void {
    const isIt = (member: Member | null): boolean => member !== null && isSameAlias(member.alias, alias);
    if (!this.members(room).some(isIt)) return;
    this.#change(room, (values) => values.filter((value) => !isIt(readMember(value))));
  }

  /** Appends a message to the history, unless it is there already. */
  note(room: string, said: { ts: number; from_alias: string; content: string; message_id: string }): void {
    const folder = this.#folder(room);
    if (!existsSync(folder)) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = `${folder}/history.jsonl`;
    withLock(`${folder}/history.lock`, () => {
      const tail = readBytes(path)?.subarray(-TAIL_BYTES);
      if (!tail?.includes(`"message_id":"${said.message_id}"`)) appendLines(path, [said]);
    });
  }

  /** The last `limit` messages, oldest first. Leaves out lines that cannot be read. */
  history(room: string, limit: number): BrokerEntry[] {
    const lines = readFileLines(`${this.#folder(room)}/history.jsonl`);
    const said: BrokerEntry[] = [];
    for (let at = lines.length - 1; at >= 0 && said.length < limit; at -= 1) {
      const entry = saidIn(room, lines[at] ?? '');
      if (entry) said.push(entry);
    }
    return said.reverse();
  }

  /** The settings in the room's `meta.json`. A room without that file is public. */
  meta(room: string): { visibility: string; invited: string[] } {
    const { visibility = 'public', invited_members: invited, created_by: creator } = this.#readMeta(room);
    const names: unknown[] = [...(Array.isArray(invited) ? invited : []), creator];
    return { visibility: String(visibility), invited: names.filter((one) => typeof one === 'string') };
  }

  #readMeta(room: string): Record<string, unknown> {
    const path = `${this.#folder(room)}/meta.json`;
    if (!statOf(path)) return {};
    const meta = statOf(path)?.isFile() ? jsonValue(readBytes(path)?.toString('utf8') ?? '{}') : undefined;
    // If the settings cannot be read, nobody new may join.
    return meta === undefined ? { visibility: 'private' } : { ...meta };
  }

  #refuseUninvited(room: string, alias: string, members: readonly unknown[]): void {
    const { visibility, invited } = this.meta(room);
    if (!CLOSED.includes(visibility) || invited.some((one) => isSameAlias(one, alias))) return;
    if (members.some((one) => isSameAlias(readMember(one)?.alias ?? '', alias))) return;
    throw new Refusal('not_yours', `only invited members may join room ${room}, and ${alias} is not invited`);
  }

  /** Writes the first member as the room's creator, because other programs let only the creator remove the room. */
  #makeMeta(room: string, alias: string): void {
    const path = `${this.#folder(room)}/meta.json`;
    const meta = { visibility: 'public', invited_members: [], created_by: alias.toLowerCase() };
    if (!statOf(path)) replaceDurably(path, JSON.stringify(meta));
  }

  #change(room: string, change: (values: unknown[]) => unknown[] | null): void {
    const folder = this.#folder(room);
    const path = `${folder}/members.json`;
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      withLock(`${folder}/members.lock`, () => {
        const before = readList(path);
        const changed = change(before.values);
        if (changed) writeList(this.root, path, changed, before);
      });
    } catch (error) {
      throw explained(error, folder, 'nothing was changed');
    }
  }

  #folder(room: string): string {
    return `${this.root}/rooms/${readRoom(room)}`;
  }
}

function statOf(path: string): Stats | null {
  return ifThere(() => lstatSync(path));
}

function readMember(value: unknown): Member | null {
  const row = readRow(value);
  const joined = row?.['joined_at'];
  return row && { alias: row.alias as AgentName, session_id: row.session_id, joined_at: Number(joined) || 0 };
}

function saidIn(room: string, line: string): BrokerEntry | null {
  const { from_alias: from, content, ts, message_id: id } = { ...(jsonValue(line) as Record<string, unknown> | null) };
  if (typeof from !== 'string' || typeof content !== 'string') return null;
  const entry = { from_alias: from, to_alias: `#${room}`, content, ts: typeof ts === 'number' ? ts : 0 };
  return { ...entry, message_id: typeof id === 'string' ? id : undefined };
}
