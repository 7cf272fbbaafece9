import type { MessageId } from '../../core/names.ts';
import type { MessageTurn, RecordedProof, ShownProof } from '../../core/ports/live-session.ts';
import type { HookRecord } from '../../delivery/client.ts';
import { fencedIds, idInFence } from '../../delivery/fit.ts';
import type { HeldProof } from '../../delivery/held-live.ts';
import { linesFrom } from '../../sessions/follow.ts';
import { chatLine, GeminiIndex, mailIn } from './record.ts';
import type { ChatEntry } from './record.ts';

interface Turn {
  id: string;
  /** Our message began the turn, and nothing else is in its prompt. */
  alone: boolean;
  /** The model's last answer. */
  answer: string;
  end?: MessageTurn['end'];
}

/**
 * What the record of a conversation proves about one message. Gemini CLI 0.61 records a prompt, the result of a tool and any text that a hook
 * added to them. Then it makes the request, and records the answer when it is complete. So the model had the message if the message is part
 * of the conversation when an answer is recorded. If a request fails or is cancelled, Gemini CLI writes the whole conversation again without
 * it. A compression also writes the conversation again.
 *
 * A message is recognised by the line of our fence, which has a mark that no sender knows.
 */
export class ChatProof implements HeldProof {
  #offset = 0;
  readonly #seen = new Set<string>();
  #turn: Turn | null = null;
  #found: { offset: number; turn: Turn | null } | null = null;
  #isIn = false;
  #shownAt: number | null = null;

  constructor(
    readonly path: string,
    readonly id: MessageId,
  ) {}

  get isKept(): boolean {
    return this.#isIn;
  }

  get isLost(): boolean {
    return this.#found !== null && !this.#isIn && this.#shownAt === null;
  }

  read(isAtRest: boolean): Exclude<RecordedProof, { step: 'none' }> | null {
    for (const { text, from, to } of linesFrom(this.path, this.#offset)) {
      this.#offset = to;
      const line = chatLine(text);
      if (line && 'entry' in line) this.#take(line.entry, from);
      else if (line) this.#replace(line.all, from);
    }
    if (!this.#found) return null;
    const { offset, turn } = this.#found;
    const evidence = { record: this.path, offset, id: this.id, ...(turn && { turn: turn.id }) };
    if (this.#shownAt === null) return { step: 'accepted', evidence };
    const shown = { step: 'shown' as const, evidence: { ...evidence, provenAt: this.#shownAt } };
    if (!turn?.alone) return shown;
    const isLast = turn === this.#turn && turn.answer !== '';
    const end = turn.end ?? (isAtRest && isLast ? { how: 'done' as const, text: turn.answer } : undefined);
    return { ...shown, turn: { id: turn.id, ...(end && { end }) } };
  }

  #take(entry: ChatEntry, from: number): void {
    const isNew = !this.#seen.has(entry.id);
    this.#seen.add(entry.id);
    if (entry.type === 'user') return this.#said(entry, from);
    if (entry.type === 'info' && entry.texts.join('').startsWith('Request cancelled'))
      return this.#close('interrupted');
    if (!isNew || !entry.isAnswer) return;
    if (this.#isIn) this.#shownAt ??= from;
    if (this.#turn) this.#turn.answer = entry.texts.join('');
  }

  #said(entry: ChatEntry, from: number): void {
    const mail = entry.texts.flatMap(mailIn);
    const isHere = mail.some((text) => this.#has(text));
    if (!entry.isToolResult) this.#begin(entry, mail, isHere);
    if (!isHere) return;
    this.#isIn = true;
    if (!this.#found || this.#shownAt === null) this.#found = { offset: from, turn: this.#turn };
  }

  #begin({ id, texts }: ChatEntry, mail: readonly string[], isHere: boolean): void {
    // Mail at the end of a turn prolongs it with a new prompt. What the model says to that is no part of the earlier answer.
    if (this.#turn?.answer !== '') this.#close('done');
    this.#close('interrupted');
    const isOnly = mail.length === 1 && texts.length === 1 && fencedIds(mail[0] ?? '').length === 1;
    this.#turn = { id, alone: isHere && isOnly, answer: '' };
  }

  #replace(all: readonly ChatEntry[], from: number): void {
    const isHere = all.some(({ texts }) => texts.flatMap(mailIn).some((text) => this.#has(text)));
    for (const { id } of all) this.#seen.add(id);
    this.#isIn = isHere;
    if (isHere) this.#found ??= { offset: from, turn: null };
    // A turn without an answer failed or was cancelled.
    if (this.#turn?.answer === '') this.#close('failed');
  }

  #has(mail: string): boolean {
    return fencedIds(mail).includes(idInFence(this.id));
  }

  #close(how: 'done' | 'interrupted' | 'failed'): void {
    if (this.#turn) this.#turn.end ??= { how, text: this.#turn.answer };
    this.#turn = null;
  }
}

/** What the record of a session shows of the mail that our hook printed there. */
export class GeminiHookRecord implements HookRecord {
  readonly #index: GeminiIndex;
  #readers: readonly ChatProof[] | null = null;

  constructor(
    home: string,
    readonly session: string,
    readonly ids: readonly MessageId[],
  ) {
    this.#index = new GeminiIndex(home);
  }

  get isThere(): boolean {
    return this.#readers !== null;
  }

  shown(): ReadonlyMap<MessageId, ShownProof> {
    const path = this.#index.find(this.session)?.path;
    if (path === undefined) return new Map();
    this.#readers ??= this.ids.map((id) => new ChatProof(path, id));
    const proofs = this.#readers.map((reader) => [reader.id, reader.read(false)] as const);
    return new Map(proofs.flatMap(([id, proof]) => (proof?.step === 'shown' ? [[id, proof] as const] : [])));
  }

  stays(id: MessageId): boolean {
    return this.#readers?.find((reader) => reader.id === id)?.isKept === true;
  }
}
