import type { AskedQuestion, Choice } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Key, TmuxPane } from '../../sessions/tmux.ts';
import { asks, type Dialog, dialogOn, squashed } from './dialog.ts';

/** Limit for the screen to show what a key did, ms. */
const SHOWN_MS = 5000;
const LOOK_MS = 25;
/** Between two keys, as a person's are apart. */
const PAUSE_MS = 50;
/** A person who pressed a key so few seconds ago may press the next one; and what that key did may not be on the screen yet. */
const QUIET_S = 2;
/** Limit for the wait until a person rests, ms. */
const PATIENCE_MS = 10_000;
/** Limit for the client's records to say that a key closed the dialog, ms. */
const RECORDED_MS = 1000;
/** A longer text is not shown whole in its row, so it cannot be checked. */
const TEXT_LIMIT = 500;
/** No dialog needs more keys than this in one direction. */
const MOST_STEPS = 40;

/** The dialog is not open any more. */
export class Gone extends Error {}

/** The dialog is open, and is not answered. */
export class Left extends Error {}

/**
 * Keys for one dialog of Claude Code. Each is pressed only if the client's records say that the dialog is open, and tmux presses it only if
 * the screen still shows that dialog and no person at the keyboard was faster: Enter in the next dialog would approve that.
 * After each key the screen is read, so what is chosen is always what is marked.
 */
export class DialogKeys {
  constructor(
    readonly terminal: TmuxPane,
    /** By the client's own records. */
    readonly isOpen: () => Promise<boolean>,
  ) {}

  /** Answers the questions in their order. The last key submits them. */
  async answer(questions: readonly AskedQuestion[], choices: readonly Choice[]): Promise<void> {
    for (const choice of choices)
      if ('text' in choice && choice.text.length > TEXT_LIMIT)
        throw new Left(`a text has at most ${TEXT_LIMIT} characters`);
    // One question with one option is submitted by its Enter. All others end on a page that asks once more.
    const hasReview = questions.length > 1 || questions[0]?.multiSelect === true;
    for (const [at, question] of questions.entries()) {
      const choice = choices[at];
      if (!choice) throw new Left(`there is no answer to question ${at}`);
      const isThis = (dialog: Dialog): boolean => asks(dialog, question);
      await this.#turnTo(questions, at);
      if ('text' in choice) await this.#write(isThis, question, choice.text);
      else if (question.multiSelect) await this.#check(isThis, question, choice.options);
      else await this.#choose(isThis, (choice.options[0] ?? 0) + 1);
      // The screen shows the old page for a moment.
      if (hasReview) await this.#shown((dialog) => dialog.kind !== 'permission' && !isThis(dialog));
    }
    if (hasReview) await this.#choose(isReview, 1);
  }

  /** Chooses an option of a permission or a plan. */
  async approve(isThis: (dialog: Dialog) => boolean, [choice]: readonly Choice[]): Promise<void> {
    if (!choice || 'text' in choice) throw new Left('a permission takes one of its options');
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
      if (at === null) throw new Left('no row of the dialog is marked');
      await this.#press(at === 'next' || (row !== 'next' && at > row) ? 'Up' : 'Down', dialog);
      dialog = await this.#shown((now) => isThis(now) && now.at !== at);
    }
    throw new Left('the mark of the dialog does not come to the row');
  }

  /** Checks these options and no others, and goes on to the next page. */
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

  /** Types into the row behind the options. */
  async #write(
    isThis: (dialog: Dialog) => boolean,
    { options, multiSelect }: AskedQuestion,
    text: string,
  ): Promise<void> {
    const row = options.length + 1;
    const textIn = (dialog: Dialog): string => squashed(dialog.rows[row - 1]?.text ?? '');
    const dialog = await this.#moveTo(isThis, row);
    if (textIn(dialog) !== squashed(text)) {
      if (!/^Typesomething\.?$/.test(textIn(dialog))) throw new Left('a person has begun to type an answer');
      await this.#quiet(dialog);
      await this.#guarded(() => this.terminal.paste(text, dialog.lines));
      await Bun.sleep(PAUSE_MS);
      await this.#shown((now) => isThis(now) && now.at === row && textIn(now) === squashed(text));
    }
    await this.#choose(isThis, multiSelect ? 'next' : row);
  }

  /** Turns to the page of a question. A person may have turned to another one. */
  async #turnTo(questions: readonly AskedQuestion[], at: number): Promise<void> {
    const pageOf = (dialog: Dialog): number =>
      isReview(dialog) ? questions.length : questions.findIndex((question) => asks(dialog, question));
    const isAPage = (dialog: Dialog): boolean => pageOf(dialog) >= 0;
    for (let steps = 0; steps < MOST_STEPS; steps += 1) {
      const dialog = await this.#shown(isAPage);
      const page = pageOf(dialog);
      if (page === at) return;
      await this.#press(page > at ? 'Left' : 'Right', dialog);
      await this.#shown((now) => isAPage(now) && pageOf(now) !== page);
    }
    throw new Left('the dialog does not turn to the question');
  }

  /** The dialog, when it is as it should be. */
  async #shown(isSo: (dialog: Dialog) => boolean): Promise<Dialog> {
    const until = performance.now() + SHOWN_MS;
    for (;;) {
      const screen = await this.terminal.screen();
      const dialog = screen && dialogOn(screen.lines);
      if (dialog && isSo(dialog)) return dialog;
      if (!(await this.isOpen())) throw new Gone();
      if (performance.now() > until)
        throw new Left('the screen does not show the dialog as expected, or not whole; look at it, or make it larger');
      await Bun.sleep(LOOK_MS);
    }
  }

  async #press(key: Key, dialog: Dialog): Promise<void> {
    await this.#quiet(dialog);
    await this.#guarded(() => this.terminal.press(key, dialog.lines));
    await Bun.sleep(PAUSE_MS);
  }

  /** Waits until no person types. Looks again, so that tmux knows since when. */
  async #quiet(dialog: Dialog): Promise<void> {
    const until = performance.now() + PATIENCE_MS;
    while (this.terminal.typedAt + QUIET_S > Date.now() / 1000) {
      if (!(await this.isOpen())) throw new Gone();
      if (performance.now() > until) throw new Left('a person types in this terminal');
      await Bun.sleep(LOOK_MS);
      const screen = await this.terminal.screen();
      const now = screen && dialogOn(screen.lines);
      if (now?.lines.join('\n') !== dialog.lines.join('\n')) await this.#leave('a person uses the dialog');
    }
    if (!(await this.isOpen())) throw new Gone();
  }

  /** What tmux refused to do was not done. */
  async #guarded(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      await this.#leave(error.message);
    }
  }

  /** A person was faster. If that closed the dialog, the client is about to write so down. */
  async #leave(because: string): Promise<never> {
    const until = performance.now() + RECORDED_MS;
    while (performance.now() < until) {
      if (!(await this.isOpen())) throw new Gone();
      await Bun.sleep(LOOK_MS);
    }
    throw new Left(because);
  }
}

function isReview({ kind, text }: Dialog): boolean {
  return kind === 'review' && !text.includes('You have not answered all questions');
}
