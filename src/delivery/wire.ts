import type { Evidence } from '../protocol/receipt.ts';
import { visibleLine } from './gate.ts';
import type { Attempt, Parcel, Way } from './way.ts';

/** The version of the protocol that we speak. spec: c2c#wire */
const PROTOCOL = '1.10';
const VERSION_MS = 20_000;
/** How long a turn that was called off may take to end. */
const CANCEL_MS = 5000;
const LEAVE_MS = 3000;

/** Errors of the agent, by number: what each means, and whether it may go better later. */
const ERRORS: Record<number, { means: string; retry: boolean }> = {
  [-32000]: { means: 'a turn is running already', retry: true },
  [-32001]: { means: 'no model is set; choose one in kimi', retry: true },
  [-32002]: { means: 'this kimi does not support what was asked', retry: false },
  [-32003]: { means: 'the model could not be reached', retry: true },
  [-32004]: { means: 'its login has run out; log in again with kimi', retry: true },
};

export interface WireOrder {
  /** The program and what it needs before `--wire`. */
  command: readonly string[];
  workDir: string;
  env: Record<string, string | undefined>;
  /** Further words for the command line. */
  args?: readonly string[];
  /** How long it may take until it is ready, and how long a turn may. */
  startMs: number;
  turnMs: number;
  /** How long it may take to leave, before it is ended. */
  leaveMs?: number;
  version: string;
}

/**
 * Way 7: a turn in a `kimi --wire` of our own, started for this mail and ended after it. spec: c2c#wire
 *
 * Until the prompt is written nothing was given. Then only the agent's own answer tells: its result means that the turn ran, its error
 * that it did not. If it goes away instead, nobody can tell what the model saw.
 */
export class WireWay implements Way {
  readonly name = 'wire';
  #known: Promise<string | null> | undefined;

  constructor(readonly order: WireOrder) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return { outcome: 'left', because: 'there is nothing to hand over', retry: false };
    const unfit = await (this.#known ??= whyUnfit(this.order));
    if (unfit !== null) {
      this.#known = undefined;
      return { outcome: 'left', because: unfit, retry: unfit.includes('not found') };
    }
    if (signal.aborted) return left('we were told to stop');
    let line: WireLine;
    try {
      line = new WireLine(this.#commandLine(), {
        cwd: this.order.workDir,
        env: this.order.env,
        leaveMs: this.order.leaveMs ?? LEAVE_MS,
      });
    } catch (error) {
      return left(`kimi could not be started: ${String(error)}`);
    }
    try {
      return await this.#talk(line, parcels, signal);
    } finally {
      await line.close();
    }
  }

  async #talk(line: WireLine, parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    const ready = await stoppable(line.call('initialize', this.#hello(), this.order.startMs), signal);
    if (ready === 'stopped') return left('we were told to stop');
    if (!('result' in ready)) return refusal(ready, `kimi was not ready after ${this.order.startMs / 1000} s`);
    const text = parcels.map((parcel) => parcel.text).join('\n\n');
    const asked = line.call('prompt', { user_input: text }, this.order.turnMs);
    const answer = await stoppable(asked, signal);
    if (answer !== 'stopped' && !('late' in answer)) return ended(answer, line);
    // From here on the model may have seen it: it is called off, and what the agent says of that is what we know.
    await line.call('cancel', {}, CANCEL_MS);
    const after = answer === 'stopped' ? await within(asked, CANCEL_MS, LATE) : answer;
    return 'late' in after ? unknown('the turn did not end in time and was called off') : ended(after, line);
  }

  #hello(): Record<string, unknown> {
    return {
      protocol_version: PROTOCOL,
      client: { name: 'parley', version: this.order.version },
      capabilities: { supports_question: false },
    };
  }

  #commandLine(): string[] {
    // Never with a flag that approves everything: what needs a person's word waits for that person.
    return [...this.order.command, '--wire', '--work-dir', this.order.workDir, ...(this.order.args ?? [])];
  }
}

/** Why this kimi has no wire; null if it may have one. Only the old CLI (1.x) speaks it. */
export async function whyUnfit({
  command,
  workDir,
  env,
}: Pick<WireOrder, 'command' | 'workDir' | 'env'>): Promise<string | null> {
  try {
    const child = Bun.spawn([...command, '--version'], {
      cwd: workDir,
      env,
      stdin: 'ignore',
      stderr: 'ignore',
      timeout: VERSION_MS,
    });
    const said = await new Response(child.stdout).text();
    const [version, major] = /(\d+)\.\d+[\w.-]*/.exec(said) ?? [];
    if (major === undefined || major === '1') return null;
    return (
      `kimi ${visibleLine(version ?? '', 40)} has no --wire (only the old kimi-cli 1.x has): install its hooks with ` +
      '`c2c install kimi`, or wake it where it runs: `c2c start kimi`, or `c2c-deliver-inbox --notify-only --loop --client kimi --terminal tmux:<pane>`'
    );
  } catch {
    return `${visibleLine(command[0] ?? '', 100)} was not found; install kimi-cli 1.x, or say where it is with --command`;
  }
}

function ended(answer: Exclude<Answer, { late: true }>, line: WireLine): Attempt {
  const declined: Evidence = line.declined.length > 0 ? { declined: line.declined.join(' ').slice(0, 200) } : {};
  if ('gone' in answer) return unknown(`kimi went away before it answered: ${answer.gone}`, declined);
  if ('error' in answer) return refusal(answer, '');
  const { status, steps } = answer.result;
  const said = {
    way: 'wire',
    status: visibleLine(String(status), 40),
    ...(typeof steps === 'number' && { steps }),
    ...declined,
  };
  if (status === 'finished' || status === 'max_steps_reached') {
    return { outcome: 'taken', step: 'accepted', evidence: said };
  }
  return { outcome: 'offered', evidence: said };
}

function refusal(answer: Exclude<Answer, { result: object }>, late: string): Attempt {
  if ('late' in answer) return left(late);
  if ('gone' in answer) {
    // Another program under this name, or a kimi that says no version: it will not learn it.
    const retry = !/(unknown|unrecognized|no such) option/i.test(answer.gone);
    return { outcome: 'left', because: `kimi was not ready: ${answer.gone}`, retry };
  }
  const { code, message } = answer.error;
  const { means, retry } = ERRORS[code] ?? { means: 'it refused', retry: true };
  return { outcome: 'left', because: `${means} (kimi: ${code} ${visibleLine(message, 200)})`, retry };
}

function left(because: string): Attempt {
  return { outcome: 'left', because, retry: true };
}

function unknown(because: string, more: Evidence = {}): Attempt {
  return { outcome: 'offered', evidence: { ...more, way: 'wire', unknown: because } };
}

async function stoppable<T>(act: Promise<T>, signal: AbortSignal): Promise<T | 'stopped'> {
  const { promise, resolve } = Promise.withResolvers<'stopped'>();
  const stop = (): void => resolve('stopped');
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([act, promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** What comes of this within so many ms, else `late`. */
async function within<T, L>(act: Promise<T>, ms: number, late: L): Promise<T | L> {
  const { promise, resolve } = Promise.withResolvers<L>();
  const timer = setTimeout(() => resolve(late), ms);
  try {
    return await Promise.race([act, promise]);
  } finally {
    clearTimeout(timer);
  }
}

const LATE = { late: true } as const;

/** One line holds one frame; more than this is no frame of an agent. */
const LINE_BYTES = 64 * 1024 * 1024;
/** Of what it complains about, the last is kept. */
const COMPLAINT_CHARS = 2000;

/** What a call came to: the agent's result, its error, or that it went away without either. */
type Answer =
  | { result: Record<string, unknown> }
  | { error: { code: number; message: string } }
  | { gone: string }
  | { late: true };

type Frame = Record<string, unknown>;

/**
 * A running `kimi --wire`: JSON-RPC 2.0, one frame a line, on its stdin and stdout. Whatever it asks is answered, because it would
 * wait for ever; but what only its user may decide is declined. spec: c2c#wire
 */
class WireLine {
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
    this.#write({ jsonrpc: '2.0', id, method, params });
    if (this.#child.exitCode !== null) this.#endAll();
    try {
      return await within(promise, ms, LATE);
    } finally {
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
      if ((await within(this.#child.exited, this.options.leaveMs, 'late')) !== 'late') break;
      this.#child.kill(signal);
    }
    await this.#child.exited;
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
