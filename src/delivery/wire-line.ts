import { visibleLine } from './visible.ts';

/** One line holds one frame; more than this is no frame of an agent. */
const LINE_BYTES = 64 * 1024 * 1024;
/** Of what it complains about, the last is kept. */
const COMPLAINT_CHARS = 2000;

/** What a call came to: the agent's result, its error, or that it went away without either. */
export type Answer =
  | { result: Record<string, unknown> }
  | { error: { code: number; message: string } }
  | { gone: string }
  | { late: true };

type Frame = Record<string, unknown>;

/**
 * A running `kimi --wire`: JSON-RPC 2.0, one frame a line, on its stdin and stdout. Whatever it asks is answered, because it would
 * wait for ever; but what only its user may decide is declined. spec: c2c#wire
 */
export class WireLine {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'pipe'>;
  readonly #open = new Map<string, (answer: Answer) => void>();
  #complaint = '';
  #last = 0;
  /** What it had to decline, in small words. */
  readonly declined: string[] = [];

  /** `leaveMs`: how long it may take to end by itself after its input was closed, and again after it was asked to. */
  constructor(
    command: readonly string[],
    readonly options: { cwd: string; env: Record<string, string | undefined>; leaveMs: number },
  ) {
    const { cwd, env } = options;
    this.#child = Bun.spawn([...command], { cwd, env, stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' });
    // Both end with the child, which `close` waits for.
    void this.#read();
    void this.#hearComplaints();
  }

  /** Asks, and waits at most so long for the answer. */
  async call(method: string, params: Frame, ms: number): Promise<Answer> {
    const id = String((this.#last += 1));
    const { promise, resolve } = Promise.withResolvers<Answer>();
    this.#open.set(id, resolve);
    const timer = setTimeout(() => resolve({ late: true }), ms);
    this.#write({ jsonrpc: '2.0', id, method, params });
    if (this.#child.exitCode !== null) this.#endAll();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#open.delete(id);
    }
  }

  /** Closes its input and waits until it has ended; if it does not, it is ended. */
  async close(): Promise<void> {
    try {
      await this.#child.stdin.end();
    } catch {
      // It was gone already.
    }
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await this.#endsWithin(this.options.leaveMs)) break;
      this.#child.kill(signal);
    }
    await this.#child.exited;
  }

  async #endsWithin(ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), ms);
    const ended = this.#child.exited.then(() => true);
    const first = await Promise.race([ended, promise]);
    clearTimeout(timer);
    return first;
  }

  #write(frame: Frame): void {
    try {
      void this.#child.stdin.write(`${JSON.stringify(frame)}\n`);
      void this.#child.stdin.flush();
    } catch {
      this.#endAll();
    }
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of this.#child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#hear(line);
      if (rest.length > LINE_BYTES) this.#child.kill('SIGKILL');
    }
    await this.#child.exited;
    await Bun.sleep(0);
    this.#endAll();
  }

  async #hearComplaints(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of this.#child.stderr) {
      this.#complaint = (this.#complaint + decoder.decode(chunk, { stream: true })).slice(-COMPLAINT_CHARS);
    }
  }

  #hear(line: string): void {
    const frame = readFrame(line);
    if (!frame) return;
    if (frame['method'] === 'request') return this.#reply(frame);
    const answered = this.#open.get(textIn(frame['id']));
    if (!answered || frame['method'] !== undefined) return;
    const error = objectIn(frame['error']);
    if (error) return answered({ error: { code: Number(error['code']), message: textIn(error['message']) } });
    answered({ result: objectIn(frame['result']) ?? {} });
  }

  #reply({ id, params }: Frame): void {
    const asked = objectIn(params);
    const type = textIn(asked?.['type']);
    const result = decline(type, objectIn(asked?.['payload']) ?? {});
    this.declined.push(type);
    if (result) return this.#write({ jsonrpc: '2.0', id, result });
    this.#write({ jsonrpc: '2.0', id, error: { code: -32601, message: 'nobody is here to answer that' } });
  }

  #endAll(): void {
    const { exitCode, signalCode } = this.#child;
    const said = this.#complaint.trim().split('\n').at(-1) ?? '';
    const how = signalCode ? `by ${signalCode}` : `with code ${exitCode ?? 'unknown'}`;
    const gone = `it ended ${how}${said && `: ${visibleLine(said, 300)}`}`;
    for (const answered of this.#open.values()) answered({ gone });
  }
}

/** Nobody sits before this client: what a person should decide is declined, never granted. */
function decline(type: string, payload: Frame): Frame | null {
  const because = 'mail came in while nobody watches; only the user can decide this, in a session of their own';
  switch (type) {
    case 'ApprovalRequest':
      return { request_id: payload['id'], response: 'reject', feedback: because };
    case 'QuestionRequest':
      return { request_id: payload['id'], answers: {} };
    case 'ToolCallRequest':
      return {
        tool_call_id: payload['id'],
        return_value: { is_error: true, output: '', message: because, display: [] },
      };
    default:
      return null;
  }
}

function readFrame(line: string): Frame | null {
  try {
    return objectIn(JSON.parse(line));
  } catch {
    return null;
  }
}

function objectIn(value: unknown): Frame | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Frame) : null;
}

function textIn(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
