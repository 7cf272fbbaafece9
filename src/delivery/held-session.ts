import * as v from 'valibot';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { AgentName } from '../core/names.ts';
import { Schema } from '../core/schema.ts';
import type { Described, Parsed } from '../core/schema.ts';
import { reasonOf } from '../core/refusal.ts';
import { replaceFile } from '../platform/files.ts';
import { userOf } from '../platform/peer-user.ts';
import { startOf } from '../platform/process.ts';
import type { HeldTerminal } from '../sessions/pass-through.ts';
import type { Screen } from '../sessions/terminal.ts';
import type { Listening } from '../wire/connection.ts';
import { WriteQueue } from '../wire/connection.ts';
import { LineReader, textOf } from '../wire/lines.ts';
import { serveUnixSocket } from '../wire/unix-socket.ts';
import type { HeldClient, Typing } from './client.ts';
import { namesIn } from './hook-session.ts';
import { hasLiveProcess } from './session-names.ts';
import { removeFrom, typeInto } from './terminal.ts';
import type { Typed, TypingOptions } from './terminal.ts';

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
      return parsedIn(HeldSession, readFileSync(`${this.folder}/${name}`, 'utf8'));
    } catch {
      return null;
    }
  }
}

/**
 * What a holder answers. `entered`: text and Enter went in. `stranded`: the text went in, and Enter did not follow. `waits`: nothing was
 * typed, and it may go better later. `never`: nothing was typed, and never will be. `unknown`: it was not asked to type this. `unreached`:
 * it was asked nothing, because nobody listens at its socket.
 */
const HolderAnswer = new Schema(() =>
  v.object({
    typed: v.picklist(['entered', 'stranded', 'waits', 'never', 'unknown', 'unreached']),
    because: v.string(),
  }),
);
export type HolderAnswer = Described<typeof HolderAnswer>;
const HolderRequest = new Schema(() =>
  v.union([
    v.object({ type: v.object({ ids: v.array(v.string()), text: v.string() }) }),
    v.object({ typed: v.string() }),
  ]),
);
export type HolderRequest = Described<typeof HolderRequest>;

/** A text is at most this long. */
const LINE_BYTES = 1024 * 1024;
const QUIET_MS = 1000;
/** Between the two looks that must both show an empty composer. */
const TWICE_MS = 60;
const LOOK_MS = 40;
const ENTERED_MS = 3000;
/** After its state could not be written down, for want of space. */
const AGAIN_MS = 1000;
const KEPT = 1000;
/** Between two looks at a text of ours that may still be in the composer. */
const LEFT_MS = 1000;
/** So long a composer must be empty before a text that was there and was not sent counts as removed. */
const REMOVED_MS = 5000;
/** So often Enter is pressed behind one text; then it is removed. */
const MOST_ENTERS = 3;
/** Typing is not stopped. */
const NEVER = new AbortController().signal;

export interface HolderOptions {
  home: string;
  client: string;
  name: AgentName;
  folder: string;
  held: Pick<HeldTerminal, 'pty' | 'quietMs' | 'keyAt' | 'hasWaitingKeys' | 'alone'>;
  /** How it is typed to. Null: it is only held. */
  typing: { own: HeldClient; composer: Typing['composer'] } | null;
  /** For how long the user must have typed nothing, ms. */
  quietMs?: number;
  /** How long the client may take to say that it works before the next text is typed, ms. */
  enteredMs?: number;
  /** Between two looks at a text of ours that may still be in the composer, ms. */
  leftMs?: number;
}

/** A text of ours that may still be in the composer: Enter did not follow it, or the client has not said that it took it. */
interface LeftText {
  ids: readonly string[];
  text: string;
  /** When it was pasted, as performance.now() counts. */
  at: number;
  enters: number;
  emptySince: number | null;
}

/**
 * Types mail into the terminal that this process holds, for the process that follows the mailbox. It decides by itself whether it may: the
 * user has typed nothing for a moment, the client says that it is idle, and its screen shows an empty composer, twice. Between the paste
 * and Enter the user's keys wait, and where a paste must be taken back, for a few seconds at most.
 *
 * A text of ours can stay in the composer: a question opened over it, or the client did not take Enter. As long as the user presses no
 * key after the paste, what is there is ours, because the composer was empty before. Then Enter is pressed when the client is idle, or
 * what is left of it is removed. After a key of the user it is the user's, and is not touched. Nothing else is typed meanwhile.
 *
 * Nothing that goes wrong here may end the client, or be written over its screen.
 */
export class TerminalHolder {
  readonly #sessions: HeldSessions;
  /** What came of each message, by its id. */
  readonly #done = new Map<string, { said: HolderAnswer; text: string }>();
  #said: HeldSession;
  #listening: Listening | null = null;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #left: LeftText | null = null;
  #again: ReturnType<typeof setTimeout> | undefined;

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
          this.#answer(text ?? '').then(
            (answer) => connection.write(JSON.stringify(answer)),
            () => connection.cut(),
          );
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
    this.#lookIn(LOOK_MS);
  }

  #lookIn(ms: number): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#look().catch(() => this.#lookIn(AGAIN_MS));
    }, ms);
  }

  close(): void {
    clearTimeout(this.#soon);
    clearTimeout(this.#again);
    this.#listening?.close();
    this.#listening = null;
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
    const seen: HeldSession['seen'] = shown === 'dialog' || own.isReady(screen) ? shown : 'starting';
    const { session } = own;
    if (seen !== this.#said.seen || session !== this.#said.session) {
      const now = { ...this.#said, seen, session };
      if (this.#listening) this.#sessions.write(now);
      this.#said = now;
    }
    return seen;
  }

  async #answer(line: string): Promise<HolderAnswer> {
    const request = parsedIn(HolderRequest, line);
    if (!request) return { typed: 'never', because: 'that is no request' };
    if ('typed' in request) return this.#done.get(request.typed)?.said ?? { typed: 'unknown', because: '' };
    const { ids, text } = request.type;
    // One after the other. What went in is not typed again; a message that is given again comes in other words, with a mark of its own.
    const act = this.#turn.then(async () => {
      const before = ids
        .flatMap((id) => this.#done.get(id) ?? [])
        .find((one) => one.text === text && (one.said.typed === 'entered' || one.said.typed === 'stranded'));
      if (before) return before.said;
      this.#note(ids, text, { typed: 'stranded', because: 'it is being typed' });
      const said = await this.#type(ids, text).catch((error: unknown) => waits(reasonOf(error)));
      this.#note(ids, text, said);
      return said;
    });
    this.#turn = act;
    return act;
  }

  #note(ids: readonly string[], text: string, said: HolderAnswer): void {
    for (const id of ids) {
      this.#done.delete(id);
      this.#done.set(id, { said, text });
    }
    for (const oldest of this.#done.keys()) if (this.#done.size > KEPT) this.#done.delete(oldest);
  }

  async #type(ids: readonly string[], text: string): Promise<HolderAnswer> {
    const { held, typing, quietMs = QUIET_MS } = this.options;
    if (!typing) return { typed: 'never', because: 'the screen of this client is not known' };
    // What becomes of a text that was not sent is found out first; with another text behind it nobody could tell.
    if (this.#left && !this.#isEntered(this.#left)) return waits('a text of ours may still be in its composer');
    for (let looks = 0; looks < 2; looks += 1) {
      if (looks > 0) await Bun.sleep(TWICE_MS);
      if (held.quietMs < quietMs) return waits('its user types');
      const seen = await this.#look();
      if (seen !== 'empty') return waits(`its screen is ${seen}`);
    }
    const left = { ids, text, at: performance.now(), enters: 1, emptySince: null };
    return this.#came(left, await this.#act((options) => typeInto(options, text, NEVER)));
  }

  #act(act: (options: TypingOptions) => Promise<Typed>): Promise<Typed> {
    const { held, typing, enteredMs = ENTERED_MS } = this.options;
    if (!typing) throw new Error('the screen of this client is not known');
    const { composer, own } = typing;
    const { states, enterAfter, shownFor = 0, eraseKeys } = own;
    const isAwaited = (): boolean => held.hasWaitingKeys;
    const how = { states, composer, enterAfter, shownFor, proofWithin: enteredMs, isAwaited };
    const erase = eraseKeys !== undefined && { erase: async () => held.pty.type(eraseKeys) };
    return held.alone((terminal) => act({ terminal: { ...terminal, ...erase }, ...how }));
  }

  /** What came of it in words for who asked. Notes whether the text may still be in the composer. */
  #came(left: LeftText, typed: Typed): HolderAnswer {
    const isLeft = typed.typed === 'stranded' || (typed.typed === 'entered' && typed.proof === null);
    this.#left = isLeft ? left : null;
    if (isLeft) this.#lookAtLeft();
    if (typed.typed === 'entered') return { typed: 'entered', because: '' };
    if (typed.typed === 'stranded') return { typed: 'stranded', because: typed.because };
    return { typed: typed.retry ? 'waits' : 'never', because: typed.because };
  }

  #lookAtLeft(): void {
    clearTimeout(this.#again);
    const look = async (): Promise<void> => {
      const left = this.#left;
      const said = left && (await this.#finish(left).catch(() => null));
      if (left && said) this.#note(left.ids, left.text, said);
      if (this.#left && this.#listening) this.#lookAtLeft();
    };
    const inTurn = (): void => void (this.#turn = this.#turn.then(look));
    this.#again = setTimeout(inTurn, this.options.leftMs ?? LEFT_MS);
  }

  /** Sends or removes a text that was left in the composer. Null: nothing new is known of it. */
  async #finish(left: LeftText): Promise<HolderAnswer | null> {
    const { held, typing } = this.options;
    const [seen, now, screen] = [await this.#look(), await typing?.own.states.latest(), await held.pty.screen()];
    const isIdle = now?.state === 'idle';
    if (seen === 'empty' && isIdle) return this.#gone(left);
    left.emptySince = null;
    if (seen !== 'draft' || !isIdle || held.keyAt > left.at || !screen || !typing) return null;
    const { own } = typing;
    const isPasted = (shown: Screen, text: string): boolean => own.holds(shown, text);
    if (left.enters >= MOST_ENTERS || !isPasted(screen, left.text))
      return this.#came(left, await this.#act((options) => removeFrom(options, left.text)));
    const typed = await this.#act((options) => typeInto({ ...options, isPasted }, left.text, NEVER));
    if (typed.typed === 'nothing') return null;
    left.enters += 1;
    return this.#came(left, typed);
  }

  /** The composer is empty: Enter has sent the text after all, or somebody removed it. The record decides whether it was sent. */
  #gone(left: LeftText): HolderAnswer | null {
    left.emptySince ??= performance.now();
    if (performance.now() - left.emptySince < REMOVED_MS) return null;
    this.#left = null;
    return this.#isEntered(left) ? null : waits('it was removed from the composer');
  }

  #isEntered({ ids: [id = ''] }: LeftText): boolean {
    return this.#done.get(id)?.said.typed === 'entered';
  }
}

/** Asks a holder; null if it was asked and does not answer. Then it may have typed all the same. */
export async function askHolder(path: string, request: HolderRequest, ms: number): Promise<HolderAnswer | null> {
  const { promise, resolve } = Promise.withResolvers<HolderAnswer | null>();
  const timer = setTimeout(() => resolve(null), ms);
  const lines = new LineReader(LINE_BYTES, {
    receive: (line) => resolve(parsedIn(HolderAnswer, textOf(line) ?? '')),
    tooLong: () => resolve(null),
  });
  const socketHandler = {
    data: (_socket: unknown, chunk: Uint8Array) => lines.push(chunk),
    drain: () => queue?.drain(),
    close: () => resolve(null),
    error: () => resolve(null),
  };
  let queue: WriteQueue | null = null;
  try {
    const socket = await Bun.connect({ unix: path, socket: socketHandler }).catch(reasonOf);
    if (typeof socket === 'string') return { typed: 'unreached', because: socket };
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

function parsedIn<T>(shape: { safeParse(input: unknown): Parsed<T> }, line: string): T | null {
  try {
    const read = shape.safeParse(JSON.parse(line));
    return read.success ? read.data : null;
  } catch {
    return null;
  }
}

const waits = (because: string): HolderAnswer => ({ typed: 'waits', because });
