import * as v from 'valibot';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';

/** UTC with milliseconds, as `Date.toISOString` writes it. */
const Moment = () =>
  v.pipe(v.string(), v.regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'is no UTC time with milliseconds'));
const Count = () => v.pipe(v.number(), v.integer(), v.minValue(0));
const Details = () => v.nullable(v.record(v.string(), v.unknown()));

/** The part of OpenCode's screen that has the focus. Only `prompt` takes a text. spec: statefile#state */
export const FOCUS = ['permission', 'question', 'prompt', 'menu', 'unknown'] as const;

/** The state of one OpenCode and its root session. Unknown fields are kept. spec: statefile#state */
export const OpenCodeState = new Schema(() =>
  v.looseObject({
    c2c_session_id: v.string(),
    c2c_alias: v.nullable(v.string()),
    root_opencode_session_id: v.nullable(v.string()),
    opencode_pid: Count(),
    plugin_started_at: Moment(),
    state_last_updated_at: Moment(),
    agent: v.looseObject({
      is_idle: v.nullable(v.boolean()),
      turn_count: Count(),
      step_count: Count(),
      last_step: v.nullable(v.looseObject({ event_type: v.string(), at: Moment(), details: Details() })),
      provider_id: v.nullable(v.string()),
      model_id: v.nullable(v.string()),
    }),
    tui_focus: v.looseObject({ ty: v.picklist(FOCUS), details: Details() }),
    prompt: v.looseObject({ has_text: v.nullable(v.boolean()) }),
    pendingQuestion: v.nullable(
      v.looseObject({ id: v.string(), text: v.string(), header: v.string(), options: v.array(v.string()) }),
    ),
  }),
);
export type OpenCodeState = Described<typeof OpenCodeState>;

/** The file: the whole state, and the time of the plugin's last event. spec: statefile#file */
export const StateFile = new Schema(() =>
  v.looseObject({ event: v.literal('state.snapshot'), ts: v.string(), state: OpenCodeState.inner }),
);
export type StateFile = Described<typeof StateFile>;

/** The name of a managed instance. It becomes a folder name, so a name that could lead out of the folder is refused. spec: statefile#place */
function readInstanceName(text: string): string {
  if (/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/.test(text)) return text;
  const shown = text.replace(/\p{Cc}/gu, '?').slice(0, 80);
  throw new Refusal(
    'invalid_request',
    `"${shown}" is no name of an instance; use 1 to 64 letters, digits, . _ - and no dot in front`,
  );
}

export type JsonObject = { [key: string]: unknown };

function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Returns the state after a patch. Fields that the patch does not have stay. Objects are merged at every depth; all other values, also lists
 * and null, replace the old ones. Neither argument is changed. spec: statefile#merge
 */
export function patched(state: JsonObject, patch: JsonObject): JsonObject {
  const changed = Object.entries(patch).map(([key, value]): [string, unknown] => {
    const before = Object.hasOwn(state, key) ? state[key] : undefined;
    return [key, isJsonObject(value) ? patched(isJsonObject(before) ? before : {}, value) : value];
  });
  // Built from entries, because an assignment to `__proto__` would not add a key.
  return Object.fromEntries([...Object.entries(state), ...changed]);
}

/** The most bytes of a line. A state is much smaller. */
const LINE_BYTES = 32 * 1024 * 1024;
const DEPTH = 100;

/** Errors of a line. Each is reported once per stream, and the stream continues. spec: statefile#errors */
export const TROUBLES = {
  'early patch': 'a state.patch came before the first state.snapshot; patches are ignored until one comes',
  'no JSON': 'a line is no JSON object; it is ignored',
  'no event': 'a line is neither a state.snapshot with a state nor a state.patch with a patch; it is ignored',
  'no UTF-8': 'a line is not UTF-8; it is ignored',
  'too long': 'a line is longer than 32 MB; it is ignored',
  'too deep': 'a line has objects within objects at more than 100 depths; it is ignored',
  unwritable: 'the statefile cannot be written; it is tried again with the next state',
} as const;
export type StatefileTrouble = keyof typeof TROUBLES;

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

/** The shortest time between two writes of the file. The last state is on disk after this time at the latest. */
const PAUSE_MS = 20;
const RETRY_MS = 1000;

/** The path of an OpenCode's statefile: in the folder of its instance, or the shared one for OpenCodes without a name. spec: statefile#place */
export function statefilePath(env: Record<string, string | undefined>, instance = env['C2C_INSTANCE_NAME']): string {
  const share = `${env['HOME'] ?? ''}/.local/share/c2c`;
  if (!instance) return `${share}/oc-plugin-state.json`;
  return `${env['C2C_INSTANCES_DIR'] || `${share}/instances`}/${readInstanceName(instance)}/oc-plugin-state.json`;
}

/** The text of the file; null if there is none. */
export function readStatefile(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return null;
    throw error;
  }
}

/**
 * Writes the statefile from the plugin's stream: the last snapshot and all patches after it. A reader always finds a complete state, because
 * the file is written under another name and renamed. Of the states within {@link PAUSE_MS} only the last is written.
 * spec: statefile#stream, statefile#file
 */
export class StatefileWriter {
  readonly #lines: ByteLines;
  #state: JsonObject | null = null;
  #ts = '';
  /** The number of states so far, and the number of the one in the file. */
  #version = 0;
  #written = 0;
  #pause: Timer | null = null;

  constructor(
    readonly path: string,
    readonly trouble: (kind: StatefileTrouble) => void,
  ) {
    this.#lines = new ByteLines(LINE_BYTES, (line) => this.#line(line), trouble);
  }

  take(bytes: Uint8Array): void {
    this.#lines.take(bytes);
    this.#soon();
  }

  /** Writes the last state if it is not written yet. True if the file has the last state of the stream, or if there was none. */
  end(): boolean {
    this.#lines.end();
    if (this.#pause !== null) clearTimeout(this.#pause);
    return this.#isWritten || this.#write();
  }

  #line(line: string): void {
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
    this.#ts = typeof ts === 'string' ? ts : new Date().toISOString();
  }

  get #isWritten(): boolean {
    return this.#written === this.#version;
  }

  /** Writes at once if the last write is `PAUSE_MS` ago, otherwise when that time is over. */
  #soon(): void {
    if (this.#pause !== null || this.#isWritten) return;
    const pause = this.#write() ? PAUSE_MS : RETRY_MS;
    this.#pause = setTimeout(() => {
      this.#pause = null;
      this.#soon();
    }, pause);
  }

  #write(): boolean {
    // Two writers may share the path, so each has a draft of its own.
    const draft = `${this.path}.tmp.${process.pid}`;
    try {
      // Before each write, because the folder of an instance may be removed while its OpenCode runs.
      mkdirSync(this.path.slice(0, this.path.lastIndexOf('/')), { recursive: true, mode: 0o700 });
      const text = JSON.stringify({ event: 'state.snapshot', ts: this.#ts, state: this.#state });
      writeFileSync(draft, `${text}\n`, { mode: 0o600 });
      renameSync(draft, this.path);
    } catch {
      this.trouble('unwritable');
      return false;
    }
    this.#written = this.#version;
    return true;
  }
}

const NEWLINE = 10;

/**
 * Splits a stream of bytes into lines. A line is decoded only when it is complete, so no character is cut. A line that is not UTF-8, or longer
 * than the limit, is reported by `bad` and dropped.
 */
class ByteLines {
  #parts: Uint8Array[] = [];
  #length = 0;
  #isTooLong = false;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

  constructor(
    readonly limit: number,
    readonly line: (text: string) => void,
    readonly bad: (why: 'too long' | 'no UTF-8') => void,
  ) {}

  take(bytes: Uint8Array): void {
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, from)) {
      this.#keep(bytes.subarray(from, at));
      this.#finish();
      from = at + 1;
    }
    // A copy, because the owner of the bytes may reuse them.
    if (from < bytes.length) this.#keep(bytes.slice(from));
  }

  /** Call when the stream has ended: the rest after the last newline is a line, too. */
  end(): void {
    if (this.#length > 0 || this.#isTooLong) this.#finish();
  }

  #keep(part: Uint8Array): void {
    if (this.#isTooLong) return;
    this.#length += part.length;
    this.#isTooLong = this.#length > this.limit;
    if (this.#isTooLong) this.#parts = [];
    else this.#parts.push(part);
  }

  #finish(): void {
    const [parts, isTooLong] = [this.#parts, this.#isTooLong];
    [this.#parts, this.#length, this.#isTooLong] = [[], 0, false];
    if (isTooLong) return this.bad('too long');
    const text = this.#read(parts);
    if (text === null) this.bad('no UTF-8');
    else if (text.trim() !== '') this.line(text);
  }

  #read(parts: Uint8Array[]): string | null {
    try {
      return this.#decoder.decode(parts.length === 1 ? parts[0] : Buffer.concat(parts));
    } catch {
      return null;
    }
  }
}
