import {
  unseen,
  type Composer,
  type ReadComposer,
  pasteable,
  HalfTyped,
  type Screen,
  type Terminal,
} from '../sessions/terminal.ts';
import { runsIn } from '../platform/process.ts';
import type { ClientState, StateReader } from '../sessions/client-state.ts';
import { takeTurn } from '../sessions/pty.ts';
import type { Attempt, Parcel, Way } from '../core/ports/way-in.ts';
import { reasonOf } from '../core/refusal.ts';

/** The longest pause between two looks at the screen. */
const LOOK_MS = 25;
/** The first pause after a paste, because many clients draw at once. Each further pause is longer by this factor, up to `LOOK_MS`. */
const FIRST_LOOK_MS = 1;
const LOOK_GROWTH = 1.5;
/** How long a client's screen may take to show a paste. */
const SHOWN_WITHIN_MS = 5000;
/** The most presses of Ctrl-U to take back a text: some clients need several for a line. */
const MAX_ERASES = 200;
/** The longest that taking back a text may keep a user waiting. */
const TAKE_BACK_MS = 3000;
/** A composer may break a line after this many characters, and Ctrl-U then erases only one part. */
const NARROW_COLUMNS = 40;

/** A client in a terminal, and how text is typed into it. */
export interface TypingOptions {
  terminal: Terminal;
  states: StateReader;
  composer: ReadComposer;
  /**
   * The least time between the paste and Enter, in ms: some clients take an Enter that comes at once for a part of the paste. Where the screen
   * can be read, Enter also waits until the screen shows the paste.
   */
  enterAfter: number;
  /** How long the screen must have shown the paste before Enter, in ms: some clients count from the moment at which they read it. */
  shownFor?: number;
  /** How long to wait after Enter for the client's own sign that it took the text, in ms. */
  proofWithin: number;
  /** How long the screen may take to show the paste, in ms; `SHOWN_WITHIN_MS` by default. */
  shownWithin?: number;
  /** Whether a user waits for the end of this. Then a text that is not taken back within `TAKE_BACK_MS` stays. */
  isAwaited?: () => boolean;
  /**
   * Whether the composer holds this very text. Set only for a text that was typed before and stayed there, so that only Enter is missing.
   * Without it, a draft with the same words counts as a person's.
   */
  isPasted?: (screen: Screen, text: string) => boolean;
  /** Adds what this client needs at the end of a text so that Enter sends it. */
  ending?: (text: string) => string;
}

/**
 * The result of typing. `nothing`: the composer is as it was before. `entered`: text and Enter went in; `proof` is the client's state after
 * that. `stranded`: the text went in and could not be taken back. Enter did not follow, or it is unknown whether it did. `again`: Enter did not
 * follow, and the screen will show when the text is gone.
 */
export type Typed =
  | { typed: 'entered'; proof: ClientState | null }
  | { typed: 'nothing'; because: string; retry: boolean }
  | { typed: 'stranded'; because: string; entered: false | 'unknown'; again: boolean };

/**
 * Types one text and Enter, if and only if the client itself says that it is idle and its screen shows an empty composer. spec: c2c#typing
 * Enter in an open question would answer it, and in a draft would send the draft along. So nothing is typed into either, nor into a client
 * that starts, works, or gives no sign.
 *
 * looking  → the lock of this terminal is taken; state and screen are read. Only here a stop prevents the typing.
 * pasted   → the text is in the composer. A stop no longer interrupts. State and screen are read until the screen shows the paste: only then
 *            Enter is pressed, because a client that lags could open a question meanwhile, and Enter would answer it. If the client is not
 *            idle any more, the text is taken back with Ctrl-U, which answers no question, and the screen must show that it is gone.
 * entered  → Enter was pressed; the client's next state is the proof. A stop ends only the wait for it.
 *
 * A crash between pasted and entered leaves the text in the composer: the next attempt finds a draft and types nothing. But if `isPasted` says
 * that the draft is this very text, the attempt continues as if it had pasted it.
 */
export async function typeInto(options: TypingOptions, text: string, signal: AbortSignal): Promise<Typed> {
  const whole = options.ending ? options.ending(text) : text;
  try {
    pasteable(whole);
  } catch (error) {
    return nothing(reasonOf(error), false);
  }
  try {
    // A pane whose program was restarted has another device. Only the first try may find that out, so there is a second.
    const typed = (await typeLocked(options, whole, signal)) ?? (await typeLocked(options, whole, signal));
    return typed ?? nothing(`${options.terminal.name} is being restarted`, true);
  } catch (error) {
    if (!(error instanceof HalfTyped)) return nothing(reasonOf(error), true);
    return { typed: 'stranded', because: error.message, entered: false, again: false };
  }
}

/** Removes a text of ours from the composer of an idle client. `nothing`: the text is gone. `stranded`: it is still there. */
export async function removeFrom(options: TypingOptions, text: string): Promise<Typed> {
  const turn = lockUnlessGone(() => takeTurn(options.terminal.tty));
  if (turn === null || turn === 'gone') return stranded('somebody else types into this terminal just now', true);
  try {
    const now = await options.states.latest();
    if (now?.state !== 'idle') return stranded(`the client says that it is ${now?.state ?? 'gone'}`, true);
    return await takeBack(options, now, 'Enter did not send it', text, performance.now());
  } finally {
    turn.release();
  }
}

/** Types under the lock of the terminal's device. Null: the terminal has another device by now. */
async function typeLocked(options: TypingOptions, text: string, signal: AbortSignal): Promise<Typed | null> {
  const { tty } = options.terminal;
  const turn = lockUnlessGone(() => takeTurn(tty));
  if (turn === null) return nothing('somebody else types into this terminal just now', true);
  try {
    const before = await look(options, text);
    if (options.terminal.tty !== tty) return null;
    if (typeof before === 'string') return nothing(before, true);
    if (turn === 'gone') return nothing(`the device of ${options.terminal.name} cannot be opened`, true);
    return await typeOnce(options, before.state, before.isPasted, text, signal);
  } finally {
    if (turn !== 'gone') turn.release();
  }
}

/** Takes the lock of a device that may be gone since the last look. */
function lockUnlessGone<T>(take: () => T): T | 'gone' {
  try {
    return take();
  } catch {
    return 'gone';
  }
}

async function typeOnce(
  options: TypingOptions,
  before: ClientState,
  isPasted: boolean,
  text: string,
  signal: AbortSignal,
): Promise<Typed> {
  const { terminal } = options;
  if (signal.aborted) return nothing('it was stopped before', true);
  // A second source of proof. If it fails, the client's state is the only one.
  const listened = await options.states.listen?.().catch(() => null);
  const heard = async (): Promise<ClientState | null> => (await listened?.(text).catch(() => null)) ?? null;
  if (!isPasted) await terminal.paste(text);
  const pastedAt = performance.now();
  let isEntering = false;
  try {
    const because = await whyNoEnter(options, before, pastedAt);
    if (because) return await takeBack(options, before, because, text, pastedAt);
    isEntering = true;
    await terminal.enter();
  } catch (error) {
    const back = await takeBack(options, before, reasonOf(error), text, pastedAt);
    return isEntering && back.typed === 'stranded' ? { ...back, entered: 'unknown', again: false } : back;
  }
  return { typed: 'entered', proof: await proof(options, before, signal, heard) };
}

/** The state of an idle client with an empty composer, or with this very text in it; or why nothing may be typed. */
async function look(
  { terminal, states, composer, isPasted: holds }: TypingOptions,
  text: string,
): Promise<{ state: ClientState; isPasted: boolean } | string> {
  const screen = await terminal.screen();
  if (!screen) return `${terminal.name} is gone`;
  const seen = composer(screen);
  const isPasted = seen === 'draft' && holds?.(screen, text) === true;
  if (seen !== 'empty' && !isPasted) return SEEN[seen];
  // The state is read last: it decides, so as little time as possible should pass after it.
  const now = await states.latest();
  if (!now) return 'the client has given no sign of itself, or does not run any more';
  if (now.state !== 'idle') return `the client says that it is ${now.state}${detailOf(now)}`;
  if (now.pid !== undefined && !runsIn(now.pid, terminal.tty)) return `the client does not run in ${terminal.name}`;
  return { state: now, isPasted };
}

const SEEN = {
  draft: 'there is a draft in the composer',
  busy: 'the screen shows that the client works',
  dialog: 'the screen shows an open question',
  unknown: 'the screen shows no composer of this client',
};

/** Waits until Enter may follow the paste. Returns null, or why Enter may not follow. */
async function whyNoEnter(options: TypingOptions, before: ClientState, pastedAt: number): Promise<string | null> {
  const { enterAfter, shownFor = 0, composer, shownWithin = SHOWN_WITHIN_MS } = options;
  let [pause, shownSince] = [FIRST_LOOK_MS, Infinity];
  for (;;) {
    await Bun.sleep(pause);
    const seen = await stillIdle(options, before);
    if (seen !== 'empty' && seen !== 'draft' && seen !== 'unknown') return seen;
    const passed = performance.now() - pastedAt;
    const isShown = seen === 'draft' || composer === unseen;
    // `shownFor` also covers a look in the middle of a redraw.
    if (isShown && passed >= enterAfter && passed - shownSince >= shownFor) return null;
    if (passed > enterAfter + shownWithin)
      return seen === 'unknown' ? SEEN.unknown : 'the screen does not show what was pasted';
    pause = Math.min(isShown ? Math.max(FIRST_LOOK_MS, enterAfter - passed) : pause * LOOK_GROWTH, LOOK_MS);
    shownSince = isShown ? Math.min(shownSince, passed) : Infinity;
  }
}

/**
 * What the composer shows, or why Enter may not follow: the client is not idle any more, or asks something. A screen without a composer is no
 * reason: many clients clear the screen before they draw the paste, and a look can fall in between.
 */
async function stillIdle({ terminal, states, composer }: TypingOptions, before: ClientState): Promise<string> {
  const screen = await terminal.screen();
  if (!screen) return `${terminal.name} is gone`;
  const seen = composer(screen);
  if (seen === 'dialog' || seen === 'busy') return SEEN[seen];
  const now = await states.latest();
  if (now?.state !== 'idle') return `the client says that it is ${now?.state ?? 'gone'}`;
  return now.pid === before.pid ? seen : 'another client runs there now';
}

/** Removes the paste from the composer. An empty composer proves that only if the screen showed the paste before: the screen may lag. */
async function takeBack(
  options: TypingOptions,
  before: ClientState,
  because: string,
  text: string,
  pastedAt: number,
): Promise<Typed> {
  const { terminal, composer, enterAfter, shownWithin = SHOWN_WITHIN_MS } = options;
  const see = async (): Promise<Composer | null> => {
    const screen = await terminal.screen();
    return screen && composer(screen);
  };
  const from = performance.now();
  const isLate = (): boolean => options.isAwaited?.() === true && performance.now() - from > TAKE_BACK_MS;
  let shown = false;
  try {
    shown = await waitFor(see, isThere, pastedAt + enterAfter + shownWithin - performance.now(), isLate);
    const most = Math.min(MAX_ERASES, 4 * text.split('\n').length + Math.ceil(text.length / NARROW_COLUMNS) + 4);
    for (let presses = 0; presses < most && !isLate(); presses += 1) {
      const seen = await see();
      // The terminal is gone, and the text with it; or the composer is empty again.
      if (seen === null || (shown && seen === 'empty')) return nothing(because, true);
      // The client is gone, and the text with it. A shell may run there now, below what the client drew last.
      if (before.pid !== undefined && !runsIn(before.pid, terminal.tty)) return nothing(because, true);
      // It is not known what an open question does with a key.
      if (seen === 'dialog') break;
      shown ||= isThere(seen);
      // No key is pressed while the screen shows no composer: it is not known where the key would go.
      if (seen !== 'unknown') await terminal.erase();
      await Bun.sleep(LOOK_MS);
    }
    // All keys are pressed, but the screen may lag.
    if (shown && (await waitFor(see, (seen) => seen === 'empty' || seen === null, shownWithin, isLate)))
      return nothing(because, true);
  } catch (error) {
    return stranded(`${because}; it could not be taken back: ${reasonOf(error)}`, false);
  }
  return stranded(`${because}; it could not be taken back`, shown);
}

/** Whether the screen shows the paste, or something that opened over it. Also true if the terminal is gone (null). */
function isThere(seen: Composer | null): boolean {
  return seen !== 'empty' && seen !== 'unknown';
}

/** Waits until the screen shows this. False if it does not within so many ms. */
async function waitFor(
  see: () => Promise<Composer | null>,
  isReached: (seen: Composer | null) => boolean,
  ms: number,
  isLate: () => boolean,
): Promise<boolean> {
  const until = performance.now() + ms;
  do {
    if (isReached(await see())) return true;
    await Bun.sleep(LOOK_MS);
  } while (performance.now() < until && !isLate());
  return false;
}

/** The client's first state that proves it took the text: it is busy, it reported a new state after Enter, or its record has the text. */
async function proof(
  options: TypingOptions,
  before: ClientState,
  signal: AbortSignal,
  heard: () => Promise<ClientState | null>,
): Promise<ClientState | null> {
  const until = performance.now() + options.proofWithin;
  do {
    const now = await options.states.latest();
    if (now && (now.state === 'busy' || (now.at > before.at && now.state !== 'unknown' && now.state !== 'starting')))
      return now;
    const written = await heard();
    if (written) return written;
    await Bun.sleep(LOOK_MS);
  } while (performance.now() < until && !signal.aborted);
  return null;
}

/** Way 3: types mail into the terminal. With `sentinel` it types only that line, and the mail waits until the agent asks for it. */
export class TerminalWay implements Way {
  readonly name = 'terminal';

  constructor(readonly options: TypingOptions & { sentinel?: string }) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    const { sentinel, terminal } = this.options;
    if (parcels.length === 0) return { outcome: 'left', because: 'there is nothing to hand over', retry: false };
    const text = sentinel ?? parcels.map((parcel) => parcel.text).join('\n\n');
    const typed = await typeInto(this.options, text, signal);
    const evidence = { way: this.name, terminal: terminal.name, ...(sentinel !== undefined && { sentinel: true }) };
    if (typed.typed === 'nothing') return { outcome: 'left', because: typed.because, retry: typed.retry };
    if (typed.typed === 'stranded') {
      const { entered, because, again } = typed;
      return { outcome: 'offered', evidence: { ...evidence, entered, because, again } };
    }
    // The sentinel only says that mail waits, so it never counts as taken mail.
    if (!typed.proof || sentinel !== undefined) return { outcome: 'offered', evidence: { ...evidence, entered: true } };
    const said = { sign: typed.proof.state, source: typed.proof.source, at: typed.proof.at };
    return { outcome: 'taken', step: 'accepted', evidence: { ...evidence, entered: true, ...said } };
  }
}

const stranded = (because: string, again: boolean): Typed => ({ typed: 'stranded', because, entered: false, again });
const nothing = (because: string, retry: boolean): Typed => ({ typed: 'nothing', because, retry });
const detailOf = (now: ClientState): string => (now.detail && now.detail !== now.state ? ` (${now.detail})` : '');
