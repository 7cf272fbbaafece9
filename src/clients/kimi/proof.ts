import { statSync } from 'node:fs';
import type { MessageId } from '../../core/names.ts';
import type { MessageTurn, RecordedProof, ShownProof } from '../../core/ports/live-session.ts';
import type { Evidence } from '../../core/receipt.ts';
import type { HookRecord } from '../../delivery/client.ts';
import { LATE_MS } from '../../delivery/held-live.ts';
import type { HeldProof } from '../../delivery/held-live.ts';
import { asksNothing, fencedIds, idInFence, isMailText } from '../../delivery/fit.ts';
import { linesFrom } from '../../sessions/follow.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { appendedText, KimiIndex, objectIn, textInParts } from './record.ts';

/** `wirePlaceAt` stops its binary search at a range of this many bytes. */
const SEARCH_BYTES = 256 * 1024;
/** How lines begin that say something about a message. Other lines are not parsed: a line can have megabytes. */
const RELEVANT =
  /^\{"type":"(?:turn\.(?:prompt|steer|ended)|context\.append_(?:message|loop_event)|llm\.request|usage\.record|context\.(?:clear|undo|apply_compaction))"/;
const HOW: Record<string, 'done' | 'interrupted'> = { completed: 'done', cancelled: 'interrupted' };

/** A turn of the record. */
interface Turn {
  id: string;
  /** The message that began the turn, as long as nothing else joins the turn. */
  alone: string | null;
  /** The model's texts in the current or last step. */
  texts: string[];
  /** The model's texts before mail prolonged the turn. */
  answer?: string[];
  end?: MessageTurn['end'];
}

/**
 * What `wire.jsonl` of a conversation proves about one message. Kimi 2.1 records a prompt (`turn.prompt`) and every message that joins the
 * conversation (`context.append_message`, which includes the text of a hook), then each request to its model (`llm.request`), then the
 * model's answer (`usage.record`, `content.part`). A request alone proves nothing, because Kimi records it before it sends it. The model had
 * the message if it answered a request that was recorded after the message. Only requests of a turn count (`turnStep`, `usageScope`): Kimi
 * also makes requests outside a turn, to summarise the conversation or to give it a title.
 *
 * A summary replaces the conversation. It keeps what a user typed, up to 20,000 tokens (`keptUserMessageCount`). Beyond that limit it keeps
 * the first user messages (`keptHeadUserMessageCount`) and the last ones, and may shorten the first of those last ones.
 *
 * A message is recognised by the line of our fence, which has a mark that no sender knows. So it counts in any conversation where it is found.
 */
export class WireProof implements HeldProof {
  #offset: number;
  #turn: Turn | null = null;
  /** A hook added mail outside a turn: it joins the turn that begins next. */
  #hasMailBefore = false;
  #found: { offset: number; turn: Turn | null } | null = null;
  /** How many messages the conversation has from our message to its end. Null: our message has not joined it yet. */
  #messagesSince: number | null = null;
  /** Our message came in a prompt, not in the text of a hook. */
  #isTyped = false;
  /** Kimi has recorded a request that has our message, and no answer to it yet. */
  #isRequested = false;
  /** The conversation lost our message, or may have. */
  #isCut = false;
  #shown: Evidence | null = null;

  constructor(
    readonly path: string,
    from: number,
    readonly id: MessageId,
  ) {
    this.#offset = from;
  }

  /** The conversation lost the message, or may have, before there was proof that the model had it. */
  get isLost(): boolean {
    return this.#isCut && this.#shown === null;
  }

  /** The conversation has the message, so its next request has it, even if another Kimi continues the conversation. */
  get isKept(): boolean {
    return this.#messagesSince !== null && !this.#isCut;
  }

  /** Reads the new lines of the record. Null if the record does not have the message. */
  read(): Exclude<RecordedProof, { step: 'none' }> | null {
    for (const { text, from, to } of linesFrom(this.path, this.#offset)) {
      this.#offset = to;
      const entry = RELEVANT.test(text) ? objectIn(text) : null;
      if (entry) this.#take(entry, from);
    }
    if (!this.#found) return null;
    const { offset, turn } = this.#found;
    const evidence = { record: this.path, offset, id: this.id, ...(turn && { turn: turn.id }), ...this.#shown };
    if (!this.#shown) {
      const isFailed = turn?.end?.how === 'failed';
      return { step: 'accepted', evidence, ...(isFailed && { trouble: turn.end?.text ?? '' }) };
    }
    const isAlone = turn !== null && turn.alone === this.id;
    return { step: 'shown', evidence, ...(isAlone && { turn: { id: turn.id, ...(turn.end && { end: turn.end }) } }) };
  }

  #take(entry: Record<string, unknown>, from: number): void {
    switch (entry['type']) {
      case 'turn.prompt':
        return this.#begin(entry, from);
      case 'turn.steer':
        if (this.#turn) this.#turn.alone = null;
        return this.#look(textInParts(entry['input']), from);
      case 'turn.ended':
        return this.#end(entry);
      case 'context.append_message':
        return this.#appended(entry['message'], from);
      case 'llm.request':
        // A request that is repeated after a summary may not have the message any more.
        if (entry['kind'] === 'loop' && entry['turnStep'] !== undefined)
          this.#isRequested = this.#found !== null && !this.#isCut;
        return;
      case 'usage.record':
        if (entry['usageScope'] === 'turn') this.#answered(from);
        return;
      case 'context.append_loop_event':
        return this.#step(entry['event'], from);
      case 'context.apply_compaction':
        this.#isCut ||= this.#messagesSince !== null && !this.#isKeptBy(entry);
        return;
      default:
        // `context.clear` or `context.undo`: a message that the model did not have by now may be gone.
        this.#isCut ||= this.#messagesSince !== null;
    }
  }

  #isKeptBy({ keptUserMessageCount: kept, keptHeadUserMessageCount: head }: Record<string, unknown>): boolean {
    if (!this.#isTyped || typeof kept !== 'number') return false;
    return head === undefined || (typeof head === 'number' && (this.#messagesSince ?? 0) < kept - head);
  }

  #begin(entry: Record<string, unknown>, from: number): void {
    // A Kimi that was killed writes no `turn.ended`.
    this.#close({ how: 'interrupted', text: '' });
    const text = textInParts(entry['input']);
    const [only, ...others] = fencedIds(text);
    const isOne = only === idInFence(this.id) && others.length === 0 && !this.#hasMailBefore;
    this.#turn = { id: String(entry['promptId']), alone: isOne ? this.id : null, texts: [] };
    this.#hasMailBefore = false;
    this.#look(text, from);
  }

  #appended(message: unknown, from: number): void {
    const { role, content, origin } = isRecord(message) ? message : {};
    const text = appendedText(content);
    // Kimi also appends the prompt itself: that one has the origin `user`.
    const isHook = !isRecord(origin) || origin['kind'] !== 'user';
    if (this.#isIn(text)) [this.#messagesSince, this.#isTyped] = [1, !isHook];
    else if (this.#messagesSince !== null) this.#messagesSince += 1;
    if (role !== 'user' || !isMailText(text) || (isHook && asksNothing(text))) return;
    if (isHook && !this.#turn) this.#hasMailBefore = true;
    else if (isHook && this.#turn && this.#turn.texts.length > 0) this.#turn.answer ??= this.#turn.texts;
    else if (isHook && this.#turn) this.#turn.alone = null;
    this.#look(text, from);
  }

  #look(text: string, from: number): void {
    if ((this.#found && !this.#isCut) || !this.#isIn(text)) return;
    this.#found = { offset: from, turn: this.#turn };
    // The conversation had lost the message, and it was handed over again.
    if (this.#isCut) [this.#isCut, this.#messagesSince] = [false, null];
  }

  #isIn(text: string): boolean {
    return fencedIds(text).includes(idInFence(this.id));
  }

  #step(event: unknown, from: number): void {
    if (!isRecord(event)) return;
    if (event['type'] === 'step.begin' && this.#turn) this.#turn.texts = [];
    if (event['type'] !== 'content.part') return;
    this.#answered(from);
    const part = isRecord(event['part']) ? event['part'] : {};
    if (part['type'] === 'text' && typeof part['text'] === 'string') this.#turn?.texts.push(part['text']);
  }

  #answered(from: number): void {
    if (this.#isRequested) this.#shown ??= { provenAt: from };
  }

  #end({ reason, error }: Record<string, unknown>): void {
    const how = HOW[String(reason)] ?? 'failed';
    const { answer, texts = [] } = this.#turn ?? {};
    if (how === 'failed' && !answer) {
      const why = isRecord(error) ? String(error['message'] ?? reason) : String(reason);
      return this.#close({ how, text: why });
    }
    this.#close({ how: answer ? 'done' : how, text: (answer ?? texts).join('\n\n') });
  }

  #close(end: NonNullable<MessageTurn['end']>): void {
    if (this.#turn) this.#turn.end = end;
    this.#turn = null;
    // A request that was cut off with its turn gets no answer. The next request has the message again.
    this.#isRequested = false;
  }
}

/** What the record of a session shows of the mail that our hook printed there. */
export class KimiHookRecord implements HookRecord {
  readonly #index: KimiIndex;
  #readers: readonly WireProof[] | null = null;

  constructor(
    home: string,
    readonly session: string,
    readonly ids: readonly MessageId[],
    readonly since: number,
  ) {
    this.#index = new KimiIndex(home);
  }

  get isThere(): boolean {
    return this.#readers !== null;
  }

  shown(): ReadonlyMap<MessageId, ShownProof> {
    const wire = this.#index.find(this.session)?.path;
    if (wire === undefined) return new Map();
    const from = this.#readers ? 0 : wirePlaceAt(wire, this.since - LATE_MS);
    this.#readers ??= this.ids.map((id) => new WireProof(wire, from, id));
    const proofs = this.#readers.map((reader) => [reader.id, reader.read()] as const);
    return new Map(proofs.flatMap(([id, proof]) => (proof?.step === 'shown' ? [[id, proof] as const] : [])));
  }

  /** Always false: what Kimi keeps of a turn that did not end is unknown. */
  stays(): boolean {
    return false;
  }
}

/** An offset in a record at or before the first line of this time (Unix ms). Some older lines follow it. */
export function wirePlaceAt(path: string, since: number): number {
  let [from, to] = [0, statSync(path, { throwIfNoEntry: false })?.size ?? 0];
  while (to - from > SEARCH_BYTES) {
    const middle = Math.floor((from + to) / 2);
    const [, line] = linesFrom(path, middle);
    const at = Number(/"time":(\d{13})(?:,"kind":"\w+")?\}$/.exec(line?.text ?? '')?.[1] ?? Number.NaN);
    if (line && at < since) from = middle;
    else to = middle;
  }
  return from;
}
