import { Database } from 'bun:sqlite';
import { statSync } from 'node:fs';
import type { RecordPlace, TurnEvent } from '../../core/ports/session.ts';
import { isMailText } from '../../delivery/fit.ts';
import { isRecord } from '../../wire/jsonrpc.ts';

/** If a session with an unanswered prompt is idle for this long, the turn was interrupted before the first word. */
const REST_MS = 5000;
/** A row has the time of its event, and is written a little later. */
const LATE_MS = 5000;

/** The fields of a message of OpenCode 1.18 that turns are read from. */
export interface OpenCodeMessage {
  role?: 'user' | 'assistant';
  parentID?: string;
  time?: { created?: number; completed?: number };
  finish?: string;
  error?: { name?: string; data?: { message?: string } };
  summary?: unknown;
}

export interface MessageRow {
  id: string;
  time_created: number;
  time_updated: number;
  data: string;
}

/** A prompt without an end. */
interface OpenPrompt {
  id: string;
  at: number;
}

/** Values of `finish` after which the turn continues with another step. */
const GOES_ON = ['tool-calls', 'unknown'];

/** A place in a conversation: after the message `behind`. `reported`: prompts after it that were reported and have no end yet. */
interface Place {
  conversation: string;
  behind: string;
  reported: string[];
  /** In a conversation that is read from its beginning, messages before this time are not new. */
  after: number;
}

/** The state of the client that decides what becomes of open prompts. `startedAt` is null if the client does not run. */
export interface LiveOpenCode {
  startedAt: number | null;
  isIdle: boolean;
}

/** Read-only, because OpenCode writes to the database at the same time. */
const OPTIONS = { readonly: true, create: false } as const;
const MESSAGES = 'SELECT id, time_created, time_updated, data FROM message WHERE session_id = ? AND id > ? ORDER BY id';
const TEXTS = 'SELECT data FROM part WHERE message_id = ? AND data LIKE \'%"type":"text"%\' ORDER BY id';
const NEWEST = `SELECT id FROM session WHERE directory = ? AND parent_id IS NULL AND time_archived IS NULL ORDER BY time_updated DESC LIMIT 1`;

/**
 * The record of OpenCode 1.18: the messages of its conversations in a SQLite file. Ids of messages grow with time.
 *
 * A turn begins with a message of the user. It ends with an answer to it (`parentID`) that is the last step of the turn, or has an error.
 * What is said while it works joins the turn at the next step, whose parent is the newest message: so an answer ends all prompts up
 * to its parent.
 */
export class OpenCodeRecord {
  #opened: Database | null = null;
  /** The inode of the open file. */
  #inode: number | null = null;

  constructor(readonly path: string) {}

  /** The folder to watch for changes. */
  get folder(): string {
    return this.path.slice(0, this.path.lastIndexOf('/'));
  }

  has(conversation: string): boolean {
    return this.#first('SELECT id FROM session WHERE id = ?', conversation) !== null;
  }

  /** The user's last used conversation in this folder; null if there is none. */
  newest(folder: string): string | null {
    return this.#first(NEWEST, folder)?.id ?? null;
  }

  /** Is there a message whose id has this ending? */
  hasMessage(conversation: string, ending: string): boolean {
    const sql = 'SELECT id FROM message WHERE session_id = ? AND id LIKE ?';
    return this.#first(sql, conversation, `%${ending}`) !== null;
  }

  /** The user's conversation to which this conversation of a subagent belongs; a user's conversation is its own root. */
  rootOf(conversation: string): string {
    const sql = 'SELECT parent_id AS id FROM session WHERE id = ? AND parent_id IS NOT NULL';
    let root = conversation;
    for (let up = this.#first(sql, root); up; up = this.#first(sql, root)) root = up.id;
    return root;
  }

  /** The recorded state of a tool call; null if the call is not recorded. */
  callState(message: string, call: string): Record<string, unknown> | null {
    for (const { data } of this.rows<{ data: string }>('SELECT data FROM part WHERE message_id = ?', message)) {
      const part: unknown = JSON.parse(data);
      if (isRecord(part) && part['callID'] === call && isRecord(part['state'])) return part['state'];
    }
    return null;
  }

  /** The id of the last message; empty if there is none. */
  lastMessage(conversation: string): string {
    const sql = 'SELECT id FROM message WHERE session_id = ? ORDER BY id DESC LIMIT 1';
    return this.#first(sql, conversation)?.id ?? '';
  }

  place(conversation: string | null): RecordPlace {
    return written({
      conversation: conversation ?? '',
      behind: conversation === null ? '' : this.lastMessage(conversation),
      reported: [],
      after: Date.now() - LATE_MS,
    });
  }

  /** The events since a place: those in its conversation, then those in the session's current conversation. */
  events(
    since: RecordPlace,
    conversation: string | null,
    live: LiveOpenCode,
  ): { events: TurnEvent[]; next: RecordPlace } {
    const from = placeIn(since);
    const isOther = conversation !== null && conversation !== from.conversation;
    const first = this.#read(from, isOther ? { ...live, startedAt: null } : live);
    const second = isOther
      ? this.#read({ conversation, behind: '', reported: [], after: from.after }, live)
      : { events: [], next: first.next };
    const isSame = first.events.length + second.events.length === 0 && isSamePlace(from, second.next);
    return { events: [...first.events, ...second.events], next: isSame ? since : written(second.next) };
  }

  /** Is a turn open in this conversation that began while this client ran? */
  isInTurn(conversation: string, startedAt: number): boolean {
    const sql =
      'SELECT id, time_created, time_updated, data FROM message WHERE session_id = ? ORDER BY id DESC LIMIT 1';
    const row = this.#first(sql, conversation);
    if (!row || row.time_created < startedAt) return false;
    const message = recordedMessage(row);
    return message.role === 'user' || !isLast(message);
  }

  close(): void {
    this.#opened?.close();
    this.#opened = null;
  }

  #read(place: Place, live: LiveOpenCode): { events: TurnEvent[]; next: Place } {
    const events: TurnEvent[] = [];
    let open: OpenPrompt[] = [];
    let { behind } = place;
    let updated = 0;
    const rows = place.conversation === '' ? [] : this.rows<MessageRow>(MESSAGES, place.conversation, behind);
    for (const [at, row] of rows.entries()) {
      const message = recordedMessage(row);
      if (message.role === 'user') {
        const text = this.textOf(row.id);
        // OpenCode writes the text of a message a moment after the message.
        if (text === null && at === rows.length - 1) break;
        const isNew = place.behind !== '' || row.time_created >= place.after;
        if (text && isNew && !isMailText(text)) {
          open.push({ id: row.id, at: row.time_created });
          if (!place.reported.includes(row.id))
            events.push({ kind: 'prompt', turn: row.id, text, at: row.time_created, key: row.id.slice(-KEY_LENGTH) });
        }
      } else if (isLast(message) && message.summary !== true) {
        const ended = open.filter(({ id }) => id <= (message.parentID ?? ''));
        open = open.filter((prompt) => !ended.includes(prompt));
        events.push(
          ...ends(ended, { ...turnOutcome(message, () => this.textOf(row.id) ?? '') }, message.time?.completed),
        );
      }
      behind = row.id;
      updated = Math.max(updated, row.time_updated);
    }
    const cut = open.filter(({ at }) => live.startedAt === null || at < live.startedAt);
    const isResting = live.isIdle && Date.now() - updated > REST_MS;
    open = open.filter((prompt) => !cut.includes(prompt));
    events.push(...ends(cut, { how: 'failed', text: 'OpenCode ended before its turn did' }));
    if (isResting) events.push(...ends(open.splice(0), { how: 'interrupted', text: '' }));
    const [first] = open;
    const after = behind === '' ? place.after : Date.now() - LATE_MS;
    const next = { conversation: place.conversation, reported: open.map(({ id }) => id), after };
    return { events, next: { ...next, behind: first ? before(first.id) : behind } };
  }

  /** The text of a message, without the parts that OpenCode adds; null if no part is written yet. */
  textOf(message: string): string | null {
    const parts = this.rows<{ data: string }>(TEXTS, message).flatMap(({ data }) => {
      const part: unknown = JSON.parse(data);
      return isRecord(part) && part['type'] === 'text' ? [part] : [];
    });
    if (parts.length === 0) return null;
    const said = parts.filter((part) => part['synthetic'] !== true && part['ignored'] !== true);
    return said.map((part) => String(part['text'])).join('\n\n');
  }

  #first(sql: string, ...values: string[]): MessageRow | null {
    return this.rows<MessageRow>(sql, ...values)[0] ?? null;
  }

  /** The rows of a query; none while there is no database. */
  rows<T>(sql: string, ...values: string[]): T[] {
    const { ino = null } = statSync(this.path, { throwIfNoEntry: false }) ?? {};
    // The user deleted the file, and OpenCode made a new one.
    if (ino !== null && ino !== this.#inode) this.close();
    if (!this.#opened && ino === null) return [];
    this.#inode = ino ?? this.#inode;
    this.#opened ??= new Database(this.path, OPTIONS);
    try {
      return this.#opened.query<T, string[]>(sql).all(...values);
    } catch (error) {
      this.close();
      throw error;
    }
  }
}

/** The number of characters at the end of an id that we can choose. An id is `msg_`, twelve digits of time, and these characters. */
export const KEY_LENGTH = 14;

/** A message id in OpenCode's format, which grows with time, with our ending. */
export function messageId(ending: string, now: number): string {
  const time = (BigInt(now) * 0x1000n) & 0xffff_ffff_ffffn;
  return `msg_${time.toString(16).padStart(12, '0')}${ending}`;
}

/** The ending of the message id for the prompt with this key. */
export function endingOf(key: string): string {
  return new Bun.CryptoHasher('sha256').update(key).digest('hex').slice(0, KEY_LENGTH);
}

export function recordedMessage({ data }: MessageRow): OpenCodeMessage {
  const value: unknown = JSON.parse(data);
  return isRecord(value) ? value : {};
}

/** Is this answer the last step of its turn? */
export function isLast({ time, finish, error }: OpenCodeMessage): boolean {
  return error !== undefined || (time?.completed !== undefined && finish !== undefined && !GOES_ON.includes(finish));
}

export function turnOutcome({ error }: OpenCodeMessage, text: () => string): Omit<End, 'at'> {
  if (!error) return { how: 'done', text: text() };
  if (error.name === 'MessageAbortedError') return { how: 'interrupted', text: text() };
  return { how: 'failed', text: error.data?.message ?? error.name ?? '' };
}

type End = Pick<Extract<TurnEvent, { kind: 'end' }>, 'how' | 'text'>;

function ends(prompts: readonly OpenPrompt[], end: End, at = Date.now()): TurnEvent[] {
  const shared = prompts.length > 1 ? ({ shared: true } as const) : {};
  return prompts.map(({ id }) => ({ kind: 'end', turn: id, ...end, at, ...shared }));
}

/** A string between this id and all smaller ids, as the place just before this message. */
function before(id: string): string {
  return `${id.slice(0, -1)}${String.fromCharCode(id.charCodeAt(id.length - 1) - 1)}`;
}

function written({ conversation, behind, reported, after }: Place): RecordPlace {
  return JSON.stringify({ c: conversation, m: behind, ...(reported.length > 0 && { r: reported }), t: after });
}

function isSamePlace(a: Place, b: Place): boolean {
  return a.conversation === b.conversation && a.behind === b.behind && a.reported.join() === b.reported.join();
}

/** Parses a place. A place that cannot be parsed becomes the current time. */
function placeIn(place: RecordPlace): Place {
  try {
    const { c = '', m = '', r = [], t = 0 } = JSON.parse(place) as { c?: string; m?: string; r?: string[]; t?: number };
    return { conversation: c, behind: m, reported: r, after: t };
  } catch {
    return { conversation: '', behind: '', reported: [], after: Date.now() - LATE_MS };
  }
}
