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

/** Between two looks, at most. */
const LOOK_EVERY = 25;
/** What a client draws at once is seen at once: the first look after a paste comes so soon, and each pause is longer by half. */
const LOOK_FIRST = 1;
const LOOK_SLOWER = 1.5;
/** So long a client's screen may take to show what was pasted. */
const SHOWN_WITHIN = 5000;
/** So often Ctrl-U is pressed at most to take back a text that may not be sent: some clients need several for a line. */
const ERASES = 200;
/** So long taking back a text may keep a user waiting, in ms. */
const HURRIED = 3000;
/** A composer may break lines as soon as they are as long as this, and each part is a line to it. */
const NARROW = 40;

/** A client in a terminal, and how it likes to be typed to. */
export interface TypingOptions {
  terminal: Terminal;
  states: StateReader;
  composer: ReadComposer;
  /**
   * Between the paste and its Enter, in ms, at least: some clients take an Enter that comes at once for a part of the paste. Where the
   * screen can be read, Enter also waits until that shows the paste.
   */
  enterAfter: number;
  /** For how long the screen must have shown the paste before Enter, in ms: a client that counts from when it has read it. */
  shownFor?: number;
  /** How long the client's own word for it is waited for, in ms. */
  proofWithin: number;
  /** How long its screen may take to show what was pasted, in ms; five seconds if nothing is said. */
  shownWithin?: number;
  /** Whether a user waits for the end of this. Then a text that is not taken back within `HURRIED` stays. */
  isAwaited?: () => boolean;
  /**
   * Whether the composer holds this very text. Only for a text that was typed before: a crash left it there, and only Enter is missing.
   * Without this, a draft with the same words is a person's.
   */
  isPasted?: (screen: Screen, text: string) => boolean;
  /** What this client must see at the end of a text so that Enter sends it, if anything. */
  ending?: (text: string) => string;
}

/**
 * What came of typing. `nothing`: not a key was pressed. `entered`: text and Enter went in; `proof` is the client's state after it.
 * `stranded`: the text went in, and could not be taken back. Enter did not follow, or nobody knows whether it did; `again` says that it
 * did not, and that the screen will show when the text is gone.
 */
export type Typed =
  | { typed: 'entered'; proof: ClientState | null }
  | { typed: 'nothing'; because: string; retry: boolean }
  | { typed: 'stranded'; because: string; entered: false | 'unknown'; again: boolean };

/**
 * Types one text and Enter, if and only if the client says itself that it is idle and its screen shows an empty composer. spec: c2c#typing
 * Enter in an open question would answer it, and a draft would be sent along: so nothing is typed into either, nor into a client that
 * starts, works, or says nothing.
 *
 * looking  → the turn at this terminal is taken; state and screen are read. A stop counts here, and only here.
 * pasted   → from here on it is one short act that a stop does not cut in two. Enter waits until the screen shows the paste in the
 *            composer: a client that lags could meet an Enter in a question that it opens meanwhile. State and screen are read until
 *            then. If the client is not idle any more, what was pasted is taken back with Ctrl-U (which answers nothing), and the
 *            screen must show that, too.
 * entered  → Enter is pressed; the client's next state is the proof. A stop ends only the waiting for it.
 * A crash between pasted and entered leaves the text in the composer: the next one finds a draft and types nothing. If it can tell that
 * the draft is this very text, and the text was typed before (`isPasted`), it goes on as if it had pasted it.
 */
export async function typeInto(options: TypingOptions, text: string, signal: AbortSignal): Promise<Typed> {
  const whole = options.ending ? options.ending(text) : text;
  try {
    pasteable(whole);
  } catch (error) {
    return nothing(reasonOf(error), false);
  }
  try {
    // A pane whose program was restarted has another device. The first try may have found that out.
    const typed = (await inTurn(options, whole, signal)) ?? (await inTurn(options, whole, signal));
    return typed ?? nothing(`${options.terminal.name} is being restarted`, true);
  } catch (error) {
    if (!(error instanceof HalfTyped)) return nothing(reasonOf(error), true);
    return { typed: 'stranded', because: error.message, entered: false, again: false };
  }
}

/** Takes a text of ours out of the composer of an idle client again. `nothing`: it is gone. `stranded`: it is still there. */
export async function removeFrom(options: TypingOptions, text: string): Promise<Typed> {
  const turn = ifThere(() => takeTurn(options.terminal.tty));
  if (turn === null || turn === 'gone') return stranded('somebody else types into this terminal just now', true);
  try {
    const now = await options.states.latest();
    if (now?.state !== 'idle') return stranded(`the client says that it is ${now?.state ?? 'gone'}`, true);
    return await takeBack(options, now, 'Enter did not send it', text, performance.now());
  } finally {
    turn.release();
  }
}

/** Types while nobody else does; null if the terminal has turned out to have another device than the one that was kept for us. */
async function inTurn(options: TypingOptions, text: string, signal: AbortSignal): Promise<Typed | null> {
  const { tty } = options.terminal;
  const turn = ifThere(() => takeTurn(tty));
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

/** The turn at a device that was there at the last look, and may not be there any more. */
function ifThere<T>(take: () => T): T | 'gone' {
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
  // A second source: where it fails, the client's state must do.
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
  // Last, because it is the one that counts: the less time passes after it, the better.
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

/** Waits for the time and the sight at which Enter may follow: null, or why it may not. */
async function whyNoEnter(options: TypingOptions, before: ClientState, pastedAt: number): Promise<string | null> {
  const { enterAfter, shownFor = 0, composer, shownWithin = SHOWN_WITHIN } = options;
  let [pause, shownSince] = [LOOK_FIRST, Infinity];
  for (;;) {
    await Bun.sleep(pause);
    const seen = await stillIdle(options, before);
    if (seen !== 'empty' && seen !== 'draft' && seen !== 'unknown') return seen;
    const passed = performance.now() - pastedAt;
    const isShown = seen === 'draft' || composer === unseen;
    // A single look can fall into the middle of a drawing.
    if (isShown && passed >= enterAfter && passed - shownSince >= shownFor) return null;
    if (passed > enterAfter + shownWithin)
      return seen === 'unknown' ? SEEN.unknown : 'the screen does not show what was pasted';
    pause = Math.min(isShown ? Math.max(LOOK_FIRST, enterAfter - passed) : pause * LOOK_SLOWER, LOOK_EVERY);
    shownSince = isShown ? Math.min(shownSince, passed) : Infinity;
  }
}

/**
 * What the composer shows, or why Enter may not follow: the client has said something since, or asks something. A screen without a
 * composer is no reason: many clients clear it before they draw what was pasted, and a look can fall in between.
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

/** Takes back what was pasted, and believes only a screen that showed it before: an empty composer may be one that lags. */
async function takeBack(
  options: TypingOptions,
  before: ClientState,
  because: string,
  text: string,
  pastedAt: number,
): Promise<Typed> {
  const { terminal, composer, enterAfter, shownWithin = SHOWN_WITHIN } = options;
  const see = async (): Promise<Composer | null> => {
    const screen = await terminal.screen();
    return screen && composer(screen);
  };
  const from = performance.now();
  const isLate = (): boolean => options.isAwaited?.() === true && performance.now() - from > HURRIED;
  let shown = false;
  try {
    shown = await comes(see, isThere, pastedAt + enterAfter + shownWithin - performance.now(), isLate);
    const most = Math.min(ERASES, 4 * text.split('\n').length + Math.ceil(text.length / NARROW) + 4);
    for (let presses = 0; presses < most && !isLate(); presses += 1) {
      const seen = await see();
      // The terminal went, and what was typed with it.
      if (seen === null || (shown && seen === 'empty')) return nothing(because, true);
      // The client went, and what was typed with it. A shell may be in its place, below what it drew last.
      if (before.pid !== undefined && !runsIn(before.pid, terminal.tty)) return nothing(because, true);
      // What a question would do with a key is not known.
      if (seen === 'dialog') break;
      shown ||= isThere(seen);
      // Nor what is behind a screen that shows no composer.
      if (seen !== 'unknown') await terminal.erase();
      await Bun.sleep(LOOK_EVERY);
    }
    // All keys are pressed; the screen may still be behind them.
    if (shown && (await comes(see, (seen) => seen === 'empty' || seen === null, shownWithin, isLate)))
      return nothing(because, true);
  } catch (error) {
    return stranded(`${because}; it could not be taken back: ${reasonOf(error)}`, false);
  }
  return stranded(`${because}; it could not be taken back`, shown);
}

/** The paste, or what came over it, and not an empty composer or a screen that is being drawn. Null: the terminal went. */
function isThere(seen: Composer | null): boolean {
  return seen !== 'empty' && seen !== 'unknown';
}

/** Whether the screen comes to show this, within so many ms. */
async function comes(
  see: () => Promise<Composer | null>,
  isSo: (seen: Composer | null) => boolean,
  ms: number,
  isLate: () => boolean,
): Promise<boolean> {
  const until = performance.now() + ms;
  do {
    if (isSo(await see())) return true;
    await Bun.sleep(LOOK_EVERY);
  } while (performance.now() < until && !isLate());
  return false;
}

/** The client's first state after Enter that shows work: it is busy, it said something new meanwhile, or it wrote the text down. */
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
    await Bun.sleep(LOOK_EVERY);
  } while (performance.now() < until && !signal.aborted);
  return null;
}

/** Way 3: mail as if it were typed. With `sentinel` only that line is typed, and the mail waits to be polled. */
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
    // A sentinel says that there is mail. It is not the mail.
    if (!typed.proof || sentinel !== undefined) return { outcome: 'offered', evidence: { ...evidence, entered: true } };
    const said = { sign: typed.proof.state, source: typed.proof.source, at: typed.proof.at };
    return { outcome: 'taken', step: 'accepted', evidence: { ...evidence, entered: true, ...said } };
  }
}

const stranded = (because: string, again: boolean): Typed => ({ typed: 'stranded', because, entered: false, again });
const nothing = (because: string, retry: boolean): Typed => ({ typed: 'nothing', because, retry });
const detailOf = (now: ClientState): string => (now.detail && now.detail !== now.state ? ` (${now.detail})` : '');
