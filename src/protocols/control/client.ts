import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { codeOf } from '../../core/disk.ts';
import type { Env } from '../../core/env.ts';
import { Refusal } from '../../core/refusal.ts';
import type { RefusalCode } from '../../core/refusal.ts';
import { LineReader } from '../../wire/lines.ts';
import { controlPlaces } from './config.ts';
import { ERRORS } from './phrases.ts';

/** An answer may hold a whole page of history. */
const ANSWER_LIMIT = 256 * 1024 * 1024;

export type Answered = Record<string, unknown> & { ok: true };

/** The server ended, or closed the connection, before it answered. */
export class ServerGone extends Refusal {}

/** A caller of `~/.ccc.sock`: what our own commands use. */
export class ControlClient {
  readonly #lines: Record<string, unknown>[] = [];
  #arrived = Promise.withResolvers<void>();
  #isOver = false;

  private constructor(readonly socket: Socket) {
    const reader = new LineReader(ANSWER_LIMIT, {
      receive: (bytes) => {
        this.#lines.push(JSON.parse(Buffer.from(bytes).toString()) as Record<string, unknown>);
        this.#arrived.resolve();
      },
      tooLong: () => socket.destroy(),
    });
    socket.on('data', (chunk: Buffer) => reader.push(chunk));
    socket.on('close', () => {
      this.#isOver = true;
      this.#arrived.resolve();
    });
    socket.on('error', () => socket.destroy());
  }

  /** Throws a Refusal that says how to start a server if none answers. */
  static async open(env: Env): Promise<ControlClient> {
    const { socket: path } = controlPlaces(env);
    const socket = connect({ path });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    socket.once('connect', resolve);
    socket.once('error', reject);
    try {
      await promise;
    } catch (error) {
      throw new Refusal(
        'unreachable',
        `no control server answers on ${path} (${codeOf(error) ?? 'unknown error'}); start one: \`parley up --with control --detach\`, or \`parley ccc listen\``,
      );
    }
    return new ControlClient(socket);
  }

  /** Sends a request and returns its answer. Throws an error of the server as a Refusal with its text. `heard` gets earlier events. */
  async request(
    fields: Record<string, unknown>,
    heard: (event: Record<string, unknown>) => void = () => {},
  ): Promise<Answered> {
    this.write(fields);
    let answer = await this.next();
    for (; answer?.['event'] !== undefined; answer = await this.next()) heard(answer);
    if (!answer) throw new ServerGone('unreachable', 'the control server ended before it answered');
    if (answer['ok'] === true) return { ...answer, ok: true };
    const said = String(answer['error']);
    const reason = typeof answer['reason'] === 'string' ? `: ${answer['reason']}` : '';
    throw new Refusal(codeFor(said), `${said}${reason}`);
  }

  write(fields: Record<string, unknown>): void {
    this.socket.write(`${JSON.stringify(fields)}\n`);
  }

  /** The next line, or null if the server has closed the connection. */
  async next(): Promise<Record<string, unknown> | null> {
    for (;;) {
      const line = this.#lines.shift();
      if (line) return line;
      if (this.#isOver) return null;
      await this.#arrived.promise;
      this.#arrived = Promise.withResolvers();
    }
  }

  close(): void {
    this.socket.destroy();
  }
}

/** One request on a connection of its own. */
export async function requestControl(env: Env, fields: Record<string, unknown>): Promise<Answered> {
  const client = await ControlClient.open(env);
  try {
    return await client.request(fields);
  } finally {
    client.close();
  }
}

function codeFor(said: string): RefusalCode {
  if (said === ERRORS.notFound || said.startsWith(ERRORS.noHost) || said.startsWith('no prompt ')) return 'not_found';
  if (/^host unreachable|^failed to|^session (started|stopped)|^capture failed|^interrupted|^timeout/.test(said))
    return 'unreachable';
  if (/^\d+ prompts wait/.test(said)) return 'busy';
  return said.startsWith('too late') ? 'already_claimed' : 'invalid_request';
}
