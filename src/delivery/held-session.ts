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
 * The state of a client whose terminal is held, as its holder writes it: `terminals/<pid>.json` in the home, with the socket `<pid>.sock`
 * beside it. `seen` is what the client's screen shows; `starting`: the client takes no prompts yet.
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

/** The sessions whose terminals are held, as files in a home. */
export class HeldSessions {
  readonly folder: string;

  constructor(home: string) {
    this.folder = `${home}/terminals`;
  }

  /** The held sessions whose holder or client runs. Removes the files of the others: a holder that was killed leaves its file. */
  all(): HeldSession[] {
    return namesIn(this.folder).flatMap((name) => {
      const held = /^\d+\.json$/.test(name) ? this.#read(name) : null;
      if (!held) return [];
      if (hasLiveProcess(held.holder) || hasLiveProcess(held.program)) return [held];
      this.#remove(held);
      return [];
    });
  }

  /** The session that this process holds; null if it holds none. */
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
 * What a holder answers. `entered`: text and Enter went in. `stranded`: the text went in, but Enter did not follow, or may not have. `waits`:
 * nothing was typed; a later attempt may succeed. `never`: nothing was typed, and a later attempt cannot succeed. `unknown`: the holder was
 * not asked to type this message. `unreached`: the holder was not asked, because nobody listens at its socket.
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

/** The longest line of the socket, and so the longest text. */
const LINE_BYTES = 1024 * 1024;
/** The user must have typed nothing for this long. */
const QUIET_MS = 1000;
/** The time between the two looks that must both show an empty composer. */
const SECOND_LOOK_MS = 60;
/** The screen is read this long after the client has drawn. */
const LOOK_MS = 40;
/** How long the client may take to say that it works. */
const ENTERED_MS = 3000;
/** The next look after the state file could not be written, for example on a full disk. */
const RETRY_MS = 1000;
/** The most messages whose answers are kept. */
const MAX_ANSWERS = 1000;
/** The time between two looks at a text of ours that may still be in the composer. */
const LEFT_MS = 1000;
/** A text that was not sent counts as removed when the composer has been empty for this long. */
const REMOVED_MS = 5000;
/** Enter is pressed at most this often for one text; then the text is removed. */
const MAX_ENTERS = 3;
/** An attempt to type is never stopped. */
const NEVER = new AbortController().signal;

export interface HolderOptions {
  home: string;
  client: string;
  name: AgentName;
  folder: string;
  held: Pick<HeldTerminal, 'pty' | 'quietMs' | 'keyAt' | 'hasWaitingKeys' | 'alone'>;
  /** How Parley types into this client. Null: nothing is typed, the terminal is only held. */
  typing: { own: HeldClient; composer: Typing['composer'] } | null;
  /** For how long the user must have typed nothing, ms. */
  quietMs?: number;
  /** How long the client may take to say that it works before the next text is typed, ms. */
  enteredMs?: number;
  /** Between two looks at a text of ours that may still be in the composer, ms. */
  leftMs?: number;
}

/** A text of ours that may still be in the composer: Enter did not follow, or the client has not confirmed that it took the text. */
interface LeftText {
  ids: readonly string[];
  text: string;
  /** When it was pasted, by performance.now(). */
  at: number;
  enters: number;
  emptySince: number | null;
}

/**
 * Types mail into the terminal that this process holds, when the follower asks for it. The holder decides whether it may type: the user has
 * typed nothing for a moment, the client says that it is idle, and two looks at its screen show an empty composer. The user's keys wait
 * between the paste and Enter. If the paste must be taken back, they wait for a few seconds at most.
 *
 * A text of ours can stay in the composer, because a question opened over it or the client did not take Enter. As long as the user has
 * pressed no key since the paste, the text there is ours, because the composer was empty before. Then the holder presses Enter when the
 * client is idle, or removes what is left of the text. After a key of the user, the text is the user's and is not touched. The holder types
 * nothing else meanwhile.
 *
 * An error here must not end the client, and must not be written over its screen.
 */
export class TerminalHolder {
  readonly #sessions: HeldSessions;
  /** What was answered for each message, by its id, with the text that was typed. */
  readonly #answers = new Map<string, { said: HolderAnswer; text: string }>();
  #state: HeldSession;
  #listening: Listening | null = null;
  #lookTimer: ReturnType<typeof setTimeout> | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #leftText: LeftText | null = null;
  #leftTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly options: HolderOptions) {
    const { home, client, name, folder, held } = options;
    this.#sessions = new HeldSessions(home);
    mkdirSync(this.#sessions.folder, { recursive: true, mode: 0o700 });
    const own = { pid: process.pid, start: startOf(process.pid) };
    const program = { pid: held.pty.pid, start: startOf(held.pty.pid) };
    const { startedAt } = held.pty;
    this.#state = { v: 1, client, name, folder, holder: own, program, startedAt, session: null, seen: 'starting' };
  }

  /** Opens the socket and writes the state file: from now on the holder can be asked. */
  async open(): Promise<void> {
    const path = this.#sessions.socketOf(this.#state);
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
    this.#sessions.write(this.#state);
  }

  /** The client has drawn something. */
  drew(): void {
    this.#lookIn(LOOK_MS);
  }

  #lookIn(ms: number): void {
    this.#lookTimer ??= setTimeout(() => {
      this.#lookTimer = undefined;
      this.#look().catch(() => this.#lookIn(RETRY_MS));
    }, ms);
  }

  close(): void {
    clearTimeout(this.#lookTimer);
    clearTimeout(this.#leftTimer);
    this.#listening?.close();
    this.#listening = null;
    rmSync(this.#sessions.socketOf(this.#state), { force: true });
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
    if (seen !== this.#state.seen || session !== this.#state.session) {
      const now = { ...this.#state, seen, session };
      if (this.#listening) this.#sessions.write(now);
      this.#state = now;
    }
    return seen;
  }

  async #answer(line: string): Promise<HolderAnswer> {
    const request = parsedIn(HolderRequest, line);
    if (!request) return { typed: 'never', because: 'that is no request' };
    if ('typed' in request) return this.#answers.get(request.typed)?.said ?? { typed: 'unknown', because: '' };
    const { ids, text } = request.type;
    // One request at a time. The same text is not typed twice. A message that is handed over again has a new mark, so its text differs.
    const act = this.#queue.then(async () => {
      const before = ids
        .flatMap((id) => this.#answers.get(id) ?? [])
        .find((one) => one.text === text && (one.said.typed === 'entered' || one.said.typed === 'stranded'));
      if (before) return before.said;
      this.#noteAnswer(ids, text, { typed: 'stranded', because: 'it is being typed' });
      const said = await this.#type(ids, text).catch((error: unknown) => waits(reasonOf(error)));
      this.#noteAnswer(ids, text, said);
      return said;
    });
    this.#queue = act;
    return act;
  }

  #noteAnswer(ids: readonly string[], text: string, said: HolderAnswer): void {
    for (const id of ids) {
      this.#answers.delete(id);
      this.#answers.set(id, { said, text });
    }
    for (const oldest of this.#answers.keys()) if (this.#answers.size > MAX_ANSWERS) this.#answers.delete(oldest);
  }

  async #type(ids: readonly string[], text: string): Promise<HolderAnswer> {
    const { held, typing, quietMs = QUIET_MS } = this.options;
    if (!typing) return { typed: 'never', because: 'the screen of this client is not known' };
    // First find out what became of the text before this one: with a second text behind it, nobody could tell.
    if (this.#leftText && !this.#isEntered(this.#leftText)) return waits('a text of ours may still be in its composer');
    for (let looks = 0; looks < 2; looks += 1) {
      if (looks > 0) await Bun.sleep(SECOND_LOOK_MS);
      if (held.quietMs < quietMs) return waits('its user types');
      const seen = await this.#look();
      if (seen !== 'empty') return waits(`its screen is ${seen}`);
    }
    const left = { ids, text, at: performance.now(), enters: 1, emptySince: null };
    return this.#answerFor(left, await this.#typeAlone((options) => typeInto(options, text, NEVER)));
  }

  #typeAlone(act: (options: TypingOptions) => Promise<Typed>): Promise<Typed> {
    const { held, typing, enteredMs = ENTERED_MS } = this.options;
    if (!typing) throw new Error('the screen of this client is not known');
    const { composer, own } = typing;
    const { states, enterAfter, shownFor = 0, eraseKeys } = own;
    const isAwaited = (): boolean => held.hasWaitingKeys;
    const how = { states, composer, enterAfter, shownFor, proofWithin: enteredMs, isAwaited };
    const erase = eraseKeys !== undefined && { erase: async () => held.pty.type(eraseKeys) };
    return held.alone((terminal) => act({ terminal: { ...terminal, ...erase }, ...how }));
  }

  /** The answer for this result of typing. Notes whether the text may still be in the composer. */
  #answerFor(left: LeftText, typed: Typed): HolderAnswer {
    const isLeft = typed.typed === 'stranded' || (typed.typed === 'entered' && typed.proof === null);
    this.#leftText = isLeft ? left : null;
    if (isLeft) this.#lookAtLeft();
    if (typed.typed === 'entered') return { typed: 'entered', because: '' };
    if (typed.typed === 'stranded') return { typed: 'stranded', because: typed.because };
    return { typed: typed.retry ? 'waits' : 'never', because: typed.because };
  }

  #lookAtLeft(): void {
    clearTimeout(this.#leftTimer);
    const look = async (): Promise<void> => {
      const left = this.#leftText;
      const said = left && (await this.#finish(left).catch(() => null));
      if (left && said) this.#noteAnswer(left.ids, left.text, said);
      if (this.#leftText && this.#listening) this.#lookAtLeft();
    };
    const inTurn = (): void => void (this.#queue = this.#queue.then(look));
    this.#leftTimer = setTimeout(inTurn, this.options.leftMs ?? LEFT_MS);
  }

  /** Sends or removes a text that was left in the composer. Null: nothing new is known about it. */
  async #finish(left: LeftText): Promise<HolderAnswer | null> {
    const { held, typing } = this.options;
    const [seen, now, screen] = [await this.#look(), await typing?.own.states.latest(), await held.pty.screen()];
    const isIdle = now?.state === 'idle';
    if (seen === 'empty' && isIdle) return this.#whenEmpty(left);
    left.emptySince = null;
    if (seen !== 'draft' || !isIdle || held.keyAt > left.at || !screen || !typing) return null;
    const { own } = typing;
    const isPasted = (shown: Screen, text: string): boolean => own.holds(shown, text);
    if (left.enters >= MAX_ENTERS || !isPasted(screen, left.text))
      return this.#answerFor(left, await this.#typeAlone((options) => removeFrom(options, left.text)));
    const typed = await this.#typeAlone((options) => typeInto({ ...options, isPasted }, left.text, NEVER));
    if (typed.typed === 'nothing') return null;
    left.enters += 1;
    return this.#answerFor(left, typed);
  }

  /** The composer is empty: Enter sent the text after all, or somebody removed it. The client's record decides whether it was sent. */
  #whenEmpty(left: LeftText): HolderAnswer | null {
    left.emptySince ??= performance.now();
    if (performance.now() - left.emptySince < REMOVED_MS) return null;
    this.#leftText = null;
    return this.#isEntered(left) ? null : waits('it was removed from the composer');
  }

  #isEntered({ ids: [id = ''] }: LeftText): boolean {
    return this.#answers.get(id)?.said.typed === 'entered';
  }
}

/** Asks a holder. Null: it was asked and gave no answer, so it may have typed the text. */
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
