import * as v from 'valibot';
import { resolve } from 'node:path';
import type { Env } from '../../core/env.ts';
import type { SessionDriver } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { userHome } from '../../platform/env.ts';
import { VERSION } from '../../platform/program.ts';
import { writeAll } from '../../platform/terminal.ts';
import { serveStdio } from '../../wire/connection.ts';
import type { Connection, Receiver } from '../../wire/connection.ts';
import { errorBody, JsonRpcPeer, RPC, RpcError } from '../../wire/jsonrpc.ts';
import type { Id, Params, Request } from '../../wire/jsonrpc.ts';
import { DRIVE_PROTOCOL } from './hosts.ts';
import { localDriver } from './targets.ts';

/** How long the current prompt may take to end after the other side is gone. It is aborted; only a text that is being typed is finished. */
const END_MS = 5000;

/** A session of this host, as configured on the other side. */
const FarTarget = new Schema(() =>
  v.object({
    name: v.string(),
    client: v.string(),
    folder: v.string(),
    command: v.array(v.string()),
    conversation: v.nullable(v.string()),
    sharesFolder: v.optional(v.boolean(), false),
    startTimeoutMs: v.number(),
  }),
);
export type FarTarget = Described<typeof FarTarget>;

const Since = new Schema(() => v.object({ since: v.string() }));
const Screen = new Schema(() => v.object({ lines: v.number(), styles: v.optional(v.boolean(), false) }));
const FilePart = new Schema(() => v.object({ name: v.string(), data: v.string(), offset: v.number() }));
const Answered = new Schema(() =>
  v.object({
    call: v.string(),
    choices: v.array(v.union([v.object({ options: v.array(v.number()) }), v.object({ text: v.string() })])),
  }),
);
const PromptParams = new Schema(() =>
  v.object({ key: v.string(), text: v.string(), isRetry: v.exactOptional(v.boolean()) }),
);

type Method = (driver: SessionDriver, params: Params, signal: AbortSignal) => Promise<unknown>;

/** The methods for an open session. spec: control#drive */
const METHODS: Record<string, Method> = {
  state: (driver) => driver.state(),
  place: (driver) => driver.place(),
  events: (driver, params) => driver.events(read(Since, params).since),
  submit: (driver, params, signal) => driver.submit(read(PromptParams, params), signal),
  takeBack: async (driver, params) => (await driver.takeBack?.(read(PromptParams, params))) ?? {},
  start: (driver) => driver.start(),
  stop: async (driver) => (await driver.stop()) ?? {},
  screen: (driver, params) => {
    const { lines, styles } = read(Screen, params);
    return driver.screen(lines, { styles });
  },
  saveFile: (driver, params) => {
    const { name, data, offset } = read(FilePart, params);
    return driver.saveFile(name, Buffer.from(data, 'base64'), offset);
  },
  question: async (driver) => ({ question: (await driver.questions?.open()) ?? null }),
  answer: async (driver, params, signal) => {
    const { call, choices } = read(Answered, params);
    return (await driver.questions?.answer(call, choices, signal)) ?? { outcome: 'gone' };
  },
};

interface OpenSession {
  driver: SessionDriver;
  target: string;
  unwatch(): void;
}

/** Serves the sessions of this host to the process that started us, until it closes our standard input. */
export async function serveDrive(env: Env): Promise<void> {
  const write = async (bytes: Uint8Array): Promise<void> => writeAll(1, Buffer.from(bytes).toString());
  await serveStdio((connection) => new DriveServer(connection, env), Bun.stdin.stream(), write);
}

/** One caller of `ccc drive`. It opens sessions, calls their methods, and gets `changed` when it should read the state again. */
export class DriveServer implements Receiver {
  readonly #peer: JsonRpcPeer;
  readonly #sessions = new Map<string, OpenSession>();
  readonly #calls = new Map<Id, AbortController>();
  readonly #work = new Set<Promise<void>>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    connection: Connection,
    readonly env: Env,
    readonly make = localDriver,
  ) {
    const write = (frame: string): void => {
      if (!connection.write(frame)) connection.cut();
    };
    this.#peer = new JsonRpcPeer(write, {
      request: (request) => this.#begin(request),
      notification: ({ method, params }) => {
        if (method === 'abort') this.#calls.get(params['id'] as Id)?.abort();
        if (method === 'close') void this.#inTurn(() => this.#close(String(params['session'])));
      },
      broken: (error, id) => {
        if (id !== undefined) this.#peer.fail(id, { code: error.code, message: error.message });
      },
    });
  }

  receive(frame: string | Uint8Array): void {
    this.#peer.receive(frame);
  }

  tooLong(): void {
    this.#peer.fail(null, { code: RPC.invalid, message: 'this line is too long' });
  }

  /** The caller is gone: does not wait for starts, and drops a prompt that was not typed yet. */
  async idle(): Promise<void> {
    for (const call of this.#calls.values()) call.abort();
    await Promise.race([Promise.all(this.#work), Bun.sleep(END_MS)]);
  }

  async ended(): Promise<void> {
    await this.idle();
    for (const session of this.#sessions.keys()) await this.#inTurn(() => this.#close(session));
  }

  #begin({ id, method, params }: Request): void {
    const abort = new AbortController();
    this.#calls.set(id, abort);
    const work = this.#answer(method, params, abort.signal)
      .then(
        (result) => void this.#peer.answer(id, result),
        (error: unknown) => this.#peer.fail(id, errorBody(error) ?? { code: RPC.internal, message: String(error) }),
      )
      .finally(() => {
        this.#calls.delete(id);
        this.#work.delete(work);
      });
    // Do not wait for a start at the end: it may take a minute, and losing its answer does no harm.
    if (method !== 'start') this.#work.add(work);
  }

  async #answer(method: string, params: Params, signal: AbortSignal): Promise<unknown> {
    if (method === 'hello') return { protocol: DRIVE_PROTOCOL, version: VERSION };
    const session = String(params['session']);
    if (method === 'open') {
      const target = read(FarTarget, params['target']);
      return this.#inTurn(() => this.#open(session, target));
    }
    const act = Object.hasOwn(METHODS, method) ? METHODS[method] : undefined;
    if (!act) throw new RpcError(RPC.method, `there is no method ${method}`);
    const open = this.#sessions.get(session);
    if (!open) throw new Refusal('not_found', `${session} was not opened`);
    return act(open.driver, params, signal);
  }

  async #open(session: string, target: FarTarget): Promise<object> {
    const text = JSON.stringify(target);
    if (this.#sessions.get(session)?.target === text) return {};
    await this.#close(session);
    const home = userHome(this.env);
    const folder = resolve(home, target.folder.replace(/^~(?=\/|$)/, home));
    const driver = this.make({ ...target, folder, host: 'local' }, this.env);
    const unwatch = driver.watch(() => this.#peer.notify('changed', { session }));
    this.#sessions.set(session, { driver, target: text, unwatch });
    return {};
  }

  async #close(session: string): Promise<void> {
    const open = this.#sessions.get(session);
    this.#sessions.delete(session);
    open?.unwatch();
    await open?.driver.close();
  }

  /** Runs one at a time: two drivers of one session could claim the same conversation. */
  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(act);
    this.#turn = done.catch(() => {});
    return done;
  }
}

function read<T>(
  schema: { safeParse(input: unknown): { success: true; data: T } | { success: false; path: string; why: string } },
  input: unknown,
): T {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw new RpcError(RPC.params, `${parsed.path}: ${parsed.why}`);
}
