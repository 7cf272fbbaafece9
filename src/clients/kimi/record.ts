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
 * The files of Kimi 2.1: `session_index.jsonl` names every session with its folders. `agents/main/wire.jsonl` in the folder of a session is
 * its record: one JSON object per line, only appended.
 */
export type KimiSessionFiles = RecordFile;

/** Where Kimi keeps its files. `env` has HOME. */
export function kimiHome(env: Env): string {
  return env['KIMI_CODE_HOME'] || `${userHome(env)}/.kimi-code`;
}

/** The sessions in one home of Kimi. The index file only grows, so each look reads only its new lines. */
export class KimiIndex {
  readonly #found = new Map<string, KimiSessionFiles>();
  #offset = 0;

  constructor(readonly home: string) {}

  /** The session with this id; null if there is none, or if it has no record yet. */
  find(id: string): KimiSessionFiles | null {
    this.#read();
    const found = this.#found.get(id);
    return found && isThere(found) ? found : null;
  }

  /** Whether Kimi has no session in this home. */
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

/** When a session began, Unix ms; 0 if its record does not say. */
export function begunAt({ path }: KimiSessionFiles): number {
  const [first] = linesFrom(path, 0);
  return timeIn(objectIn(first?.text ?? '')?.['created_at']);
}

/**
 * Looks for one prompt in the conversations of a folder: in what is recorded after this search was made, or since a time (`since`, Unix ms).
 * Each look continues where the last one ended, because a record can have 100 MB.
 */
export class PromptSearch {
  /** The offset up to which each record was read, by the id of its conversation. */
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

  /** The id of the oldest of these conversations that has the prompt. */
  among(isMeant: (id: string) => boolean): string | null {
    const candidates = this.index.inFolder(this.folder).filter(({ id }) => isMeant(id));
    return candidates.find((one) => this.#isIn(one))?.id ?? null;
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

/** The size of a record now. A line that is only half written now is not found later. */
function sizeOf({ path }: KimiSessionFiles): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

interface OpenTurn {
  /** The ids of prompts that a person typed or control sent. A turn that Kimi began by itself, or for mail, has none. */
  prompts: string[];
  at: number;
  /** The model's texts in the current or last step. */
  texts: string[];
  /** The model's texts before mail prolonged the turn. */
  answer?: string[];
}

/** How lines begin that are read here. Other lines are not parsed: a line can have megabytes. */
const RELEVANT =
  /^\{"type":"(?:turn\.(?:prompt|steer|ended)|interaction\.(?:request|resolved)|context\.append_(?:message|loop_event))"/;
const HOW: Record<string, 'done' | 'interrupted'> = { completed: 'done', cancelled: 'interrupted' };

/**
 * Reads turns from the lines of a record. A turn begins with `turn.prompt` and ends with `turn.ended`, even if its user interrupts it; the
 * end is missing only if Kimi itself ended during the turn. A prompt that is steered into a turn (`turn.steer`) belongs to it and shares its
 * answer. A prompt that is typed while Kimi works and not steered waits, and gets a turn of its own.
 *
 * Mail that our hook adds at the end of a turn prolongs the turn. What the model says to that mail is no part of the answer.
 */
export class KimiTurns implements TurnLines {
  readonly isSaid = false;
  #turn: OpenTurn | null = null;
  /** The kinds of its open questions to its user, by the id of the question. */
  readonly #asked = new Map<string, string>();

  /** When the open turn began, even if Kimi began it by itself; null if no turn is open. */
  get since(): number | null {
    return this.#turn?.at ?? null;
  }

  get open(): string[] {
    return this.#turn?.prompts ?? [];
  }

  /** What Kimi waits for: `approval` or `question`; null if it waits for nothing. */
  get waitingFor(): string | null {
    return [...this.#asked.values()].at(-1) ?? null;
  }

  take(line: string): TurnEvent[] {
    const entry = RELEVANT.test(line) ? objectIn(line) : null;
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
    // The model's texts before a failure are no answer: report the error instead.
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

/** Follows the record of one conversation, for the client's current state. */
export class FollowedWire {
  readonly #turns = new KimiTurns();
  /** The offset at which each message of ours first came into the conversation, by its id in the fence. */
  readonly #mail = new Map<string, number>();
  #offset = 0;
  /** The time of the last line about a turn. */
  #at = 0;

  constructor(readonly path: string) {}

  look(): RecordedState {
    for (const { text, from, to } of linesFrom(this.path, this.#offset)) {
      this.#turns.take(text);
      this.#offset = to;
      const entry = RELEVANT.test(text) ? objectIn(text) : null;
      if (entry) this.#at = timeIn(entry['time']) || this.#at;
      for (const id of entry ? fencedIds(mailTextIn(entry)) : []) if (!this.#mail.has(id)) this.#mail.set(id, from);
    }
    return { turnSince: this.#turns.since, waitingFor: this.#turns.waitingFor, at: this.#at };
  }

  /** The offset at which this message first came into the conversation; null if it did not. */
  placeOf(id: MessageId): number | null {
    this.look();
    return this.#mail.get(idInFence(id)) ?? null;
  }
}

/** Returns a function: whether a turn of this session is open, by its record; null without a record. Each call reads only new lines. */
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

/** The text of an entry: what was typed, or the text of a hook without Kimi's wrapping. */
function mailTextIn({ input, message }: Record<string, unknown>): string {
  return input === undefined ? appendedText(isRecord(message) ? message['content'] : null) : textInParts(input);
}

/** The text of a message that joined the conversation, without the tag that Kimi puts before a hook's text. */
export function appendedText(content: unknown): string {
  const text = textInParts(content);
  const inside = text.replace(/^<hook_result [^>\n]*>\n/, '');
  return inside === text ? text : inside.replace(/\n?<\/hook_result>\s*$/, '');
}

/** The texts of a message's parts, joined. */
export function textInParts(parts: unknown): string {
  const all: unknown[] = Array.isArray(parts) ? parts : [];
  return all.map((part) => (isRecord(part) && typeof part['text'] === 'string' ? part['text'] : '')).join('');
}
