import type { MessageId } from '../../protocol/names.ts';

/** At first: most mailboxes have little in them, and a relay has thousands of mailboxes. */
const SLOTS = 16;
/** Beyond this part of its slots it gets twice as many. */
const FULL = 0.7;
/** An id of ours is 32 hex digits with dashes at these places: four words of 32 bits. */
const LENGTH = 36;
const DASHES = [8, 13, 18, 23];
const DASH = 45;

/** The id that was read last. */
const words = new Uint32Array(4);

/**
 * A small number for each of very many ids. A mailbox may have a hundred thousand: as texts in a Map they take some 150 bytes each, here
 * 25 to 50. Ids that other programs made up themselves may look otherwise; those are kept as they are.
 */
export class IdNotes {
  #words = new Uint32Array(4 * SLOTS);
  /** 0: nobody stands in this slot. */
  #notes = new Uint8Array(SLOTS);
  #count = 0;
  readonly #others = new Map<MessageId, number>();

  /** 0 if there is none. */
  get(id: MessageId): number {
    if (!readWords(id)) return this.#others.get(id) ?? 0;
    return this.#notes[this.#slot()] ?? 0;
  }

  /** 1 to 255. */
  set(id: MessageId, note: number): void {
    if (!readWords(id)) {
      this.#others.set(id, note);
      return;
    }
    const slot = this.#slot();
    const isNew = this.#notes[slot] === 0;
    this.#fill(slot, note);
    if (!isNew) return;
    this.#count += 1;
    if (this.#count > this.#notes.length * FULL) this.#grow();
  }

  /** The ids that have this note. */
  *having(note: number): Generator<MessageId> {
    for (const [slot, noted] of this.#notes.entries()) if (noted === note) yield this.#idIn(slot);
    for (const [id, noted] of this.#others) if (noted === note) yield id;
  }

  /** Where the id that was read last stands, or would stand. */
  #slot(): number {
    const [a = 0, b = 0, c = 0, d = 0] = words;
    const last = this.#notes.length - 1;
    for (let slot = Math.imul(a ^ b ^ c ^ d, 0x9e3779b1) & last; ; slot = (slot + 1) & last) {
      if (this.#notes[slot] === 0) return slot;
      const at = 4 * slot;
      if (this.#words[at] === a && this.#words[at + 1] === b && this.#words[at + 2] === c && this.#words[at + 3] === d)
        return slot;
    }
  }

  #fill(slot: number, note: number): void {
    this.#words.set(words, 4 * slot);
    this.#notes[slot] = note;
  }

  #grow(): void {
    const [before, notes] = [this.#words, this.#notes];
    this.#words = new Uint32Array(2 * before.length);
    this.#notes = new Uint8Array(2 * notes.length);
    for (const [slot, note] of notes.entries()) {
      if (note === 0) continue;
      words.set(before.subarray(4 * slot, 4 * slot + 4));
      this.#fill(this.#slot(), note);
    }
  }

  #idIn(slot: number): MessageId {
    const digits = Array.from(this.#words.subarray(4 * slot, 4 * slot + 4), (word) =>
      word.toString(16).padStart(8, '0'),
    ).join('');
    return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5') as MessageId;
  }
}

/** False if it is no id of the usual kind: one in capitals is another id, and another file. */
function readWords(id: string): boolean {
  if (id.length !== LENGTH) return false;
  let digits = 0;
  let word = 0;
  for (let at = 0; at < LENGTH; at += 1) {
    const code = id.charCodeAt(at);
    if (code === DASH && DASHES.includes(at)) continue;
    const digit = digitOf(code);
    if (digit < 0 || DASHES.includes(at)) return false;
    word = (word << 4) | digit;
    digits += 1;
    if (digits % 8 === 0) words[digits / 8 - 1] = word;
  }
  return true;
}

function digitOf(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  return code >= 97 && code <= 102 ? code - 87 : -1;
}
