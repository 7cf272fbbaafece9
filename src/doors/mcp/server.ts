import { Refusal } from '../../protocol/refusal.ts';
import { storageTrouble } from '../../storage/disk.ts';
import { FRAME_LIMIT, readFrame, RPC } from '../host/frames.ts';
import type { Id, Params } from '../host/frames.ts';
import { Lines } from '../host/lines.ts';
import type { Face } from './face.ts';

/** The revisions of MCP that we speak, the newest first. spec: mcp#versions */
export const MCP_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

export interface McpDeps {
  face: Face;
  /** Writes one line. */
  write(line: string): void;
  /** Facts, never a body. */
  log(event: string, facts: Record<string, string | number | boolean>): void;
  /** What helps against an error of ours, if that is known. */
  advice(): string | null;
}

/** One call of a tool. */
interface Call {
  name: string;
  given: unknown;
  meta: Record<string, unknown>;
}

/**
 * MCP over stdio for one agent: JSON-RPC, one frame per line. What needs no mailbox is answered at once; calls of tools one after
 * the other, in the order in which they came, so that a claim is there before the answer that needs it. spec: mcp#frames
 */
export class McpServer {
  #last: Promise<void> = Promise.resolve();
  /** Calls that are not answered yet, each with whether its caller still wants an answer. */
  readonly #wanted = new Map<Id, boolean>();
  #isOpen = false;

  constructor(readonly deps: McpDeps) {}

  /** Serves until the input ends and everything that came is answered. */
  async serve(input: AsyncIterable<Uint8Array>): Promise<void> {
    const lines = new Lines(FRAME_LIMIT);
    for await (const chunk of input) for (const line of lines.push(chunk)) this.#take(line);
    for (const line of lines.end()) this.#take(line);
    await this.#last;
    await this.deps.face.close?.();
  }

  #take(line: { bytes: Uint8Array } | { tooLong: true }): void {
    if ('tooLong' in line) {
      return this.#fail(
        null,
        RPC.invalid,
        `a line has at most ${FRAME_LIMIT} bytes; write it to a file and send its path`,
      );
    }
    const frame = readFrame(line.bytes);
    if (frame.kind === 'broken') {
      if (frame.id !== undefined) this.#fail(frame.id, frame.error.code, frame.error.message);
    } else if (frame.kind === 'request') this.#answer(frame.id, frame.method, frame.params);
    else if (frame.kind === 'notification' && frame.method === 'notifications/cancelled') {
      const id = frame.params['requestId'] as Id;
      if (this.#wanted.has(id)) this.#wanted.set(id, false);
    }
  }

  #answer(id: Id, method: string, params: Params): void {
    switch (method) {
      case 'initialize':
        this.#result(id, this.#welcome(params));
        return this.#open(params);
      case 'ping':
        return this.#result(id, {});
      case 'tools/list':
        return this.#result(id, { tools: this.deps.face.tools });
      case 'tools/call': {
        const { name, arguments: given, _meta: meta } = params;
        const { tools, unlisted = [] } = this.deps.face;
        const known = [...tools, ...unlisted].find((tool) => tool.name === name);
        if (!known) {
          const names = tools.map((tool) => tool.name).join(', ');
          return this.#fail(id, RPC.params, `there is no such tool; use one of ${names}`);
        }
        const beside = isRecord(meta) ? meta : {};
        this.deps.face.met?.(beside);
        this.#wanted.set(id, true);
        this.#last = this.#after(this.#last, id, { name: known.name, given, meta: beside });
        return;
      }
      default:
        return this.#fail(id, RPC.method, 'there is no such method');
    }
  }

  /** Each call waits for the one before; none of them throws. */
  async #after(before: Promise<void>, id: Id, call: Call): Promise<void> {
    await before;
    // Whoever took a call back wants no answer. What was begun and cannot be undone is done, and stays done.
    if (this.#wanted.get(id)) await this.#call(id, call);
    this.#wanted.delete(id);
  }

  #welcome({ protocolVersion }: Params): object {
    return {
      protocolVersion: MCP_VERSIONS.find((one) => one === protocolVersion) ?? MCP_VERSIONS[0],
      capabilities: { tools: {}, ...this.deps.face.capabilities },
      serverInfo: this.deps.face.serverInfo,
      ...(this.deps.face.instructions !== undefined && { instructions: this.deps.face.instructions }),
    };
  }

  /** A client that says twice who it is stays who it was. */
  #open({ capabilities }: Params): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.deps.face.opened?.({
      capabilities: isRecord(capabilities) ? capabilities : {},
      notify: (method, params) => this.deps.write(`${JSON.stringify({ jsonrpc: '2.0', method, params })}\n`),
    });
  }

  /** A "no" is an answer too: one line that says what to do, where the model reads it. */
  async #call(id: Id, { name, given, meta }: Call): Promise<void> {
    const { face } = this.deps;
    const answer = (told: object): void => {
      if (!this.#wanted.get(id)) throw new TakenBack();
      this.#result(id, told);
    };
    try {
      await face.call(name, given, (...texts) => answer(said(...texts)), meta);
    } catch (thrown) {
      if (thrown instanceof TakenBack || !this.#wanted.get(id)) return;
      const error = storageTrouble(thrown);
      if (error instanceof Refusal) return this.#no(id, face.refusal(error.message));
      this.deps.log('failed', {
        tool: name,
        error: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
      this.#no(id, `internal error of parley; ${this.deps.advice() ?? 'it was logged, try something else'}`);
    }
  }

  #no(id: Id, text: string): void {
    try {
      this.#result(id, { ...said(text), isError: true });
    } catch {
      // It cannot even be told that: the client is gone, and the end of its input ends us.
    }
  }

  #result(id: Id, result: object): void {
    this.deps.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
  }

  #fail(id: Id, code: number, message: string): void {
    this.deps.write(`${JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })}\n`);
  }
}

function said(...texts: string[]): { content: object[] } {
  return { content: texts.map((text) => ({ type: 'text', text })) };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The caller no longer wants the answer. */
class TakenBack extends Error {}
