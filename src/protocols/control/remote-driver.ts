import * as v from 'valibot';
import { HostUnreachable } from '../../core/ports/session.ts';
import type {
  Answering,
  Choice,
  OpenQuestion,
  Prompt,
  QuestionDriver,
  RecordPlace,
  ScreenOptions,
  SessionDriver,
  SessionState,
  SessionTarget,
  Submission,
  TurnEvent,
} from '../../core/ports/session.ts';
import { REFUSALS, Refusal } from '../../core/refusal.ts';
import type { RefusalCode } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { NoAnswer, RemoteError } from '../../wire/jsonrpc.ts';
import type { JsonRpcPeer, Params } from '../../wire/jsonrpc.ts';
import type { FarTarget } from './drive.ts';
import type { Hosts } from './hosts.ts';

/** How long the host may take: to read a state, to read a long record, to act on a terminal. */
const LOOK_MS = 5000;
const READ_MS = 60_000;
const ACT_MS = 60_000;
/** A file is sent in parts of this many bytes, so that other requests to the host do not wait for all of it. */
const PART_BYTES = 256 * 1024;

const State = new Schema(() =>
  v.object({
    status: v.picklist(['active', 'idle', 'waiting', 'starting', 'stopped']),
    waitingFor: v.exactOptional(v.string()),
    conversation: v.exactOptional(v.string()),
    pid: v.exactOptional(v.number()),
  }),
);
const Turn = { turn: v.string(), text: v.string(), at: v.number() };
const Events = new Schema(() =>
  v.object({
    events: v.array(
      v.variant('kind', [
        v.object({ kind: v.literal('prompt'), ...Turn, key: v.exactOptional(v.string()) }),
        v.object({
          kind: v.literal('end'),
          ...Turn,
          how: v.picklist(['done', 'interrupted', 'failed']),
          shared: v.exactOptional(v.literal(true)),
        }),
      ]),
    ),
    next: v.string(),
  }),
);
const Submitted = new Schema(() =>
  v.variant('outcome', [
    v.object({ outcome: v.literal('submitted') }),
    v.object({ outcome: v.literal('left'), because: v.string(), retry: v.boolean() }),
    v.object({ outcome: v.literal('unknown'), because: v.string(), isTaken: v.exactOptional(v.boolean()) }),
  ]),
);
const Questioned = new Schema(() =>
  v.object({
    question: v.nullable(
      v.object({
        call: v.string(),
        kind: v.picklist(['question', 'permission', 'plan']),
        questions: v.array(
          v.object({
            question: v.string(),
            header: v.string(),
            options: v.array(v.object({ label: v.string(), description: v.exactOptional(v.string()) })),
            multiSelect: v.boolean(),
          }),
        ),
        askedAt: v.number(),
      }),
    ),
  }),
);
const AnsweredAs = new Schema(() =>
  v.variant('outcome', [
    v.object({ outcome: v.picklist(['answered', 'gone']) }),
    v.object({ outcome: v.picklist(['left', 'unknown']), because: v.string() }),
  ]),
);
const StartedAs = new Schema(() => v.object({ started: v.picklist(['resumed', 'fresh']) }));
const Text = new Schema(() => v.string());
const Anything = new Schema(() => v.unknown());

/**
 * A session on another host. Parley runs there and drives it from the client's own files; its answers are used here as if the client were
 * local. A lost connection changes nothing in the client: places and conversations stay valid on the next connection.
 */
export class RemoteDriver implements SessionDriver {
  readonly questions: QuestionDriver = {
    open: () => this.#question(),
    answer: (call, choices, signal) => this.#answer(call, choices, signal),
  };
  /** The name of the session on that host. */
  readonly #name: string;
  /** The connection on which this session is open. */
  #opened: { peer: JsonRpcPeer; done: Promise<unknown> } | null = null;
  #conversation: string | null;
  readonly #leave: () => void;
  readonly #changed = new Set<() => void>();

  constructor(
    readonly target: SessionTarget,
    /** A local driver for the same client, used only for what needs no client: how a text is typed. */
    readonly local: Pick<SessionDriver, 'prepare' | 'isOurs' | 'close'>,
    readonly hosts: Pick<Hosts, 'peer' | 'listen'>,
  ) {
    const { name, host } = target;
    this.#name = name.startsWith(`${host}:`) ? name.slice(host.length + 1) : name;
    this.#conversation = target.conversation;
    this.#leave = hosts.listen(host, (session) => {
      if (session === null || session === name) for (const changed of this.#changed) changed();
    });
  }

  async state(): Promise<SessionState> {
    const state = await this.#call(State, 'state', {}, LOOK_MS);
    this.#conversation = state.conversation ?? this.#conversation;
    return state;
  }

  watch(changed: () => void): () => void {
    this.#changed.add(changed);
    return () => void this.#changed.delete(changed);
  }

  prepare(text: string, options?: { raw?: boolean }): string {
    return this.local.prepare(text, options);
  }

  place(): Promise<RecordPlace> {
    return this.#call(Text, 'place', {}, LOOK_MS);
  }

  events(since: RecordPlace): Promise<{ events: TurnEvent[]; next: RecordPlace }> {
    return this.#call(Events, 'events', { since }, READ_MS);
  }

  isOurs(event: TurnEvent, prompt: Prompt): boolean {
    return this.local.isOurs(event, prompt);
  }

  async submit(prompt: Prompt, signal: AbortSignal): Promise<Submission> {
    let peer: JsonRpcPeer;
    try {
      peer = await this.#open();
    } catch (error) {
      if (error instanceof HostUnreachable) return { outcome: 'left', because: error.message, retry: true };
      throw error;
    }
    try {
      return await this.#request(peer, Submitted, 'submit', { ...prompt }, ACT_MS, signal);
    } catch (error) {
      // It was on its way: only the record there can tell.
      if (error instanceof HostUnreachable) return { outcome: 'unknown', because: error.message };
      throw error;
    }
  }

  async takeBack(prompt: Prompt): Promise<void> {
    await this.#call(Anything, 'takeBack', { ...prompt }, ACT_MS);
  }

  start(): Promise<{ started: 'resumed' | 'fresh' }> {
    return this.#call(StartedAs, 'start', {}, this.target.startTimeoutMs + ACT_MS);
  }

  async stop(): Promise<void> {
    await this.#call(Anything, 'stop', {}, ACT_MS);
  }

  screen(lines: number, { styles = false }: ScreenOptions = {}): Promise<string> {
    return this.#call(Text, 'screen', { lines, styles }, ACT_MS);
  }

  async saveFile(name: string, bytes: Uint8Array, offset = 0): Promise<string> {
    let path = '';
    for (let at = 0; at === 0 || at < bytes.length; at += PART_BYTES) {
      const data = bytes.subarray(at, at + PART_BYTES).toBase64();
      path = await this.#call(Text, 'saveFile', { name, data, offset: offset + at }, ACT_MS);
    }
    return path;
  }

  async #question(): Promise<OpenQuestion | null> {
    return (await this.#call(Questioned, 'question', {}, LOOK_MS)).question;
  }

  async #answer(call: string, choices: readonly Choice[], signal: AbortSignal): Promise<Answering> {
    const peer = await this.#open();
    try {
      return await this.#request(peer, AnsweredAs, 'answer', { call, choices }, ACT_MS, signal);
    } catch (error) {
      // It was on its way: only the record there can tell.
      if (error instanceof HostUnreachable) return { outcome: 'unknown', because: error.message };
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#changed.clear();
    this.#opened?.peer.notify('close', { session: this.target.name });
    this.#leave();
    await this.local.close();
  }

  async #call<S extends AnySchema>(schema: S, method: string, params: Params, ms: number): Promise<Described<S>> {
    return this.#request(await this.#open(), schema, method, params, ms);
  }

  /** Opens the session on the current connection, and returns that. */
  async #open(): Promise<JsonRpcPeer> {
    const peer = await this.hosts.peer(this.target.host);
    if (this.#opened?.peer !== peer) {
      const { client, folder, command, sharesFolder = false, startTimeoutMs } = this.target;
      const far: FarTarget = {
        name: this.#name,
        client,
        folder,
        command: [...command],
        conversation: this.#conversation,
        sharesFolder,
        startTimeoutMs,
      };
      this.#opened = { peer, done: this.#request(peer, Anything, 'open', { target: far }, LOOK_MS) };
    }
    const opened = this.#opened;
    try {
      await opened.done;
    } catch (error) {
      if (this.#opened === opened) this.#opened = null;
      throw error;
    }
    return peer;
  }

  async #request<S extends AnySchema>(
    peer: JsonRpcPeer,
    schema: S,
    method: string,
    params: Params,
    ms: number,
    signal?: AbortSignal,
  ): Promise<Described<S>> {
    let answer: unknown;
    try {
      const request = peer.request(method, { session: this.target.name, ...params }, { ms });
      const abort = (): void => peer.notify('abort', { id: request.id });
      if (signal?.aborted) abort();
      signal?.addEventListener('abort', abort, { once: true });
      answer = await request.answer.finally(() => signal?.removeEventListener('abort', abort));
    } catch (error) {
      throw asOurs(error, ms);
    }
    const parsed = schema.safeParse(answer);
    if (parsed.success) return parsed.data as Described<S>;
    throw new Error(`${this.target.host} answered "${method}" with something else: ${parsed.path}: ${parsed.why}`);
  }
}

type AnySchema = Schema<v.GenericSchema<unknown, unknown>>;

/** Turns a refusal of the host into our own, and a lost connection into HostUnreachable. */
function asOurs(error: unknown, ms: number): unknown {
  if (error instanceof RemoteError) {
    const code = (Object.keys(REFUSALS) as RefusalCode[]).find((one) => REFUSALS[one].rpc === error.code);
    return code ? new Refusal(code, error.message) : error;
  }
  if (error instanceof NoAnswer) return new HostUnreachable(`host unreachable: no answer within ${ms / 1000} s`);
  if (error instanceof Refusal) return new HostUnreachable('host unreachable: the connection was lost');
  return error;
}
