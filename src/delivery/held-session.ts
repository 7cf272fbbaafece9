import * as v from 'valibot';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { AgentName } from '../core/names.ts';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import { reasonOf } from '../core/refusal.ts';
import { replaceFile } from '../platform/files.ts';
import { userOf } from '../platform/peer-user.ts';
import { startOf } from '../platform/process.ts';
import type { HeldTerminal } from '../sessions/pass-through.ts';
import type { Listening } from '../wire/connection.ts';
import { WriteQueue } from '../wire/connection.ts';
import { LineReader, textOf } from '../wire/lines.ts';
import { serveUnixSocket } from '../wire/unix-socket.ts';
import type { HeldClient, Typing } from './client.ts';
import { hasLiveProcess } from './session-names.ts';
import { typeInto } from './terminal.ts';

const Process = () => v.object({ pid: v.number(), start: v.nullable(v.string()) });

/**
 * What the process that holds a client's terminal says of it: `terminals/<pid>.json` in the home, with the socket `<pid>.sock` beside it.
 * `seen`: what the client's screen shows; `starting`: it takes no prompts yet.
 */
const HeldSession = new Schema(() =>
  v.object({
    v: v.literal(1),
    client: v.string(),
    name: AgentName.inner,
    folder: v.string(),
    holder: Process(),
    program: Process(),
    /** When the program was started, Unix ms. */
    startedAt: v.number(),
    /** The client's own id of its session, once it is known. */
    session: v.nullable(v.string()),
    seen: v.picklist(['starting', 'empty', 'draft', 'busy', 'dialog', 'unknown']),
  }),
);
export type HeldSession = Described<typeof HeldSession>;

/** The clients whose terminals are held. */
export class HeldSessions {
  readonly folder: string;

  constructor(home: string) {
    this.folder = `${home}/terminals`;
  }

  /** Those that run, or may still run: who was killed leaves its file. */
  all(): HeldSession[] {
    return namesIn(this.folder).flatMap((name) => {
      const held = /^\d+\.json$/.test(name) ? this.#read(name) : null;
      if (!held) return [];
      if (hasLiveProcess(held.holder) || hasLiveProcess(held.program)) return [held];
      this.#remove(held);
      return [];
    });
  }

  /** The one that this process holds; null if nobody does. */
  of(pid: number, start?: string | null): HeldSession | null {
    const held = this.#read(`${pid}.json`);
    const isMeant = held && (start === undefined || held.holder.start === start);
    return isMeant && (hasLiveProcess(held.holder) || hasLiveProcess(held.program)) ? held : null;
  }

  socketOf({ holder }: HeldSession): string {
    return `${this.folder}/${holder.pid}.sock`;
  }

  write(held: HeldSession): void {
    replaceFile(`${this.folder}/${held.holder.pid}.json`, `${JSON.stringify(held)}\n`);
  }

  #remove({ holder }: HeldSession): void {
    for (const end of ['json', 'sock']) rmSync(`${this.folder}/${holder.pid}.${end}`, { force: true });
  }

  #read(name: string): HeldSession | null {
    try {
      const read = HeldSession.safeParse(JSON.parse(readFileSync(`${this.folder}/${name}`, 'utf8')));
      return read.success ? read.data : null;
    } catch {
      return null;
    }
  }
}

/**
 * What a holder answers. `entered`: text and Enter went in. `stranded`: the text went in, and Enter did not follow. `waits`: nothing was
 * typed, and it may go better later. `never`: nothing was typed, and never will be. `unknown`: it was not asked to type this.
 */
export type HolderAnswer = { typed: 'entered' | 'stranded' | 'waits' | 'never' | 'unknown'; because: string };
export type HolderRequest = { type: { ids: readonly string[]; text: string } } | { typed: string };

/** A text is at most this long. */
const LINE_BYTES = 1024 * 1024;
const QUIET_MS = 1000;
/** Between the two looks that must both show an empty composer. */
const TWICE_MS = 60;
const LOOK_MS = 40;
const ENTERED_MS = 3000;
const KEPT = 1000;

export interface HolderOptions {
  home: string;
  client: string;
  name: AgentName;
  folder: string;
  held: HeldTerminal;
  /** How it is typed to. Null: it is only held. */
  typing: { own: HeldClient; composer: Typing['composer'] } | null;
  /** For how long the user must have typed nothing, ms. */
  quietMs?: number;
}

/**
 * Types mail into the terminal that this process holds, for the process that follows the mailbox. It decides by itself whether it may: the
 * user has typed nothing for a moment, the client says that it is idle, and its screen shows an empty composer, twice. Between the paste
 * and Enter the user's keys wait.
 */
export class TerminalHolder {
  readonly #sessions: HeldSessions;
  readonly #done = new Map<string, HolderAnswer>();
  #said: HeldSession;
  #listening: Listening | null = null;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(readonly options: HolderOptions) {
    const { home, client, name, folder, held } = options;
    this.#sessions = new HeldSessions(home);
    mkdirSync(this.#sessions.folder, { recursive: true, mode: 0o700 });
    const own = { pid: process.pid, start: startOf(process.pid) };
    const program = { pid: held.pty.pid, start: startOf(held.pty.pid) };
    const { startedAt } = held.pty;
    this.#said = { v: 1, client, name, folder, holder: own, program, startedAt, session: null, seen: 'starting' };
  }

  /** From now on it can be asked. */
  async open(): Promise<void> {
    const path = this.#sessions.socketOf(this.#said);
    const user = process.getuid?.() ?? -1;
    const rest = { otherwise: 'set PARLEY_HOME', user, userOf, lineLimit: LINE_BYTES, log() {} };
    this.#listening = await serveUnixSocket(
      (connection) => ({
        receive: (line) => {
          const text = typeof line === 'string' ? line : textOf(line);
          void this.#answer(text ?? '').then((answer) => connection.write(JSON.stringify(answer)));
        },
        tooLong: () => connection.cut(),
        async idle() {},
        async ended() {},
      }),
      { path, name: 'terminal', ...rest },
    );
    this.#sessions.write(this.#said);
  }

  /** The client has drawn something. */
  drew(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.#look();
    }, LOOK_MS);
  }

  close(): void {
    clearTimeout(this.#soon);
    this.#listening?.close();
    rmSync(this.#sessions.socketOf(this.#said), { force: true });
    rmSync(`${this.#sessions.folder}/${process.pid}.json`, { force: true });
  }

  async #look(): Promise<HeldSession['seen']> {
    const { held, typing } = this.options;
    const screen = await held.pty.screen();
    if (!screen || !typing) return 'unknown';
    const { own, composer } = typing;
    own.look(screen);
    const shown = composer(screen);
    const seen = shown === 'dialog' || own.isReady(screen) ? shown : 'starting';
    const { session } = own;
    if (seen !== this.#said.seen || session !== this.#said.session) {
      this.#said = { ...this.#said, seen, session };
      if (this.#listening) this.#sessions.write(this.#said);
    }
    return seen;
  }

  async #answer(line: string): Promise<HolderAnswer> {
    let request: HolderRequest;
    try {
      request = JSON.parse(line) as HolderRequest;
    } catch {
      return { typed: 'never', because: 'that is no request' };
    }
    if ('typed' in request) return this.#done.get(request.typed) ?? { typed: 'unknown', because: '' };
    const { ids, text } = request.type;
    // One after the other; what went in is not typed again.
    const act = this.#turn.then(async () => {
      const before = ids
        .map((id) => this.#done.get(id))
        .find((one) => one?.typed === 'entered' || one?.typed === 'stranded');
      if (before) return before;
      this.#note(ids, { typed: 'stranded', because: 'it is being typed' });
      const said = await this.#type(text).catch((error: unknown) => waits(reasonOf(error)));
      this.#note(ids, said);
      return said;
    });
    this.#turn = act;
    return act;
  }

  #note(ids: readonly string[], said: HolderAnswer): void {
    for (const id of ids) {
      this.#done.delete(id);
      this.#done.set(id, said);
    }
    for (const oldest of this.#done.keys()) if (this.#done.size > KEPT) this.#done.delete(oldest);
  }

  async #type(text: string): Promise<HolderAnswer> {
    const { held, typing, quietMs = QUIET_MS } = this.options;
    if (!typing) return { typed: 'never', because: 'the screen of this client is not known' };
    for (let looks = 0; looks < 2; looks += 1) {
      if (looks > 0) await Bun.sleep(TWICE_MS);
      if (held.quietMs < quietMs) return waits('its user types');
      const seen = await this.#look();
      if (seen !== 'empty') return waits(`its screen is ${seen}`);
    }
    const { composer } = typing;
    const { states, enterAfter } = typing.own;
    const never = new AbortController().signal;
    const options = { terminal: held.pty, states, composer, enterAfter, proofWithin: ENTERED_MS };
    const typed = await held.alone(() => typeInto(options, text, never));
    if (typed.typed === 'entered') return { typed: 'entered', because: '' };
    if (typed.typed === 'stranded') return { typed: 'stranded', because: typed.because };
    return { typed: typed.retry ? 'waits' : 'never', because: typed.because };
  }
}

/** Asks a holder; null if it does not answer. Then it may have typed all the same. */
export async function askHolder(path: string, request: HolderRequest, ms: number): Promise<HolderAnswer | null> {
  const { promise, resolve } = Promise.withResolvers<HolderAnswer | null>();
  const timer = setTimeout(() => resolve(null), ms);
  const lines = new LineReader(LINE_BYTES, {
    receive: (line) => resolve(answerIn(textOf(line) ?? '')),
    tooLong: () => resolve(null),
  });
  let queue: WriteQueue | null = null;
  try {
    const socket = await Bun.connect({
      unix: path,
      socket: {
        data: (_socket, chunk) => lines.push(chunk),
        drain: () => queue?.drain(),
        close: () => resolve(null),
        error: () => resolve(null),
      },
    });
    queue = new WriteQueue((bytes) => socket.write(bytes));
    queue.push(JSON.stringify(request));
    const answer = await promise;
    socket.end();
    return answer;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

function answerIn(line: string): HolderAnswer | null {
  try {
    return JSON.parse(line) as HolderAnswer;
  } catch {
    return null;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

const waits = (because: string): HolderAnswer => ({ typed: 'waits', because });
