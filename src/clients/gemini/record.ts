import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import { fencedIds, idInFence, isMailText } from '../../delivery/fit.ts';
import { writtenAt } from '../../delivery/held-live.ts';
import type { FollowedRecord, RecordedState, RecordFile } from '../../delivery/held-live.ts';
import { namesIn } from '../../delivery/hook-session.ts';
import { userHome } from '../../platform/env.ts';
import { linesFrom } from '../../sessions/follow.ts';
import { isRecord } from '../../wire/jsonrpc.ts';

/** Where Gemini CLI keeps its files. `env` has HOME. */
export function geminiHome(env: Env): string {
  return `${env['GEMINI_CLI_HOME'] || userHome(env)}/.gemini`;
}

/**
 * The records of Gemini CLI 0.61: `tmp/<project>/chats/session-<time>-<first 8 characters of its id>.jsonl`, one per conversation. The file
 * exists as soon as the window is ready. `tmp/<project>/.project_root` names the folder.
 */
export class GeminiIndex {
  /** By path: the id and the start time in the first line of a record. They never change. */
  readonly #heads = new Map<string, { id: string; begunAt: number }>();
  /** The folder of each project. It never changes. */
  readonly #roots = new Map<string, string>();

  constructor(readonly home: string) {}

  get isEmpty(): boolean {
    return this.#projects().length === 0;
  }

  find(id: string): RecordFile | null {
    const end = `-${id.slice(0, 8)}.jsonl`;
    const found = this.#projects().flatMap((project) => this.#records(project, (name) => name.endsWith(end)));
    return found.find((one) => one.id === id) ?? null;
  }

  /** The conversations of a folder, the oldest first: the file names begin with the time. */
  inFolder(folder: string): RecordFile[] {
    return this.#projects()
      .filter((project) => this.#rootOf(project) === folder)
      .flatMap((project) => this.#records(project));
  }

  watched(folder: string): string[] {
    const own = this.#projects().filter((project) => this.#rootOf(project) === folder);
    return [`${this.home}/tmp`, ...own.map((project) => `${project}/chats`)].filter((path) => existsSync(path));
  }

  /** When a conversation began, Unix ms; 0 if its record does not say. */
  begunAt({ path }: RecordFile): number {
    return this.#head(path)?.begunAt ?? 0;
  }

  #projects(): string[] {
    return namesIn(`${this.home}/tmp`).map((name) => `${this.home}/tmp/${name}`);
  }

  #records(project: string, isMeant: (name: string) => boolean = () => true): RecordFile[] {
    const names = namesIn(`${project}/chats`).filter((name) => /^session-.*\.jsonl$/.test(name) && isMeant(name));
    return names.toSorted().flatMap((name) => {
      const path = `${project}/chats/${name}`;
      const head = this.#head(path);
      return head ? [{ id: head.id, folder: this.#rootOf(project) ?? '', path }] : [];
    });
  }

  #head(path: string): { id: string; begunAt: number } | null {
    const known = this.#heads.get(path);
    if (known) return known;
    const [first] = linesFrom(path, 0);
    const { sessionId, startTime } = objectIn(first?.text ?? '') ?? {};
    if (typeof sessionId !== 'string') return null;
    const head = { id: sessionId, begunAt: timeIn(startTime) };
    this.#heads.set(path, head);
    return head;
  }

  #rootOf(project: string): string | null {
    const known = this.#roots.get(project);
    if (known !== undefined) return known;
    try {
      const root = readFileSync(`${project}/.project_root`, 'utf8').trim();
      if (root !== '') this.#roots.set(project, root);
      return root;
    } catch {
      return null;
    }
  }
}

/**
 * An entry of a record: input of the user, a tool or a hook (`user`), an answer of the model (`gemini`), or a notice to the user (`info`).
 * `isAnswer`: the model wrote this entry in answer to a request. An entry that Gemini CLI itself makes up names no model. An entry with tool
 * calls does not count: Gemini CLI writes it again when the tools have run.
 */
export interface ChatEntry {
  id: string;
  type: string;
  at: number;
  /** The texts of its parts, and what tools printed. */
  texts: string[];
  isToolResult: boolean;
  isAnswer: boolean;
}

/** One line of a record: an entry, or the whole conversation from now on (`all`). Null: another line. */
export type ChatLine = { entry: ChatEntry } | { all: ChatEntry[] } | null;

const LINE = /^\{"(?:id|\$set|\$rewindTo)":/;

export function chatLine(line: string): ChatLine {
  const read = LINE.test(line) ? objectIn(line) : null;
  if (!read) return null;
  if (typeof read['id'] === 'string') return { entry: entryOf(read) };
  // A rewind does not say what is left of the conversation: assume nothing.
  if (read['$rewindTo'] !== undefined) return { all: [] };
  const { messages } = isRecord(read['$set']) ? read['$set'] : {};
  return Array.isArray(messages) ? { all: messages.filter(isRecord).map(entryOf) } : null;
}

function entryOf({ id, type, timestamp, content, model, toolCalls }: Record<string, unknown>): ChatEntry {
  const parts: unknown[] = Array.isArray(content) ? content : [{ text: content }];
  const all = parts.filter(isRecord);
  return {
    id: String(id),
    type: String(type),
    at: timeIn(timestamp),
    texts: all.flatMap(textsIn),
    isToolResult: all.some((part) => part['functionResponse'] !== undefined),
    isAnswer: type === 'gemini' && typeof model === 'string' && toolCalls === undefined,
  };
}

function textsIn({ text, functionResponse }: Record<string, unknown>): string[] {
  if (typeof text === 'string') return [text];
  const { response } = isRecord(functionResponse) ? functionResponse : {};
  const { output } = isRecord(response) ? response : {};
  return typeof output === 'string' ? [output] : [];
}

/**
 * Follows a record for the client's current state. A record does not show where a turn ends, because a tool call may follow an answer with
 * text. So this reports only when the client certainly works; the screen decides the rest.
 */
export class FollowedChat implements FollowedRecord {
  #offset = 0;
  readonly #mail = new Map<string, number>();
  #turnSince: number | null = null;

  constructor(readonly path: string) {}

  look(): RecordedState {
    for (const { text, from, to } of linesFrom(this.path, this.#offset)) {
      this.#offset = to;
      const line = chatLine(text);
      if (line && 'entry' in line) this.#take(line.entry, from);
      // A rewritten conversation: a request failed or was cancelled, or the conversation was compressed.
      else if (line) this.#turnSince = null;
    }
    return { turnSince: this.#turnSince, waitingFor: null, at: writtenAt(this) };
  }

  placeOf(id: MessageId): number | null {
    this.look();
    return this.#mail.get(idInFence(id)) ?? null;
  }

  #take({ type, at, texts, isAnswer }: ChatEntry, from: number): void {
    for (const id of texts.flatMap(mailIn).flatMap(fencedIds)) if (!this.#mail.has(id)) this.#mail.set(id, from);
    const isWork = type === 'user' || (isAnswer && texts.join('') === '');
    this.#turnSince = isWork ? at : null;
  }
}

/** The tag that Gemini CLI puts around a hook's text, in which it escapes `<` and `>`. */
const CONTEXT = '<hook_context>';

/** The mail in one text of the record: the text itself, or the text that a hook added to it. */
export function mailIn(text: string): string[] {
  const at = text.lastIndexOf(`${CONTEXT}[parley `);
  return [text, ...(at < 0 ? [] : [text.slice(at + CONTEXT.length)])].filter(isMailText);
}

/**
 * Whether a subagent runs: its record is newer than the session's record (`transcript`), because the session waits for it. Tools of a
 * subagent run the session's hooks, but the text of those hooks reaches only the subagent.
 */
export function hasSubagent(transcript: string, session: string): boolean {
  const folder = `${dirname(transcript)}/${basename(session)}`;
  const own = writtenAt({ path: transcript });
  return own > 0 && namesIn(folder).some((name) => writtenAt({ path: `${folder}/${name}` }) > own);
}

function objectIn(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

function timeIn(value: unknown): number {
  return typeof value === 'string' ? Date.parse(value) || 0 : 0;
}
