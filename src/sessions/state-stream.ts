import { LineReader, textOf } from '../wire/lines.ts';
import { isJsonObject, patched } from './statefile-merge.ts';
import type { JsonObject } from './statefile-merge.ts';

/** A state is small; a line beyond this is no state. */
const LINE_BYTES = 32 * 1024 * 1024;
const DEPTH = 100;

/** What can be wrong with a line. Each is told once in the life of a stream, and the stream goes on. spec: statefile#errors */
export const TROUBLES = {
  'early patch': 'a state.patch came before the first state.snapshot; patches are ignored until one comes',
  'no JSON': 'a line is no JSON object; it is ignored',
  'no event': 'a line is neither a state.snapshot with a state nor a state.patch with a patch; it is ignored',
  'no UTF-8': 'a line is not UTF-8; it is ignored',
  'too long': 'a line is longer than 32 MB; it is ignored',
  'too deep': 'a line has objects within objects at more than 100 depths; it is ignored',
  unwritable: 'the statefile cannot be written; it is tried again with the next state',
} as const;
export type Trouble = keyof typeof TROUBLES;

/**
 * One life of a state stream: the last snapshot, and every patch since. It keeps what was said and writes nothing.
 * spec: statefile#stream
 */
export class StateStream {
  #state: JsonObject | null = null;
  #ts = '';
  #version = 0;
  readonly #lines: LineReader;

  /** `changed` is called at most once for each piece of the stream, however many lines it has. */
  constructor(
    readonly changed: () => void,
    readonly trouble: (kind: Trouble) => void,
    readonly now: () => number,
  ) {
    this.#lines = new LineReader(LINE_BYTES, {
      receive: (bytes) => this.#line(textOf(bytes)),
      tooLong: () => trouble('too long'),
    });
  }

  /** How many states there were so far. */
  get version(): number {
    return this.#version;
  }

  /** The file as it should be by now; before the first snapshot there is none. */
  get text(): string {
    return `${JSON.stringify({ event: 'state.snapshot', ts: this.#ts, state: this.#state })}\n`;
  }

  take(bytes: Uint8Array): void {
    this.#noticing(() => this.#lines.push(bytes));
  }

  end(): void {
    this.#noticing(() => this.#lines.end());
  }

  #noticing(act: () => void): void {
    const before = this.#version;
    act();
    if (this.#version !== before) this.changed();
  }

  #line(line: string | null): void {
    if (line === null) return this.trouble('no UTF-8');
    const said = objectIn(line);
    if (said === null) return this.trouble('no JSON');
    if (isDeeper(said, DEPTH)) return this.trouble('too deep');
    if (said['event'] === 'state.snapshot' && isJsonObject(said['state'])) return this.#put(said['state'], said['ts']);
    if (said['event'] !== 'state.patch' || !isJsonObject(said['patch'])) return this.trouble('no event');
    if (this.#state === null) return this.trouble('early patch');
    this.#put(patched(this.#state, said['patch']), said['ts']);
  }

  #put(state: JsonObject, ts: unknown): void {
    this.#version += 1;
    this.#state = state;
    this.#ts = typeof ts === 'string' ? ts : new Date(this.now()).toISOString();
  }
}

function objectIn(line: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(line);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return depth === 0 || Object.values(value).some((inner) => isDeeper(inner, depth - 1));
}
