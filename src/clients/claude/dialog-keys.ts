import type { AskedQuestion, Choice } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Key, TmuxPane } from '../../sessions/tmux.ts';
import { type Dialog, dialogOn, showsQuestion, squashed } from './dialog.ts';

/** Time for the screen to show the effect of a key, ms. */
const SHOWN_MS = 5000;
const LOOK_MS = 25;
/** Pause between two keys, as when a person types, ms. */
const PAUSE_MS = 50;
/** After a person's key: seconds in which the next may follow, or the screen may not yet show the effect of this one. */
const QUIET_S = 2;
/** How long to wait for a person to stop typing, ms. */
const PATIENCE_MS = 10_000;
/** Time for the client's records to show that a key closed the dialog, ms. */
const RECORDED_MS = 1000;
/** The dialog shows a longer text only in part, so it could not be checked. */
const TEXT_LIMIT = 500;
/** The most keys in one direction. No dialog needs more. */
const MOST_STEPS = 40;

/** The dialog is closed. */
export class DialogClosed extends Error {}

/** The dialog is open, and Parley did not answer it. The message says why. */
export class NotAnswered extends Error {}

/**
 * Answers one dialog of Claude Code by keys. A key is pressed only while the client's records say that the dialog is open; tmux presses it
 * only if the screen still shows this dialog and no person typed meanwhile. Otherwise Enter could approve the next dialog.
 * The screen is read after each key, so Enter always chooses the row that was seen marked.
 */
export class DialogKeys {
  constructor(
    readonly terminal: TmuxPane,
    /** Is the dialog open, by the client's own records? */
    readonly isOpen: () => Promise<boolean>,
  ) {}

  /** Answers the questions in order. The last key submits them. */
  async answer(questions: readonly AskedQuestion[], choices: readonly Choice[]): Promise<void> {
    for (const choice of choices)
      if ('text' in choice && choice.text.length > TEXT_LIMIT)
        throw new NotAnswered(`the answer is too long; a text can have at most ${TEXT_LIMIT} characters`);
    // Enter submits a single question that takes one option. All other dialogs end on a review page that asks for a confirmation.
    const hasReview = questions.length > 1 || questions[0]?.multiSelect === true;
    for (const [at, question] of questions.entries()) {
      const choice = choices[at];
      if (!choice) throw new NotAnswered(`the answer to question ${at} is missing`);
      const isThis = (dialog: Dialog): boolean => showsQuestion(dialog, question);
      await this.#turnTo(questions, at);
      if ('text' in choice) await this.#write(isThis, question, choice.text);
      else if (question.multiSelect) await this.#check(isThis, question, choice.options);
      else await this.#choose(isThis, (choice.options[0] ?? 0) + 1);
      // The old page stays on the screen for a moment.
      if (hasReview) await this.#shown((dialog) => dialog.kind !== 'permission' && !isThis(dialog));
    }
    if (hasReview) await this.#choose(isReview, 1);
  }

  /** Chooses an option of a permission or a plan. */
  async approve(isThis: (dialog: Dialog) => boolean, [choice]: readonly Choice[]): Promise<void> {
    if (!choice || 'text' in choice) throw new NotAnswered('a permission can only be answered with one of its options');
    await this.#choose(isThis, (choice.options[0] ?? 0) + 1);
  }

  /** Moves the mark to a row, and presses Enter. */
  async #choose(isThis: (dialog: Dialog) => boolean, row: number | 'next'): Promise<void> {
    await this.#press('Enter', await this.#moveTo(isThis, row));
  }

  async #moveTo(isThis: (dialog: Dialog) => boolean, row: number | 'next'): Promise<Dialog> {
    let dialog = await this.#shown(isThis);
    for (let steps = 0; steps < MOST_STEPS; steps += 1) {
      const { at } = dialog;
      if (at === row) return dialog;
      if (at === null) throw new NotAnswered('no row of the dialog is marked');
      await this.#press(at === 'next' || (row !== 'next' && at > row) ? 'Up' : 'Down', dialog);
      dialog = await this.#shown((now) => isThis(now) && now.at !== at);
    }
    throw new NotAnswered('the arrow keys do not reach that row of the dialog');
  }

  /** Checks exactly these options and turns to the next page. */
  async #check(
    isThis: (dialog: Dialog) => boolean,
    { options }: AskedQuestion,
    wanted: readonly number[],
  ): Promise<void> {
    for (const at of options.keys()) {
      const isWanted = wanted.includes(at);
      const isChecked = (dialog: Dialog): boolean => dialog.rows[at]?.isChecked === true;
      if (isChecked(await this.#shown(isThis)) === isWanted) continue;
      await this.#choose(isThis, at + 1);
      await this.#shown((dialog) => isThis(dialog) && isChecked(dialog) === isWanted);
    }
    await this.#choose(isThis, 'next');
  }

  /** Types a text into the row below the options. */
  async #write(
    isThis: (dialog: Dialog) => boolean,
    { options, multiSelect }: AskedQuestion,
    text: string,
  ): Promise<void> {
    const row = options.length + 1;
    const textIn = (dialog: Dialog): string => squashed(dialog.rows[row - 1]?.text ?? '');
    const dialog = await this.#moveTo(isThis, row);
    if (textIn(dialog) !== squashed(text)) {
      if (!/^Typesomething\.?$/.test(textIn(dialog))) throw new NotAnswered('a person has started to type an answer');
      await this.#quiet(dialog);
      await this.#guarded(() => this.terminal.paste(text, dialog.lines));
      await Bun.sleep(PAUSE_MS);
      await this.#shown((now) => isThis(now) && now.at === row && textIn(now) === squashed(text));
    }
    await this.#choose(isThis, multiSelect ? 'next' : row);
  }

  /** Turns to the page of a question. A person may have turned to another page. */
  async #turnTo(questions: readonly AskedQuestion[], at: number): Promise<void> {
    const pageOf = (dialog: Dialog): number =>
      isReview(dialog) ? questions.length : questions.findIndex((question) => showsQuestion(dialog, question));
    const isAPage = (dialog: Dialog): boolean => pageOf(dialog) >= 0;
    for (let steps = 0; steps < MOST_STEPS; steps += 1) {
      const dialog = await this.#shown(isAPage);
      const page = pageOf(dialog);
      if (page === at) return;
      await this.#press(page > at ? 'Left' : 'Right', dialog);
      await this.#shown((now) => isAPage(now) && pageOf(now) !== page);
    }
    throw new NotAnswered('the arrow keys do not reach the page of the question');
  }

  /** Waits until the screen shows a dialog that `isSo` accepts. */
  async #shown(isSo: (dialog: Dialog) => boolean): Promise<Dialog> {
    const until = performance.now() + SHOWN_MS;
    for (;;) {
      const screen = await this.terminal.screen();
      const dialog = screen && dialogOn(screen.lines);
      if (dialog && isSo(dialog)) return dialog;
      if (!(await this.isOpen())) throw new DialogClosed();
      if (performance.now() > until)
        throw new NotAnswered(
          'the screen does not show the dialog as expected, or only part of it; answer it there, or enlarge the terminal',
        );
      await Bun.sleep(LOOK_MS);
    }
  }

  async #press(key: Key, dialog: Dialog): Promise<void> {
    await this.#quiet(dialog);
    await this.#guarded(() => this.terminal.press(key, dialog.lines));
    await Bun.sleep(PAUSE_MS);
  }

  /** Waits until no person types. Reads the screen, which also updates the time of the last key (`typedAt`). */
  async #quiet(dialog: Dialog): Promise<void> {
    const until = performance.now() + PATIENCE_MS;
    while (this.terminal.typedAt + QUIET_S > Date.now() / 1000) {
      if (!(await this.isOpen())) throw new DialogClosed();
      if (performance.now() > until) throw new NotAnswered('a person is typing in this terminal');
      await Bun.sleep(LOOK_MS);
      const screen = await this.terminal.screen();
      const now = screen && dialogOn(screen.lines);
      if (now?.lines.join('\n') !== dialog.lines.join('\n')) await this.#giveUp('a person is using the dialog');
    }
    if (!(await this.isOpen())) throw new DialogClosed();
  }

  /** A Refusal of tmux means that nothing was typed. */
  async #guarded(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      await this.#giveUp(error.message);
    }
  }

  /** A person was faster. If the dialog was closed by that, the client's records show it within `RECORDED_MS`. */
  async #giveUp(because: string): Promise<never> {
    const until = performance.now() + RECORDED_MS;
    while (performance.now() < until) {
      if (!(await this.isOpen())) throw new DialogClosed();
      await Bun.sleep(LOOK_MS);
    }
    throw new NotAnswered(because);
  }
}

function isReview({ kind, text }: Dialog): boolean {
  return kind === 'review' && !text.includes('You have not answered all questions');
}
