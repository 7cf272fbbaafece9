import { closeSync, openSync, readSync, statSync } from 'node:fs';
import type { MessageTurn, RecordedProof, ShownProof } from '../../core/ports/live-session.ts';
import type { MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import type { HookRecord } from '../../delivery/client.ts';
import { asksNothing, fencedIds, idInFence, isMailText } from '../../delivery/fit.ts';
import { endOfLines, linesFrom } from '../../sessions/follow.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { rolloutOf } from './rollout.ts';

const CHUNK = 1024 * 1024;
/** The binary search for a time in a record stops when at most this many bytes are left. */
const NEAR = 256 * 1024;
const MOST_ENDED = 100;
/** Only lines that match are parsed: others say nothing about a message and can have megabytes. */
const OURS =
  /"type":"(?:task_started|task_complete|turn_aborted|user_message|UserMessage|HookPrompt|AgentMessage|token_usage_record|compacted|thread_rolled_back|reasoning|\w+_call)"|"role":"(?:assistant|developer)"/;

/** A turn in the record. */
interface Turn {
  id: string;
  /** The id of the prompt that began the turn; empty if the prompt has none. */
  began?: string;
  /** Other mail joined the turn. A knock does not count. */
  isShared: boolean;
  end?: MessageTurn['end'];
}

/** A message in the record. */
interface Found {
  /** The offset of its line. */
  offset: number;
  /** The turn of the message; null if the record was not read from the start of that turn. */
  turn: Turn | null;
  /** The message came as a prompt, not in the text of a hook. */
  isPrompt: boolean;
  /** The output of the model that proves that the message was in a request. */
  shown?: Evidence;
  /** A compaction or rollback came before such a proof. */
  isUnknown?: boolean;
}

/**
 * What the rollout of a thread (see rollout.ts) proves about messages. Codex 0.166 records a message when it joins the conversation, and only
 * then makes a request with the whole conversation. So the line of a message alone proves nothing: Codex may be killed or interrupted before
 * the request, and the request may fail.
 *
 * A message is proven as shown if output of the model follows it: a message, reasoning or call of the model in an open turn, or the usage of a
 * response. A thread has one request at a time and reads new messages only between two, so no output that follows a message answers a request
 * without it. Without output the message stays in the conversation, and the next turn can prove it. After a compaction or a rollback before
 * any output, the outcome is unknown.
 *
 * A message is recognized by its `client_id`, which is our id and not part of the text, or, if our hook brought it, by the line of our fence.
 */
export class RolloutProof {
  #offset: number;
  #turn: Turn | null = null;
  readonly #found = new Map<string, Found>();
  /** How the last `MOST_ENDED` turns ended. */
  readonly #ended = new Map<string, string>();

  /** Reads from the offset `from`. Turns that began before it are unknown. */
  constructor(
    readonly path: string,
    from: number,
    readonly ids: readonly MessageId[],
  ) {
    this.#offset = from;
  }

  /** Reads the new lines. */
  read(): this {
    for (const { text, from, to } of linesFrom(this.path, this.#offset)) {
      this.#offset = to;
      const entry = OURS.test(text) ? entryIn(text) : null;
      if (entry) this.#take(entry, from);
    }
    return this;
  }

  /** What is proven about a message. Null: the record does not have it. `unknown`: the record has it, but cannot prove more. */
  of(id: MessageId): Exclude<RecordedProof, { step: 'none' }> | 'unknown' | null {
    const found = this.#found.get(id);
    if (!found) return null;
    const { offset, turn, isPrompt, shown, isUnknown } = found;
    const evidence = { record: this.path, offset, id, ...(turn && { turn: turn.id }), ...shown };
    const trouble = turn?.end?.how === 'failed' ? { trouble: turn.end.text || 'its turn failed' } : {};
    if (!shown) return isUnknown ? 'unknown' : { step: 'accepted', evidence, ...trouble };
    const isAlone = isPrompt && turn?.began === id && !turn.isShared;
    const its = isAlone && { turn: { id: turn.id, ...(turn.end && { end: turn.end }) } };
    return { step: 'shown', evidence, ...its };
  }

  /** Is a turn open that began within the lines that were read? */
  get isInTurn(): boolean {
    return this.#turn !== null;
  }

  /** Was this turn interrupted within the lines that were read? */
  wasInterrupted(turn: string): boolean {
    return this.#ended.get(turn) === 'interrupted';
  }

  #take({ type, payload }: Entry, from: number): void {
    switch (type) {
      case 'event_msg':
        return this.#event(payload, from);
      case 'response_item':
        if (payload['role'] === 'developer') for (const text of textsIn(payload['content'])) this.#hookSaid(text, from);
        else if (isOutput(payload)) this.#answered(turnOf(payload), { output: wordOf(payload['id']) }, from);
        return;
      case 'token_usage_record':
        return this.#answered(wordOf(payload['turn_id']), { request: wordOf(payload['response_id']) }, from);
      case 'compacted':
        return this.#cut();
    }
  }

  #event(payload: Record<string, unknown>, from: number): void {
    const turn = wordOf(payload['turn_id']);
    const item = isRecord(payload['item']) ? payload['item'] : {};
    switch (payload['type']) {
      case 'task_started':
        if (this.#turn) this.#end({ how: 'failed', text: 'Codex ended before its turn did' }, this.#turn.id);
        this.#turn = { id: turn, isShared: false };
        return;
      case 'task_complete':
        return this.#end(endOf(payload), turn);
      case 'turn_aborted':
        return this.#end({ how: 'interrupted', text: '' }, turn);
      case 'thread_rolled_back':
        return this.#cut();
      // In conversations of older versions of Codex.
      case 'user_message':
        return this.#prompted(wordOf(payload['client_id']), from);
      case 'item_completed':
        if (item['type'] === 'UserMessage') this.#prompted(wordOf(item['client_id']), from);
        else if (item['type'] === 'HookPrompt')
          for (const text of textsIn(item['fragments'])) this.#hookSaid(text, from);
        else if (item['type'] === 'AgentMessage') this.#answered(turn, { output: wordOf(item['id']) }, from);
        return;
    }
  }

  #prompted(key: string, from: number): void {
    if (this.#turn && this.#turn.began === undefined) this.#turn.began = key;
    else if (this.#turn && this.#turn.began !== key) this.#turn.isShared = true;
    if (this.ids.includes(key as MessageId)) this.#keep(key, { offset: from, turn: this.#turn, isPrompt: true });
  }

  /** A text of a hook. Our hook puts each message between lines with a mark that no sender knows. spec: hook#fence */
  #hookSaid(text: string, from: number): void {
    if (!isMailText(text)) return;
    if (this.#turn && !asksNothing(text)) this.#turn.isShared = true;
    const shown = new Set(fencedIds(text));
    for (const id of this.ids)
      if (shown.has(idInFence(id))) this.#keep(id, { offset: from, turn: this.#turn, isPrompt: false });
  }

  #keep(id: string, found: Found): void {
    if (!this.#found.has(id)) this.#found.set(id, found);
  }

  /** The model returned something in an open turn, so it was given everything before this line. */
  #answered(turn: string | undefined, what: Evidence, from: number): void {
    if (!turn || (this.#turn ? this.#turn.id !== turn : this.#ended.has(turn))) return;
    // A turn without a prompt is a compaction: the model only writes a summary.
    const isCompaction = this.#turn !== null && this.#turn.began === undefined;
    for (const found of this.#found.values()) {
      if (found.shown || found.isUnknown || (isCompaction && found.turn !== this.#turn)) continue;
      found.shown = { ...what, provenAt: from };
    }
  }

  #cut(): void {
    for (const found of this.#found.values()) if (!found.shown) found.isUnknown = true;
  }

  #end(end: NonNullable<MessageTurn['end']>, turn: string): void {
    if (this.#turn?.id === turn) {
      this.#turn.end = end;
      this.#turn = null;
    }
    this.#ended.set(turn, end.how);
    for (const oldest of this.#ended.keys()) if (this.#ended.size > MOST_ENDED) this.#ended.delete(oldest);
  }
}

/** What the rollout of a thread proves about messages that our hook printed. */
export class CodexHookRecord implements HookRecord {
  #record: RolloutProof | null = null;

  constructor(
    readonly home: string,
    readonly thread: string,
    readonly ids: readonly MessageId[],
    readonly since: number,
  ) {}

  get isThere(): boolean {
    return this.#record !== null;
  }

  shown(): Map<MessageId, ShownProof> {
    const path = this.#record?.path ?? rolloutOf(this.home, this.thread);
    if (path === null) return new Map();
    this.#record ??= new RolloutProof(path, rolloutPlaceAt(path, this.since), this.ids);
    const read = this.#record.read();
    return new Map(
      this.ids.flatMap((id) => {
        const proof = read.of(id);
        return proof !== null && proof !== 'unknown' && proof.step === 'shown' ? [[id, proof] as const] : [];
      }),
    );
  }

  /** Codex keeps the text of a hook in the conversation, even if the turn failed or was interrupted. */
  stays(id: MessageId): boolean {
    const proof = this.#record?.of(id) ?? null;
    return proof !== null && proof !== 'unknown' && proof.step === 'accepted';
  }
}

/** An offset at or shortly before the first line that was written at `since` (Unix ms) or later. */
export function rolloutPlaceAt(path: string, since: number): number {
  let [from, to] = [0, statSync(path, { throwIfNoEntry: false })?.size ?? 0];
  while (to - from > NEAR) {
    const middle = Math.floor((from + to) / 2);
    const [, line] = linesFrom(path, middle);
    const at = timeIn(line?.text ?? '');
    if (line && at !== null && at < since) from = middle;
    else to = middle;
  }
  return from;
}

/** The offset of the first line that was written at `since` (Unix ms) or later; the end of the record if there is none. */
export function rolloutLineAt(path: string, since: number): number {
  for (const { text, from } of linesFrom(path, rolloutPlaceAt(path, since)))
    if ((timeIn(text) ?? 0) >= since) return from;
  return endOfLines(path);
}

/** Does the record contain one of these ids? Fast, because it searches bytes and parses nothing. */
export function mentionsAny(path: string, ids: readonly string[]): boolean {
  const longest = Math.max(0, ...ids.map((id) => Buffer.byteLength(id)));
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch {
    return false;
  }
  try {
    const chunk = Buffer.alloc(CHUNK + longest);
    for (let [at, kept] = [0, 0]; ;) {
      const got = readSync(fd, chunk, kept, CHUNK, at);
      if (got === 0) return false;
      const bytes = chunk.subarray(0, kept + got);
      if (ids.some((id) => bytes.includes(id))) return true;
      at += got;
      kept = Math.min(longest, bytes.length);
      bytes.copy(chunk, 0, bytes.length - kept);
    }
  } finally {
    closeSync(fd);
  }
}

interface Entry {
  type: string;
  payload: Record<string, unknown>;
}

function entryIn(line: string): Entry | null {
  try {
    const entry: unknown = JSON.parse(line);
    if (!isRecord(entry) || typeof entry['type'] !== 'string' || !isRecord(entry['payload'])) return null;
    return { type: entry['type'], payload: entry['payload'] };
  } catch {
    // A cut line, or not a line of Codex.
    return null;
  }
}

/** Is this an item that only a model returns? */
function isOutput({ type, role }: Record<string, unknown>): boolean {
  return (type === 'message' && role === 'assistant') || type === 'reasoning' || wordOf(type).endsWith('_call');
}

/** The turn of an item of the conversation. Items that a client added have none. */
function turnOf({ internal_chat_message_metadata_passthrough: metadata }: Record<string, unknown>): string | undefined {
  const turn = isRecord(metadata) ? metadata['turn_id'] : undefined;
  return typeof turn === 'string' ? turn : undefined;
}

function endOf({ error, last_agent_message: said }: Record<string, unknown>): NonNullable<MessageTurn['end']> {
  if (isRecord(error)) return { how: 'failed', text: wordOf(error['message']) };
  return { how: 'done', text: wordOf(said) };
}

function textsIn(parts: unknown): string[] {
  const all: unknown[] = Array.isArray(parts) ? parts : [];
  return all.map((part) => (isRecord(part) ? wordOf(part['text']) : ''));
}

function timeIn(line: string): number | null {
  const at = Date.parse(/^\{"timestamp":"([^"]{1,40})"/.exec(line)?.[1] ?? '');
  return Number.isNaN(at) ? null : at;
}

function wordOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
