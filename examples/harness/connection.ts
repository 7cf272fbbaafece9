// A connection to `parley host` over its socket: JSON-RPC 2.0, one frame per line.
import { connect } from 'node:net';

/** The host did not answer in time, or the connection ended: the outcome of the request is unknown. */
export class Unanswered extends Error {}
/** The host refused the request. */
export class Refused extends Error {}

export interface Frame {
  id?: string | number;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: { code: number; message: string };
}

interface Tool {
  name: string;
  inputSchema?: { required?: string[] };
  annotations?: { idempotentHint?: boolean };
}

/** How often an idempotent request is sent in all. */
const TRIES = 3;

export class Connection {
  /** Rejects when the connection ends. */
  readonly closed: Promise<never>;
  readonly #socket;
  readonly #patienceMs: number;
  readonly #answers = new Map<string, PromiseWithResolvers<unknown>>();
  #tools = new Map<string, Tool>();
  #count = 0;

  /** `onFrame` gets the host's requests and notifications. */
  constructor(path: string, onFrame: (frame: Frame) => void, patienceMs = 10_000) {
    this.#patienceMs = patienceMs;
    this.#socket = connect(path).setEncoding('utf8');
    const closed = Promise.withResolvers<never>();
    this.closed = closed.promise;
    closed.promise.catch(() => {});
    this.#socket.on('error', closed.reject);
    this.#socket.on('close', () => {
      for (const answer of this.#answers.values()) answer.reject(new Unanswered('the connection ended'));
      closed.reject(new Unanswered('the connection ended'));
    });
    let rest = '';
    this.#socket.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const frame = JSON.parse(line) as Frame;
        if (frame.method === undefined) this.#answered(frame);
        else onFrame(frame);
      }
    });
  }

  async initialize(capabilities: object): Promise<void> {
    const clientInfo = { name: 'example-harness', version: '1' };
    await this.ask('initialize', { protocolVersion: '2026-06-02', clientInfo, capabilities });
    const { tools } = (await this.ask('tools/list', {})) as { tools: Tool[] };
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  /** Asks once. */
  async ask(method: string, params: object): Promise<unknown> {
    if (this.#socket.destroyed) throw new Unanswered('the connection ended');
    this.#count += 1;
    const id = `${process.pid}-${this.#count}`;
    const answer = Promise.withResolvers<unknown>();
    this.#answers.set(id, answer);
    const timer = setTimeout(() => answer.reject(new Unanswered(`${method} was not answered`)), this.#patienceMs);
    this.say({ id, method, params });
    try {
      return await answer.promise;
    } finally {
      clearTimeout(timer);
      this.#answers.delete(id);
    }
  }

  /**
   * Calls a tool. Without an answer, calls it again with the same arguments if that is harmless: the host declares the tool idempotent, and
   * a key is given if it needs one. Otherwise the call may have been done already, and the caller must decide.
   */
  async call(name: string, args: Record<string, unknown>, sessionId: string): Promise<unknown> {
    const tool = this.#tools.get(name);
    const needsKey = tool?.inputSchema?.required?.includes('idempotencyKey') ?? false;
    const isHarmless =
      tool?.annotations?.idempotentHint === true && (!needsKey || args['idempotencyKey'] !== undefined);
    for (let tried = 1; ; tried += 1) {
      try {
        return await this.ask('tools/call', { name, arguments: args, sessionId });
      } catch (error) {
        if (!(error instanceof Unanswered) || !isHarmless || tried >= TRIES) throw error;
      }
    }
  }

  say(frame: object): void {
    this.#socket.write(`${JSON.stringify({ jsonrpc: '2.0', ...frame })}\n`);
  }

  close(): void {
    this.#socket.destroy();
  }

  #answered({ id, result, error }: Frame): void {
    const answer = this.#answers.get(String(id));
    if (error) answer?.reject(new Refused(`${error.message} (${error.code})`));
    else answer?.resolve(result);
  }
}
