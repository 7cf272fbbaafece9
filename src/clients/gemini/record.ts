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
 * The conversations that Gemini CLI 0.61 writes down: `tmp/<project>/chats/session-<time>-<8 of its id>.jsonl`, from the moment at which its
 * window is ready. `tmp/<project>/.project_root` names the folder.
 */
export class GeminiIndex {
  /** The first line of a record names its id and when it began, and does not change. */
  readonly #heads = new Map<string, { id: string; begunAt: number }>();
  /** Nor does the folder of a project. */
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

  /** The oldest first: their names begin with the time. */
  inFolder(folder: string): RecordFile[] {
    return this.#projects()
      .filter((project) => this.#rootOf(project) === folder)
      .flatMap((project) => this.#records(project));
  }

  watched(folder: string): string[] {
    const own = this.#projects().filter((project) => this.#rootOf(project) === folder);
    return [`${this.home}/tmp`, ...own.map((project) => `${project}/chats`)].filter((path) => existsSync(path));
  }

  /** When a conversation was begun, Unix ms. */
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
 * An entry of a record: what the user, a tool or a hook said (`user`), what the model answered (`gemini`), or what the window told its user.
 * `isAnswer`: the model answered a request with it. Entries that Gemini CLI makes up name no model, and those of tools that have run are
 * written again, with their results.
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

/** One line of a record: an entry, or the whole conversation as it is from now on. Null: it says neither. */
export type ChatLine = { entry: ChatEntry } | { all: ChatEntry[] } | null;

const LINE = /^\{"(?:id|\$set|\$rewindTo)":/;

export function chatLine(line: string): ChatLine {
  const read = LINE.test(line) ? objectIn(line) : null;
  if (!read) return null;
  if (typeof read['id'] === 'string') return { entry: entryOf(read) };
  // What is left of the conversation is not said: nothing that we know of.
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
 * What a record says the client does. It does not say where a turn ends: an answer with words may go on with a tool. So this only tells
 * when the client surely works, and the screen must show the rest.
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
      // A request that failed or was cancelled is taken out of the conversation.
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

/** What Gemini CLI puts around the text of a hook, with `<` and `>` written as entities in the text. */
const CONTEXT = '<hook_context>';

/** The mail in one text of the record: the text itself, or what a hook added to it. */
export function mailIn(text: string): string[] {
  const at = text.lastIndexOf(`${CONTEXT}[parley `);
  return [text, ...(at < 0 ? [] : [text.slice(at + CONTEXT.length)])].filter(isMailText);
}

/**
 * Whether a subagent runs: its record is newer than that of its session, which waits for it. Its tools run the hooks of the session, and
 * what is said there reaches the subagent only. `transcript`: the record of the session.
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
