import { visibleLine } from '../../core/gate.ts';
import type { Evidence } from '../../core/receipt.ts';
import { isRecord, JsonRpcPeer, NoAnswer, RemoteError, RPC } from '../../wire/jsonrpc.ts';
import type { Id, Params } from '../../wire/jsonrpc.ts';
import { readLines } from '../../wire/lines.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';

/** The version of the protocol that we speak. spec: c2c#wire */
const PROTOCOL = '1.10';
const VERSION_MS = 20_000;
/** Limit for a cancelled turn to end. */
const CANCEL_MS = 5000;
const LEAVE_MS = 3000;
/** A longer line cannot be a frame of Kimi: the process is killed. */
const LINE_BYTES = 64 * 1024 * 1024;
/** How much of the end of its stderr is kept. */
const STDERR_CHARS = 2000;
const DECLINED =
  'this turn was started for mail, and no user watches it; only the user can decide this, in their own session';

/** Errors of Kimi, by code: what each means, and whether a retry may succeed. */
const ERRORS: Record<number, { means: string; retry: boolean }> = {
  [-32000]: { means: 'a turn is running already', retry: true },
  [-32001]: { means: 'no model is set; choose one in kimi', retry: true },
  [-32002]: { means: 'this kimi does not support the request', retry: false },
  [-32003]: { means: 'the model could not be reached', retry: true },
  [-32004]: { means: 'its login has expired; log in again with kimi', retry: true },
};

export interface WireOrder {
  /** The program, and its arguments before `--wire`. */
  command: readonly string[];
  workDir: string;
  env: Record<string, string | undefined>;
  /** Further arguments. */
  args?: readonly string[];
  /** Limits for the start of the program and for the turn. */
  startMs: number;
  turnMs: number;
  /** Limit for the program to exit by itself, before it is killed. */
  leaveMs?: number;
  version: string;
}

/**
 * Way 7: a turn in a `kimi --wire` that Parley starts for this mail and ends after it. spec: c2c#wire
 *
 * Before the prompt is written, nothing is handed over. After that only Kimi's answer counts: a result means that the turn ran, an error
 * that it did not. If Kimi ends without an answer, nothing is proven either way.
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
    let kimi: KimiProcess;
    try {
      kimi = new KimiProcess(this.#commandLine(), {
        cwd: this.order.workDir,
        env: this.order.env,
        leaveMs: this.order.leaveMs ?? LEAVE_MS,
      });
    } catch (error) {
      return left(`kimi could not be started: ${String(error)}`);
    }
    try {
      return await this.#talk(kimi, parcels, signal);
    } finally {
      await kimi.close();
    }
  }

  async #talk(kimi: KimiProcess, parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    const ready = await stoppable(kimi.call('initialize', this.#hello(), this.order.startMs), signal);
    if (ready === 'stopped') return left('we were told to stop');
    if (!('result' in ready)) return refusal(ready, `kimi was not ready after ${this.order.startMs / 1000} s`);
    const text = parcels.map((parcel) => parcel.text).join('\n\n');
    const asked = kimi.call('prompt', { user_input: text }, this.order.turnMs);
    const answer = await stoppable(asked, signal);
    if (answer !== 'stopped' && !('late' in answer)) return ended(answer, kimi);
    // The model may have seen the mail by now: cancel the turn, and report Kimi's answer.
    await kimi.call('cancel', {}, CANCEL_MS);
    const after = answer === 'stopped' ? await within(asked, CANCEL_MS, { late: true } as const) : answer;
    return 'late' in after ? unknown('the turn did not end in time and was cancelled') : ended(after, kimi);
  }

  #hello(): Params {
    return {
      protocol_version: PROTOCOL,
      client: { name: 'parley', version: this.order.version },
      capabilities: { supports_question: false },
    };
  }

  #commandLine(): string[] {
    // Never add a flag that approves everything: only the user approves.
    return [...this.order.command, '--wire', '--work-dir', this.order.workDir, ...(this.order.args ?? [])];
  }
}

/** Why this kimi has no `--wire`; null if it may have it. Only the old CLI (1.x) has it. */
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

function ended(answer: Exclude<Answer, { late: true }>, kimi: KimiProcess): Attempt {
  const declined: Evidence = kimi.declined.length > 0 ? { declined: kimi.declined.join(' ').slice(0, 200) } : {};
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
    // A program without `--wire` whose version did not show that: a retry cannot help.
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

async function within<T, U>(act: Promise<T>, ms: number, late: U): Promise<T | U> {
  const { promise, resolve } = Promise.withResolvers<U>();
  const timer = setTimeout(() => resolve(late), ms);
  try {
    return await Promise.race([act, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The answer to a call: its result or error. `gone`: Kimi ended without one. `late`: none came in time. */
type Answer = { result: Params } | { error: RemoteError } | { gone: string } | { late: true };

/**
 * A running `kimi --wire`: JSON-RPC 2.0, one frame per line, on its stdin and stdout. Every request of Kimi gets an answer, because Kimi
 * waits for it without a limit. Decisions that belong to the user are declined. spec: c2c#wire
 */
class KimiProcess {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'pipe'>;
  readonly #peer: JsonRpcPeer;
  #stderr = '';
  /** The types of the requests that were declined. */
  readonly declined: string[] = [];

  /** `leaveMs`: limit for it to exit after its stdin is closed, and again after SIGTERM. */
  constructor(
    command: readonly string[],
    readonly options: { cwd: string; env: Record<string, string | undefined>; leaveMs: number },
  ) {
    const { cwd, env } = options;
    this.#child = Bun.spawn([...command], { cwd, env, stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' });
    this.#peer = new JsonRpcPeer((frame) => this.#write(frame), {
      request: ({ id, method, params }) => void (method === 'request' && this.#decline(id, params)),
      notification() {},
      broken() {},
    });
    // Both loops end with the child, and `close` waits for the child.
    void this.#readStdout();
    void this.#readStderr();
  }

  /** Sends a request and waits at most `ms` for the answer. */
  async call(method: string, params: Params, ms: number): Promise<Answer> {
    try {
      const result = await this.#peer.request(method, params, { ms }).answer;
      return { result: isRecord(result) ? result : {} };
    } catch (error) {
      if (error instanceof RemoteError) return { error };
      if (error instanceof NoAnswer) return { late: true };
      return { gone: this.#howItEnded() };
    }
  }

  /** Closes its stdin and waits until it has exited. If it does not exit, it is killed. */
  async close(): Promise<void> {
    try {
      await this.#child.stdin.end();
    } catch {
      // It has already ended.
    }
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const ended = await within(
        this.#child.exited.then(() => true),
        this.options.leaveMs,
        false,
      );
      if (ended) break;
      this.#child.kill(signal);
    }
    await this.#child.exited;
  }

  #write(frame: string): void {
    try {
      void this.#child.stdin.write(`${frame}\n`);
      void this.#child.stdin.flush();
    } catch {
      this.#peer.close();
    }
  }

  async #readStdout(): Promise<void> {
    await readLines(this.#child.stdout, LINE_BYTES, {
      receive: (line) => this.#peer.receive(line),
      tooLong: () => this.#child.kill('SIGKILL'),
    });
    await this.#child.exited;
    // Read the rest of stderr first, for the reason.
    await Bun.sleep(0);
    this.#peer.close();
  }

  async #readStderr(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of this.#child.stderr)
      this.#stderr = (this.#stderr + decoder.decode(chunk, { stream: true })).slice(-STDERR_CHARS);
  }

  /** No user watches this client: a decision that belongs to the user is declined, never granted. */
  #decline(id: Id, { type, payload }: Params): void {
    const asked = isRecord(payload) ? payload['id'] : undefined;
    this.declined.push(typeof type === 'string' ? type : '');
    switch (type) {
      case 'ApprovalRequest':
        return void this.#peer.answer(id, { request_id: asked, response: 'reject', feedback: DECLINED });
      case 'QuestionRequest':
        return void this.#peer.answer(id, { request_id: asked, answers: {} });
      case 'ToolCallRequest':
        return void this.#peer.answer(id, {
          tool_call_id: asked,
          return_value: { is_error: true, output: '', message: DECLINED, display: [] },
        });
      default:
        return this.#peer.fail(id, { code: RPC.method, message: 'nobody is here to answer that' });
    }
  }

  #howItEnded(): string {
    const { exitCode, signalCode } = this.#child;
    const said = this.#stderr.trim().split('\n').at(-1) ?? '';
    const how = signalCode ? `by ${signalCode}` : `with code ${exitCode ?? 'unknown'}`;
    return `it ended ${how}${said && `: ${visibleLine(said, 300)}`}`;
  }
}
