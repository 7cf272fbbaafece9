import { existsSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { readAlias, readRoom, readSessionId } from '../../protocol/c2c.ts';
import type { BrokerEntry } from '../../protocol/c2c.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { explained, ifThere, isMissing } from '../disk.ts';
import { stampOf } from '../file-stamp.ts';
import { isSame } from './files-rows.ts';
import { writeKept } from './files-list.ts';
import { withLock } from './lock.ts';
import { readBytes, readList, replaceFile } from './state-file.ts';

/** Who is in a room, by alias, and under which session it was last seen there. */
export interface Member {
  alias: AgentName;
  session_id: string;
  joined_at: number;
}

/** Words for rooms that let in only whom they invited. */
const CLOSED = ['invite_only', 'gated', 'private'];

/** `rooms/<name>/`: members, what was said, and who may come in. Shared with other programs. spec: c2c#rooms */
export class RoomFiles {
  readonly #known = new Map<string, { mark: string; members: Member[] }>();

  constructor(readonly root: string) {}

  folder(room: string): string {
    return `${this.root}/rooms/${readRoom(room)}`;
  }

  /** Every room that has a folder, sorted. */
  names(): string[] {
    const folder = `${this.root}/rooms`;
    // Every send asks, and an error costs more than a look.
    if (!existsSync(folder)) return [];
    try {
      return readdirSync(folder).filter(isRoom).sort();
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }

  exists(room: string): boolean {
    const folder = this.folder(room);
    return this.members(room).length > 0 || ifThere(() => lstatSync(`${folder}/history.jsonl`))?.isFile() === true;
  }

  /** In the order in which they came. What cannot be read of the list is nobody. */
  members(room: string): Member[] {
    const path = `${this.folder(room)}/members.json`;
    // Something odd in one room must not stop everybody: whoever changes that one is told.
    const found = ifThere(() => lstatSync(path));
    if (!found?.isFile()) return [];
    const mark = stampOf(path);
    const known = this.#known.get(room);
    if (known?.mark === mark) return known.members;
    const members = readList(path).values.flatMap((value) => readMember(value) ?? []);
    this.#known.set(room, { mark, members });
    return members;
  }

  /** Somebody who is there already keeps the time of coming. One session is in a room once, also after it took another alias. */
  join(room: string, member: Member): void {
    this.#refuseUninvited(room, member.alias);
    this.#change(room, (values) => {
      const at = values.findIndex((value) => {
        const one = readMember(value);
        return one !== null && (isSame(one.alias, member.alias) || one.session_id === member.session_id);
      });
      const before = values[at] as Partial<Member> | undefined;
      if (before?.alias === member.alias && before.session_id === member.session_id) return null;
      if (!before) return [...values, member];
      const after = { ...before, alias: member.alias, session_id: member.session_id };
      return values.map((value, n) => (n === at ? after : value));
    });
    this.#foundRoom(room, member.alias);
  }

  /** Who is not there leaves nothing. */
  leave(room: string, isIt: (member: Member) => boolean): void {
    if (!this.members(room).some(isIt)) return;
    this.#change(room, (values) =>
      values.filter((value) => {
        const one = readMember(value);
        return one === null || !isIt(one);
      }),
    );
  }

  /** What was said, oldest first: the last `limit`. A line that cannot be read is left out. */
  history(room: string, limit: number): BrokerEntry[] {
    const bytes = readBytes(`${this.folder(room)}/history.jsonl`);
    const said: BrokerEntry[] = [];
    const lines = bytes?.toString('utf8').split('\n') ?? [];
    for (let at = lines.length - 1; at >= 0 && said.length < limit; at -= 1) {
      const entry = readLine(room, lines[at] ?? '');
      if (entry) said.push(entry);
    }
    return said.reverse();
  }

  /** As the room's own settings say; a room without any is open to everybody. */
  meta(room: string): { visibility: string; invited: string[]; createdBy: string } {
    const { visibility, invited_members: invited, created_by: createdBy } = this.#readMeta(room);
    return {
      visibility: typeof visibility === 'string' ? visibility : 'public',
      invited: Array.isArray(invited) ? invited.filter((one): one is string => typeof one === 'string') : [],
      createdBy: typeof createdBy === 'string' ? createdBy : '',
    };
  }

  #refuseUninvited(room: string, alias: string): void {
    const { visibility, invited, createdBy } = this.meta(room);
    if (!CLOSED.includes(visibility) || [...invited, createdBy].some((one) => isSame(one, alias))) return;
    if (this.members(room).some((one) => isSame(one.alias, alias))) return;
    throw new Refusal('not_yours', `room ${room} lets in only whom it invited, and ${alias} is not among them`);
  }

  /** The first who comes is the one who made it: other programs let only that one remove it. */
  #foundRoom(room: string, alias: string): void {
    const path = `${this.folder(room)}/meta.json`;
    if (statSync(path, { throwIfNoEntry: false })) return;
    const meta = { visibility: 'public', invited_members: [], created_by: alias.toLowerCase() };
    withLock(`${this.folder(room)}/members.lock`, () => {
      if (!statSync(path, { throwIfNoEntry: false })) replaceFile(path, JSON.stringify(meta));
    });
  }

  #readMeta(room: string): Record<string, unknown> {
    try {
      const meta = JSON.parse(readBytes(`${this.folder(room)}/meta.json`)?.toString('utf8') ?? '{}') as unknown;
      return typeof meta === 'object' && meta !== null ? { ...meta } : {};
    } catch (error) {
      // Whom it lets in is not known, so it is nobody new.
      if (error instanceof SyntaxError || error instanceof Refusal) return { visibility: 'private' };
      throw error;
    }
  }

  #change(room: string, change: (values: unknown[]) => unknown[] | null): void {
    const folder = this.folder(room);
    const path = `${folder}/members.json`;
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      withLock(`${folder}/members.lock`, () => {
        const before = readList(path);
        const changed = change(before.values);
        if (changed) writeKept(this.root, path, changed, [before]);
      });
      this.#known.delete(room);
    } catch (error) {
      throw explained(error, folder, 'nothing was changed');
    }
  }
}

function isRoom(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name);
}

function readMember(value: unknown): Member | null {
  const { alias, session_id: session, joined_at: joined } = (value ?? {}) as Record<string, unknown>;
  try {
    return {
      alias: readAlias(alias),
      session_id: readSessionId(session),
      joined_at: typeof joined === 'number' ? joined : 0,
    };
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

function readLine(room: string, line: string): BrokerEntry | null {
  if (line === '') return null;
  try {
    const { from_alias: from, content, ts, message_id: id } = JSON.parse(line) as Record<string, unknown>;
    if (typeof from !== 'string' || typeof content !== 'string') return null;
    const when = typeof ts === 'number' ? ts : 0;
    const entry: BrokerEntry = { from_alias: from, to_alias: `#${room}`, content, ts: when, message_id: undefined };
    return { ...entry, ...(typeof id === 'string' && { message_id: id }) };
  } catch {
    return null;
  }
}
