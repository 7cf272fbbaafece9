import type { Program } from './program.ts';
import { PARLEY } from './program.ts';

export interface Told {
  text: string;
  isError: boolean;
}

interface Frame {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { code: number; message: string };
}

/** A small MCP client that starts the real `parley mcp`, as an agent's client does. */
export class McpClient {
  readonly #child;
  readonly #lines: AsyncIterator<string>;
  #id = 0;

  /** With a command it is that one which is started, as it stands in a client's settings. */
  constructor(
    { home, env, command }: Pick<Program, 'home' | 'env'> & { command?: string[] },
    args: string[] = [],
    name: 'parley' | 'bch' | 'c2c' = 'parley',
  ) {
    this.#child = Bun.spawn(command ?? [PARLEY, 'mcp', ...args], {
      ...(!command && { argv0: name }),
      cwd: home,
      env,
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'pipe',
    });
    this.#lines = linesOf(this.#child.stdout);
  }

  /** One line as it is. */
  async write(line: string): Promise<void> {
    await this.#child.stdin.write(`${line}\n`);
    await this.#child.stdin.flush();
  }

  async next(): Promise<Frame> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`parley mcp ended: ${await new Response(this.#child.stderr).text()}`);
    return JSON.parse(value) as Frame;
  }

  async request(method: string, params: object = {}): Promise<Frame> {
    this.#id += 1;
    await this.write(JSON.stringify({ jsonrpc: '2.0', id: this.#id, method, params }));
    const frame = await this.next();
    if (frame.id !== this.#id) throw new Error(`answered ${frame.id}, asked ${this.#id}`);
    return frame;
  }

  async initialize(protocolVersion = '2025-06-18', capabilities: object = {}): Promise<Record<string, unknown>> {
    const clientInfo = { name: 'test', version: '1' };
    const { result = {} } = await this.request('initialize', { protocolVersion, capabilities, clientInfo });
    await this.write(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }));
    return result;
  }

  async call(name: string, given: object = {}): Promise<Told> {
    const { result, error } = await this.request('tools/call', { name, arguments: given });
    if (!result) throw new Error(`${name}: ${error?.message}`);
    const [{ text = '' } = {}] = result['content'] as { text?: string }[];
    return { text, isError: result['isError'] === true };
  }

  /** Closes its stdin, and tells what it still said before its end. */
  async rest(): Promise<string> {
    await this.#child.stdin.end();
    let said = '';
    for (let line = await this.#lines.next(); !line.done; line = await this.#lines.next()) said += `${line.value}\n`;
    await this.#child.exited;
    return said;
  }

  /** Closes its stdin, and waits for its end. */
  async end(): Promise<{ code: number; err: string }> {
    await this.#child.stdin.end();
    const [err, code] = await Promise.all([new Response(this.#child.stderr).text(), this.#child.exited]);
    return { code, err };
  }
}

export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
