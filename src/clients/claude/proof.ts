import { readFileSync, statSync } from 'node:fs';
import type { MessageId } from '../../core/names.ts';
import type { MessageTurn, RecordedProof } from '../../core/ports/live-session.ts';
import type { Evidence } from '../../core/receipt.ts';
import { asksNothing, fencedIds, isMailText, idInFence } from '../../delivery/fit.ts';
import { nudgeIdsOf } from '../../delivery/nudges.ts';
import { type FileLine, linesFrom } from '../../sessions/follow.ts';
import { ClaudeConversation } from './conversation.ts';
import type { ClaudeSession } from './state.ts';
import { peerIdOf, placeOfMail, bytesOf } from './transcript-search.ts';
import { TurnReader } from './turns.ts';

/** A client that has been idle for this long, without a line about a message in its record, does not have the message. */
export const QUIET_MS = 10_000;

/** The fields of a transcript line of Claude Code 2.1 that proof is read from. */
interface Entry {
  type?: string;
  operation?: string;
  reason?: string;
  timestamp?: string;
  content?: unknown;
  uuid?: string;
  parentUuid?: string | null;
  isSidechain?: boolean;
  promptId?: string;
  requestRef?: string;
  isApiErrorMessage?: boolean;
  message?: { content?: unknown };
  origin?: Origin;
  attachment?: { type?: string; origin?: Origin; content?: unknown; hookEvent?: string };
  /** For `api-request`: the request has the first `keep` messages of the request `base`, then those of `tail`. */
  id?: string;
  base?: string;
  keep?: number;
  tail?: string[];
  hash?: string;
}

interface Origin {
  kind?: string;
  msg_id?: string;
}

interface Place {
  offset: number;
  uuid: string;
}

/** What the transcript says about one message. */
interface Found {
  /** The line that put the message into the client's queue, and its time (Unix ms). */
  queued?: { offset: number; at: number };
  /** The last line that brought the message into the conversation, and its time (Unix ms). */
  entry?: Place & { at: number };
  /** The line of the model's answer to a request that had the message. */
  answer?: Place & { request: string };
  /** The turn that the message began. */
  turn?: string;
  /** The client's error text in place of an answer: no quota, no login. */
  trouble?: string;
  /** The line in our hook's text that names the message. */
  fence?: string;
}

/**
 * Reads a transcript line by line to find out what became of messages.
 *
 * In the conversation: a line has the message's id. That is a `user` line with our `msg_id` in its origin, an attachment `queued_command` with
 * the same origin, or the text of our hook.
 *
 * Shown: the model answered a request that had this line. The answer is an `assistant` line with `requestRef`, either below the line in the
 * conversation or for a request whose record has the line. The record of a request alone proves nothing: the client writes it before it
 * connects, even if no server answers (seen in 2.1.325).
 */
export class ProofReader {
  readonly #found = new Map<MessageId, Found>();
  readonly #peers: Map<string, MessageId>;
  /** The ids of nudges, and their messages. A turn that a nudge begins counts as begun by the message. */
  readonly #nudges: Map<string, MessageId>;
  readonly #turns = new TurnReader({ peers: true });
  readonly #conversation = new ClaudeConversation();
  readonly #shared = new Set<string>();
  readonly #ends = new Map<string, MessageTurn['end']>();
  /** For each unanswered line of the conversation, the messages in this line or above it. */
  readonly #below = new Map<string, MessageId[]>();
  readonly #blobs = new Map<string, MessageId>();
  /** For each request id, its messages and their positions in it. */
  readonly #requests = new Map<string, Map<MessageId, number>>();
  /** The client has held a message of another program for its user. */
  hasHeld = false;

  constructor(
    ids: readonly MessageId[],
    /** The texts that were handed over, if known. Lines about the client's queue have no ids. */
    readonly texts: ReadonlyMap<MessageId, string> = new Map(),
  ) {
    for (const id of ids) this.#found.set(id, {});
    this.#peers = new Map(ids.map((id) => [peerIdOf(id), id]));
    this.#nudges = new Map(ids.flatMap((id) => nudgeIdsOf(id).map((one) => [one, id])));
  }

  of(id: MessageId): Readonly<Found> {
    return this.#found.get(id) ?? {};
  }

  /** The message's place in the conversation with which the client continues; null if the message is not in it. */
  placeOf(id: MessageId): ReturnType<ClaudeConversation['placeOf']> {
    const { entry } = this.of(id);
    return entry ? this.#conversation.placeOf(entry.uuid) : null;
  }

  /** The turn that a message began, if nothing else joined it. */
  turnOf(id: MessageId): MessageTurn | undefined {
    const { turn } = this.of(id);
    if (turn === undefined || this.#shared.has(turn)) return undefined;
    const end = this.#ends.get(turn);
    return { id: turn, ...(end && { end }) };
  }

  take({ text, from }: FileLine): void {
    this.#readTurns(text);
    this.#conversation.take(text);
    if (text.startsWith('{"type":"queue-operation"')) return this.#queue(text, from);
    if (text.startsWith('{"type":"api-request')) return this.#request(text);
    this.hasHeld ||= text.includes('"subtype":"informational"') && text.includes('Held peer message');
    if (!text.includes('"parentUuid":') || !(this.#below.size > 0 || this.#isNamed(text))) return;
    const entry = entryIn(text);
    if (entry && entry.isSidechain !== true) this.#entry(entry, from);
  }

  /** Call when the session has ended: its open turn counts as failed. */
  end(): void {
    for (const event of this.#turns.close('failed', 0)) this.#recordEnd(event);
  }

  #isNamed(text: string): boolean {
    return [...this.#peers].some(([peer, id]) => text.includes(peer) || text.includes(` ${idInFence(id)} `));
  }

  #entry(entry: Entry, offset: number): void {
    const above = (this.#below.get(entry.parentUuid ?? '') ?? []).filter((id) => !this.of(id).answer);
    const uuid = entry.uuid ?? '';
    if (entry.type === 'assistant' && entry.requestRef !== undefined && entry.isApiErrorMessage !== true) {
      const answer = { offset, uuid, request: entry.requestRef };
      const inRequest = this.#requests.get(entry.requestRef)?.keys() ?? [];
      for (const id of [...above, ...inRequest]) this.#at(id).answer ??= answer;
      return this.#forgetAnswered();
    }
    if (entry.isApiErrorMessage) for (const id of above) this.#at(id).trouble = textOf(entry.message?.content);
    const brought = this.#broughtBy(entry);
    for (const id of brought) {
      const found = this.#at(id);
      if (found.answer) continue;
      found.entry = { offset, uuid, at: Date.parse(entry.timestamp ?? '') || 0 };
      if (entry.type === 'user' && entry.promptId !== undefined) found.turn = entry.promptId;
    }
    const nudged = entry.type === 'user' ? this.#nudges.get(entry.origin?.msg_id ?? '') : undefined;
    if (nudged !== undefined && entry.promptId !== undefined && !this.of(nudged).answer)
      this.#at(nudged).turn = entry.promptId;
    const all = [...new Set([...above, ...brought])].filter((id) => !this.of(id).answer);
    if (all.length > 0) this.#below.set(uuid, all);
  }

  /** The messages that this line brings into the conversation. */
  #broughtBy({ type, origin, attachment }: Entry): MessageId[] {
    if (attachment?.type === 'hook_additional_context') return this.#inHook(attachment.content);
    const source = type === 'user' ? origin : attachment?.type === 'queued_command' ? attachment.origin : undefined;
    const id = source?.kind === 'peer' ? this.#peers.get(source.msg_id ?? '') : undefined;
    return id === undefined ? [] : [id];
  }

  /** The messages in a hook's text. A line counts only with the mark of the text's first line, because no sender knows this mark. */
  #inHook(content: unknown): MessageId[] {
    const texts = textsIn(content);
    return texts.filter(isMailText).flatMap((text) => {
      const mark = /^\[parley ([0-9a-f]+)\] /.exec(text)?.[1];
      return [...this.#found].flatMap(([id, found]) => {
        const fence = `[parley ${mark}] message ${idInFence(id)} from `;
        if (mark === undefined || !text.includes(`\n${fence}`)) return [];
        found.fence = fence;
        return [id];
      });
    });
  }

  /**
   * Reads the record of a request. It is needed for mail that came beside parallel tool calls: the line of such a call may not be above the
   * answer in the conversation.
   */
  #request(text: string): void {
    if (text.startsWith('{"type":"api-request-blob"')) {
      for (const [id, { fence, answer }] of this.#found) {
        if (fence === undefined || answer || !text.includes(fence)) continue;
        const { hash } = entryIn(text) ?? {};
        if (hash !== undefined) this.#blobs.set(hash, id);
      }
      return;
    }
    if (this.#blobs.size === 0 || !text.startsWith('{"type":"api-request",')) return;
    const { id: request = '', base = '', keep = 0, tail = [] } = entryIn(text) ?? {};
    const has = new Map([...(this.#requests.get(base) ?? [])].filter(([, at]) => at < keep));
    for (const [at, hash] of tail.entries()) {
      const id = this.#blobs.get(hash);
      if (id !== undefined) has.set(id, keep + at);
    }
    if (has.size > 0) this.#requests.set(request, has);
  }

  #forgetAnswered(): void {
    for (const [uuid, ids] of this.#below) if (ids.every((id) => this.of(id).answer)) this.#below.delete(uuid);
    for (const [hash, id] of this.#blobs) if (this.of(id).answer) this.#blobs.delete(hash);
    for (const [request, has] of this.#requests)
      if ([...has.keys()].every((id) => this.of(id).answer)) this.#requests.delete(request);
  }

  #queue(text: string, offset: number): void {
    const { operation, reason, content, timestamp = '' } = entryIn(text) ?? {};
    if (typeof content !== 'string') return;
    for (const [id, found] of this.#found) {
      // An earlier attempt put the text in a fence with another mark.
      if (this.texts.get(id) !== content && !isFenced(content, id)) continue;
      if (operation === 'enqueue') found.queued = { offset, at: Date.parse(timestamp) || 0 };
      // The user removed the message from the queue.
      else if (operation === 'remove' && reason !== 'absorbed_mid_turn') delete found.queued;
    }
  }

  #readTurns(text: string): void {
    for (const event of this.#turns.take(text)) this.#recordEnd(event);
    const { open } = this.#turns;
    if (open.length > 1 || (open.length > 0 && isHookMail(text))) for (const turn of open) this.#shared.add(turn);
  }

  #recordEnd(event: ReturnType<TurnReader['take']>[number]): void {
    if (event.kind !== 'end' || ![...this.#found.values()].some(({ turn }) => turn === event.turn)) return;
    this.#ends.set(event.turn, { how: event.how, text: event.text });
  }

  #at(id: MessageId): Found {
    const found = this.#found.get(id) ?? {};
    this.#found.set(id, found);
    return found;
  }
}

/**
 * Is this mail, and not only knocks, that our hook brought within a turn? Mail at its end (`Stop`) does not count, because the answer before it
 * is kept.
 */
function isHookMail(text: string): boolean {
  if (!text.includes('"type":"hook_additional_context"') || !text.includes('Mail for @')) return false;
  const { type, hookEvent, content } = entryIn(text)?.attachment ?? {};
  if (type !== 'hook_additional_context' || hookEvent === 'Stop') return false;
  return textsIn(content).some((one) => isMailText(one) && !asksNothing(one));
}

/** The first line to which peer-socket.ts moves a short body. Earlier versions put no name there. */
const MOVED_LINE = /^(?:@\S+ wrote: )?“[^\n]*”\n/;

/** Does a text that we handed over have this message? Only a line with the mark of our first line counts: a body can imitate any other. */
function isFenced(content: string, id: MessageId): boolean {
  const text = content.replace(/^(?:<cross-session-message [^>\n]*>)?\n?/, '').replace(MOVED_LINE, '');
  return fencedIds(text).includes(idInFence(id));
}

/** One message in one transcript. Each read continues where the last one ended. */
export class RecordedMessage {
  #reader: ProofReader;
  #offset: number;

  constructor(
    readonly path: string,
    readonly id: MessageId,
    /** The message was not handed over before this time (Unix ms). */
    readonly since: number,
  ) {
    this.#reader = new ProofReader([id]);
    this.#offset = placeOfMail(path, [id], since);
  }

  read(): ProofReader {
    if (bytesOf(this.path) < this.#offset) [this.#reader, this.#offset] = [new ProofReader([this.id]), 0];
    for (const line of linesFrom(this.path, this.#offset)) {
      this.#reader.take(line);
      this.#offset = line.to;
    }
    return this.#reader;
  }
}

export interface ProofOptions {
  /** The client that got the message. `unknown`: it may run, but its registry entry could not be read. */
  client: ClaudeSession | 'ended' | 'unknown';
  /** The message was not handed over before this time (Unix ms). */
  since: number;
  /** We would have a report if the client held the message. */
  isReported?: boolean;
}

/** What a transcript proves about one message. `record` is null if there is no transcript yet. */
export function proofInRecord(
  record: RecordedMessage | null,
  { client, since, isReported = false }: ProofOptions,
): RecordedProof {
  const reader = record?.read();
  if (client === 'ended') reader?.end();
  if (record && reader?.of(record.id).answer) {
    const turn = reader.turnOf(record.id);
    return { step: 'shown', evidence: shownBy(record.path, reader, record.id), ...(turn && { turn }) };
  }
  // The client's queue was in its memory, and an open request will get no answer.
  if (client === 'ended') return { step: 'none', isOver: true };
  const { entry, queued, trouble } = record ? (reader?.of(record.id) ?? {}) : {};
  const place = record && (reader?.placeOf(record.id) ?? null);
  const rests = client !== 'unknown' && isAtRest(client, record?.path ?? null, since);
  // A busy client may be writing the lines of parallel calls, which do not follow each other.
  if (record && entry && (place || !rests)) {
    const evidence = { record: record.path, offset: entry.offset, entry: entry.uuid };
    const isLeft =
      trouble !== undefined || (client !== 'unknown' && entry.at > 0 && entry.at < (client.startedAt ?? 0));
    const needsTurn = isLeft && place?.isStopped === false && client !== 'unknown' && client.status === 'idle';
    return { step: 'accepted', evidence, ...(trouble !== undefined && { trouble }), ...(needsTurn && { needsTurn }) };
  }
  if (record && queued && (client === 'unknown' || isQueuedIn(client, queued)))
    return { step: 'accepted', evidence: { record: record.path, offset: queued.offset, queued: true } };
  if (client === 'unknown' || (reader?.hasHeld === true && !isReported)) return { step: 'none', isOver: false };
  return { step: 'none', isOver: rests };
}

/** Was this line about the queue written by this client, and not by an earlier client with the same session? */
export function isQueuedIn({ startedAt = 0 }: ClaudeSession, { at }: { at: number }): boolean {
  return at === 0 || at >= startedAt;
}

/** The evidence that a message was shown. */
export function shownBy(path: string, reader: ProofReader, id: MessageId): Evidence {
  const { entry, answer, turn } = reader.of(id);
  return {
    record: path,
    offset: entry?.offset ?? 0,
    entry: entry?.uuid ?? '',
    request: answer?.request ?? '',
    ...(turn !== undefined && { turn }),
  };
}

/**
 * Has the client been idle for `QUIET_MS` after `since`, without writing to its record? A client that the user has stopped (Ctrl-Z) is not at
 * rest, because it reads its input later.
 */
export function isAtRest(client: ClaudeSession, path: string | null, since: number): boolean {
  const { pid, status, statusUpdatedAt = 0 } = client;
  const writtenAt = (path !== null && statSync(path, { throwIfNoEntry: false })?.mtimeMs) || 0;
  const restsMs = Date.now() - Math.max(since, statusUpdatedAt, writtenAt);
  return status === 'idle' && restsMs >= QUIET_MS && !isStopped(pid);
}

function isStopped(pid: number): boolean {
  try {
    return /\) [Tt] [^)]*$/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

function entryIn(line: string): Entry | null {
  try {
    const value = JSON.parse(line) as Entry | null;
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

/** What a hook said. */
function textsIn(content: unknown): string[] {
  return (Array.isArray(content) ? content : [content]).filter((one) => typeof one === 'string');
}

function textOf(content: unknown): string {
  const parts: unknown[] = Array.isArray(content) ? content : [{ text: content }];
  const texts = parts
    .map((part) => (part as { text?: unknown } | null)?.text)
    .filter((text) => typeof text === 'string');
  return texts.join(' ') || 'API error';
}
