import type { CallbackQuery } from 'grammy/types';
import type { Choice } from '../../core/ports/session.ts';
import { EXPIRES_MS, wordsOf } from '../../core/questions/questions.ts';
import type { AnswerEnd, PendingQuestions } from '../../core/questions/questions.ts';
import type { SessionControl } from '../../core/sessions/control.ts';
import { answerSaid } from '../../protocols/control/phrases.ts';
import type { TelegramApi } from './api.ts';
import type { AskedInChat, ChatState } from './state.ts';
import type { Topics } from './topics.ts';
import { cutTo, PIECE_LIMIT } from './pieces.ts';

const GONE = 'This question is not open any more.';
/** What fits on a button, and into the answer to a press. */
const LABEL_LIMIT = 60;
const TOAST_LIMIT = 200;
const NOTE_LIMIT = 500;
const TEXT_LIMIT = PIECE_LIMIT - NOTE_LIMIT - 20;

export interface ChatQuestionsDeps {
  control: SessionControl;
  api: TelegramApi;
  state: ChatState;
  topics: Topics;
}

/** What sessions ask, with a button for each option. A button carries a token, and is good for one dialog only. */
export class ChatQuestions {
  readonly #entering = new Set<string>();

  constructor(readonly deps: ChatQuestionsDeps) {}

  /** Shows what this session asks now, and takes the buttons from what it does not ask any more. */
  async show(session: string, isWaiting: boolean): Promise<void> {
    const { control, state } = this.deps;
    const open = state.asked.filter((one) => one.session === session && one.done === null);
    if (!isWaiting && open.length === 0) return;
    const pending = await control.questions(session);
    for (const asked of open) {
      // It was pressed meanwhile.
      if (asked.done !== null || this.#entering.has(asked.token)) continue;
      const choice = pending?.call === asked.call ? pending.choices[asked.question] : undefined;
      if (pending?.call !== asked.call) await this.#close(asked, await this.#whyClosed(asked, isWaiting));
      else if (choice) await this.#close(asked, `✅ ${wordsOf(pending, asked.question, choice)}`);
    }
    if (pending) await this.#ask(session, pending);
  }

  /** A button was pressed by the user. */
  async press(query: CallbackQuery, who: string): Promise<void> {
    const [, token = '', option = ''] = (query.data ?? '').split(':');
    const asked = this.deps.state.asked.find((one) => one.token === token);
    const said = asked ? await this.#answer(asked, { options: [Number(option)] }, who) : GONE;
    await this.#toast(query.id, said);
  }

  /** A person replied to a question with words of their own. False if that was no question. */
  async reply(message: number, text: string, who: string): Promise<string | null> {
    const asked = this.deps.state.asked.find((one) => one.message === message);
    return asked ? this.#answer(asked, { text }, who) : null;
  }

  async #answer(asked: AskedInChat, choice: Choice, who: string): Promise<string> {
    if (asked.done !== null) return `Too late. ${asked.done}`;
    if (this.#entering.has(asked.token)) return 'Another press is being entered.';
    this.#entering.add(asked.token);
    try {
      const { session, question, call } = asked;
      const pending = await this.deps.control.questions(session);
      if (pending?.call !== call) {
        await this.#close(asked, await this.#whyClosed(asked, true));
        return GONE;
      }
      const askedAt = Math.floor(asked.askedAt / 1000);
      const answer = { question, choice, askedAt, agent: who, mayApprove: true };
      const end = await this.deps.control.answer(session, answer);
      if (end.outcome === 'answered') await this.#close(asked, `✅ ${end.words}`);
      if (end.outcome === 'none') await this.#close(asked, '☑️ answered elsewhere, or not open any more');
      return saidOf(end);
    } finally {
      this.#entering.delete(asked.token);
    }
  }

  /** What became of a question that nobody answered here. */
  async #whyClosed({ session, call, question, askedAt }: AskedInChat, isWaiting: boolean): Promise<string> {
    const answered = await this.deps.control.answered(session);
    if (answered?.call === call) return `☑️ ${answered.agent ?? 'api'}: ${answered.words[question] ?? ''}`;
    const isExpired = isWaiting && Date.now() - askedAt > EXPIRES_MS;
    return isExpired
      ? '⌛ not answered within 5 minutes; if it is still open, answer it at the terminal'
      : '☑️ answered elsewhere, or not open any more';
  }

  async #ask(session: string, { call, kind, questions, choices, askedAt }: PendingQuestions): Promise<void> {
    const { state, topics } = this.deps;
    for (const [at, { question, header, options, multiSelect }] of questions.entries()) {
      const isShown = state.asked.some((one) => one.session === session && one.call === call && one.question === at);
      if (isShown || choices[at]) continue;
      const token = Buffer.from(crypto.getRandomValues(new Uint8Array(9))).toString('base64url');
      const described = options.map(({ label, description }) => `• ${label}${description ? `: ${description}` : ''}`);
      const sign = kind === 'question' ? '❓' : '🔐';
      const hint = multiSelect ? ['', 'Press one, or reply with your own words.'] : [];
      const text = cutTo([`${sign} ${header}`, question, '', ...described, ...hint].join('\n'), TEXT_LIMIT);
      const rows = options.map(({ label }, index) => [
        { text: cutTo(label, LABEL_LIMIT) || String(index + 1), callback_data: `q:${token}:${index}` },
      ]);
      const message = await topics.say(session, text, { inline_keyboard: rows });
      state.ask({ token, session, call, question: at, message, text, askedAt, done: null });
    }
  }

  /** The message loses its buttons and shows what was chosen. */
  async #close({ token, message, text }: AskedInChat, done: string): Promise<void> {
    const { state, topics, api } = this.deps;
    const note = cutTo(done, NOTE_LIMIT);
    state.answered(token, note);
    // Not awaited: a press is answered while other messages wait.
    topics
      .replace(message, `${text}\n\n${note}`)
      .catch((error: unknown) => api.options.log('chat_refused', { because: api.because(error) }));
  }

  /** The chat forgets a press after a while, so this is tried once. */
  async #toast(query: string, text: string): Promise<void> {
    const { api } = this.deps;
    try {
      await api.now((one, signal) => one.answerCallbackQuery(query, { text: cutTo(text, TOAST_LIMIT) }, signal));
    } catch (error) {
      api.options.log('chat_refused', { because: api.because(error) });
    }
  }
}

function saidOf(end: AnswerEnd): string {
  if (end.outcome === 'none') return GONE;
  return end.outcome === 'answered' ? `Chosen: ${end.words}` : answerSaid(end);
}
