// A harness: it gets events from `parley host`, shows each to a model once, and sends the model's text back as the reply.
//
//   node examples/harness/harness.ts bob -- claude -p        (Node 22.18 or newer, or Bun; nothing else is needed)
//
// The model is any command: its standard input is the prompt, its standard output the reply. Copy the folder and change what you
// like. docs/guides/a-harness.md explains it, docs/protocol/host.md has the rules.
//
// The state of each event is in a journal, which survives kill -9:
//
//   accepted   flushed to disk, and only then acknowledged. The host need not send it again.
//   shown      given to the model. If the process dies now, the turn is reported as failed, and the host offers the event again
//              unless it has a reply.
//   done       the model has answered. If the process dies now, the same text is sent again, and the host takes it once.
//   told       the host has confirmed the end of the turn.
//   dropped    it was cancelled, or its turn failed. If it is sent again, it is a new event.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { homedir } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Connection, Refused } from './connection.ts';
import type { Frame } from './connection.ts';

interface Options {
  socket: string;
  agent: string;
  journal: string;
  /** The command that runs the model. */
  model: string[];
  /** Also accept events that the model must not see. */
  all: boolean;
}

interface Event {
  eventId: string;
  attention: { policy: string };
  knock?: object;
  returns?: number;
  prompt?: string;
}

type State = 'accepted' | 'shown' | 'done' | 'told' | 'dropped';
interface Held {
  event: Event;
  state: State;
  text: string;
}

/** One line of the journal: our token, an event, or a new state of one. */
interface Line {
  token?: string;
  accepted?: Event;
  key?: string;
  state?: State;
  text?: string;
}

const CAPABILITIES = {
  delivery: { ack: true, redelivery: true, idempotency: true },
  injection: { immediate: true, buffered: true, notify: true, tool_mailbox: true, digest: true },
  chatTools: { readThread: true, sendMessage: true, react: true, reactionSignals: true },
  utilities: { cancellation: true },
};

/** The fields that an event must have. */
const REQUIRED: Record<string, (value: unknown) => boolean> = {
  eventId: isText,
  'conversation.id': isText,
  'conversation.kind': oneOf('dm', 'channel', 'thread', 'system', 'tool'),
  'target.directedness': oneOf('to_me', 'to_my_role', 'to_other', 'ambient'),
  'attention.policy': oneOf('must_respond', 'may_respond', 'ack_only', 'must_not_respond'),
  'injection.mode': oneOf('immediate', 'buffered', 'notify', 'tool_mailbox', 'digest', 'silent'),
  'reliability.idempotencyKey': isText,
  content: (value) => value === undefined || (Array.isArray(value) && value.every((part) => isText(at(part, 'type')))),
};

class Harness {
  readonly #options: Options;
  readonly #held = new Map<string, Held>();
  #token = '';
  #wake = (): void => {};
  #stopModel = (): void => {};

  constructor(options: Options) {
    this.#options = options;
    for (const line of linesIn(options.journal)) this.#apply(line);
    // We choose the token and store it before its first use, so that a lost answer cannot lock us out of our session.
    if (this.#token === '') this.#write({ token: randomBytes(32).toString('hex') });
  }

  /** Serves forever. Connects again when the host is away. */
  async run(): Promise<void> {
    for (;;) {
      await this.#serve().catch((error: unknown) => console.error(`harness: ${String(error)}`));
      await pause(500);
    }
  }

  async #serve(): Promise<void> {
    const { socket, agent, all } = this.#options;
    const host = new Connection(socket, (frame) => this.#hear(host, frame));
    try {
      await host.initialize(CAPABILITIES);
      const deliver = all ? 'all' : 'loud';
      await host.ask('session/bind', { sessionId: agent, identities: [agent], token: this.#token, deliver });
      console.error(`harness: ${agent} is bound`);
      for (;;) {
        const woken = new Promise<void>((resolve) => (this.#wake = resolve));
        for (const [key, held] of this.#held) await this.#goOn(host, key, held);
        await Promise.race([woken, host.closed]);
      }
    } finally {
      host.close();
    }
  }

  #hear(host: Connection, { id, method, params = {} }: Frame): void {
    if (method === 'chat/deliver' && id !== undefined) host.say({ id, ...this.#accept(params) });
    else if (method === 'notifications/cancelled') this.#callOff(String(params['eventId']));
    else if (method === 'ping') host.say({ id, result: {} });
    else if (id !== undefined) host.say({ id, error: { code: -32601, message: `there is no ${method}` } });
  }

  /** Acknowledges an event only when it is on disk. Acknowledges a known event again, and does nothing else. */
  #accept(params: Record<string, unknown>): Pick<Frame, 'result' | 'error'> {
    const wrong = Object.entries(REQUIRED).find(([path, isRight]) => !isRight(at(params, path)))?.[0];
    if (wrong !== undefined) return { error: { code: -32602, message: `${wrong} is missing or wrong` } };
    const event = params as unknown as Event;
    try {
      if (!this.#held.has(keyOf(event))) this.#write({ accepted: event });
    } catch (error) {
      // The host offers it again.
      return { error: { code: -32603, message: String(error) } };
    }
    this.#wake();
    return { result: {} };
  }

  /** The event is over, because its author withdrew it or somebody answered it: drops it, and stops its turn if that runs. */
  #callOff(eventId: string): void {
    for (const [key, { event, state }] of this.#held) {
      if (event.eventId !== eventId || state === 'told') continue;
      if (state === 'shown') this.#stopModel();
      else this.#write({ key, state: 'dropped' });
    }
  }

  /** Does the remaining steps for an event, from its current state. */
  async #goOn(host: Connection, key: string, held: Held): Promise<void> {
    const { event } = held;
    const sessionId = this.#options.agent;
    // Send it as a request: the answer confirms that the host got it.
    const turn = (state: string, fields: object = {}): Promise<unknown> =>
      host.ask('notifications/turn', { sessionId, state, eventIds: [event.eventId], ...fields });
    if (held.state === 'accepted' && event.prompt === undefined) this.#write({ key, state: 'told' });
    if (held.state === 'accepted') {
      await turn('started');
      if (!this.#held.has(key)) return void (await turn('ended'));
      this.#write({ key, state: 'shown' });
      const text = await this.#think(event.prompt ?? '');
      if (text !== null) this.#write({ key, state: 'done', text });
    }
    if (held.state === 'shown') {
      await turn('failed');
      this.#write({ key, state: 'dropped' });
    }
    if (held.state === 'done') {
      await turn('ended', { finalText: held.text });
      if (event.attention.policy === 'ack_only') await this.#noted(host, event.eventId);
      this.#write({ key, state: 'told' });
    }
  }

  /** Reacts to an event, which costs nobody a turn. */
  async #noted(host: Connection, inReplyTo: string): Promise<void> {
    try {
      await host.call('chat.react', { inReplyTo, signal: 'seen' }, this.#options.agent);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }

  /** The model's text, or null if the model failed. */
  async #think(prompt: string): Promise<string | null> {
    const [command = 'false', ...args] = this.#options.model;
    const env = { ...process.env, PARLEY_AGENT: this.#options.agent };
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env });
    this.#stopModel = () => child.kill('SIGKILL');
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => (text += part));
    child.stdin.on('error', () => {}).end(prompt);
    const code = await new Promise((resolve) => child.on('error', resolve).on('close', resolve));
    return code === 0 ? text.trim() : null;
  }

  /** Records a line on disk first, then in memory. */
  #write(line: Line): void {
    const file = openSync(this.#options.journal, 'a', 0o600);
    try {
      // The last line may be incomplete.
      writeSync(file, `\n${JSON.stringify(line)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    this.#apply(line);
  }

  #apply({ token, accepted, key = '', state, text = '' }: Line): void {
    if (token !== undefined) this.#token = token;
    if (accepted) this.#held.set(keyOf(accepted), { event: accepted, state: 'accepted', text: '' });
    const held = this.#held.get(key);
    if (held && state) Object.assign(held, { state, text });
    if (state === 'dropped') this.#held.delete(key);
  }
}

/** Ignores an incomplete line: nothing was done after it. */
function linesIn(journal: string): Line[] {
  if (!existsSync(journal)) return [];
  return readFileSync(journal, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as Line];
      } catch {
        return [];
      }
    });
}

/** The key of what a model sees once. An event is new again when it returns, and when its text follows a knock. */
function keyOf({ eventId, returns = 0, knock }: Event): string {
  return `${eventId} ${returns} ${knock ? 'knock' : 'text'}`;
}

function at(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((inner, name) => (inner as Record<string, unknown> | undefined)?.[name], value);
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function oneOf(...words: string[]): (value: unknown) => boolean {
  return (value) => words.includes(value as string);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { socket: { type: 'string' }, journal: { type: 'string' }, all: { type: 'boolean', default: false } },
  });
  const [agent, ...model] = positionals;
  if (agent === undefined || model.length === 0) {
    console.error('usage: harness.ts [--socket PATH] [--journal FILE] [--all] AGENT -- COMMAND…');
    process.exit(64);
  }
  const home = process.env['PARLEY_HOME'] ?? `${homedir()}/.parley`;
  const { socket = `${home}/host/socket`, journal = `harness-${agent}.jsonl`, all } = values;
  await new Harness({ socket, journal, agent, model, all }).run();
}
