// A harness: it gets events from `parley host`, puts each before a model once, and gives its words back as the reply.
//
//   node examples/harness/harness.ts bob -- claude -p        (Node 22.18 or newer, or Bun; nothing else is needed)
//
// The model is any command: the prompt is its standard input, what it prints is what it says. Copy the folder and change what you
// like. docs/guides/a-harness.md tells the story, docs/protocol/host.md the rules.
//
// What it has of an event stands in a journal, and what stands there survives kill -9:
//
//   accepted   flushed to disk, and only then acknowledged. The host may forget that it sent it.
//   shown      put before the model. If the process dies now, the turn is told as failed, and the host offers the event again
//              unless something was said for it.
//   done       the model has spoken. If the process dies now, the same words are told again, and the host takes them once.
//   told       the host knows.
//   dropped    it was called off, or its turn failed. If it comes again it is new.
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
  /** The command that is the model. */
  model: string[];
  /** Also keep what no model is to see. */
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

/** One line of the journal: our token, an event, or what became of one. */
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

/** What an event must have, or it is not understood. */
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
    // Of our own making, and written down before it is used: a lost answer cannot lock us out of our session.
    if (this.#token === '') this.#write({ token: randomBytes(32).toString('hex') });
  }

  /** Serves for ever. A host that is away is asked again. */
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

  /** Yes only when it is on disk. To what is there already: yes again, and nothing else. */
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

  /** Its author took it back, or somebody answered it: what was not shown never will be, and what runs is stopped. */
  #callOff(eventId: string): void {
    for (const [key, { event, state }] of this.#held) {
      if (event.eventId !== eventId || state === 'told') continue;
      if (state === 'shown') this.#stopModel();
      else this.#write({ key, state: 'dropped' });
    }
  }

  /** Whatever is left to do for an event, from wherever we are. */
  async #goOn(host: Connection, key: string, held: Held): Promise<void> {
    const { event } = held;
    const sessionId = this.#options.agent;
    // As a request: then its answer says that it was heard.
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

  /** A receipt that costs nobody a turn. */
  async #noted(host: Connection, inReplyTo: string): Promise<void> {
    try {
      await host.call('chat.react', { inReplyTo, signal: 'seen' }, this.#options.agent);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }

  /** What the model says, or null if it came to nothing. */
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

  /** On disk first, then in mind. */
  #write(line: Line): void {
    const file = openSync(this.#options.journal, 'a', 0o600);
    try {
      // The line before may be half written.
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

/** What is half written was never acted on. */
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

/** What a model sees once. The same event is new where it returns, and where its text comes after a knock. */
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
