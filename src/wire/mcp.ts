import { Refusal } from '../core/refusal.ts';
import { FRAME_LIMIT, isRecord, JsonRpcPeer, RPC } from './jsonrpc.ts';
import type { Id, Notification, Params, Request } from './jsonrpc.ts';
import { readLines } from './lines.ts';

/** The revisions of MCP that we support, the newest first. spec: mcp#versions */
const MCP_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

/** The client at the other end, after `initialize`. */
export interface McpClient {
  /** The capabilities that it named. */
  capabilities: Params;
  notify(method: string, params: object): void;
}

/** One row of a face's table of tools. */
export interface ToolRow {
  about: string;
  /** The JSON Schema of each field. */
  takes: Readonly<Record<string, object>>;
  needs?: readonly string[] | undefined;
  hints?: object | undefined;
}

/** A tool's entry in `tools/list`. `more` is added to its input schema. */
export function listedTool<Name extends string>(
  name: Name,
  { about, takes, needs, hints }: ToolRow,
  more: object = {},
) {
  return {
    name,
    description: about,
    inputSchema: { type: 'object', properties: takes, ...(needs && { required: needs }), ...more },
    ...(hints && { annotations: hints }),
  };
}

/** Answers a call with some texts, once. Throws if the caller has cancelled. */
export type Answer = (...texts: string[]) => void;

/**
 * The name and tools of an MCP server. One server has several faces: Parley's own and those of the other protocols. spec: mcp#faces
 */
export interface Face {
  serverInfo: { name: string; version: string; features?: readonly string[] };
  /** What a model should know before it calls anything. */
  instructions?: string;
  /** The entries of `tools/list`. */
  tools: readonly { name: string }[];
  /** Tools that can be called but are not listed, because the list is in the context of every session. */
  unlisted?: readonly { name: string }[];
  /** What the server can do besides tools. */
  capabilities?: object;
  /** Called once, after `initialize` was answered. */
  opened?(client: McpClient): void;
  /** Called with `_meta` of each call: some clients name their session only there. */
  met?(meta: Params): void;
  /**
   * Calls one of the tools. A call that takes mail calls `answer` at the last moment at which the take can be undone. The model sees a
   * thrown `Refusal`. `meta` is `_meta` of this call.
   */
  call(name: string, given: unknown, answer: Answer, meta: Params): Promise<void>;
  /** The text of a refusal for this face. */
  refusal(text: string): string;
  /** Further fields of every successful result. */
  result?: object;
  /** The client is gone. After this returns nothing is sent to it. */
  close?(): Promise<void>;
}

export interface McpDeps {
  face: Face;
  /** Writes one line, or throws. */
  write: (line: string) => void;
  /** Facts, never a body. */
  log: (event: string, facts: Record<string, string | number | boolean>) => void;
  /** Turns an error of the system into the refusal that explains it, if it is one. */
  explain: (error: unknown) => unknown;
  /** What the user can do about an internal error, if that is known. */
  advice: () => string | null;
}

/**
 * MCP over stdio for one agent: JSON-RPC, one frame per line. Requests that need no mailbox are answered at once. Tool calls run one after
 * the other, in the order of arrival, so that a claim exists before the answer that needs it. spec: mcp#frames
 */
export class McpServer {
  readonly #peer: JsonRpcPeer;
  #last: Promise<void> = Promise.resolve();
  /** Calls without an answer, and whether the caller still wants one. */
  readonly #wanted = new Map<Id, boolean>();
  #isOpen = false;

  constructor(readonly deps: McpDeps) {
    this.#peer = new JsonRpcPeer((frame) => deps.write(`${frame}\n`), {
      request: (request) => this.#request(request),
      notification: (notification) => this.#cancel(notification),
      broken: (error, id) => id !== undefined && this.#fail(id, error.code, error.message),
    });
  }

  /** Serves until the input ends and every request is answered. */
  async serve(input: AsyncIterable<Uint8Array>): Promise<void> {
    await readLines(input, FRAME_LIMIT, {
      receive: (bytes) => this.#peer.receive(bytes),
      tooLong: () =>
        this.#fail(null, RPC.invalid, `a line has at most ${FRAME_LIMIT} bytes; write it to a file and send its path`),
    });
    await this.#last;
    await this.deps.face.close?.();
  }

  #request({ id, method, params }: Request): void {
    const { face } = this.deps;
    switch (method) {
      case 'initialize':
        this.#peer.answer(id, welcome(face, params['protocolVersion']));
        return this.#open(params);
      case 'ping':
        return void this.#peer.answer(id, {});
      case 'tools/list':
        return void this.#peer.answer(id, { tools: face.tools });
      case 'tools/call':
        return this.#enqueue(id, params);
      default:
        return this.#fail(id, RPC.method, 'there is no such method');
    }
  }

  #enqueue(id: Id, { name, arguments: given, _meta: meta }: Params): void {
    const { face } = this.deps;
    const known = [...face.tools, ...(face.unlisted ?? [])].find((tool) => tool.name === name);
    if (!known) {
      const names = face.tools.map((tool) => tool.name).join(', ');
      return this.#fail(id, RPC.params, `there is no such tool; use one of ${names}`);
    }
    const beside = isRecord(meta) ? meta : {};
    face.met?.(beside);
    this.#wanted.set(id, true);
    this.#last = this.#after(this.#last, id, () => this.#call(id, known.name, given, beside));
  }

  async #after(before: Promise<void>, id: Id, call: () => Promise<void>): Promise<void> {
    await before;
    // A cancelled call gets no answer. A call that has begun and cannot be undone stays done.
    if (this.#wanted.get(id)) await call();
    this.#wanted.delete(id);
  }

  #cancel({ method, params }: Notification): void {
    const id = params['requestId'] as Id;
    if (method === 'notifications/cancelled' && this.#wanted.has(id)) this.#wanted.set(id, false);
  }

  /** A second `initialize` changes nothing. */
  #open({ capabilities }: Params): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.deps.face.opened?.({
      capabilities: isRecord(capabilities) ? capabilities : {},
      notify: (method, params) => this.#peer.notify(method, params),
    });
  }

  /** Never throws. A refusal is a tool result too, so that the model reads what to do. */
  async #call(id: Id, name: string, given: unknown, meta: Params): Promise<void> {
    const { face, log, explain, advice } = this.deps;
    const answer: Answer = (...texts) => {
      if (!this.#wanted.get(id)) throw new Cancelled();
      this.#peer.answer(id, { ...content(texts), ...face.result });
    };
    try {
      await face.call(name, given, answer, meta);
    } catch (thrown) {
      if (thrown instanceof Cancelled || !this.#wanted.get(id)) return;
      const error = explain(thrown);
      if (error instanceof Refusal) return this.#refuse(id, face.refusal(error.message));
      log('failed', { tool: name, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
      this.#refuse(id, `internal error of parley; ${advice() ?? 'it was logged, try something else'}`);
    }
  }

  #refuse(id: Id, text: string): void {
    try {
      this.#peer.answer(id, { ...content([text]), isError: true });
    } catch {
      // The client is gone: `serve` ends with its input.
    }
  }

  #fail(id: Id, code: number, message: string): void {
    this.#peer.fail(id, { code, message });
  }
}

function welcome(face: Face, asked: unknown): object {
  return {
    protocolVersion: MCP_VERSIONS.find((one) => one === asked) ?? MCP_VERSIONS[0],
    capabilities: { tools: {}, ...face.capabilities },
    serverInfo: face.serverInfo,
    ...(face.instructions !== undefined && { instructions: face.instructions }),
  };
}

function content(texts: readonly string[]): { content: object[] } {
  return { content: texts.map((text) => ({ type: 'text', text })) };
}

class Cancelled extends Error {}
