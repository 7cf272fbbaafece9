import type { CallbackQuery } from 'grammy/types';
import type { AskedQuestion, Choice } from '../../core/ports/session.ts';
import { visibleLine, visibleText } from '../../core/gate.ts';
import { EXPIRES_MS, wordsOf } from '../../core/questions/questions.ts';
import type { AnswerEnd, PendingQuestions } from '../../core/questions/questions.ts';
import type { SessionControl } from '../../core/sessions/control.ts';
import { answerSaid } from '../../protocols/control/phrases.ts';
import { isFinal } from './api.ts';
import type { TelegramApi } from './api.ts';
import type { AskedInChat, ChatState } from './state.ts';
import type { Buttons, Topics } from './topics.ts';
import { cutTo, PIECE_LIMIT } from './pieces.ts';

const GONE = 'This question is not open any more.';
const ELSEWHERE = '☑️ answered elsewhere, or not open any more';
/** The most characters on a button and in the answer to a press. */
const LABEL_LIMIT = 60;
const TOAST_LIMIT = 200;
const NOTE_LIMIT = 500;
const TEXT_LIMIT = PIECE_LIMIT - NOTE_LIMIT - 20;

/**
 * The data of a button: `q:<token>:1` chooses option 1. If several may be chosen, `+1` ticks it, `-1` unticks it, and `ok` submits: a
 * repeated press changes nothing.
 */
const BUTTON = /^q:([\w-]+):(?:([+-]?)(\d{1,3})|ok)$/;

export interface ChatQuestionsDeps {
  control: SessionControl;
  api: TelegramApi;
  state: ChatState;
  topics: Topics;
}

/**
 * Shows the questions of sessions, with a button for each option. A button has a token and works for one dialog only.
 *
 * A question is stored before it is sent, and sent again with the same token after a kill in between. The session keeps answers to a part
 * of a set, also over a restart.
 */
export class ChatQuestions {
  readonly #entering = new Set<string>();

  constructor(readonly deps: ChatQuestionsDeps) {}

  /** Shows the results that an earlier run did not show. */
  open(): void {
    for (const { token } of this.deps.state.asked) this.#showEnd(token);
  }

  /** Shows the open questions of this session, and removes the buttons of closed ones. */
  async show(session: string, isWaiting: boolean): Promise<void> {
    const { control, state } = this.deps;
    const before = state.asked.filter((one) => one.session === session);
    if (!isWaiting && before.every(({ done }) => done !== null)) return;
    const pending = await control.questions(session);
    for (const { token } of before) {
      const asked = this.#asked(token);
      if (!asked || this.#entering.has(token)) continue;
      if (pending?.call !== asked.call) {
        this.#close(asked, await this.#whyClosed(asked, isWaiting));
        continue;
      }
      const choice = pending.choices[asked.question];
      if (choice) this.#close(asked, `✅ ${wordsOf(pending, asked.question, choice)}`);
    }
    if (pending) await this.#ask(session, pending);
  }

  /** A button was pressed by the user. */
  async press({ id, data = '', message }: CallbackQuery, who: string): Promise<void> {
    const [match, token = '', sign, option] = BUTTON.exec(data) ?? [];
    const asked = this.#asked(token);
    if (!match || !asked) return this.#toast(id, GONE);
    // An earlier run was killed while it sent this question.
    if (asked.message === 0 && message) this.deps.state.change(token, { message: message.message_id });
    if (sign) return this.#toast(id, await this.#tick(asked, Number(option), sign === '+'));
    const options = option === undefined ? (asked.ticked ?? []) : [Number(option)];
    await this.#toast(id, await this.#answer(asked, { options }, who));
  }

  /** Handles a person's reply to a message with their own text. Null if that message was no question. */
  async reply(message: number, text: string, who: string): Promise<string | null> {
    const asked = this.deps.state.asked.find((one) => one.message === message);
    return asked ? this.#answer(asked, { text }, who) : null;
  }

  /** Does the chat show an open question of this session? */
  isAsking(session: string): boolean {
    return this.deps.state.asked.some((one) => one.session === session && one.done === null);
  }

  #asked(token: string): AskedInChat | undefined {
    return this.deps.state.asked.find((one) => one.token === token);
  }

  async #answer({ token }: AskedInChat, choice: Choice, who: string): Promise<string> {
    if (this.#entering.has(token)) return 'Another press is being entered.';
    this.#entering.add(token);
    try {
      const { asked, pending } = await this.#open(token);
      if (!asked) return GONE;
      if (asked.done !== null) return `Too late. ${asked.done}`;
      if (!pending) return GONE;
      const { session, question, askedAt } = asked;
      const request = { question, choice, askedAt: Math.floor(askedAt / 1000), agent: who, mayApprove: true };
      const end = await this.deps.control.answer(session, request);
      if (end.outcome === 'answered') this.#close(asked, `✅ ${end.words}`);
      if (end.outcome === 'none') this.#close(asked, ELSEWHERE);
      return saidOf(end);
    } finally {
      this.#entering.delete(token);
    }
  }

  /** Why a question that was not answered here is closed. */
  async #whyClosed({ session, call, question, askedAt }: AskedInChat, isWaiting: boolean): Promise<string> {
    const answered = await this.deps.control.answered(session);
    if (answered?.call === call) return `☑️ ${answered.agent ?? 'api'}: ${answered.words[question] ?? ''}`;
    const isExpired = isWaiting && Date.now() - askedAt > EXPIRES_MS;
    return isExpired ? '⌛ not answered within 5 minutes; if it is still open, answer it at the terminal' : ELSEWHERE;
  }

  async #tick({ token, done }: AskedInChat, option: number, isOn: boolean): Promise<string> {
    if (done !== null) return `Too late. ${done}`;
    const { state, topics } = this.deps;
    // Store the tick at once: the next press may submit.
    const others = (this.#asked(token)?.ticked ?? []).filter((one) => one !== option);
    state.change(token, { ticked: isOn ? [...others, option].sort((a, b) => a - b) : others });
    const { asked, pending } = await this.#open(token);
    const question = asked && pending?.questions[asked.question];
    if (!question) return GONE;
    const { message, text, ticked = [], done: end } = this.#asked(token) ?? asked;
    if (end === null) topics.replaceSoon(message, text, buttonsOf(question, token, ticked));
    return `${isOn ? '☑️' : '☐'} ${question.options[option]?.label ?? ''}`;
  }

  /** A stored question, and its dialog if that is still open. */
  async #open(token: string): Promise<{ asked: AskedInChat | undefined; pending: PendingQuestions | null }> {
    const asked = this.#asked(token);
    if (!asked || asked.done !== null) return { asked, pending: null };
    const pending = await this.deps.control.questions(asked.session);
    if (pending?.call === asked.call) return { asked, pending };
    this.#close(asked, await this.#whyClosed(asked, true));
    return { asked, pending: null };
  }

  async #ask(session: string, { call, kind, questions, choices, askedAt }: PendingQuestions): Promise<void> {
    const { state, topics, api } = this.deps;
    for (const [at, question] of questions.entries()) {
      const known = state.asked.find((one) => one.session === session && one.call === call && one.question === at);
      if (choices[at] || (known && (known.message !== 0 || known.done !== null))) continue;
      const whole = textOf(kind, question);
      const text = cutTo(whole, TEXT_LIMIT);
      const token = known?.token ?? Buffer.from(crypto.getRandomValues(new Uint8Array(9))).toString('base64url');
      if (!known) state.ask({ token, session, call, question: at, message: 0, text, askedAt, done: null });
      try {
        // If the message is shortened, send the whole text first: nobody should approve what they cannot read.
        if (text !== whole) await topics.say(session, whole);
        const message = await topics.say(session, text, buttonsOf(question, token, known?.ticked ?? []));
        state.change(token, { message });
      } catch (error) {
        if (!isFinal(error)) throw error;
        api.options.log('chat_refused', { because: error.description });
        state.change(token, { text: '', done: 'The chat did not take this question.' });
      }
    }
  }

  /** Removes the buttons of a question and shows its result. */
  #close({ token }: AskedInChat, done: string): void {
    if (this.#asked(token)?.done !== null) return;
    this.deps.state.change(token, { done: cutTo(done, NOTE_LIMIT) });
    this.#showEnd(token);
  }

  #showEnd(token: string): void {
    const { state, topics } = this.deps;
    const { message = 0, text = '', done = null } = this.#asked(token) ?? {};
    if (message === 0 || text === '' || done === null) return;
    topics.replaceSoon(message, `${text}\n\n${done}`, undefined, () => state.change(token, { text: '' }));
  }

  /** Answers a press. Telegram forgets presses after a while, so this is tried once. */
  async #toast(query: string, text: string): Promise<void> {
    const { api } = this.deps;
    try {
      await api.now((one, signal) => one.answerCallbackQuery(query, { text: cutTo(text, TOAST_LIMIT) }, signal));
    } catch (error) {
      api.options.log('chat_refused', { because: api.because(error) });
    }
  }
}

/** The text of a question. A model wrote it and a person decides by it, so invisible and reversing characters are made visible. */
function textOf(kind: PendingQuestions['kind'], { question, header, options, multiSelect }: AskedQuestion): string {
  const sign = kind === 'question' ? '❓' : '🔐';
  const described = options.map(({ label, description }) => `• ${label}${description ? `: ${description}` : ''}`);
  const hint = multiSelect ? ['', 'Tick what you choose, then press Done; or reply with your own words.'] : [];
  return visibleText([`${sign} ${header}`, question, '', ...described, ...hint].join('\n')).toWellFormed();
}

/** One row for each option. */
function buttonsOf({ options, multiSelect }: AskedQuestion, token: string, ticked: readonly number[]): Buttons {
  const rows = options.map(({ label }, at) => {
    const isTicked = ticked.includes(at);
    const text = cutTo(visibleLine(label).trim().toWellFormed(), LABEL_LIMIT) || String(at + 1);
    const tick = isTicked ? '☑️ ' : '☐ ';
    const sign = isTicked ? '-' : '+';
    return [{ text: multiSelect ? tick + text : text, callback_data: `q:${token}:${multiSelect ? sign : ''}${at}` }];
  });
  if (multiSelect) rows.push([{ text: 'Done', callback_data: `q:${token}:ok` }]);
  return { inline_keyboard: rows };
}

function saidOf(end: AnswerEnd): string {
  if (end.outcome === 'none') return GONE;
  return end.outcome === 'answered' ? `Chosen: ${end.words}` : answerSaid(end);
}
