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
/** The search for a time in a record ends when the rest is not longer than this. */
const NEAR = 256 * 1024;
const MOST_ENDED = 100;
/** A line without one of these says nothing about a message. Lines can have megabytes. */
const OURS =
  /"type":"(?:task_started|task_complete|turn_aborted|user_message|UserMessage|HookPrompt|AgentMessage|token_usage_record|compacted|thread_rolled_back|reasoning|\w+_call)"|"role":"(?:assistant|developer)"/;

/** A turn of the record. */
interface Turn {
  id: string;
  /** The id of the message that began it; empty if that has none. */
  began?: string;
  /** Other mail joined it. A knock does not count. */
  isShared: boolean;
  end?: MessageTurn['end'];
}

/** A message in the record. */
interface Found {
  /** Where its line begins. */
  offset: number;
  /** The turn that has it; null if the record was not read from the start of that turn. */
  turn: Turn | null;
  /** It came as a prompt, not as the text of a hook. */
  isPrompt: boolean;
  /** What followed, and proves that it was in a request. */
  shown?: Evidence;
  /** The context was cut before anything proved that. */
  isUnknown?: boolean;
}

/**
 * What the rollout of a thread (see rollout.ts) proves about some messages. Codex 0.166 writes a message into it when the message joins the
 * conversation, and only then makes the request, from the whole conversation. So the line of a message alone proves nothing: Codex may be
 * killed or interrupted before the request, and the request may fail. The message was in a request if something that the model returned
 * follows it: a message, thought or call of the model in an open turn, or the usage of a response. Codex makes one request after the
 * other in a thread and reads new messages only between two, so nothing that follows a message answers a request without it.
 * Without that the message stays in the conversation, and the next turn can prove it. After a compaction or a rollback nobody knows.
 *
 * A message is known by its `client_id`, which is ours and not in its text; or, if our hook brought it, by the line of our fence.
 */
export class RolloutProof {
  #offset: number;
  #turn: Turn | null = null;
  readonly #found = new Map<string, Found>();
  /** The last turns that ended, and how. */
  readonly #ended = new Map<string, string>();

  /** Reads from a place on. A turn that began before it is not known. */
  constructor(
    readonly path: string,
    from: number,
    readonly ids: readonly MessageId[],
  ) {
    this.#offset = from;
  }

  /** Reads what was written since. */
  read(): this {
    for (const { text, from, to } of linesFrom(this.path, this.#offset)) {
      this.#offset = to;
      const entry = OURS.test(text) ? entryIn(text) : null;
      if (entry) this.#take(entry, from);
    }
    return this;
  }

  /** Null if the record does not have it. `unknown`: it has it, and cannot say more. */
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

  /** Whether a turn is open that began since the place from which this reads. */
  get isInTurn(): boolean {
    return this.#turn !== null;
  }

  /** Whether this turn was interrupted since the place from which this reads. */
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
      // Conversations that an older Codex began.
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

  /** Text of hooks. Ours has the messages that it shows between lines with a mark that no sender knows. spec: hook#fence */
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

  /** The model returned something in a turn that has not ended: it had everything that stands before this line. */
  #answered(turn: string | undefined, what: Evidence, from: number): void {
    if (!turn || (this.#turn ? this.#turn.id !== turn : this.#ended.has(turn))) return;
    // A turn without a prompt is a compaction: the model only sums up.
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

/** What the rollout of a thread shows of messages that our hook printed. */
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

  /** Codex keeps what a hook said, also of a turn that failed or was interrupted. */
  stays(id: MessageId): boolean {
    const proof = this.#record?.of(id) ?? null;
    return proof !== null && proof !== 'unknown' && proof.step === 'accepted';
  }
}

/** A place in a record from which everything is read that was written at this time or later (Unix ms). Not much of what was before. */
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

/** Where the first line begins that was written at this time or later (Unix ms); the end if there is none. */
export function rolloutLineAt(path: string, since: number): number {
  for (const { text, from } of linesFrom(path, rolloutPlaceAt(path, since)))
    if ((timeIn(text) ?? 0) >= since) return from;
  return endOfLines(path);
}

/** Whether one of these ids is anywhere in a record. Costs next to nothing: the record is searched, not read. */
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
    // A part of a line, or none of Codex's.
    return null;
  }
}

/** Something that only a model returns. */
function isOutput({ type, role }: Record<string, unknown>): boolean {
  return (type === 'message' && role === 'assistant') || type === 'reasoning' || wordOf(type).endsWith('_call');
}

/** The turn of an item of the conversation. Items that a client put there have none. */
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
