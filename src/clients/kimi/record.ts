import { existsSync, statSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import type { MessageId } from '../../core/names.ts';
import type { TurnEvent } from '../../core/ports/session.ts';
import { fencedIds, idInFence, isMailText } from '../../delivery/fit.ts';
import { writtenAt } from '../../delivery/held-live.ts';
import type { RecordedState, RecordFile } from '../../delivery/held-live.ts';
import { userHome } from '../../platform/env.ts';
import { linesFrom } from '../../sessions/follow.ts';
import type { TurnLines } from '../../sessions/turn-record.ts';
import { isRecord } from '../../wire/jsonrpc.ts';

/**
 * What Kimi 2.1 writes down: `session_index.jsonl` names every session with its folders, and `agents/main/wire.jsonl` in a session's
 * folder has what was said there, one JSON object per line, appended.
 */
export type KimiSessionFiles = RecordFile;

/** Where Kimi keeps its files. `env` has HOME. */
export function kimiHome(env: Env): string {
  return env['KIMI_CODE_HOME'] || `${userHome(env)}/.kimi-code`;
}

/** The sessions of a Kimi. The index only grows, and is read on. */
export class KimiIndex {
  readonly #found = new Map<string, KimiSessionFiles>();
  #offset = 0;

  constructor(readonly home: string) {}

  /** Null if there is none with this id, or if nothing was written down of it. */
  find(id: string): KimiSessionFiles | null {
    this.#read();
    const found = this.#found.get(id);
    return found && isThere(found) ? found : null;
  }

  /** Kimi was never used here. */
  get isEmpty(): boolean {
    this.#read();
    return this.#found.size === 0;
  }

  /** The sessions of a folder, the oldest first. */
  inFolder(folder: string): KimiSessionFiles[] {
    this.#read();
    return [...this.#found.values()].filter((one) => one.folder === folder && isThere(one));
  }

  #read(): void {
    for (const { text, to } of linesFrom(`${this.home}/session_index.jsonl`, this.#offset)) {
      this.#offset = to;
      const { sessionId: id, sessionDir: dir, workDir: folder } = objectIn(text) ?? {};
      if (typeof id !== 'string' || typeof dir !== 'string' || typeof folder !== 'string') continue;
      this.#found.set(id, { id, folder, path: `${dir}/agents/main/wire.jsonl` });
    }
  }
}

function isThere({ path }: KimiSessionFiles): boolean {
  return existsSync(path);
}

/** When a session was begun, Unix ms; 0 if its record does not say. */
export function begunAt({ path }: KimiSessionFiles): number {
  const [first] = linesFrom(path, 0);
  return timeIn(objectIn(first?.text ?? '')?.['created_at']);
}

/**
 * Looks for one text in the conversations of a folder: what was said since this began, or since a moment. Each look reads on where the one
 * before it ended. A record can have 100 MB.
 */
export class PromptSearch {
  /** Up to where each record was read, by the id of its conversation. */
  readonly #read = new Map<string, number>();
  readonly #found = new Set<string>();

  constructor(
    readonly index: KimiIndex,
    readonly folder: string,
    readonly isText: (said: string) => boolean,
    readonly since: number | null = null,
  ) {
    if (since === null) for (const one of index.inFolder(folder)) this.#read.set(one.id, sizeOf(one));
  }

  /** The oldest of these conversations in which it was said. */
  among(isMeant: (id: string) => boolean): string | null {
    const mayBe = this.index.inFolder(this.folder).filter(({ id }) => isMeant(id));
    return mayBe.find((one) => this.#isIn(one))?.id ?? null;
  }

  #isIn(one: KimiSessionFiles): boolean {
    if (!this.#found.has(one.id) && writtenAt(one) >= (this.since ?? 0)) this.#readOn(one);
    return this.#found.has(one.id);
  }

  #readOn({ id, path }: KimiSessionFiles): void {
    for (const { text, to } of linesFrom(path, this.#read.get(id) ?? 0)) {
      this.#read.set(id, to);
      const entry = text.startsWith('{"type":"turn.prompt"') ? objectIn(text) : null;
      if (!entry || timeIn(entry['time']) < (this.since ?? 0) || !this.isText(textInParts(entry['input']))) continue;
      this.#found.add(id);
      return;
    }
  }
}

/** A line that is half written then is none that comes later. */
function sizeOf({ path }: KimiSessionFiles): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

interface OpenTurn {
  /** What a person or we said. A turn that Kimi began by itself, or for mail, has none. */
  prompts: string[];
  at: number;
  /** The texts of the step that runs, or ran last. */
  texts: string[];
  /** What the model had said, before mail made it go on. */
  answer?: string[];
}

/** A line that begins otherwise is none of ours. Lines can have megabytes. */
const OURS =
  /^\{"type":"(?:turn\.(?:prompt|steer|ended)|interaction\.(?:request|resolved)|context\.append_(?:message|loop_event))"/;
const HOW: Record<string, 'done' | 'interrupted'> = { completed: 'done', cancelled: 'interrupted' };

/**
 * Reads turns from the lines of a record. A turn begins with `turn.prompt` and ends with `turn.ended`, also if its user interrupts it; only
 * one that ended with Kimi itself has no end. What is steered into it (`turn.steer`) is a part of it, and gets its answer. What is typed
 * while Kimi works and not steered waits, and gets a turn of its own.
 *
 * Mail that our hook brings where the turn would end prolongs it. What the model says to that is no part of the answer.
 */
export class KimiTurns implements TurnLines {
  readonly isSaid = false;
  #turn: OpenTurn | null = null;
  /** What it asks its user, by id. */
  readonly #asked = new Map<string, string>();

  /** When the turn began that has not ended yet, also one that Kimi began by itself. */
  get since(): number | null {
    return this.#turn?.at ?? null;
  }

  get open(): string[] {
    return this.#turn?.prompts ?? [];
  }

  /** What it waits for: `approval`, `question`; null if for nothing. */
  get waitingFor(): string | null {
    return [...this.#asked.values()].at(-1) ?? null;
  }

  take(line: string): TurnEvent[] {
    const entry = OURS.test(line) ? objectIn(line) : null;
    if (!entry) return [];
    const at = timeIn(entry['time']);
    switch (entry['type']) {
      case 'turn.prompt':
        return [...this.close('interrupted', at), ...this.#begun(entry, at)];
      case 'turn.steer':
        return this.#said(entry, entry['messageId'], at);
      case 'turn.ended':
        return this.#ended(entry, at);
      case 'interaction.request':
        this.#asked.set(String(entry['id']), String(entry['kind']));
        return [];
      case 'interaction.resolved':
        this.#asked.delete(String(entry['id']));
        return [];
      case 'context.append_loop_event':
        this.#step(entry['event']);
        return [];
      default:
        this.#appended(entry['message']);
        return [];
    }
  }

  close(how: 'interrupted' | 'failed' | 'done', at: number): TurnEvent[] {
    const { prompts, texts, answer } = this.#turn ?? { prompts: [], texts: [] };
    this.#turn = null;
    this.#asked.clear();
    const text = (answer ?? texts).join('\n\n');
    const shared = prompts.length > 1 ? ({ shared: true } as const) : {};
    return prompts.map((turn) => ({ kind: 'end', turn, how: answer ? 'done' : how, text, at, ...shared }));
  }

  #begun(entry: Record<string, unknown>, at: number): TurnEvent[] {
    this.#turn = { prompts: [], at, texts: [] };
    return this.#said(entry, entry['promptId'], at);
  }

  #said({ input, origin }: Record<string, unknown>, id: unknown, at: number): TurnEvent[] {
    const text = textInParts(input);
    const isUsers = isRecord(origin) && origin['kind'] === 'user';
    if (!this.#turn || !isUsers || typeof id !== 'string' || isMailText(text)) return [];
    this.#turn.prompts.push(id);
    return [{ kind: 'prompt', turn: id, text, at }];
  }

  #ended({ reason, error }: Record<string, unknown>, at: number): TurnEvent[] {
    const how = HOW[String(reason)] ?? 'failed';
    const turn = this.#turn;
    // What a model said before it failed is no answer.
    if (turn && how === 'failed')
      turn.texts = isRecord(error) ? [String(error['message'] ?? reason)] : [String(reason)];
    return this.close(how, at);
  }

  #step(event: unknown): void {
    const turn = this.#turn;
    if (!turn || !isRecord(event)) return;
    if (event['type'] === 'step.begin') turn.texts = [];
    const part = event['type'] === 'content.part' && isRecord(event['part']) ? event['part'] : {};
    if (part['type'] === 'text' && typeof part['text'] === 'string') turn.texts.push(part['text']);
  }

  #appended(message: unknown): void {
    const turn = this.#turn;
    if (turn && turn.texts.length > 0 && isRecord(message) && isMailText(textInParts(message['content'])))
      turn.answer ??= turn.texts;
  }
}

/** The record of one conversation, followed for what the client does now. */
export class FollowedWire {
  readonly #turns = new KimiTurns();
  /** Where each message of ours first came into the conversation, by its id in the fence. */
  readonly #mail = new Map<string, number>();
  #offset = 0;
  /** When something of a turn was last written down. */
  #at = 0;

  constructor(readonly path: string) {}

  look(): RecordedState {
    for (const { text, from, to } of linesFrom(this.path, this.#offset)) {
      this.#turns.take(text);
      this.#offset = to;
      const entry = OURS.test(text) ? objectIn(text) : null;
      if (entry) this.#at = timeIn(entry['time']) || this.#at;
      for (const id of entry ? fencedIds(mailTextIn(entry)) : []) if (!this.#mail.has(id)) this.#mail.set(id, from);
    }
    return { turnSince: this.#turns.since, waitingFor: this.#turns.waitingFor, at: this.#at };
  }

  /** Where this message first came into the conversation; null if it did not. */
  placeOf(id: MessageId): number | null {
    this.look();
    return this.#mail.get(idInFence(id)) ?? null;
  }
}

/** Whether a turn of this session is open, by its record; null if it has none. Each look reads on. */
export function followedTurn(index: KimiIndex, session: string): () => boolean | null {
  let wire: FollowedWire | null = null;
  return () => {
    const path = index.find(session)?.path;
    if (path === undefined) return null;
    if (wire?.path !== path) wire = new FollowedWire(path);
    return wire.look().turnSince !== null;
  };
}

export function objectIn(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

function timeIn(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

/** What was typed, or what a hook said with a prompt: Kimi wraps that. */
function mailTextIn({ input, message }: Record<string, unknown>): string {
  return input === undefined ? appendedText(isRecord(message) ? message['content'] : null) : textInParts(input);
}

/** The text of a message that joined the conversation, without what Kimi wraps a hook's text in. */
export function appendedText(content: unknown): string {
  const text = textInParts(content);
  const inside = text.replace(/^<hook_result [^>\n]*>\n/, '');
  return inside === text ? text : inside.replace(/\n?<\/hook_result>\s*$/, '');
}

/** The texts of a message, one behind the other. */
export function textInParts(parts: unknown): string {
  const all: unknown[] = Array.isArray(parts) ? parts : [];
  return all.map((part) => (isRecord(part) && typeof part['text'] === 'string' ? part['text'] : '')).join('');
}
